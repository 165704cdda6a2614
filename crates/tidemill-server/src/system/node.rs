//! `tidemill.nodes`: whether the foreign servers are there; `tidemill.last_query_nodes`: what the last query that read
//! any of them got from each; `tidemill.deliveries`: what transforms write to foreign tables.

use tidemill_federation::health::cause;
use tidemill_federation::node::State;
use tidemill_sql::Result;
use tidemill_sql::types::{Scalar, Type};

use super::{Rows, Snapshot, SystemRelation, TIDEMILL, Value};
use crate::catalog::Relation;

const TEXT: Type = Type::new(Scalar::Text);
const INT4: Type = Type::new(Scalar::Int4);
const INT8: Type = Type::new(Scalar::Int8);
const FLOAT8: Type = Type::new(Scalar::Float8);
const TIME: Type = Type::new(Scalar::Timestamptz);

const NODES: &[(&str, Type)] = &[
    ("server", TEXT),
    ("wrapper", TEXT),
    ("state", TEXT),
    ("state_changed_at", TIME),
    ("checked_at", TIME),
    ("latency_ms", FLOAT8),
    ("connections", INT4),
    ("error", TEXT),
];

const LAST_QUERY_NODES: &[(&str, Type)] = &[
    ("node", TEXT),
    ("server", TEXT),
    ("table_name", TEXT),
    ("state", TEXT),
    ("rows", INT8),
    ("bytes", INT8),
    ("time_ms", FLOAT8),
    ("error", TEXT),
    ("remote_sql", TEXT),
];

const DELIVERIES: &[(&str, Type)] = &[
    ("transform", TEXT),
    ("table_name", TEXT),
    ("server", TEXT),
    ("waiting_rows", INT8),
    ("waiting_bytes", INT8),
    ("delivered_rows", INT8),
    ("failing_since", TIME),
    ("error", TEXT),
];

pub(super) fn relations() -> Vec<SystemRelation> {
    vec![
        SystemRelation::new(TIDEMILL, "deliveries", DELIVERIES, deliveries),
        SystemRelation::new(TIDEMILL, "nodes", NODES, nodes),
        SystemRelation::new(TIDEMILL, "last_query_nodes", LAST_QUERY_NODES, last_query_nodes),
    ]
}

fn nodes(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for server in &snapshot.servers {
        let Some(known) = server.reached().health().map(|health| health.known()) else { continue };
        rows.add([
            ("server", (&server.object.name).into()),
            ("wrapper", (&server.object.wrapper).into()),
            ("state", known.state.as_str().into()),
            ("state_changed_at", Value::Time(known.since_us)),
            ("checked_at", known.checked_us.map_or(Value::Null, Value::Time)),
            ("latency_ms", known.latency.map(|latency| latency.as_secs_f64() * 1e3).into()),
            ("connections", server.reached().connections().into()),
            ("error", known.error.as_ref().map(cause).into()),
        ])?;
    }
    Ok(())
}

fn last_query_nodes(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for node in snapshot.session.nodes.iter().flat_map(|nodes| nodes.all()) {
        rows.add([
            ("node", node.name().into()),
            ("server", (&node.server).into()),
            ("table_name", (&node.table).into()),
            ("state", node.state().as_str().into()),
            ("rows", node.rows().into()),
            ("bytes", node.bytes().into()),
            ("time_ms", node.time().map(|time| time.as_secs_f64() * 1e3).into()),
            ("error", node.error().into()),
            ("remote_sql", node.remote_sql().as_ref().into()),
        ])?;
        // What a server that is a node itself has left out.
        for below in node.below().into_iter().filter(|below| below.is_skipped) {
            rows.add([
                ("node", below.node.into()),
                ("server", (&node.server).into()),
                ("table_name", (&node.table).into()),
                ("state", State::Skipped.as_str().into()),
                ("rows", below.rows.into()),
                ("bytes", Value::Null),
                ("time_ms", Value::Null),
                ("error", below.error.into()),
                ("remote_sql", Value::Null),
            ])?;
        }
    }
    Ok(())
}

fn deliveries(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    let of = |oid: u32| {
        let found = snapshot.relations.iter().find(|relation| relation.oid() == oid);
        found.and_then(|relation| if let Relation::Foreign(table) = relation { Some(table) } else { None })
    };
    for relation in &snapshot.relations {
        let Relation::Transform(transform) = relation else { continue };
        for delivery in &transform.deliveries {
            let Some(table) = of(delivery.output()) else { continue };
            let server = snapshot.servers.iter().find(|server| server.oid == table.object.server);
            let ((waiting_rows, waiting_bytes), status) = (delivery.backlog(), delivery.status());
            rows.add([
                ("transform", (&transform.object.name).into()),
                ("table_name", (&table.object.name).into()),
                ("server", server.map(|server| server.object.name.clone()).into()),
                ("waiting_rows", waiting_rows.into()),
                ("waiting_bytes", waiting_bytes.into()),
                ("delivered_rows", status.delivered_rows.into()),
                ("failing_since", status.failing_since_us.map_or(Value::Null, Value::Time)),
                ("error", status.error.as_ref().map(cause).into()),
            ])?;
        }
    }
    Ok(())
}
