//! The values that a session works by, read once when a setting changes and not at every statement.

use std::sync::Arc;
use std::time::Duration;

use tidemill_federation::node::DeadNodes;
use tidemill_federation::pushdown::Pushdown;
use tidemill_sql::text::TimeZone;

use super::check::DateOrder;
use super::table::{Kind, SETTINGS, find};
use super::value::{Value, split_names};
use crate::pg::wire_error::Severity;

/// When an insert into a stream is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InsertLevel {
    /// Accepted in memory.
    Async,
    /// Applied to the views.
    SyncReceive,
    /// Synced to disk.
    SyncCommit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteaOutput {
    Hex,
    Escape,
}

/// Settings in the form in which they are used. `None` for a time limit is no limit.
#[derive(Debug, Clone)]
pub struct Current {
    pub application_name: Arc<str>,
    pub bytea_output: ByteaOutput,
    pub date_order: DateOrder,
    pub extra_float_digits: i32,
    pub idle_in_transaction_session_timeout: Option<Duration>,
    pub idle_session_timeout: Option<Duration>,
    pub insert_level: InsertLevel,
    pub lock_timeout: Option<Duration>,
    pub search_path: Arc<[String]>,
    pub sliding_window_step_factor: u8,
    pub statement_timeout: Option<Duration>,
    /// The views that read what this session writes; empty for all.
    pub stream_targets: Arc<[String]>,
    pub zone: TimeZone,
    /// What one query may use of memory.
    pub query_memory_limit_bytes: usize,
    /// What the writes of one transaction may use of memory before it commits.
    pub transaction_memory_limit_bytes: usize,
    /// What is left to foreign servers.
    pub pushdown: Pushdown,
    /// What happens when a node of a multi-tenant table is not there.
    pub cascade_route: Arc<str>,
    pub dead_nodes: DeadNodes,
    min_severity: Severity,
    changed: bool,
}

impl Current {
    /// `value` gives the value of a setting by its place in the table.
    pub(super) fn new(value: impl Fn(usize) -> Value) -> Self {
        let value =
            |name: &str| value(find(name).expect("the names below are in the table, which a test checks"));
        let text = |name: &str| Kind::Text.raw(&value(name));
        let names = |name: &str| -> Arc<[String]> { split_names(&text(name)).unwrap_or_default().into() };
        let timeout = |name: &str| duration(name, &value(name)).filter(|limit| !limit.is_zero());
        let bytes = |name: &str| usize::try_from(integer(&value(name)) * 1024).unwrap_or(usize::MAX);
        Self {
            application_name: text("application_name").into(),
            bytea_output: if text("bytea_output") == "escape" {
                ByteaOutput::Escape
            } else {
                ByteaOutput::Hex
            },
            date_order: DateOrder::of(&text("DateStyle")),
            extra_float_digits: integer(&value("extra_float_digits")) as i32,
            idle_in_transaction_session_timeout: timeout("idle_in_transaction_session_timeout"),
            idle_session_timeout: timeout("idle_session_timeout"),
            insert_level: match text("stream_insert_level").as_str() {
                "async" => InsertLevel::Async,
                "sync_receive" => InsertLevel::SyncReceive,
                _ => InsertLevel::SyncCommit,
            },
            lock_timeout: timeout("lock_timeout"),
            search_path: names("search_path"),
            sliding_window_step_factor: integer(&value("sliding_window_step_factor")) as u8,
            statement_timeout: timeout("statement_timeout"),
            stream_targets: names("stream_targets"),
            zone: TimeZone::parse(&text("TimeZone")).unwrap_or(TimeZone::UTC),
            query_memory_limit_bytes: bytes("query_memory_limit"),
            transaction_memory_limit_bytes: bytes("transaction_memory_limit"),
            pushdown: Pushdown {
                filters: value("enable_foreign_filters") == Value::Bool(true),
                aggregates: value("enable_foreign_aggregates") == Value::Bool(true),
                eager_aggregates: value("enable_foreign_eager_aggregates") == Value::Bool(true),
                joins: value("enable_foreign_joins") == Value::Bool(true),
                top_k: value("enable_foreign_top_k") == Value::Bool(true),
                dynamic_filters: value("enable_foreign_dynamic_filters") == Value::Bool(true),
                scan_connections: integer(&value("foreign_scan_connections")) as usize,
                dynamic_filter_wait: timeout("foreign_dynamic_filter_wait").unwrap_or_default(),
            },
            dead_nodes: DeadNodes {
                skip: text("on_dead_node") == "skip",
                skipped_max: text("max_skipped_nodes").parse().unwrap_or(f64::INFINITY),
            },
            cascade_route: text("cascade_route").into(),
            min_severity: match text("client_min_messages").as_str() {
                "error" => Severity::Error,
                "warning" => Severity::Warning,
                "notice" | "info" => Severity::Notice,
                "log" => Severity::Log,
                _ => Severity::Debug,
            },
            changed: false,
        }
    }

    /// Whether the client wants to be told things of this severity; INFO always goes.
    pub fn shows(&self, severity: Severity) -> bool {
        severity == Severity::Info || severity >= self.min_severity
    }

    pub(super) fn mark_changed(&mut self) {
        self.changed = true;
    }

    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

/// The number of an integer setting, in its base unit; 0 for other kinds, which the callers do not ask for.
pub(super) fn integer(value: &Value) -> i64 {
    if let Value::Integer(number) = value { *number } else { 0 }
}

/// The time that an integer setting with a unit of time stands for.
pub(super) fn duration(name: &str, value: &Value) -> Option<Duration> {
    let Kind::Integer { unit: Some(unit), .. } = SETTINGS[find(name)?].kind else {
        return None;
    };
    let (_, microseconds) = unit.base();
    Some(Duration::from_micros(u64::try_from(integer(value) * microseconds).unwrap_or(0)))
}
