//! What the server tells of itself in figures: one list, which `http` serves to Prometheus and `tidemill.metrics` shows.
//!
//! Names are Prometheus's: base units, `_total` for what only grows, `process_` for what every process has. Counters
//! start with the server. A label is the name of an object; neither texts of queries nor options of servers are in it.

mod exposition;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::execution::memory_pool::MemoryLimit;
use tidemill_federation::health::{Known, State as NodeState};
use tidemill_stream::transform::Transform;
use tidemill_stream::view::View;

use crate::activity::State;
use crate::catalog::{ContinuousTransform, ForeignServer, Relation, StreamStats};
use crate::delivery::Delivery;
use crate::server::Server;

pub use exposition::{CONTENT_TYPE, write};

/// One name with its figures: as many as there are objects of that kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    pub samples: Vec<Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, from the start of the server.
    Counter,
    Gauge,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

use Kind::{Counter, Gauge};

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Counter => "counter",
            Gauge => "gauge",
        }
    }
}

/// Name, kind, help, and the figure of one object, if it is known.
type Row<T> = (&'static str, Kind, &'static str, fn(&T) -> Option<f64>);

const OF_SERVER: &[Row<Server>] = &[
    ("process_start_time_seconds", Gauge, "When the server was started, in seconds since 1970.", |server| {
        Some(seconds(server.started_us))
    }),
    ("process_resident_memory_bytes", Gauge, "Memory that the process holds.", |_| resident_bytes()),
    ("tidemill_sessions_max", Gauge, "Sessions that there may be (max_connections).", |server| {
        Some(server.config.settings.max_connections() as f64)
    }),
    ("tidemill_query_memory_bytes", Gauge, "Memory that all queries together have taken.", |server| {
        Some(server.memory.reserved() as f64)
    }),
    ("tidemill_query_memory_limit_bytes", Gauge, "Memory that all queries together may take.", |server| {
        match server.memory.memory_limit() {
            MemoryLimit::Finite(bytes) => Some(bytes as f64),
            MemoryLimit::Infinite | MemoryLimit::Unknown => None,
        }
    }),
    ("tidemill_log_bytes", Gauge, "Size of the log, since the last checkpoint and before it.", |server| {
        Some(server.engine.log_bytes() as f64)
    }),
    ("tidemill_disk_bytes", Gauge, "What log, runs and catalog take on disk.", |server| {
        Some(server.disk_bytes() as f64)
    }),
    (
        "tidemill_plans_reused_total",
        Counter,
        "Queries of foreign servers that were carried out by a plan that was kept.",
        |server| Some(server.catalog.plans.uses() as f64),
    ),
    ("tidemill_commits_total", Counter, "Commit groups: log records of writes.", |server| {
        Some(server.engine.commits() as f64)
    }),
];

const OF_STREAM: &[Row<StreamStats>] = &[
    (
        "tidemill_stream_input_rows_total",
        Counter,
        "Events that were given to the stream, also those that a view has refused.",
        |s| load(&s.rows),
    ),
    ("tidemill_stream_input_batches_total", Counter, "Batches in which they came.", |s| load(&s.batches)),
    ("tidemill_stream_input_bytes_total", Counter, "Bytes of the events in memory.", |s| load(&s.bytes)),
];

