//! The extended protocol: Parse, Bind, Describe, Execute, Close.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};

use super::cursor::{Cursor, Declared};
use super::execute::{Outcome, Step, attempt};
use super::prepared::{Arguments, Body, Prepared};
use super::rows::{describe, write_rows};
use super::wire::Wire;
use super::{INSERT_CACHE_TEXT_BYTES_MAX, Session, Transaction};
use crate::pg::backend;
use crate::pg::frontend::{Bind, Frontend, Parse, Target};

/// A statement with its parameters, or a declared cursor.
pub(super) struct Portal {
    /// In the order of making.
    pub number: u64,
    /// `None` for a declared cursor.
    prepared: Option<Arc<Prepared>>,
    formats: Vec<i16>,
    arguments: Arguments,
    pub state: State,
    pub declared: Option<Declared>,
}

pub(super) enum State {
    Ready,
    Rows(Cursor),
    Done,
}

impl Portal {
    pub(super) fn new(
        number: u64,
        prepared: Option<Arc<Prepared>>,
        formats: Vec<i16>,
        arguments: Arguments,
    ) -> Self {
        Self { number, prepared, formats, arguments, state: State::Ready, declared: None }
    }

    pub(super) fn outlives_transaction(&self) -> bool {
        self.declared.as_ref().is_some_and(|declared| declared.hold)
    }

    /// It cannot be run any more, and reads nothing.
    pub(super) fn fail(&mut self) {
        self.state = State::Done;
    }

    pub(super) fn schema(&self) -> Option<SchemaRef> {
        match (&self.state, &self.prepared) {
            (State::Rows(cursor), _) => Some(Arc::clone(cursor.schema())),
            (_, Some(prepared)) => prepared.schema(),
            (_, None) => None,
        }
    }
}

