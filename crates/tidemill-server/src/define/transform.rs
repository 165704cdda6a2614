//! Continuous transforms: CREATE, and what is put in the place of one.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::execution::session_state::SessionState;
use sqlparser::ast::{self, Query};
use tidemill_sql::parse::parse_query;
use tidemill_sql::planner::{self, display_name, plan_error, vars};
use tidemill_sql::statement::{CreateView, Name};
use tidemill_sql::{Result, SqlError, SqlState, window_clause};
use tidemill_stream::stream::StreamId;
use tidemill_stream::transform::{Output, Transform, compile};
use tidemill_stream::view::ViewId;

use super::continuous_view::{located, read_streams};
use super::output::{WHERE_TO, deliveries, queues, shown, targets, targets_of};
use super::{exists, option, public, stream};
use crate::catalog::{
    Catalog, Change, ContinuousTransform, Relation, StreamObject, TransformObject, ViewOptions, Ways,
};
use crate::delivery::Delivery;
use crate::insert::{Route, Target};
use crate::join;
use crate::pg::wire_error::Notice;
use crate::query::Planner;
use crate::server::Server;

/// Events of other streams that one event may lead to, on all ways together.
const EVENTS_MAX: usize = 1000;

/// The caller holds the lock on changes.
pub async fn create(
    planner: &Planner,
    create: CreateView,
    existing: Option<Relation>,
) -> Result<Vec<Notice>> {
    let server = &planner.server;
    let name = public(&create.name)?.to_string();
    let replaced = match existing {
        None => None,
        Some(Relation::Transform(old)) if create.or_replace => Some(old),
        Some(_) if create.or_replace => {
            let message = format!("\"{name}\" is not a continuous transform");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Some(_) => return Err(exists(&name)),
    };
    option::check_transform(&create.options)?;
    if !create.columns.is_empty() {
        return Err(SqlError::unsupported("a list of column names is not supported")
            .with_position(create.name.position)
            .with_hint("Name the columns with AS in the SELECT."));
    }
    let Some(function) = &create.output else {
        let message = format!("continuous transform \"{name}\" has no output");
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
            .with_position(create.name.position)
            .with_hint(WHERE_TO));
    };
    let targets = targets(&server.catalog, function)?;
    let streams = read_streams(server, &create).map_err(of_transform)?;
    let queues = queues(&server.catalog, &targets, replaced.as_deref())?;
    let deliveries = deliveries(&targets, &queues, replaced.as_deref())?;
    let object = TransformObject {
        name,
        query: create.query_text.clone(),
        options: ViewOptions { written: option::written(&create.options, false, 0) },
        function: shown(&function.name),
        outputs: targets.iter().map(|target| target.stream().id().0).collect(),
        queues,
        active: replaced.as_ref().is_none_or(|old| old.transform.is_active()),
        created_at_us: vars::now_us(),
    };
    // In the place of another it is the same object: it keeps number and comments.
    let oid = replaced.as_ref().map_or_else(|| server.catalog.allocate_oid(), |old| old.oid);
    // Streams that are new, or have new columns, must be there to plan it; they last only if it succeeds.
    let before = stream::provide(&server.catalog, &streams);
    let kept = match plan_transform(&server.defining, oid, object, targets, deliveries, create.query).await {
        Ok(transform) => match join::load(planner, transform.transform.joins()).await {
            Ok(()) => keep(server, transform, replaced, &function.arguments, &streams).await,
            Err(error) => Err(error),
        },
        Err(error) => {
            let (text, offset) = (&create.query_text, create.query_offset);
            Err(of_transform(located(error, text, offset, server, planner::transform_obstacle)))
        }
    };
    if kept.is_err() {
        stream::withdraw(&server.catalog, before);
    }
    kept
}

/// Plans the transforms that the catalog's file has and puts them into the catalog. The caller gives them to the engine.
pub async fn load_transforms(
    catalog: &Catalog,
    defining: &SessionState,
    loaded: Vec<(u32, TransformObject)>,
) -> Result<Vec<Arc<Transform>>> {
    let mut transforms = Vec::new();
    for (oid, object) in loaded {
        let query = parse_query(&object.query)?;
        let targets = targets_of(catalog, &object)?;
        let deliveries = deliveries(&targets, &object.queues, None)?;
        let transform = plan_transform(defining, oid, object, targets, deliveries, query).await?;
        transforms.push(Arc::clone(&transform.transform));
        catalog.install(Relation::Transform(Arc::new(transform)));
    }
    Ok(transforms)
}

