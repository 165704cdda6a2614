//! Definitions: CREATE, ALTER and DROP of streams and continuous views, ACTIVATE and DEACTIVATE.

pub mod comment;
mod dependency;
pub mod foreign;
mod foreign_table;
mod option;
pub mod plain_view;
mod table;

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::execution::session_state::SessionState;
use sqlparser::ast::Query;
use tidemill_federation::wrapper::{WRAPPERS, Wrapper};
use tidemill_sql::name::{of_parts, resolve};
use tidemill_sql::objects::Command;
use tidemill_sql::planner::{self, display_name, plan_error, vars};
use tidemill_sql::relation::{infer_columns, relations};
use tidemill_sql::statement::{AlterAction, CreateStream, CreateView, Name, ObjectKind};
use tidemill_sql::types::Type;
use tidemill_sql::window_clause;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::stream::ARRIVAL;
use tidemill_stream::view::{View, ViewId, ViewTable, compile};

use crate::catalog::{
    Change, ContinuousView, ForeignTable, ForeignTableObject, PlainView, PlainViewObject, Relation, Stream,
    StreamObject, ViewObject, ViewOptions,
};
use crate::pg::wire_error::Notice;
use crate::query::Planner;
use crate::server::Server;
use crate::system::EXTENSION;

pub use table::{NewTable, create_table, is_new, truncate};

/// Columns of a relation at most, as in PostgreSQL.
pub const COLUMNS_MAX: usize = 1600;

/// Plans a view's query and makes the view of it, with an empty state.
pub async fn plan_view(
    defining: &SessionState,
    oid: u32,
    object: ViewObject,
    mut query: Box<Query>,
) -> Result<ContinuousView> {
    let clause = window_clause::take(&mut query)?;
    let mut statement = sqlparser::ast::Statement::Query(query);
    planner::prepare(&mut statement, defining)?;
    let statement = datafusion::sql::parser::Statement::Statement(Box::new(statement));
    let plan = defining.statement_to_plan(statement).await.map_err(plan_error)?;
    let window = option::window(&object.options.written, clause.as_deref())?;
    let plan = compile(defining, &plan, window).await.map_err(|e| e.into_sql(plan_error))?;
    let fields = plan.finish.schema();
    let fields = fields.fields().iter().map(|f| f.as_ref().clone().with_name(display_name(f.name())));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    for (i, field) in schema.fields().iter().enumerate() {
        if schema.fields()[..i].iter().any(|f| f.name() == field.name()) {
            let message = format!("column \"{}\" specified more than once", field.name());
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).with_hint("Name it with AS."));
        }
    }
    let view = View::new(ViewId(oid), Arc::new(plan), object.active).map_err(|e| e.into_sql(plan_error))?;
    let view = Arc::new(view);
    let table = Arc::new(ViewTable::new(Arc::clone(&view), schema));
    view.set_time_to_live(option::time_to_live(&object.options.written, &table)?);
    Ok(ContinuousView { oid, object, view, table })
}

/// Names of relations are in the schema `public`, or without a schema.
pub fn public(name: &Name) -> Result<&str> {
    match name.schema.as_deref() {
        None | Some("public") => Ok(&name.name),
        Some(schema) => {
            let message = format!("schema \"{schema}\" does not exist");
            Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message).with_position(name.position))
        }
    }
}

fn exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

fn skipped(name: &str) -> Notice {
    Notice::new(format!("relation \"{name}\" already exists, skipping"))
}

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

fn missing(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("{kind} \"{name}\" does not exist"))
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
fn alter_stream_locked(
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
    server.catalog.install(Relation::Stream(Arc::new(Stream::new(stream.oid, object))));
    Ok(vec![])
}

