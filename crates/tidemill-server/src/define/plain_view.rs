//! Plain views: CREATE, replacement, new names. Their queries are planned into the queries that read them.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast;
use tidemill_sql::name::quote_ident;
use tidemill_sql::parse::parse_query;
use tidemill_sql::planner::{display_name, plan_error, vars};
use tidemill_sql::relation::{relations, renamed};
use tidemill_sql::statement::{CreateView, ViewOption};
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};

use super::{check_columns, exists, option, public};
use crate::catalog::{Catalog, Change, PlainView, PlainViewObject, Relation};
use crate::pg::wire_error::Notice;
use crate::query::{self, Planner};

/// PostgreSQL's options of a view.
const OPTIONS: [&str; 3] = ["check_option", "security_barrier", "security_invoker"];

/// Whether CREATE VIEW without CONTINUOUS is about a plain view: nothing in it says otherwise, and no stream is read.
pub fn is_plain(catalog: &Catalog, create: &CreateView) -> bool {
    if create.continuous || create.options.iter().any(|option| option.name == "action") {
        return false;
    }
    let names = relations(&create.query);
    let named = |name: &ast::ObjectName| {
        let name = tidemill_sql::name::resolve(name, 0).ok()?;
        catalog.get(public(&name).ok()?)
    };
    let found: Vec<_> = names.iter().map(named).collect();
    if found.iter().flatten().any(|relation| matches!(relation, Relation::Stream(_))) {
        return false;
    }
    // With the options of a continuous view a name that is not known is that of a stream which is yet to be made.
    create.options.iter().all(|option| OPTIONS.contains(&option.name.as_str()))
        || (!found.is_empty() && found.iter().all(Option::is_some))
}

pub async fn create(
    planner: &Planner,
    create: CreateView,
    existing: Option<Relation>,
) -> Result<Vec<Notice>> {
    check_options(&create.options)?;
    let catalog = &planner.server.catalog;
    let name = public(&create.name)?;
    let old = match existing {
        None => None,
        Some(Relation::PlainView(old)) if create.or_replace => Some(old),
        Some(Relation::View(_)) if create.or_replace => {
            let message = format!("\"{name}\" is a continuous view");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_hint("Drop it first: a view in its place has no state."));
        }
        Some(_) if create.or_replace => {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a view")));
        }
        Some(_) => return Err(exists(name)),
    };
    let object = described(planner, &create, name).await?;
    if let Some(old) = &old {
        check_columns(old.columns(), &object.columns)?;
        check_recursion(catalog, &object)?;
    }
    let oid = old.as_ref().map_or_else(|| catalog.allocate_oid(), |old| old.oid);
    let view = Arc::new(PlainView::new(oid, object)?);
    catalog.install(Relation::PlainView(Arc::clone(&view)));
    let kept = match check_readers(planner, name).await {
        Ok(()) => catalog.persist(&[Change::PutPlainView(oid, &view.object)]),
        Err(error) => Err(error),
    };
    if kept.is_err() {
        match old {
            Some(old) => catalog.install(Relation::PlainView(old)),
            None => catalog.uninstall(name),
        }
    }
    kept.map(|()| vec![])
}

fn check_options(options: &[ViewOption]) -> Result<()> {
    match options.first() {
        None => Ok(()),
        Some(option) if OPTIONS.contains(&option.name.as_str()) => {
            let message = format!("option \"{}\" of a view is not supported", option.name);
            Err(SqlError::unsupported(message).with_position(option.position))
        }
        Some(option) => Err(option::unrecognized(option, OPTIONS.into_iter())),
    }
}

