//! What the rows of a continuous transform go into: streams, tables, and foreign tables with the queues in front of them.

use std::sync::Arc;

use tidemill_federation::multi_tenant::URL;
use tidemill_sql::statement::{Name, OutputFunction};
use tidemill_sql::{Result, SqlError, SqlState};

use super::{missing, public};
use crate::catalog::{Catalog, ContinuousTransform, QueueObject, Relation, TableColumn, TransformObject};
use crate::delivery::Delivery;
use crate::insert::{ForeignTarget, Target};

/// The names that PipelineDB 1.x, the server before it and Tidemill have for the one function: it puts the rows of a transform
/// into streams and tables.
const FUNCTIONS: [&str; 3] = ["insert_into_stream", "pipeline_stream_insert", "insert_into_table"];

pub(super) const WHERE_TO: &str = "Say where its rows go: THEN EXECUTE PROCEDURE pipeline_stream_insert('stream'), \
                        or WITH (action = transform, outputfunc = pipelinedb.insert_into_stream('stream')).";

/// Where rows for foreign tables are kept: as before, for those that the transform has written to before. Which node of a
/// multi-tenant table gets them is not theirs to say.
pub(super) fn queues(
    catalog: &Catalog,
    targets: &[Target],
    replaced: Option<&ContinuousTransform>,
) -> Result<Vec<QueueObject>> {
    let mut queues = Vec::new();
    for target in targets {
        let Target::Foreign(ForeignTarget { table, .. }) = target else { continue };
        let is_dealt_out = catalog.server_of(table)?.has_multi_tenant_tables();
        let columns = table.object.columns.iter().map(|column| column.column.clone());
        let columns: Vec<_> = columns
            .filter(|column| !is_dealt_out || column.name != URL)
            .map(|column| TableColumn { not_null: false, ..column })
            .collect();
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
pub(super) fn deliveries(
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
pub(super) fn shown(function: &Name) -> String {
    match &function.schema {
        None if function.name != FUNCTIONS[1] => format!("pipelinedb.{}", function.name),
        None => function.name.clone(),
        Some(schema) => format!("{schema}.{}", function.name),
    }
}

/// What the rows go into.
pub(super) fn targets(catalog: &Catalog, function: &OutputFunction) -> Result<Vec<Target>> {
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

/// Those of a transform of the catalog's file.
pub(super) fn targets_of(catalog: &Catalog, object: &TransformObject) -> Result<Vec<Target>> {
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