/// `step_factor`: of a sliding window that does not tell its own, in percent.
pub async fn create_view(planner: &Planner, create: CreateView, step_factor: u8) -> Result<Vec<Notice>> {
    let server = &planner.server;
    let _change = server.catalog.change.lock().await;
    let name = public(&create.name)?.to_string();
    let existing = server.catalog.get(&name);
    if existing.is_some() && create.if_not_exists {
        return Ok(vec![skipped(&name)]);
    }
    if plain_view::is_plain(&server.catalog, &create) {
        return plain_view::create(planner, create, existing).await;
    }
    let replaced = match existing {
        None => None,
        Some(Relation::View(old)) if create.or_replace => Some(old),
        Some(_) if create.or_replace => {
            let message = format!("\"{name}\" is not a continuous view");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Some(_) => return Err(exists(&name)),
    };
    let has_clause = window_clause::take(&mut create.query.clone())?.is_some();
    let notices = check_options(&create, has_clause)?;
    if !create.columns.is_empty() {
        return Err(SqlError::unsupported("a list of column names is not supported")
            .with_position(create.name.position)
            .with_hint("Name the columns with AS in the SELECT."));
    }
    let streams = read_streams(server, &create)?;
    let object = ViewObject {
        name: name.clone(),
        query: create.query_text.clone(),
        options: ViewOptions { written: option::written(&create.options, has_clause, step_factor) },
        active: replaced.as_ref().is_none_or(|old| old.view.is_active()),
        created_at_us: vars::now_us(),
    };
    if let Some(old) = &replaced
        && old.object.query.trim() == object.query.trim()
        && old.object.options.written == object.options.written
    {
        // The same view: it keeps its state.
        return Ok(notices);
    }
    // Streams that are new, or have new columns, must be there to plan the view; they last only if it succeeds.
    let before: Vec<_> = streams.iter().map(|(_, s)| (s.name.clone(), server.catalog.get(&s.name))).collect();
    for (oid, stream) in &streams {
        server.catalog.install(Relation::Stream(Arc::new(Stream::new(*oid, stream.clone()))));
    }
    let oid = server.catalog.allocate_oid();
    let kept = match plan_view(&server.defining, oid, object, create.query).await {
        Ok(view) => match option::check_key(&create.options, &view.table) {
            Ok(()) => keep_view(planner, view, replaced, &streams).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    if let Err(error) = kept {
        for (name, relation) in before {
            match relation {
                Some(relation) => server.catalog.install(relation),
                None => server.catalog.uninstall(&name),
            }
        }
        return Err(error);
    }
    Ok(notices)
}

/// Puts a view in the engine and in the catalog, in the place of another or as a new one, with its streams.
async fn keep_view(
    planner: &Planner,
    view: ContinuousView,
    replaced: Option<Arc<ContinuousView>>,
    streams: &[(u32, StreamObject)],
) -> Result<()> {
    let (engine, catalog) = (&planner.server.engine, &planner.server.catalog);
    let mut changes: Vec<_> = streams.iter().map(|(oid, s)| Change::PutStream(*oid, s)).collect();
    let comments = catalog.comments();
    if let Some(old) = &replaced {
        check_replacement(old, &view)?;
        changes.push(Change::Remove(old.oid));
        // They are about the view, whatever its number.
        let kept = comments.iter().filter(|((oid, _), _)| *oid == old.oid);
        changes.extend(kept.map(|((_, column), text)| Change::Comment {
            oid: view.oid,
            column,
            text: Some(text),
        }));
    }
    let view = Arc::new(view);
    changes.push(Change::PutView(view.oid, &view.object));
    engine.add_view(Arc::clone(&view.view));
    catalog.install(Relation::View(Arc::clone(&view)));
    let kept = match plain_view::check_readers(planner, &view.object.name).await {
        Ok(()) => catalog.persist(&changes),
        Err(error) => Err(error),
    };
    let gone = match (&kept, replaced) {
        (Ok(()), old) => old,
        (Err(_), Some(old)) => {
            catalog.install(Relation::View(old));
            Some(Arc::clone(&view))
        }
        (Err(_), None) => {
            catalog.uninstall(&view.object.name);
            Some(Arc::clone(&view))
        }
    };
    if let Some(gone) = gone {
        engine.remove_view(gone.id());
    }
    kept
}

fn check_replacement(old: &ContinuousView, new: &ContinuousView) -> Result<()> {
    let columns = |view: &ContinuousView| {
        let schema = view.table.schema();
        let column = |field: &Arc<Field>| Ok((field.name().clone(), Type::of_field(field)?));
        schema.fields().iter().map(column).collect::<Result<Vec<_>>>()
    };
    check_columns(&columns(old)?, &columns(new)?)
}

/// As PostgreSQL: a view that takes another's place has its columns, and may have more behind them.
fn check_columns(before: &[(String, Type)], after: &[(String, Type)]) -> Result<()> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
    if after.len() < before.len() {
        return Err(invalid("cannot drop columns from view".into()));
    }
    for ((old, from), (new, to)) in before.iter().zip(after) {
        if old != new {
            let message = format!("cannot change name of view column \"{old}\" to \"{new}\"");
            return Err(invalid(message));
        }
        if from != to {
            let (from, to) = (from.display(), to.display());
            let message = format!("cannot change data type of view column \"{old}\" from {from} to {to}");
            return Err(invalid(message));
        }
    }
    Ok(())
}

pub async fn alter_view(
    planner: &Planner,
    name: &Name,
    if_exists: bool,
    action: AlterAction,
) -> Result<Vec<Notice>> {
    let catalog = &planner.server.catalog;
    let _change = catalog.change.lock().await;
    let plain = public(name)?;
    let view = match catalog.get(plain) {
        Some(view @ (Relation::View(_) | Relation::PlainView(_))) => view,
        Some(_) => {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{plain}\" is not a view")));
        }
        None if if_exists => {
            return Ok(vec![Notice::new(format!("relation \"{plain}\" does not exist, skipping"))]);
        }
        None => return Err(missing("relation", plain)),
    };
    let AlterAction::RenameTo(to) = action else {
        return Err(SqlError::unsupported("a column cannot be added to a view")
            .with_hint("CREATE OR REPLACE can add one; the state of a continuous view then starts empty."));
    };
    let to = public(&to)?;
    if catalog.get(to).is_some() {
        return Err(exists(to));
    }
    rename(planner, view, to).await.map(|()| vec![])
}

