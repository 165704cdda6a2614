//! Continuous transforms: CREATE, and what is put in the place of one.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::execution::session_state::SessionState;
use sqlparser::ast::{self, Query};
use tidemill_sql::parse::parse_query;
use tidemill_sql::planner::{self, display_name, plan_error, vars};
use tidemill_sql::statement::{CreateView, Name, OutputFunction};
use tidemill_sql::{Result, SqlError, SqlState, window_clause};
use tidemill_stream::stream::StreamId;
use tidemill_stream::transform::{Output, Transform, compile};
use tidemill_stream::view::ViewId;

use super::continuous_view::{names_stream, read_streams};
use super::{exists, missing, option, public, stream};
use crate::catalog::{
    Catalog, Change, ContinuousTransform, QueueObject, Relation, StreamObject, TableColumn, TransformObject,
    ViewOptions, Ways,
};
use crate::delivery::Delivery;
use crate::insert::{ForeignTarget, Route, Target};
use crate::join;
use crate::pg::wire_error::Notice;
use crate::query::Planner;
use crate::server::Server;

/// Events of other streams that one event may lead to, on all ways together.
const EVENTS_MAX: usize = 1000;

/// The names that PipelineDB 1.x, the server before it and Tidemill have for the one function: it puts the rows of a transform
/// into streams and tables.
const FUNCTIONS: [&str; 3] = ["insert_into_stream", "pipeline_stream_insert", "insert_into_table"];

const WHERE_TO: &str = "Say where its rows go: THEN EXECUTE PROCEDURE pipeline_stream_insert('stream'), \
                        or WITH (action = transform, outputfunc = pipelinedb.insert_into_stream('stream')).";

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
        Err(error) => Err(located(error, &create.query_text, create.query_offset, server)),
    };
    if kept.is_err() {
        stream::withdraw(&server.catalog, before);
    }
    kept
}

/// Where rows for foreign tables are kept: as before, for those that the transform has written to before.
fn queues(
    catalog: &Catalog,
    targets: &[Target],
    replaced: Option<&ContinuousTransform>,
) -> Result<Vec<QueueObject>> {
    let mut queues = Vec::new();
    for target in targets {
        let Target::Foreign(ForeignTarget { table, .. }) = target else { continue };
        let columns: Vec<_> = table.object.columns.iter().map(|column| column.column.clone()).collect();
        let columns: Vec<_> = columns.into_iter().map(|c| TableColumn { not_null: false, ..c }).collect();
        let known = replaced.and_then(|old| old.object.queues.iter().find(|queue| queue.output == table.oid));
        match known {
            Some(queue) if queue.columns == columns => queues.push(queue.clone()),
            Some(_) if is_behind(replaced, table.oid) => {
                let message = format!(
                    "rows wait for foreign table \"{}\", whose columns have changed",
                    table.object.name
                );
                return Err(SqlError::new(SqlState::OBJECT_IN_USE, message)
                    .with_hint("Wait until tidemill.deliveries shows none."));
            }
            _ => {
                let [waiting, sending, mark] = [(); 3].map(|()| catalog.allocate_oid());
                queues.push(QueueObject { output: table.oid, columns, waiting, sending, mark });
            }
        }
    }
    Ok(queues)
}

fn is_behind(transform: Option<&ContinuousTransform>, output: u32) -> bool {
    let deliveries = transform.into_iter().flat_map(|transform| &transform.deliveries);
    deliveries.into_iter().any(|delivery| delivery.output() == output && delivery.backlog().0 > 0)
}

/// Those of `replaced` go on.
fn deliveries(
    targets: &[Target],
    queues: &[QueueObject],
    replaced: Option<&ContinuousTransform>,
) -> Result<Vec<Arc<Delivery>>> {
    let delivery = |queue: &QueueObject| {
        let known = replaced.into_iter().flat_map(|old| &old.deliveries);
        let same = |delivery: &&Arc<Delivery>| delivery.target().oid == queue.waiting;
        if let Some(delivery) = known.into_iter().find(same) {
            return Ok(Arc::clone(delivery));
        }
        let target = targets.iter().find(|target| target.stream().id().0 == queue.output);
        let name = target.map_or("", |target| target.stream().object.name.as_str());
        Ok(Arc::new(Delivery::new(name, queue)?))
    };
    queues.iter().map(delivery).collect()
}

