//! Settings that are Tidemill's own, and those of PostgreSQL that place the server: ports, files, limits, the log.

use super::table::Effect::{Honoured, Replaced};
use super::table::{Kind, Unit, integer, quantity, settings};

/// The largest value of PostgreSQL's integer settings.
const INT_MAX: i64 = i32::MAX as i64;

settings! {
    "Connections and Authentication", Honoured => {
        "listen_addresses": Kind::Words, "localhost", Postmaster,
            "Sets the host names or IP addresses to listen to, separated by commas.";
        "port": integer(1, 65535), "7432", Postmaster, "Sets the TCP port the server listens on.";
        "unix_socket_directories": Kind::Words, ".", Postmaster,
            "Sets the directories where Unix-domain sockets will be created; relative to the data directory.";
        "metrics_listen": Kind::Words, "", Postmaster,
            "Sets the addresses and ports where GET /metrics (for Prometheus) and GET /health are answered to whoever asks, separated by commas; empty for nowhere.";
        "max_connections": integer(1, 262_143), "100", Postmaster, "Sets the maximum number of concurrent connections.";
        "authentication_timeout": quantity(1, 600, Unit::Seconds), "1min", Postmaster,
            "Sets the maximum allowed time to complete client authentication.";
    }
    "File Locations", Honoured => {
        "data_directory": Kind::Text, "", Postmaster, "Sets the server's data directory.";
        "config_file": Kind::Text, "", Postmaster, "Sets the server's main configuration file.";
    }
    "Resource Usage / Memory", Honoured => {
        "memory_limit": quantity(64 << 10, INT_MAX, Unit::Kilobytes), "1GB", Postmaster,
            "Sets the memory for the state of continuous views and for queries together; writers wait and queries fail beyond it.";
        "query_memory_limit": quantity(1 << 10, INT_MAX, Unit::Kilobytes), "256MB", User,
            "Sets the memory that one query or cursor may use; sorts and joins go to disk beyond it, what can't fails.";
        "transaction_memory_limit": quantity(1 << 10, INT_MAX, Unit::Kilobytes), "256MB", User,
            "Sets the memory that the writes of one transaction may use before it commits.";
    }
    "Streams and Continuous Views", Honoured => {
        "stream_insert_level": Kind::Enum { values: &["async", "sync_receive", "sync_commit"], aliases: &[] },
            "sync_commit", User,
            "Sets when an insert into a stream is acknowledged: accepted in memory, applied to the views, or synced to disk.";
        "synchronous_stream_insert": Kind::Bool, "on", User,
            "PipelineDB's older form of stream_insert_level: on is sync_commit, off is async.";
        "stream_targets": Kind::Names, "", User,
            "Sets the continuous views that read what this session writes; empty for all.";
        "sliding_window_step_factor": integer(1, 50), "5", User,
            "Sets the default step of a sliding window, as a percentage of its length.";
        "checkpoint_log_size": quantity(64, INT_MAX, Unit::Kilobytes), "256kB", Postmaster,
            "Sets the size of the log that triggers a checkpoint; it is twice the state's size if that is more.";
        "commit_delay": quantity(0, 100_000, Unit::Microseconds), "0", Postmaster,
            "Sets how long a group commit gathers the inserts of other sessions before it syncs.";
    }
    "Foreign Servers", Honoured => {
        "enable_foreign_filters": Kind::Bool, "on", User,
            "Lets foreign servers judge conditions and stop at a LIMIT.";
        "enable_foreign_aggregates": Kind::Bool, "on", User, "Lets foreign servers fold rows into partial aggregates.";
        "enable_foreign_eager_aggregates": Kind::Bool, "on", User,
            "Lets foreign servers fold the rows of one side of a join before they are joined.";
        "enable_foreign_joins": Kind::Bool, "on", User, "Lets foreign servers join tables that they have both.";
        "enable_foreign_top_k": Kind::Bool, "on", User, "Lets foreign servers find the first rows of an order.";
        "enable_foreign_dynamic_filters": Kind::Bool, "on", User,
            "Lets foreign servers leave out rows without a partner in a join with few rows.";
        "foreign_scan_connections": integer(1, 16), "4", User,
            "Sets how many connections to a foreign server read one large table, if all of it is wanted.";
        "foreign_dynamic_filter_wait": quantity(0, 600_000, Unit::Milliseconds), "500ms", User,
            "Sets how long a foreign server is not asked for the rows of a join, to know which have a partner.";
        "on_dead_node": Kind::Enum { values: &["error", "skip"], aliases: &[] }, "error", User,
            "Sets what a query of a multi-tenant table does about a node that is not there: it fails, or leaves it out with a warning.";
        "max_skipped_nodes": Kind::Real { min: 0.0, max: 1000.0 }, "1000", User,
            "Sets how many nodes of a multi-tenant table may be left out: below 1 a share of them, from 1 on a number.";
        "cascade_route": Kind::Text, "", User,
            "Tells the way that a statement has come through servers that are nodes of each other; they set it themselves.";
        "transform_backlog_limit": quantity(1 << 10, INT_MAX, Unit::Kilobytes), "4GB", Postmaster,
            "Sets the bytes that may wait for one foreign table that a continuous transform writes to; writers of events are refused beyond it.";
        "node_check_interval": quantity(10, 3_600_000, Unit::Milliseconds), "1s", Postmaster,
            "Sets how often each foreign server is asked whether it is there.";
        "node_check_timeout": quantity(10, 3_600_000, Unit::Milliseconds), "5s", Postmaster,
            "Sets after which time without an answer a foreign server is down.";
        "pgspider_core_fdw.throw_error_ifdead": Kind::Bool, "on", User,
            "PGSpider's form of on_dead_node: on is error, off is skip.";
    }
    "Foreign Servers", Replaced("A warning names the nodes that are missing from an answer.") => {
        "pgspider_core_fdw.print_error_nodes": Kind::Bool, "on", User, "Tells which nodes are missing.";
    }
    "Reporting and Logging", Honoured => {
        "log_min_messages": Kind::Enum {
                values: &["debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log",
                    "fatal", "panic"],
                aliases: &[("debug", "debug2")],
            },
            "info", Postmaster, "Sets the message levels that are logged.";
    }
}