/// The state stays where it is, as the engine knows views by their numbers; the views that name it name it anew.
async fn rename(planner: &Planner, view: Relation, to: &str) -> Result<()> {
    let catalog = &planner.server.catalog;
    let from = view.name().to_string();
    let readers = plain_view::readers_after_renaming(catalog, &from, to)?;
    let renamed = match &view {
        Relation::View(view) => {
            let object = ViewObject { name: to.into(), active: view.view.is_active(), ..view.object.clone() };
            let (oid, table) = (view.oid, Arc::clone(&view.table));
            Relation::View(Arc::new(ContinuousView { oid, object, view: Arc::clone(&view.view), table }))
        }
        Relation::PlainView(view) => {
            let object = PlainViewObject { name: to.into(), ..view.object.clone() };
            Relation::PlainView(Arc::new(PlainView::new(view.oid, object)?))
        }
        Relation::Foreign(table) => {
            let object = ForeignTableObject { name: to.into(), ..table.object.clone() };
            Relation::Foreign(Arc::new(ForeignTable::new(table.oid, object)))
        }
        other @ (Relation::Stream(_) | Relation::Table(_)) => {
            return Err(SqlError::unsupported(format!("a {} cannot be renamed", other.kind())));
        }
    };
    let before = catalog.plain_readers(&from);
    catalog.uninstall(&from);
    catalog.install(renamed.clone());
    let readers: Vec<_> = readers.into_iter().map(Arc::new).collect();
    for reader in &readers {
        catalog.install(Relation::PlainView(Arc::clone(reader)));
    }
    let kept = match plain_view::check_readers(planner, to).await {
        Ok(()) => {
            let mut changes = vec![match &renamed {
                Relation::View(view) => Change::PutView(view.oid, &view.object),
                Relation::PlainView(view) => Change::PutPlainView(view.oid, &view.object),
                Relation::Stream(stream) => Change::PutStream(stream.oid, &stream.object),
                Relation::Table(table) => Change::PutTable(table.oid, &table.object),
                Relation::Foreign(table) => Change::PutForeignTable(table.oid, &table.object),
            }];
            changes.extend(readers.iter().map(|reader| Change::PutPlainView(reader.oid, &reader.object)));
            catalog.persist(&changes)
        }
        Err(error) => Err(error),
    };
    if kept.is_err() {
        catalog.uninstall(to);
        catalog.install(view);
        before.into_iter().for_each(|reader| catalog.install(Relation::PlainView(reader)));
    }
    kept
}