/// The view that a statement asks for: its query is planned to find its columns, and what it reads.
async fn described(planner: &Planner, create: &CreateView, name: &str) -> Result<PlainViewObject> {
    let moved = |error: SqlError| error.moved_by(create.query_offset);
    let planner = planner.inside_view(planner.search_path());
    let query = ast::Statement::Query(parse_query(&create.query_text).map_err(moved)?);
    let plan = query::plan(&planner.state(), &query, &create.query_text).await.map_err(|error| {
        let unknown = error.state == SqlState::UNDEFINED_TABLE && error.hint.is_none();
        let error = moved(error);
        match unknown {
            true => error.with_hint("CREATE CONTINUOUS VIEW makes a stream of a name that is not declared."),
            false => error,
        }
    })?;
    if let Some(parameter) = plan.get_parameter_names().map_err(plan_error)?.into_iter().min() {
        let error =
            SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {parameter}"));
        let at = create.query_text.find(&parameter).map(|at| create.query_text[..at].chars().count() + 1);
        return Err(moved(at.map_or(error.clone(), |at| error.with_position(at))));
    }
    let mut columns = Vec::new();
    for field in plan.schema().fields() {
        columns.push((display_name(field.name()).to_string(), Type::of_field(field)?));
    }
    let mut query = create.query_text.clone();
    if !create.columns.is_empty() {
        rename_columns(&mut columns, &create.columns)?;
        let list: Vec<_> = columns.iter().map(|(column, _)| quote_ident(column)).collect();
        query = format!("SELECT * FROM (\n{query}\n) AS {}({})", quote_ident(name), list.join(", "));
    }
    check_names(&columns)?;
    Ok(PlainViewObject {
        name: name.to_string(),
        query,
        columns,
        reads: planner.reads(),
        search_path: planner.search_path().to_vec(),
        created_at_us: vars::now_us(),
    })
}

/// `v(a, b)`: names of the first columns, in the place of those that the query gives.
fn rename_columns(columns: &mut [(String, Type)], names: &[String]) -> Result<()> {
    if names.len() > columns.len() {
        return Err(SqlError::syntax("CREATE VIEW specifies more column names than columns"));
    }
    for ((column, _), name) in columns.iter_mut().zip(names) {
        column.clone_from(name);
    }
    Ok(())
}

fn check_names(columns: &[(String, Type)]) -> Result<()> {
    for (i, (name, _)) in columns.iter().enumerate() {
        if columns[..i].iter().any(|(earlier, _)| earlier == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

/// A view that reads itself, over others.
fn check_recursion(catalog: &Catalog, object: &PlainViewObject) -> Result<()> {
    let mut seen: Vec<String> = Vec::new();
    let mut next = object.reads.clone();
    while let Some(name) = next.pop() {
        if name == object.name {
            let message = format!("infinite recursion detected in rules for relation \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        if seen.contains(&name) {
            continue;
        }
        if let Some(Relation::PlainView(view)) = catalog.get(&name) {
            next.extend(view.object.reads.iter().cloned());
        }
        seen.push(name);
    }
    Ok(())
}

/// The views over a relation must still be what they were when it has other columns.
pub async fn check_readers(planner: &Planner, name: &str) -> Result<()> {
    let mut readers = planner.server.catalog.plain_readers(name);
    let mut next = 0;
    while let Some(reader) = readers.get(next).cloned() {
        planner.view(&reader).await?;
        for further in planner.server.catalog.plain_readers(&reader.object.name) {
            if !readers.iter().any(|known| known.oid == further.oid) {
                readers.push(further);
            }
        }
        next += 1;
    }
    Ok(())
}

/// The plan of a view's query with the columns that the view has had since it was made, in their order. What it reads may
/// have got more, which `*` then means as well.
pub fn shown(plan: LogicalPlan, view: &PlainViewObject) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    let columns = view.columns.iter().map(|(name, ty)| {
        let found: Vec<_> = schema.iter().filter(|(_, field)| display_name(field.name()) == name).collect();
        match found.as_slice() {
            [(qualifier, field)] if Type::of_field(field)? == *ty => {
                Ok(Expr::Column(Column::new(qualifier.cloned(), field.name())).alias(name))
            }
            _ => {
                let message = format!("column \"{name}\" of view \"{}\" would not be what it was", view.name);
                Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
                    .with_hint("Drop the view and create it again."))
            }
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(plan_error)
}

/// The views that name a relation, under another name of it.
pub fn readers_after_renaming(catalog: &Catalog, from: &str, to: &str) -> Result<Vec<PlainView>> {
    let changed = |view: &Arc<PlainView>| {
        let mut object = view.object.clone();
        object.query = renamed(&object.query, from, to)?;
        for read in object.reads.iter_mut().filter(|read| *read == from) {
            *read = to.to_string();
        }
        PlainView::new(view.oid, object)
    };
    catalog.plain_readers(from).iter().map(changed).collect()
}
