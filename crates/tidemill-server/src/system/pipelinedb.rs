//! The dictionary and the statistics of streams, continuous views and transforms, with PipelineDB's names and columns.
//!
//! PipelineDB counted by process: a *worker* folded events, a *combiner* merged what the workers made. Here both are threads
//! of one process. Figures start with the server.

use std::sync::atomic::Ordering;

use tidemill_sql::Result;
use tidemill_sql::types::{Scalar, Type};

use super::continuous_query::{ContinuousQuery, ROLES, all, total};
use super::namespace::{OWNER_OID, namespace_oid};
use super::{Fill, Fillers, PG_CATALOG, PIPELINEDB, Rows, Snapshot, SystemRelation, Value};
use crate::catalog::{Relation, Stream};
use crate::tables::SCHEMA;

const TEXT: Type = Type::new(Scalar::Text);
const BOOL: Type = Type::new(Scalar::Bool);
const OID: Type = Type::new(Scalar::Oid);
const INT4: Type = Type::new(Scalar::Int4);
const INT8: Type = Type::new(Scalar::Int8);
const TIME: Type = Type::new(Scalar::Timestamptz);
const TEXTS: Type = Type::array(Scalar::Text);

type Columns = &'static [(&'static str, Type)];

const VIEWS: Columns = &[("id", OID), ("schema", TEXT), ("name", TEXT), ("active", BOOL), ("query", TEXT)];
const TRANSFORMS: Columns = &[
    ("id", OID),
    ("schema", TEXT),
    ("name", TEXT),
    ("active", BOOL),
    ("tgfunc", TEXT),
    ("tgargs", TEXTS),
    ("query", TEXT),
];
const STREAMS: Columns = &[("schema", TEXT), ("name", TEXT), ("queries", TEXTS)];
const READERS: Columns = &[("stream", TEXT), ("continuous_queries", TEXTS)];
const CONT_QUERY: Columns =
    &[("id", INT4), ("type", TEXT), ("relid", OID), ("active", BOOL), ("streamrelid", OID)];
const STREAM: Columns = &[("relid", OID), ("queries", Type::array(Scalar::Oid))];
const STREAM_STATS: Columns = &[
    ("namespace", TEXT),
    ("stream", TEXT),
    ("input_rows", INT8),
    ("input_batches", INT8),
    ("input_bytes", INT8),
];
const PROC_QUERY_STATS: Columns = &[
    ("type", TEXT),
    ("pid", INT4),
    ("start_time", TIME),
    ("query_id", INT4),
    ("input_rows", INT8),
    ("output_rows", INT8),
    ("updated_rows", INT8),
    ("output_bytes", INT8),
    ("updated_bytes", INT8),
    ("input_bytes", INT8),
    ("executions", INT8),
    ("errors", INT8),
    ("exec_ms", INT8),
];
const PROC_STATS: Columns = &[
    ("type", TEXT),
    ("pid", INT4),
    ("start_time", TIME),
    ("input_rows", INT8),
    ("output_rows", INT8),
    ("updated_rows", INT8),
    ("output_bytes", INT8),
    ("updated_bytes", INT8),
    ("input_bytes", INT8),
    ("executions", INT8),
    ("errors", INT8),
    ("exec_ms", INT8),
];
/// The last three are ours: what the state of the view takes.
const QUERY_STATS: Columns = &[
    ("type", TEXT),
    ("namespace", TEXT),
    ("continuous_query", TEXT),
    ("input_rows", INT8),
    ("output_rows", INT8),
    ("updated_rows", INT8),
    ("output_bytes", INT8),
    ("updated_bytes", INT8),
    ("input_bytes", INT8),
    ("executions", INT8),
    ("errors", INT8),
    ("exec_ms", INT8),
    ("state_rows", INT8),
    ("state_memory_bytes", INT8),
    ("state_disk_bytes", INT8),
];
const DB_STATS: Columns = &[
    ("type", TEXT),
    ("input_rows", INT8),
    ("output_rows", INT8),
    ("updated_rows", INT8),
    ("output_bytes", INT8),
    ("updated_bytes", INT8),
    ("input_bytes", INT8),
    ("executions", INT8),
    ("errors", INT8),
    ("exec_ms", INT8),
];