/// Options that this version carries out, or tells that it does not.
fn check_options(create: &CreateView, has_clause: bool) -> Result<Vec<Notice>> {
    let idle = option::without_effect(&create.options)?;
    option::check(&create.options, has_clause)?;
    let notice = |name| Notice::new(format!("option \"{name}\" has no effect: states are not kept in pages"));
    Ok(idle.into_iter().map(notice).collect())
}

/// The streams that must be put in the catalog for the view: undeclared ones, and those that get columns from it.
fn read_streams(server: &Server, create: &CreateView) -> Result<Vec<(u32, StreamObject)>> {
    let names = relations(&create.query);
    if names.is_empty() {
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, "a continuous view reads a stream")
            .with_position(create.query_offset + 1));
    }
    let single = names.len() == 1;
    let mut streams = Vec::new();
    for name in names {
        let name = resolve(&name, create.query_offset + 1)?;
        let plain = public(&name)?;
        match server.catalog.get(plain) {
            Some(Relation::Stream(stream)) if stream.object.declared => {}
            Some(Relation::Stream(stream)) if single => {
                let mut object = stream.object.clone();
                for (column, ty) in infer_columns(&create.query, plain)? {
                    if !object.columns.iter().any(|(n, _)| *n == column) {
                        object.columns.push((column, ty));
                    }
                }
                if object.columns.len() > stream.object.columns.len() {
                    streams.push((stream.oid, object));
                }
            }
            Some(Relation::Stream(_)) => {}
            Some(Relation::Table(_)) => {
                return Err(SqlError::unsupported(format!("\"{plain}\" is a table, not a stream"))
                    .with_position(name.position)
                    .with_hint("Join the view with the table when you read it."));
            }
            Some(other @ (Relation::View(_) | Relation::PlainView(_) | Relation::Foreign(_))) => {
                let message = format!("\"{plain}\" is a {}, not a stream", other.kind());
                return Err(SqlError::unsupported(message)
                    .with_position(name.position)
                    .with_hint("Read it with a query."));
            }
            None if !create.continuous && create.options.is_empty() => {
                let message = format!("relation \"{plain}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message)
                    .with_hint("CREATE CONTINUOUS VIEW makes a stream of a name that is not declared."));
            }
            None if single => {
                let columns = infer_columns(&create.query, plain)?;
                let object = StreamObject { name: plain.to_string(), columns, declared: false, server: None };
                streams.push((server.catalog.allocate_oid(), object));
            }
            None => {
                let message = format!("relation \"{plain}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).with_hint(
                    "Declare it with CREATE STREAM: columns are inferred only for a query over one stream.",
                ));
            }
        }
    }
    Ok(streams)
}

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
    for relation in &gone {
        server.catalog.uninstall(relation.name());
        match relation {
            Relation::View(view) => server.engine.remove_view(view.id()),
            Relation::Table(table) => server.engine.remove_view(table.id()),
            Relation::Stream(_) | Relation::PlainView(_) | Relation::Foreign(_) => {}
        }
    }
    Ok(notices)
}

