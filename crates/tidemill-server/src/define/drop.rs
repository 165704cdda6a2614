//! DROP of relations, with what depends on them.

use tidemill_sql::statement::{Name, ObjectKind};
use tidemill_sql::{Result, SqlError, SqlState};

use super::{dependency, missing, public};
use crate::catalog::{Catalog, Change, Relation};
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
        if !fits(&server.catalog, &relation, kind)? {
            let message = format!("\"{plain}\" is not a {word}");
            let hint = match relation {
                Relation::Stream(_) => "Use DROP STREAM to remove a stream.",
                Relation::View(_) => "Use DROP CONTINUOUS VIEW to remove a continuous view.",
                Relation::Transform(_) => "Use DROP CONTINUOUS TRANSFORM to remove a continuous transform.",
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
    notices.extend(gone.iter().flat_map(undelivered));
    Ok(notices)
}

/// Takes out relations that the catalog's file no longer has, and their states.
pub(super) fn uninstall(server: &Server, gone: &[Relation]) {
    for relation in gone {
        server.catalog.uninstall(relation.name());
        match relation {
            Relation::View(view) => server.engine.remove_view(view.id()),
            Relation::Transform(transform) => {
                server.engine.remove_transform(transform.id());
                transform.deliveries.iter().for_each(|delivery| delivery.end(&server.engine));
            }
            Relation::Table(table) => server.engine.remove_view(table.id()),
            Relation::Stream(_) | Relation::PlainView(_) | Relation::Foreign(_) => {}
        }
    }
}

/// What a transform has made and nobody will get.
pub(super) fn undelivered(relation: &Relation) -> Vec<Notice> {
    match relation {
        Relation::Transform(transform) => {
            transform.deliveries.iter().filter_map(|delivery| delivery.undelivered()).collect()
        }
        _ => vec![],
    }
}

/// Whether a relation is of the kind that a statement names.
pub(super) fn fits(catalog: &Catalog, relation: &Relation, kind: ObjectKind) -> Result<bool> {
    if let (Relation::Foreign(table), ObjectKind::MultiTenantTable) = (relation, kind) {
        return Ok(catalog.server_of(table)?.has_multi_tenant_tables());
    }
    let fits = matches!(
        (relation, kind),
        (Relation::Stream(_), ObjectKind::Stream | ObjectKind::ForeignTable)
            | (Relation::View(_), ObjectKind::View | ObjectKind::ContinuousView)
            | (Relation::Transform(_), ObjectKind::View | ObjectKind::ContinuousTransform)
            | (Relation::PlainView(_), ObjectKind::View)
            | (Relation::Table(_), ObjectKind::Table)
            | (Relation::Foreign(_), ObjectKind::ForeignTable)
    );
    Ok(fits)
}

/// A stream that was never declared goes with the last view or transform that reads it.
pub(super) fn orphaned_streams(server: &Server, gone: &mut Vec<Relation>) {
    let read = |relation: &Relation| match relation {
        Relation::View(view) => view.streams(),
        Relation::Transform(transform) => transform.streams(),
        _ => vec![],
    };
    let read_by_gone: Vec<_> = gone.iter().flat_map(read).collect();
    let is_gone = |relation: &Relation| gone.iter().any(|r| r.oid() == relation.oid());
    let stays = server.catalog.relations().into_iter().filter(|relation| !is_gone(relation));
    let still_read: Vec<_> = stays.flat_map(|relation| read(&relation)).collect();
    for stream in server.catalog.streams() {
        let id = stream.id();
        if !stream.object.declared && read_by_gone.contains(&id) && !still_read.contains(&id) {
            gone.push(Relation::Stream(stream));
        }
    }
}