const OF_VIEW: &[Row<View>] = &[
    ("tidemill_view_active", Gauge, "1 if the continuous view takes in what is written.", |v| {
        flag(v.is_active())
    }),
    (
        "tidemill_view_input_rows_total",
        Counter,
        "Events that the view was given, also those that it has refused.",
        |v| load(&v.stats.input_rows),
    ),
    ("tidemill_view_input_batches_total", Counter, "Batches in which they came.", |v| {
        load(&v.stats.input_batches)
    }),
    ("tidemill_view_input_bytes_total", Counter, "Bytes of the events in memory.", |v| {
        load(&v.stats.input_bytes)
    }),
    ("tidemill_view_errors_total", Counter, "Writes that an expression of the view has refused.", |v| {
        load(&v.stats.errors)
    }),
    ("tidemill_view_fold_seconds_total", Counter, "Time that folding events has taken.", |v| {
        Some(seconds_of(&v.stats.fold_us))
    }),
    ("tidemill_view_deltas_total", Counter, "Deltas of state that were applied.", |v| load(&v.stats.deltas)),
    ("tidemill_view_delta_rows_total", Counter, "Groups in the deltas of state.", |v| {
        load(&v.stats.delta_rows)
    }),
    ("tidemill_view_delta_bytes_total", Counter, "Bytes of the deltas of state.", |v| {
        load(&v.stats.delta_bytes)
    }),
    ("tidemill_view_apply_seconds_total", Counter, "Time that applying deltas of state has taken.", |v| {
        Some(seconds_of(&v.stats.apply_us))
    }),
    (
        "tidemill_view_groups",
        Gauge,
        "Groups in the state; those in several of its parts count once a part.",
        |v| Some(v.size().0 as f64),
    ),
    ("tidemill_view_state_memory_bytes", Gauge, "Memory that the state takes.", |v| Some(v.size().1 as f64)),
    ("tidemill_view_state_disk_bytes", Gauge, "What the runs of the state take on disk.", |v| {
        Some(v.disk_bytes() as f64)
    }),
];

const OF_TRANSFORM: &[Row<Transform>] = &[
    ("tidemill_transform_active", Gauge, "1 if the continuous transform takes in what is written.", |t| {
        flag(t.is_active())
    }),
    (
        "tidemill_transform_input_rows_total",
        Counter,
        "Events that the transform was given, also those that it has refused.",
        |t| load(&t.stats.input_rows),
    ),
    ("tidemill_transform_output_rows_total", Counter, "Rows that it has made of them.", |t| {
        load(&t.stats.output_rows)
    }),
    ("tidemill_transform_errors_total", Counter, "Writes that an expression of it has refused.", |t| {
        load(&t.stats.errors)
    }),
    ("tidemill_transform_run_seconds_total", Counter, "Time that it has taken.", |t| {
        Some(seconds_of(&t.stats.run_us))
    }),
];

const OF_DELIVERY: &[Row<Delivery>] = &[
    ("tidemill_delivery_waiting_rows", Gauge, "Rows that the foreign table has not got yet.", |d| {
        Some(d.backlog().0 as f64)
    }),
    ("tidemill_delivery_waiting_bytes", Gauge, "What they take in memory and on disk.", |d| {
        Some(d.backlog().1 as f64)
    }),
    ("tidemill_delivery_delivered_rows_total", Counter, "Rows that it has got.", |d| {
        Some(d.status().delivered_rows as f64)
    }),
    ("tidemill_delivery_failing", Gauge, "1 if the last attempt to deliver has failed.", |d| {
        flag(d.status().error.is_some())
    }),
];

/// A foreign server with what the probe has found.
type Probed = (Arc<ForeignServer>, Known);

const OF_NODE: &[Row<Probed>] = &[
    (
        "tidemill_node_up",
        Gauge,
        "1 if the foreign server answers, 0 if it does not or nobody knows yet.",
        |(_, known)| flag(matches!(known.state, NodeState::Up | NodeState::Slow)),
    ),
    (
        "tidemill_node_state_changed_timestamp_seconds",
        Gauge,
        "Since when it is in its state.",
        |(_, known)| Some(seconds(known.since_us)),
    ),
    (
        "tidemill_node_checked_timestamp_seconds",
        Gauge,
        "When it was last asked whether it is there.",
        |(_, known)| known.checked_us.map(seconds),
    ),
    ("tidemill_node_latency_seconds", Gauge, "How long its last answer to that took.", |(_, known)| {
        known.latency.map(|latency| latency.as_secs_f64())
    }),
    ("tidemill_node_connections", Gauge, "Connections to it that are open.", |(server, _)| {
        Some(server.reached().connections() as f64)
    }),
];

