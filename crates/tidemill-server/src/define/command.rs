//! What is done to continuous views and transforms by name: ACTIVATE and DEACTIVATE, a time to live, and the functions of these names.

use std::sync::Arc;

use tidemill_sql::name::of_parts;
use tidemill_sql::objects::Command;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::Name;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::view::ViewId;

use super::{option, public};
use crate::catalog::{Change, ContinuousView, Relation, TransformObject, ViewObject};
use crate::server::Server;

/// Returns how many views and transforms there are of those named, or of all.
pub async fn set_active(server: &Server, names: &[Name], active: bool) -> Result<usize> {
    let catalog = &server.catalog;
    let _change = catalog.change.lock().await;
    let named = |name: &Name| match catalog.get(public(name)?) {
        Some(transform @ Relation::Transform(_)) => Ok(transform),
        _ => catalog.view(public(name)?).map(Relation::View),
    };
    let switched = match names {
        [] => catalog.relations(),
        names => names.iter().map(named).collect::<Result<_>>()?,
    };
    // What was written before is folded by the old state of the switch.
    server.engine.flush().await.map_err(|e| e.into_sql(plan_error))?;
    let (mut views, mut transforms) = (Vec::new(), Vec::new());
    for relation in &switched {
        match relation {
            Relation::View(view) => views.push((view.oid, ViewObject { active, ..view.object.clone() })),
            Relation::Transform(transform) => {
                transforms.push((transform.oid, TransformObject { active, ..transform.object.clone() }));
            }
            _ => {}
        }
    }
    let views = views.iter().map(|(oid, object)| Change::PutView(*oid, object));
    let transforms = transforms.iter().map(|(oid, object)| Change::PutTransform(*oid, object));
    let changes: Vec<_> = views.chain(transforms).collect();
    catalog.persist(&changes)?;
    for relation in &switched {
        server.engine.set_active(ViewId(relation.oid()), active);
    }
    Ok(changes.len())
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
