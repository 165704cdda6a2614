//! The server's objects as functions ask for them, answered from the statement's snapshot.

use std::fmt;
use std::sync::Arc;

use tidemill_sql::Result;
use tidemill_sql::objects::{Command, Connection, Described, Named, Objects, Work};
use tidemill_sql::types::Scalar;

use super::class;
use super::datatype::DataType;
use super::namespace::NAMESPACES;
use super::procedure::{self, Procedure};
use super::role::ROLES;
use super::snapshot::SettingChange;
use super::{PG_CATALOG, Snapshots, find};
use crate::catalog::Relation;
use crate::settings::Scope;
use crate::tables::SCHEMA;

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshots")
    }
}

impl Snapshots {
    /// The schemas of an unqualified name in their order.
    fn path(&self) -> impl Iterator<Item = &str> {
        let path = &self.session().search_path;
        let unasked = (!path.iter().any(|s| s == PG_CATALOG)).then_some(PG_CATALOG);
        unasked.into_iter().chain(path.iter().map(String::as_str))
    }

    fn relation_in(&self, schema: &str, name: &str) -> Option<u32> {
        match schema {
            SCHEMA => self.get().relations.iter().find(|r| r.name() == name).map(Relation::oid),
            schema => find(schema, name).map(|r| r.oid),
        }
    }

    fn relation(&self, name: &[String]) -> Option<u32> {
        match name {
            [name] => self.path().find_map(|schema| self.relation_in(schema, name)),
            [schema, name] => self.relation_in(schema, name),
            [database, schema, name] if *database == crate::tables::DATABASE => {
                self.relation_in(schema, name)
            }
            _ => None,
        }
    }

    fn named_relation(&self, oid: u32) -> Option<Named> {
        let user = self.get().relations.iter().find(|r| r.oid() == oid).map(|r| (SCHEMA, r.name()));
        let (schema, name) = user.or_else(|| super::of_oid(oid).map(|r| (r.schema, r.name)))?;
        let visible = self.relation(&[name.to_string()]) == Some(oid);
        Some(Named { schema: Some(schema.into()), name: name.into(), visible })
    }

    fn in_catalog(name: impl Into<String>) -> Named {
        Named { schema: Some(PG_CATALOG.into()), name: name.into(), visible: true }
    }
}

impl Objects for Snapshots {
    fn find(&self, kind: Scalar, name: &[String]) -> Vec<u32> {
        let in_catalog = |name: &[String]| match name {
            [name] => Some(name.clone()),
            [schema, name] if schema == PG_CATALOG => Some(name.clone()),
            _ => None,
        };
        match (kind, name) {
            (Scalar::Regclass, name) => self.relation(name).into_iter().collect(),
            (Scalar::Regtype, name) => {
                in_catalog(name).and_then(|n| DataType::of_name(&n)).map(|t| t.oid).into_iter().collect()
            }
            (Scalar::Regproc | Scalar::Regprocedure, name) => match in_catalog(name) {
                Some(name) => Procedure::of_name(&name).map(|p| p.oid).collect(),
                None => vec![],
            },
            (Scalar::Regnamespace, [name]) => {
                NAMESPACES.iter().filter(|(n, _)| n == name).map(|(_, oid)| *oid).collect()
            }
            (Scalar::Regrole, [name]) => ROLES.iter().filter(|r| r.name == name).map(|r| r.oid).collect(),
            _ => vec![],
        }
    }

    fn name(&self, kind: Scalar, oid: u32) -> Option<Named> {
        let plain = |name: &str| Named { schema: None, name: name.into(), visible: true };
        match kind {
            Scalar::Regclass => self.named_relation(oid),
            Scalar::Regtype => DataType::of_oid(oid).map(|t| Self::in_catalog(t.name)),
            Scalar::Regproc | Scalar::Regprocedure => {
                Procedure::of_oid(oid).map(|p| Self::in_catalog(p.name))
            }
            Scalar::Regnamespace => NAMESPACES.iter().find(|n| n.1 == oid).map(|n| plain(n.0)),
            Scalar::Regrole => ROLES.iter().find(|r| r.oid == oid).map(|r| plain(r.name)),
            _ => None,
        }
    }

    fn type_name(&self, oid: u32) -> Option<String> {
        DataType::of_oid(oid).map(|t| t.shown.to_string())
    }

    fn view_definition(&self, oid: u32) -> Option<String> {
        self.get().relations.iter().find(|r| r.oid() == oid).and_then(class::definition)
    }

    fn function(&self, oid: u32) -> Option<Described> {
        Procedure::of_oid(oid).map(procedure::described)
    }

    fn comment(&self, catalog: &str, oid: u32, column: i32) -> Option<String> {
        match catalog {
            "pg_class" => super::comment::of_relation(self.get(), oid, column),
            _ => super::comment::of(catalog, oid, column),
        }
    }

    fn changes(&self, oid: u32) -> i32 {
        let snapshot = self.get();
        let relation = snapshot.relations.iter().find(|relation| relation.oid() == oid);
        relation.map_or(0, |relation| class::changes(snapshot, relation))
    }

    fn relation_bytes(&self, oid: u32) -> Option<u64> {
        match self.get().relations.iter().find(|r| r.oid() == oid) {
            Some(relation) => Some(class::disk_bytes(relation)),
            // System relations are made up when they are read.
            None => super::of_oid(oid).map(|_| 0),
        }
    }

    fn database_bytes(&self) -> u64 {
        self.get().server.disk_bytes()
    }

    fn connection(&self) -> Connection {
        let session = self.session();
        Connection { process_id: session.process_id, server: session.server, client: session.client }
    }

    fn cancel(&self, process_id: u32) -> bool {
        self.get().server.cancel_session(process_id)
    }

    fn terminate(&self, process_id: u32) -> bool {
        self.get().server.terminate_session(process_id)
    }

    fn reload(&self) -> bool {
        self.note_reload();
        true
    }

    fn sleep(&self, seconds: f64) -> Work<()> {
        // What is longer than can be counted is as good as for ever.
        let wait =
            std::time::Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(std::time::Duration::MAX);
        Box::pin(tokio::time::sleep(wait))
    }

    fn command(&self, command: Command) -> Work<Result<u64>> {
        let server = Arc::clone(&self.get().server);
        Box::pin(async move { crate::define::carry_out(&server, command).await })
    }

    fn started_us(&self) -> i64 {
        self.get().server.started_us
    }

    fn setting(&self, name: &str) -> Result<String> {
        let (_, value) = self.settings().lock().show(name)?;
        Ok(value)
    }

    fn change_setting(&self, name: &str, value: Option<&str>, local: bool) -> Result<String> {
        let scope = if local { Scope::Local } else { Scope::Session };
        let mut settings = self.settings().lock();
        settings.set_text(name, value, scope)?;
        let (_, shown) = settings.show(name)?;
        self.remember(SettingChange { name: name.into(), value: value.map(Into::into), scope })?;
        Ok(shown)
    }
}