impl Session {
    pub(super) async fn extended(&mut self, wire: &mut Wire, message: Frontend) -> Step {
        match message {
            Frontend::Parse(parse) => Ok(self.parse(wire, parse).await),
            Frontend::Bind(bind) => Ok(self.bind(wire, &bind)),
            Frontend::Describe(target) => Ok(self.describe_target(wire, &target)),
            Frontend::Execute { portal, rows_max } => {
                self.execute_portal(wire, portal.as_str(), rows_max).await
            }
            Frontend::Close(target) => {
                match target {
                    Target::Statement(name) => drop(self.statements.remove(name.as_str())),
                    Target::Portal(name) => drop(self.portals.remove(name.as_str())),
                }
                backend::close_complete(&mut wire.out);
                Ok(Ok(()))
            }
            other => {
                Ok(Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, format!("unexpected message {other:?}"))))
            }
        }
    }

    async fn parse(&mut self, wire: &mut Wire, message: Parse) -> Result<()> {
        let (name, sql) = (message.name.as_str(), message.sql.as_str());
        self.check_new_statement(name)?;
        let repeats = name.is_empty() && message.param_oids.iter().all(|oid| is_unspecified(*oid));
        if repeats && let Some(prepared) = self.cached_unnamed(sql) {
            if let Some(parsed) = &prepared.parsed {
                self.check_failed(&parsed.statement)?;
            }
            self.keep_prepared(name, prepared)?;
            backend::parse_complete(&mut wire.out);
            return Ok(());
        }
        let given = message
            .param_oids
            .iter()
            .map(|oid| match oid {
                oid if is_unspecified(*oid) => Ok(None),
                oid => Type::from_oid(*oid).map(Some).ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist"))
                }),
            })
            .collect::<Result<Vec<_>>>()?;
        let prepared = Arc::new(self.prepare(sql, &given).await?);
        if let Some(parsed) = &prepared.parsed {
            self.check_failed(&parsed.statement)?;
        }
        if repeats && matches!(prepared.body, Body::Insert(_)) && sql.len() <= INSERT_CACHE_TEXT_BYTES_MAX {
            self.unnamed.put(sql.to_string(), Arc::clone(&prepared));
        }
        self.keep_prepared(name, prepared)?;
        backend::parse_complete(&mut wire.out);
        Ok(())
    }

    fn cached_unnamed(&mut self, sql: &str) -> Option<Arc<Prepared>> {
        let prepared = self.unnamed.get(sql)?;
        let current = prepared.version == self.server.catalog.version();
        if current { Some(Arc::clone(prepared)) } else { self.unnamed.pop(sql).and(None) }
    }

    fn bind(&mut self, wire: &mut Wire, bind: &Bind) -> Result<()> {
        let name = bind.statement();
        let prepared = Arc::clone(self.find_prepared(name)?);
        if let Some(parsed) = &prepared.parsed {
            self.check_failed(&parsed.statement)?;
        }
        let arguments: Arguments = bind
            .params()
            .enumerate()
            .map(|(i, p)| (bind.param_formats().get(i), p.map(|p| bind.body().slice_ref(p))))
            .collect();
        if arguments.len() != prepared.parameters.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{name}\" requires {}",
                arguments.len(),
                prepared.parameters.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let portal = bind.portal();
        if !portal.is_empty() && self.portals.contains(portal) {
            let message = format!("cursor \"{portal}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        self.check_portal_count()?;
        let formats = bind.result_formats().iter().collect();
        let number = self.number_portal();
        self.portals.insert(portal, Portal::new(number, Some(prepared), formats, arguments));
        backend::bind_complete(&mut wire.out);
        Ok(())
    }

    fn describe_target(&self, wire: &mut Wire, target: &Target) -> Result<()> {
        let (schema, formats) = match target {
            Target::Statement(name) => {
                let prepared = self.find_prepared(name.as_str())?;
                let oids: Vec<u32> = prepared.parameters.iter().map(|t| t.oid()).collect();
                backend::parameter_description(&mut wire.out, &oids)?;
                (prepared.schema(), [].as_slice())
            }
            Target::Portal(name) => {
                let portal = self.portals.get(name.as_str()).ok_or_else(|| no_portal(name.as_str()))?;
                (portal.schema(), portal.formats.as_slice())
            }
        };
        match schema {
            Some(schema) => describe(wire, &schema, formats),
            None => {
                backend::no_data(&mut wire.out);
                Ok(())
            }
        }
    }

    async fn execute_portal(&mut self, wire: &mut Wire, name: &str, rows_max: Option<u32>) -> Step {
        let prepared = self.portals.get(name).and_then(|portal| portal.prepared.as_ref());
        if let Some(parsed) = prepared.and_then(|prepared| prepared.parsed.as_ref()) {
            attempt!(self.check_failed(&parsed.statement));
        }
        // Statements end transactions and close portals, this one too: it is put back only if it is still its turn.
        let Some(mut portal) = self.portals.remove(name) else { return Ok(Err(no_portal(name))) };
        if let State::Ready = portal.state {
            let Some(prepared) = portal.prepared.clone() else { return Ok(Err(no_portal(name))) };
            if !matches!(prepared.body, Body::Insert(_)) {
                self.show_busy(prepared.text());
            }
            // What follows up to Sync belongs to the same transaction.
            if matches!(self.transaction, Transaction::None) && !wire.next_is_sync() {
                self.begin_implicit();
            }
            match attempt!(self.execute_prepared(wire, &prepared, &portal.arguments).await?) {
                Outcome::Rows(rows, _) => portal.state = State::Rows(Cursor::new(rows, None)),
                other => {
                    portal.state = State::Done;
                    self.warn_of_nodes(wire);
                    other.complete(wire);
                    self.portals.insert(name, portal);
                    return Ok(Ok(()));
                }
            }
        }
        let done = self.send_portal(wire, &mut portal, name, rows_max).await?;
        if done.is_err() {
            portal.fail();
        }
        self.portals.insert(name, portal);
        Ok(done)
    }

    /// Sends up to `rows_max` rows of a portal.
    async fn send_portal(
        &mut self,
        wire: &mut Wire,
        portal: &mut Portal,
        name: &str,
        rows_max: Option<u32>,
    ) -> Step {
        let State::Rows(cursor) = &mut portal.state else {
            let message = format!("portal \"{name}\" cannot be run");
            return Ok(Err(SqlError::new(SqlState::INVALID_OBJECT_STATE, message)));
        };
        cursor.restart_count();
        let mut room = rows_max.map_or(u64::MAX, u64::from);
        let context = self.context();
        while room > 0 {
            let Some(batch) = attempt!(wire.flush_while(cursor.forward(room)).await?) else {
                if let Some(snapshots) = cursor.snapshots() {
                    attempt!(self.take_changes(wire, snapshots));
                }
                self.warn_of_nodes(wire);
                backend::command_complete(&mut wire.out, &cursor.tag());
                return Ok(Ok(()));
            };
            room -= batch.num_rows() as u64;
            let batch = attempt!(cursor.shown(batch, &portal.formats));
            attempt!(write_rows(wire, &batch, &context, &portal.formats));
            wire.flush_if_full().await?;
        }
        backend::portal_suspended(&mut wire.out);
        Ok(Ok(()))
    }
}

/// Left to the server: no type, or PostgreSQL's pseudo-type "unknown".
fn is_unspecified(oid: u32) -> bool {
    matches!(oid, 0 | 705)
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
