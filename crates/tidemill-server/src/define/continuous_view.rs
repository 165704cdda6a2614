//! Continuous views: CREATE, and what is put in the place of one.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::execution::session_state::SessionState;
use sqlparser::ast::{self, Query, Spanned};
use tidemill_sql::name::{resolve, split_nodes};
use tidemill_sql::parse::parse_query;
use tidemill_sql::planner::{self, display_name, plan_error, vars};
use tidemill_sql::relation::{infer_columns, relations};
use tidemill_sql::statement::CreateView;
use tidemill_sql::types::Type;
use tidemill_sql::window_clause;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::view::{View, ViewId, ViewTable, compile};

use super::{check_columns, exists, option, plain_view, public, skipped, stream, transform};
use crate::catalog::{Change, ContinuousView, Relation, StreamObject, ViewObject, ViewOptions};
use crate::join;
use crate::pg::wire_error::Notice;
use crate::query::Planner;
use crate::server::Server;

/// `step_factor`: of a sliding window that does not tell its own, in percent.
pub async fn create_view(planner: &Planner, create: CreateView, step_factor: u8) -> Result<Vec<Notice>> {
    let server = &planner.server;
    let _change = server.catalog.change.lock().await;
    let name = public(&create.name)?.to_string();
    let existing = server.catalog.get(&name);
    if existing.is_some() && create.if_not_exists {
        return Ok(vec![skipped(&name)]);
    }
    if create.is_transform() {
        return transform::create(planner, create, existing).await;
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
    let before = stream::provide(&server.catalog, &streams);
    let oid = server.catalog.allocate_oid();
    let kept = match plan_view(&server.defining, oid, object, create.query).await {
        Ok(view) => match option::check_key(&create.options, &view.table) {
            Ok(()) => keep_view(planner, view, replaced, &streams).await,
            Err(error) => Err(error),
        },
        Err(error) => {
            Err(located(error, &create.query_text, create.query_offset, server, planner::view_obstacle))
        }
    };
    if let Err(error) = kept {
        stream::withdraw(&server.catalog, before);
        return Err(error);
    }
    Ok(notices)
}

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
    planner::check_doubled(&plan)?;
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
    view.joins().set_refresh(option::join_refresh(&object.options.written)?);
    Ok(ContinuousView { oid, object, view, table })
}

/// Finds the part of a query that keeps it from being a view's, or a transform's.
pub(super) type Search =
    fn(&Query, &str, &SessionState, &dyn Fn(&ast::ObjectName) -> bool) -> Option<SqlError>;

/// An error of a plan, which has no place, as one of the part of the query that is the cause.
pub(super) fn located(
    error: SqlError,
    query: &str,
    offset: usize,
    server: &Server,
    search: Search,
) -> SqlError {
    if error.state != SqlState::FEATURE_NOT_SUPPORTED || error.position.is_some() {
        return error;
    }
    let is_stream = |name: &ast::ObjectName| {
        let name = resolve(name, 0).ok();
        let name = name.as_ref().and_then(|name| public(name).ok());
        name.is_some_and(|name| server.catalog.stream(name).is_some())
    };
    let find = |parsed: Box<Query>| search(&parsed, query, &server.defining, &is_stream);
    let obstacle = parse_query(query).ok().and_then(find);
    obstacle.map_or(error, |obstacle| obstacle.moved_by(offset))
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
    join::load(planner, view.view.joins()).await?;
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

/// Options that this version carries out, or tells that it does not.
fn check_options(create: &CreateView, has_clause: bool) -> Result<Vec<Notice>> {
    let idle = option::without_effect(&create.options)?;
    option::check(&create.options, has_clause)?;
    let notice = |name| Notice::new(format!("option \"{name}\" has no effect: states are not kept in pages"));
    Ok(idle.into_iter().map(notice).collect())
}

/// The streams that must be put in the catalog for the view: undeclared ones, and those that get columns from it.
pub(super) fn read_streams(server: &Server, create: &CreateView) -> Result<Vec<(u32, StreamObject)>> {
    let names = relations(&create.query);
    if names.is_empty() {
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, "a continuous view reads a stream")
            .with_position(create.query_offset + 1));
    }
    let single = names.len() == 1;
    let mut streams = Vec::new();
    for name in names {
        let name = resolve(&name, name.span().start.column.max(1) as usize)?;
        let plain = split_nodes(public(&name)?).0;
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
            Some(other @ (Relation::Table(_) | Relation::Foreign(_))) if single => {
                return Err(SqlError::unsupported(format!(
                    "\"{plain}\" is a {}, not a stream",
                    other.kind()
                ))
                .with_position(name.position)
                .with_hint("A continuous view joins it with a stream."));
            }
            Some(Relation::Table(_) | Relation::Foreign(_)) => {}
            Some(Relation::Transform(_)) => {
                let message = format!("\"{plain}\" is a continuous transform, not a stream");
                return Err(SqlError::unsupported(message)
                    .with_position(name.position)
                    .with_hint("Read the stream that it writes to."));
            }
            Some(other @ (Relation::View(_) | Relation::PlainView(_))) => {
                let message = format!("\"{plain}\" is a {}, not a stream", other.kind());
                return Err(SqlError::unsupported(message)
                    .with_position(name.position)
                    .with_hint("Read it with a query."));
            }
            None if !create.continuous && create.options.is_empty() => {
                let message = format!("relation \"{plain}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message)
                    .with_position(name.position)
                    .with_hint("CREATE CONTINUOUS VIEW makes a stream of a name that is not declared."));
            }
            None if single => {
                let columns = infer_columns(&create.query, plain)?;
                let object = StreamObject { name: plain.to_string(), columns, declared: false, server: None };
                streams.push((server.catalog.allocate_oid(), object));
            }
            None => {
                let message = format!("relation \"{plain}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).with_position(name.position).with_hint(
                    "Declare it with CREATE STREAM: columns are inferred only for a query over one stream.",
                ));
            }
        }
    }
    Ok(streams)
}