/// All figures of this moment; `relations` and `servers` are those of the catalog.
pub fn collect(server: &Server, relations: &[Relation], servers: &[Arc<ForeignServer>]) -> Vec<Metric> {
    let nodes: Vec<Probed> = servers
        .iter()
        .filter_map(|server| Some((Arc::clone(server), server.reached().health().map(|h| h.known())?)))
        .collect();
    let streams = relations.iter().filter_map(|relation| match relation {
        Relation::Stream(stream) => Some((vec![("stream", stream.object.name.clone())], &*stream.stats)),
        _ => None,
    });
    let views = relations.iter().filter_map(|relation| match relation {
        Relation::View(view) => Some((vec![("view", view.object.name.clone())], &*view.view)),
        _ => None,
    });
    let transforms: Vec<_> = relations
        .iter()
        .filter_map(|relation| if let Relation::Transform(t) = relation { Some(t) } else { None })
        .collect();
    let name = |t: &ContinuousTransform| ("transform", t.object.name.clone());
    let deliveries = transforms.iter().flat_map(|t| {
        let labels = |d: &Delivery| vec![name(t), ("table", d.name().to_string())];
        t.deliveries.iter().map(move |delivery| (labels(delivery), &**delivery))
    });
    let mut metrics = vec![build(), sessions(server)];
    metrics.extend(of_each(OF_SERVER, &[(vec![], server)]));
    metrics.extend(of_each(OF_STREAM, &streams.collect::<Vec<_>>()));
    metrics.extend(of_each(OF_VIEW, &views.collect::<Vec<_>>()));
    let of_transforms: Vec<_> = transforms.iter().map(|t| (vec![name(t)], &*t.transform)).collect();
    metrics.extend(of_each(OF_TRANSFORM, &of_transforms));
    metrics.extend(of_each(OF_DELIVERY, &deliveries.collect::<Vec<_>>()));
    metrics.push(states(&nodes));
    metrics.extend(of_each(OF_NODE, &nodes.iter().map(|node| (labels(node), node)).collect::<Vec<_>>()));
    metrics
}

type Labels = Vec<(&'static str, String)>;

/// A metric a row, with a sample an object.
fn of_each<T>(rows: &[Row<T>], objects: &[(Labels, &T)]) -> Vec<Metric> {
    let metric = |(name, kind, help, figure): &Row<T>| {
        let sample = |(labels, object): &(Labels, &T)| {
            figure(object).map(|value| Sample { labels: labels.clone(), value })
        };
        Metric { name, kind: *kind, help, samples: objects.iter().filter_map(sample).collect() }
    };
    rows.iter().map(metric).collect()
}

fn build() -> Metric {
    let labels = vec![("version", env!("CARGO_PKG_VERSION").to_string())];
    Metric {
        name: "tidemill_build_info",
        kind: Gauge,
        help: "Always 1, with the version.",
        samples: vec![Sample { labels, value: 1.0 }],
    }
}

fn sessions(server: &Server) -> Metric {
    let states: Vec<State> = server.sessions().iter().map(|session| session.now().state).collect();
    let sample = |state: State| Sample {
        labels: vec![("state", state.as_str().to_string())],
        value: states.iter().filter(|is| **is == state).count() as f64,
    };
    Metric {
        name: "tidemill_sessions",
        kind: Gauge,
        help: "Sessions by state, as in pg_stat_activity.",
        samples: State::ALL.map(sample).to_vec(),
    }
}

/// A sample for each state that a node may be in, so that a query over time can name it.
fn states(nodes: &[Probed]) -> Metric {
    let sample = |node: &Probed, state: NodeState| {
        let mut labels = labels(node);
        labels.push(("state", state.as_str().to_string()));
        Sample { labels, value: f64::from(u8::from(node.1.state == state)) }
    };
    Metric {
        name: "tidemill_node_state",
        kind: Gauge,
        help: "1 for the state that the foreign server is in.",
        samples: nodes.iter().flat_map(|node| NodeState::ALL.map(|state| sample(node, state))).collect(),
    }
}

fn labels((server, _): &Probed) -> Labels {
    vec![("server", server.object.name.clone()), ("wrapper", server.object.wrapper.clone())]
}

fn load(counter: &AtomicU64) -> Option<f64> {
    Some(counter.load(Ordering::Relaxed) as f64)
}

fn flag(is_so: bool) -> Option<f64> {
    Some(f64::from(u8::from(is_so)))
}

fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

fn seconds_of(us: &AtomicU64) -> f64 {
    us.load(Ordering::Relaxed) as f64 / 1e6
}

/// As the kernel tells it; `None` on systems without `/proc`.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = kilobytes.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}