/// PipelineDB 1.x's relations, then those of the server before it, which were in `pg_catalog`.
const RELATIONS: &[(&str, &str, Columns, Fill)] = &[
    (PIPELINEDB, "views", VIEWS, views),
    (PIPELINEDB, "transforms", TRANSFORMS, transforms),
    (PIPELINEDB, "streams", STREAMS, streams),
    (PIPELINEDB, "stream_readers", READERS, stream_readers),
    (PIPELINEDB, "cont_query", CONT_QUERY, cont_query),
    (PIPELINEDB, "stream", STREAM, stream),
    (PIPELINEDB, "stream_stats", STREAM_STATS, stream_stats),
    (PIPELINEDB, "proc_query_stats", PROC_QUERY_STATS, proc_query_stats),
    (PIPELINEDB, "proc_stats", PROC_STATS, proc_stats),
    (PIPELINEDB, "query_stats", QUERY_STATS, query_stats),
    (PIPELINEDB, "db_stats", DB_STATS, db_stats),
    (PG_CATALOG, "pipeline_stream_stats", STREAM_STATS, stream_stats),
    (PG_CATALOG, "pipeline_proc_stats", PROC_STATS, proc_stats),
    (PG_CATALOG, "pipeline_query_stats", QUERY_STATS, query_stats),
    (PG_CATALOG, "pipeline_stats", DB_STATS, db_stats),
];

pub(super) const FILLERS: Fillers = &[
    (PG_CATALOG, "pg_extension", extensions),
    (PG_CATALOG, "pg_available_extensions", available_extensions),
];

/// What scripts for PipelineDB 1.x create and look for. It is built in.
pub const EXTENSION: &str = "pipelinedb";
pub(super) const EXTENSION_OID: u32 = 14_998;
const EXTENSION_VERSION: &str = "1.0.0";

fn extensions(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    rows.add([
        ("oid", EXTENSION_OID.into()),
        ("extname", EXTENSION.into()),
        ("extowner", OWNER_OID.into()),
        ("extnamespace", namespace_oid(PIPELINEDB)?.into()),
        ("extrelocatable", false.into()),
        ("extversion", EXTENSION_VERSION.into()),
    ])
}

fn available_extensions(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    rows.add([
        ("name", EXTENSION.into()),
        ("default_version", EXTENSION_VERSION.into()),
        ("installed_version", EXTENSION_VERSION.into()),
        ("comment", "streams and continuous views, built in".into()),
    ])
}

pub(super) fn relations() -> Vec<SystemRelation> {
    RELATIONS
        .iter()
        .map(|(schema, name, columns, fill)| SystemRelation::new(schema, name, columns, *fill))
        .collect()
}

fn user_streams(snapshot: &Snapshot) -> impl Iterator<Item = &Stream> {
    snapshot
        .relations
        .iter()
        .filter_map(|r| if let Relation::Stream(stream) = r { Some(&**stream) } else { None })
}

fn views(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for view in all(snapshot).filter_map(ContinuousQuery::view) {
        rows.add([
            ("id", view.oid.into()),
            ("schema", SCHEMA.into()),
            ("name", view.object.name.as_str().into()),
            ("active", view.view.is_active().into()),
            ("query", view.object.query.trim().into()),
        ])?;
    }
    Ok(())
}

fn transforms(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for transform in all(snapshot).filter_map(ContinuousQuery::transform) {
        rows.add([
            ("id", transform.oid.into()),
            ("schema", SCHEMA.into()),
            ("name", transform.object.name.as_str().into()),
            ("active", transform.transform.is_active().into()),
            ("tgfunc", transform.object.function.as_str().into()),
            ("tgargs", transform.arguments().into()),
            ("query", transform.object.query.trim().into()),
        ])?;
    }
    Ok(())
}