/// Whether a relation is of the kind that a statement names.
fn fits(relation: &Relation, kind: ObjectKind) -> bool {
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

/// Returns how many views there are of those named, or of all.
pub async fn set_active(server: &Server, names: &[Name], active: bool) -> Result<usize> {
    let _change = server.catalog.change.lock().await;
    let views = if names.is_empty() {
        server.catalog.views()
    } else {
        names.iter().map(|n| server.catalog.view(public(n)?)).collect::<Result<_>>()?
    };
    // What was written before is folded by the old state of the switch.
    server.engine.flush().await.map_err(|e| e.into_sql(plan_error))?;
    let objects: Vec<_> = views.iter().map(|v| (v.oid, ViewObject { active, ..v.object.clone() })).collect();
    let changes: Vec<_> = objects.iter().map(|(oid, o)| Change::PutView(*oid, o)).collect();
    server.catalog.persist(&changes)?;
    for view in &views {
        server.engine.set_active(view.id(), active);
    }
    Ok(views.len())
}

/// `set_ttl`: gives a view another time to live, or none.
async fn set_ttl(server: &Server, name: &Name, ttl: Option<(&str, &str)>) -> Result<()> {
    let _change = server.catalog.change.lock().await;
    let view = server.catalog.view(public(name)?)?;
    if view.view.plan.window.is_some() {
        let message = format!("\"{}\" has a sliding window, which drops its events itself", view.object.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let mut object = ViewObject { active: view.view.is_active(), ..view.object.clone() };
    object.options.written.retain(|(name, _)| name != "ttl" && name != "ttl_column");
    if let Some((ttl, column)) = ttl {
        object.options.written.push(("ttl".into(), ttl.into()));
        object.options.written.push(("ttl_column".into(), column.into()));
    }
    let time_to_live = option::time_to_live(&object.options.written, &view.table)?;
    server.catalog.persist(&[Change::PutView(view.oid, &object)])?;
    view.view.set_time_to_live(time_to_live);
    let (oid, table) = (view.oid, Arc::clone(&view.table));
    let changed = ContinuousView { oid, object, view: Arc::clone(&view.view), table };
    server.catalog.install(Relation::View(Arc::new(changed)));
    Ok(())
}

/// What PipelineDB 1.x's and the wrappers' scripts create is built in; there is no other extension.
pub fn create_extension(name: &Name, if_not_exists: bool) -> Result<Vec<Notice>> {
    let shown = &name.name;
    if shown != EXTENSION && Wrapper::find(shown).is_none() {
        let message = format!("extension \"{shown}\" is not available");
        let known = WRAPPERS.iter().map(|wrapper| wrapper.name).chain([EXTENSION]).collect::<Vec<_>>();
        return Err(SqlError::unsupported(message)
            .with_position(name.position)
            .with_hint(format!("These are built in: {}.", known.join(", "))));
    }
    let skipped = if if_not_exists { "already exists, skipping" } else { "is built in, nothing to create" };
    Ok(vec![Notice::new(format!("extension \"{shown}\" {skipped}"))])
}

/// `ttl_expire`: takes away what has expired, and tells how many groups that were.
async fn expire(server: &Server, name: &Name) -> Result<u64> {
    let view = server.catalog.view(public(name)?)?;
    if view.view.time_to_live().is_none() {
        let message = format!("continuous view \"{}\" does not have a time to live", view.object.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            .with_hint("Give it one with set_ttl, or with the options \"ttl\" and \"ttl_column\"."));
    }
    server.engine.expire(view.id()).await.map_err(|e| e.into_sql(plan_error))
}

/// A function's command, which is the statement of the same name.
pub async fn carry_out(server: &Server, command: Command) -> Result<u64> {
    // A function's argument has no place in the statement.
    let named = |parts: Option<Vec<String>>| parts.map(|parts| of_parts(&parts, 0)).transpose();
    match command {
        Command::Activate(name) => drop(set_active(server, named(name)?.as_slice(), true).await?),
        Command::Deactivate(name) => drop(set_active(server, named(name)?.as_slice(), false).await?),
        Command::Truncate(name) => {
            let view = server.catalog.view(public(&of_parts(&name, 0)?)?)?;
            server.engine.truncate(view.id()).await.map_err(|e| e.into_sql(plan_error))?;
        }
        Command::SetTtl { view, ttl, column } => {
            set_ttl(server, &of_parts(&view, 0)?, ttl.as_deref().zip(column.as_deref())).await?;
        }
        Command::Expire(name) => return expire(server, &of_parts(&name, 0)?).await,
        Command::Flush => server.engine.flush().await.map_err(|e| e.into_sql(plan_error))?,
    }
    Ok(0)
}