/// `pipelinedb.insert_into_stream`: as PipelineDB shows it, whether the schema was written or not.
fn shown(function: &Name) -> String {
    match &function.schema {
        None if function.name != FUNCTIONS[1] => format!("pipelinedb.{}", function.name),
        None => function.name.clone(),
        Some(schema) => format!("{schema}.{}", function.name),
    }
}

/// What the rows go into.
fn targets(catalog: &Catalog, function: &OutputFunction) -> Result<Vec<Target>> {
    let name = &function.name;
    let is_ours = matches!(name.schema.as_deref(), None | Some("pipelinedb" | "pg_catalog"));
    if !is_ours || !FUNCTIONS.contains(&name.name.as_str()) {
        let message = format!("function {}() cannot take the rows of a transform", name.name);
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_position(name.position).with_hint(
            "pipelinedb.insert_into_stream and pipelinedb.insert_into_table can, with the names of streams and tables.",
        ));
    }
    if function.arguments.is_empty() {
        let message = format!("function {}() wants the name of a stream or a table", name.name);
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_position(name.position));
    }
    let mut targets: Vec<Target> = Vec::new();
    for argument in &function.arguments {
        let target = target(catalog, argument).map_err(|error| error.with_position(argument.position))?;
        if targets.iter().any(|known| known.stream().id() == target.stream().id()) {
            let message = format!("output \"{}\" is named more than once", argument.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).with_position(argument.position));
        }
        targets.push(target);
    }
    Ok(targets)
}

fn target(catalog: &Catalog, name: &Name) -> Result<Target> {
    let plain = public(name)?;
    match catalog.get(plain) {
        Some(Relation::Stream(stream)) if stream.object.declared => Ok(Target::Stream(stream)),
        Some(Relation::Stream(_)) => {
            let message = format!("stream \"{plain}\" is not declared");
            Err(SqlError::new(SqlState::INVALID_OBJECT_STATE, message)
                .with_detail(
                    "Rows are written by the place of their columns, which an inferred stream does not tell.",
                )
                .with_hint("Declare it with CREATE STREAM."))
        }
        Some(Relation::Table(table)) => Ok(Target::Table(table)),
        Some(Relation::Foreign(table)) => {
            if catalog.server_of(&table)?.has_multi_tenant_tables() {
                let message = format!("multi-tenant table \"{plain}\" cannot be the output of a transform");
                return Err(SqlError::unsupported(message)
                    .with_hint("Name a foreign table on one server; a transform may have several outputs."));
            }
            let target = ForeignTarget { table, nodes: None };
            target.writing(catalog)?;
            Ok(Target::Foreign(target))
        }
        Some(other @ (Relation::View(_) | Relation::Transform(_) | Relation::PlainView(_))) => {
            let message = format!("\"{plain}\" is a {}, not a stream or a table", other.kind());
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => Err(missing("relation", plain)),
    }
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

fn targets_of(catalog: &Catalog, object: &TransformObject) -> Result<Vec<Target>> {
    let relations = catalog.relations();
    let of = |oid: &u32| match relations.iter().find(|relation| relation.oid() == *oid) {
        Some(Relation::Stream(stream)) => Ok(Target::Stream(Arc::clone(stream))),
        Some(Relation::Table(table)) => Ok(Target::Table(Arc::clone(table))),
        Some(Relation::Foreign(table)) => {
            Ok(Target::Foreign(ForeignTarget { table: Arc::clone(table), nodes: None }))
        }
        _ => {
            let message = format!("an output of continuous transform \"{}\" is missing", object.name);
            Err(SqlError::new(SqlState::DATA_CORRUPTED, message))
        }
    };
    object.outputs.iter().map(of).collect()
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

/// An error of a plan that cannot be a transform's as one of the part of the query that is the cause.
fn located(error: SqlError, query: &str, offset: usize, server: &Server) -> SqlError {
    if error.state != SqlState::FEATURE_NOT_SUPPORTED || error.position.is_some() {
        return error;
    }
    let parsed = parse_query(query).ok();
    let is_stream = |name: &ast::ObjectName| names_stream(&server.catalog, name);
    let find = |parsed: Box<Query>| planner::transform_obstacle(&parsed, query, &server.defining, &is_stream);
    let obstacle = parsed.and_then(find);
    obstacle.map_or_else(|| of_transform(error), |obstacle| obstacle.moved_by(offset))
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