/// The views and transforms that read a stream.
fn readers<'a>(snapshot: &'a Snapshot, stream: &'a Stream) -> impl Iterator<Item = ContinuousQuery<'a>> {
    all(snapshot).filter(|query| query.streams().contains(&stream.id()))
}

fn streams(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for stream in user_streams(snapshot) {
        let queries: Vec<_> = readers(snapshot, stream).map(|query| query.name().to_string()).collect();
        rows.add([
            ("schema", SCHEMA.into()),
            ("name", stream.object.name.as_str().into()),
            ("queries", queries.into()),
        ])?;
    }
    Ok(())
}

fn stream_readers(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for stream in user_streams(snapshot) {
        let queries: Vec<_> = readers(snapshot, stream).map(|query| query.name().to_string()).collect();
        if !queries.is_empty() {
            rows.add([
                ("stream", stream.object.name.as_str().into()),
                ("continuous_queries", queries.into()),
            ])?;
        }
    }
    Ok(())
}

fn cont_query(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for query in all(snapshot) {
        rows.add([
            ("id", i64::from(query.oid()).into()),
            ("type", query.kind().into()),
            ("relid", query.oid().into()),
            ("active", query.is_active().into()),
            ("streamrelid", query.streams().first().map(|stream| stream.0).into()),
        ])?;
    }
    Ok(())
}

fn stream(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for stream in user_streams(snapshot) {
        let queries: Vec<u32> = readers(snapshot, stream).map(ContinuousQuery::oid).collect();
        rows.add([("relid", stream.oid.into()), ("queries", queries.into())])?;
    }
    Ok(())
}

fn stream_stats(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for stream in user_streams(snapshot) {
        rows.add([
            ("namespace", SCHEMA.into()),
            ("stream", stream.object.name.as_str().into()),
            ("input_rows", stream.stats.rows.load(Ordering::Relaxed).into()),
            ("input_batches", stream.stats.batches.load(Ordering::Relaxed).into()),
            ("input_bytes", stream.stats.bytes.load(Ordering::Relaxed).into()),
        ])?;
    }
    Ok(())
}

fn process(snapshot: &Snapshot) -> [(&'static str, Value); 2] {
    let id = i64::from(std::process::id());
    [("pid", id.into()), ("start_time", Value::Time(snapshot.server.started_us))]
}

fn proc_query_stats(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (role, figures) in ROLES {
        for query in all(snapshot) {
            let Some(figures) = figures(query) else { continue };
            let [pid, start] = process(snapshot);
            let id = ("query_id", i64::from(query.oid()).into());
            figures.add(rows, [("type", role.into()), pid, start, id])?;
        }
    }
    Ok(())
}

fn proc_stats(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (role, figures) in ROLES {
        let [pid, start] = process(snapshot);
        total(snapshot, figures).add(rows, [("type", role.into()), pid, start])?;
    }
    Ok(())
}

fn query_stats(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (role, figures) in ROLES {
        for query in all(snapshot) {
            let Some(figures) = figures(query) else { continue };
            // A transform has no state.
            let state = query.view().map(|view| (view.view.size(), view.view.disk_bytes()));
            let ((state_rows, memory), disk) = state.unwrap_or_default();
            let of = [
                ("type", role.into()),
                ("namespace", SCHEMA.into()),
                ("continuous_query", query.name().into()),
                ("state_rows", state_rows.into()),
                ("state_memory_bytes", memory.into()),
                ("state_disk_bytes", disk.into()),
            ];
            figures.add(rows, of)?;
        }
    }
    Ok(())
}

fn db_stats(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (role, figures) in ROLES {
        total(snapshot, figures).add(rows, [("type", role.into())])?;
    }
    Ok(())
}
