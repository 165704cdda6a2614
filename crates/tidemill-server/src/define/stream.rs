//! Streams: CREATE and new columns.

use std::sync::Arc;

use tidemill_sql::statement::{AlterAction, CreateStream, Name};
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::stream::ARRIVAL;

use super::{COLUMNS_MAX, exists, missing, public, skipped};
use crate::catalog::{Catalog, Change, Relation, Stream, StreamObject};
use crate::pg::wire_error::Notice;
use crate::server::Server;

pub async fn create_stream(server: &Server, create: CreateStream) -> Result<Vec<Notice>> {
    let _change = server.catalog.change.lock().await;
    let name = public(&create.name)?;
    if server.catalog.get(name).is_some() {
        return if create.if_not_exists { Ok(vec![skipped(name)]) } else { Err(exists(name)) };
    }
    let mut columns: Vec<(String, Type)> = Vec::new();
    if let Some(like) = &create.like {
        let parent = server.catalog.stream(public(like)?).ok_or_else(|| missing("stream", &like.name))?;
        columns.clone_from(&parent.object.columns);
    }
    for column in create.columns {
        check_column(&columns, &column.name).map_err(|e| e.with_position(column.position))?;
        columns.push((column.name, column.ty));
    }
    let object = StreamObject { name: name.to_string(), columns, declared: true, server: create.server };
    let oid = server.catalog.allocate_oid();
    server.catalog.persist(&[Change::PutStream(oid, &object)])?;
    server.catalog.install(Relation::Stream(Arc::new(Stream::new(oid, object))));
    Ok(vec![])
}

fn check_column(columns: &[(String, Type)], name: &str) -> Result<()> {
    if name == ARRIVAL {
        let message = format!("column name \"{ARRIVAL}\" is reserved");
        return Err(SqlError::new(SqlState::INVALID_NAME, message)
            .with_detail("Every stream has it: it is when the event arrived."));
    }
    if columns.iter().any(|(n, _)| n == name) {
        let message = format!("column \"{name}\" specified more than once");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    if columns.len() >= COLUMNS_MAX {
        let message = format!("streams can have at most {COLUMNS_MAX} columns");
        return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    Ok(())
}

pub async fn alter_stream(
    server: &Server,
    name: &Name,
    if_exists: bool,
    action: AlterAction,
) -> Result<Vec<Notice>> {
    let _change = server.catalog.change.lock().await;
    alter_stream_locked(server, name, if_exists, action)
}

/// As [`alter_stream`], for who holds the lock on changes.
pub(super) fn alter_stream_locked(
    server: &Server,
    name: &Name,
    if_exists: bool,
    action: AlterAction,
) -> Result<Vec<Notice>> {
    let name = public(name)?;
    let Some(stream) = server.catalog.stream(name) else {
        if if_exists {
            return Ok(vec![Notice::new(format!("stream \"{name}\" does not exist, skipping"))]);
        }
        return Err(missing("stream", name));
    };
    let AlterAction::AddColumn { if_not_exists, column } = action else {
        return Err(SqlError::unsupported("a stream cannot be renamed")
            .with_hint("Create a stream of the new name and views over it."));
    };
    let mut object = stream.object.clone();
    if if_not_exists && object.columns.iter().any(|(n, _)| *n == column.name) {
        return Ok(vec![Notice::new(format!("column \"{}\" already exists, skipping", column.name))]);
    }
    check_column(&object.columns, &column.name).map_err(|e| e.with_position(column.position))?;
    object.columns.push((column.name, column.ty));
    server.catalog.persist(&[Change::PutStream(stream.oid, &object)])?;
    server.catalog.install(Relation::Stream(Arc::new(stream.altered(object))));
    Ok(vec![])
}

/// Puts streams into the catalog that something is to be planned over, which must be there for that; returns what was there
/// before.
pub(super) fn provide(catalog: &Catalog, streams: &[(u32, StreamObject)]) -> Vec<(String, Option<Relation>)> {
    let mut before = Vec::new();
    for (oid, object) in streams {
        let old = catalog.stream(&object.name);
        let stream = match &old {
            Some(old) => old.altered(object.clone()),
            None => Stream::new(*oid, object.clone()),
        };
        before.push((object.name.clone(), old.map(Relation::Stream)));
        catalog.install(Relation::Stream(Arc::new(stream)));
    }
    before
}

/// Takes them out again.
pub(super) fn withdraw(catalog: &Catalog, before: Vec<(String, Option<Relation>)>) {
    for (name, relation) in before {
        match relation {
            Some(relation) => catalog.install(relation),
            None => catalog.uninstall(&name),
        }
    }
}
