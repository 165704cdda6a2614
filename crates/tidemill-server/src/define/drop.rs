//! DROP of relations, with what depends on them.

use std::sync::Arc;

use tidemill_sql::statement::{Name, ObjectKind};
use tidemill_sql::{Result, SqlError, SqlState};

use super::{dependency, missing, public};
use crate::catalog::{Change, ContinuousView, Relation};
use crate::pg::wire_error::Notice;
use crate::server::Server;

pub async fn drop_objects(
    server: &Server,
    kind: ObjectKind,
    if_exists: bool,
    names: &[Name],
    cascade: bool,
) -> Result<Vec<Notice>> {
    let _change = server.catalog.change.lock().await;
    let mut notices = Vec::new();
    let mut gone: Vec<Relation> = Vec::new();
    for name in names {
        let plain = public(name)?;
        let word = kind.keywords().to_lowercase();
        let Some(relation) = server.catalog.get(plain) else {
            if !if_exists {
                return Err(missing(&word, plain));
            }
            notices.push(Notice::new(format!("{word} \"{plain}\" does not exist, skipping")));
            continue;
        };
        if !fits(&relation, kind) {
            let message = format!("\"{plain}\" is not a {word}");
            let hint = match relation {
                Relation::Stream(_) => "Use DROP STREAM to remove a stream.",
                Relation::View(_) => "Use DROP CONTINUOUS VIEW to remove a continuous view.",
                Relation::Table(_) => "Use DROP TABLE to remove a table.",
                Relation::PlainView(_) => "Use DROP VIEW to remove a view.",
                Relation::Foreign(_) => "Use DROP FOREIGN TABLE to remove a foreign table.",
            };
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint));
        }
        if !gone.iter().any(|known| known.oid() == relation.oid()) {
            gone.push(relation);
        }
    }
    let (mut gone, cascaded) = dependency::with_dependents(&server.catalog, gone, cascade)?;
    notices.extend(cascaded);
    orphaned_streams(server, &mut gone);
    let changes: Vec<_> = gone.iter().map(|r| Change::Remove(r.oid())).collect();
    server.catalog.persist(&changes)?;
    uninstall(server, &gone);
    Ok(notices)
}

/// Takes out relations that the catalog's file no longer has, and their states.
pub(super) fn uninstall(server: &Server, gone: &[Relation]) {
    for relation in gone {
        server.catalog.uninstall(relation.name());
        match relation {
            Relation::View(view) => server.engine.remove_view(view.id()),
            Relation::Table(table) => server.engine.remove_view(table.id()),
            Relation::Stream(_) | Relation::PlainView(_) | Relation::Foreign(_) => {}
        }
    }
}

/// Whether a relation is of the kind that a statement names.
pub(super) fn fits(relation: &Relation, kind: ObjectKind) -> bool {
    matches!(
        (relation, kind),
        (Relation::Stream(_), ObjectKind::Stream | ObjectKind::ForeignTable)
            | (Relation::View(_), ObjectKind::View | ObjectKind::ContinuousView)
            | (Relation::PlainView(_), ObjectKind::View)
            | (Relation::Table(_), ObjectKind::Table)
            | (Relation::Foreign(_), ObjectKind::ForeignTable)
    )
}

/// A stream that was never declared goes with the last view that reads it.
fn orphaned_streams(server: &Server, gone: &mut Vec<Relation>) {
    for stream in server.catalog.streams() {
        let read_by_gone =
            gone.iter().any(|r| matches!(r, Relation::View(v) if v.streams().contains(&stream.id())));
        let stays = |v: &Arc<ContinuousView>| !gone.iter().any(|r| r.oid() == v.oid);
        let has_reader = server.catalog.readers(stream.id()).iter().any(stays);
        if !stream.object.declared && read_by_gone && !has_reader {
            gone.push(Relation::Stream(stream));
        }
    }
}