/// Plans a transform's query and the ways of its rows.
async fn plan_transform(
    defining: &SessionState,
    oid: u32,
    object: TransformObject,
    outputs: Vec<Target>,
    deliveries: Vec<Arc<Delivery>>,
    mut query: Box<Query>,
) -> Result<ContinuousTransform> {
    let clause = window_clause::take(&mut query).map_err(|e| e.with_hint("Use arrival_timestamp."))?;
    if clause.is_some() {
        return Err(SqlError::unsupported("a continuous transform cannot have a sliding window")
            .with_hint("Have it in a continuous view over a stream that the transform writes to."));
    }
    let mut statement = ast::Statement::Query(query.clone());
    planner::prepare(&mut statement, defining)?;
    let statement = datafusion::sql::parser::Statement::Statement(Box::new(statement));
    let plan = defining.statement_to_plan(statement).await.map_err(plan_error)?;
    let plan = Arc::new(compile(defining, &plan).await.map_err(|e| e.into_sql(plan_error))?);
    let fields = plan.schema.fields().iter();
    let fields = fields.map(|f| f.as_ref().clone().with_name(display_name(f.name())));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut routes: Vec<Arc<dyn Output>> = Vec::new();
    for target in &outputs {
        let queue = deliveries.iter().find(|delivery| delivery.output() == target.stream().id().0);
        let target = match queue {
            Some(queue) => Target::Table(Arc::clone(queue.target())),
            None => target.clone(),
        };
        routes.push(Arc::new(Route::plan(target, &plan, &query, defining).await?));
    }
    let transform = Arc::new(Transform::new(ViewId(oid), plan, routes, object.active));
    transform.joins().set_refresh(option::join_refresh(&object.options.written)?);
    Ok(ContinuousTransform { oid, object, transform, schema, outputs, deliveries })
}

/// What is said of views is so for transforms.
fn of_transform(mut error: SqlError) -> SqlError {
    if let Some(rest) = error.message.strip_prefix("a continuous view ") {
        error.message = format!("a continuous transform {rest}");
    }
    error
}

/// Puts a transform into the catalog and the engine, in the place of another or as a new one, with its streams.
async fn keep(
    server: &Arc<Server>,
    transform: ContinuousTransform,
    replaced: Option<Arc<ContinuousTransform>>,
    arguments: &[Name],
    streams: &[(u32, StreamObject)],
) -> Result<Vec<Notice>> {
    let catalog = &server.catalog;
    let transform = Arc::new(transform);
    let others = catalog.transforms().into_iter().filter(|other| other.oid != transform.oid);
    let ways = Ways::of(&others.chain([Arc::clone(&transform)]).collect::<Vec<_>>());
    check_circles(catalog, &ways, &transform, arguments)?;
    check_events(catalog, &ways)?;
    // Whoever writes has looked which tables that goes into, and holds them. What was written before is not for it.
    let _alone = catalog.writing.write().await;
    server.engine.flush().await.map_err(|e| e.into_sql(plan_error))?;
    let mut changes: Vec<_> = streams.iter().map(|(oid, s)| Change::PutStream(*oid, s)).collect();
    changes.push(Change::PutTransform(transform.oid, &transform.object));
    catalog.persist(&changes)?;
    let known = |delivery: &&Arc<Delivery>| {
        let old = replaced.iter().flat_map(|old| &old.deliveries);
        old.into_iter().any(|old| Arc::ptr_eq(old, delivery))
    };
    for delivery in transform.deliveries.iter().filter(|delivery| !known(delivery)) {
        delivery.tables().iter().for_each(|table| server.engine.add_view(Arc::clone(&table.view)));
    }
    server.engine.add_transform(Arc::clone(&transform.transform));
    transform.deliveries.iter().for_each(|delivery| delivery.start(server));
    let stays = |old: &&Arc<Delivery>| transform.deliveries.iter().any(|new| Arc::ptr_eq(new, old));
    let mut notices = Vec::new();
    for gone in replaced.iter().flat_map(|old| &old.deliveries).filter(|old| !stays(old)) {
        notices.extend(gone.undelivered());
        gone.end(&server.engine);
    }
    catalog.install(Relation::Transform(transform));
    Ok(notices)
}

fn check_circles(
    catalog: &Catalog,
    ways: &Ways,
    transform: &ContinuousTransform,
    arguments: &[Name],
) -> Result<()> {
    let streams = catalog.streams();
    let named = |id: StreamId| {
        let stream = streams.iter().find(|stream| stream.id() == id);
        stream.map(|stream| stream.object.name.clone()).unwrap_or_default()
    };
    for (output, argument) in transform.object.outputs.iter().zip(arguments) {
        let Some(way) = ways.circle(StreamId(*output)) else { continue };
        let mut shown = vec![named(StreamId(*output))];
        shown.extend(way.into_iter().flat_map(|(by, to)| [by.to_string(), named(to)]));
        let message = format!("infinite recursion in continuous transform \"{}\"", transform.object.name);
        return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)
            .with_detail(format!("Events would go from {}.", shown.join(" to ")))
            .with_position(argument.position));
    }
    Ok(())
}

fn check_events(catalog: &Catalog, ways: &Ways) -> Result<()> {
    let Some((stream, _)) = ways.most_events().filter(|(_, events)| *events > EVENTS_MAX) else {
        return Ok(());
    };
    let name = catalog.streams().iter().find(|s| s.id() == stream).map(|s| s.object.name.clone());
    let message = format!(
        "one event of stream \"{}\" would lead to more than {EVENTS_MAX} events of others",
        name.unwrap_or_default()
    );
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .with_hint("Have views and transforms read a stream that is nearer to the source."))
}
