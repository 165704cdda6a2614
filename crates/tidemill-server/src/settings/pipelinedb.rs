//! Settings of PipelineDB that have no meaning here: taken with a notice, shown with PipelineDB's defaults.

use super::table::Effect::Replaced;
use super::table::{Kind, Unit, choice, integer, quantity, settings};

const INT_MAX: i64 = i32::MAX as i64;
const MEMORY: Kind = quantity(0, INT_MAX, Unit::Kilobytes);
const BLOCKS: Kind = quantity(0, INT_MAX, Unit::Blocks);
const TIME: Kind = quantity(0, INT_MAX, Unit::Milliseconds);
const COUNT: Kind = integer(0, INT_MAX);
const PERCENT: Kind = integer(0, 100);

const LIMIT: &str = "The memory of views and queries is bounded by \"memory_limit\".";
const DELAY: &str = "How long a commit gathers the inserts of other sessions is set by \"commit_delay\".";
const LEVEL: &str = "When an insert is acknowledged is set by \"stream_insert_level\".";
const NOTHING: &str = "";

settings! {
    "PipelineDB 1.0", Replaced(LIMIT) => {
        "pipelinedb.batch_mem": MEMORY, "256MB", User, "Sets the memory for a batch of events.";
        "pipelinedb.combiner_work_mem": MEMORY, "256MB", User, "Sets the memory of a combiner process.";
        "pipelinedb.queue_mem": MEMORY, "256MB", User, "Sets the memory of the queues between processes.";
    }
    "PipelineDB 1.0", Replaced(DELAY) => {
        "pipelinedb.max_wait": TIME, "50ms", User, "Sets the longest wait for a batch to fill.";
        "pipelinedb.commit_interval": TIME, "50ms", User, "Sets how long combiners keep results before a commit.";
    }
    "PipelineDB 1.0", Replaced(NOTHING) => {
        "pipelinedb.batch_size": COUNT, "10000", User, "Sets the number of events in a batch.";
        "pipelinedb.matrels_writable": Kind::Bool, "off", User, "Allows changes of materialization tables.";
        "pipelinedb.log_partitions": Kind::Bool, "off", User, "Logs the creation of partitions.";
        "pipelinedb.num_workers": COUNT, "1", User, "Sets the number of worker processes.";
        "pipelinedb.num_combiners": COUNT, "1", User, "Sets the number of combiner processes.";
        "pipelinedb.num_queues": COUNT, "1", User, "Sets the number of queue processes.";
        "pipelinedb.num_reapers": COUNT, "1", User, "Sets the number of reaper processes.";
        "pipelinedb.ipc_hwm": COUNT, "10", User, "Sets the high water mark of queues between processes.";
        "pipelinedb.fillfactor": PERCENT, "50", User, "Sets the fill factor of materialization tables.";
        "pipelinedb.index_fillfactor": PERCENT, "50", User, "Sets the fill factor of their indexes.";
        "pipelinedb.ttl_expiration_batch_size": COUNT, "10000", User, "Sets the number of rows that expire at once.";
        "pipelinedb.ttl_expiration_threshold": PERCENT, "5", User, "Sets the share of a TTL between expirations.";
        "pipelinedb.continuous_queries_enabled": Kind::Bool, "on", User, "Runs continuous queries.";
        "pipelinedb.anonymous_update_checks": Kind::Bool, "on", User, "Reports anonymous usage to the vendor.";
    }
    "PipelineDB 0.8 and 0.9", Replaced(LIMIT) => {
        "tuple_buffer_blocks": BLOCKS, "128MB", User, "Sets the memory of the buffer of events.";
        "continuous_query_combiner_work_mem": MEMORY, "256MB", User, "Sets the memory of a combiner process.";
        "continuous_query_combiner_cache_mem": MEMORY, "32MB", User, "Sets the memory of a combiner's cache.";
        "continuous_query_queue_mem": MEMORY, "256MB", User, "Sets the memory of the queues between processes.";
        "continuous_query_batch_mem": MEMORY, "256MB", User, "Sets the memory for a batch of events.";
    }
    "PipelineDB 0.8 and 0.9", Replaced(DELAY) => {
        "continuous_query_max_wait": TIME, "10ms", User, "Sets the longest wait for a batch to fill.";
        "continuous_query_commit_interval": TIME, "50ms", User, "Sets how long combiners keep results before a commit.";
    }
    "PipelineDB 0.8 and 0.9", Replaced(LEVEL) => {
        "continuous_query_combiner_synchronous_commit": SYNCHRONOUS_COMMIT, "off", User,
            "Sets the synchronization level of combiners.";
    }
    "PipelineDB 0.8 and 0.9", Replaced(NOTHING) => {
        "continuous_view_fillfactor": PERCENT, "50", User, "Sets the fill factor of materialization tables.";
        "continuous_query_batch_size": COUNT, "10000", User, "Sets the number of events in a batch.";
        "continuous_query_num_combiners": COUNT, "2", User, "Sets the number of combiner processes.";
        "continuous_query_num_workers": COUNT, "2", User, "Sets the number of worker processes.";
        "continuous_query_num_queues": COUNT, "1", User, "Sets the number of queue processes.";
        "continuous_query_num_reapers": COUNT, "1", User, "Sets the number of reaper processes.";
        "continuous_query_materialization_table_updatable": Kind::Bool, "off", User,
            "Allows changes of materialization tables.";
        "continuous_query_crash_recovery": Kind::Bool, "on", User, "Restarts continuous processes after a crash.";
        "continuous_query_proc_priority": Kind::Real { min: 0.0, max: 1.0 }, "1", User,
            "Sets the priority of continuous processes.";
        "continuous_query_ipc_hwm": COUNT, "10", User, "Sets the high water mark of queues between processes.";
        "continuous_query_ipc_directory": Kind::Text, "", User, "Sets the directory of sockets between processes.";
        "continuous_query_ttl_expiration_batch_size": COUNT, "10000", User, "Sets the number of rows that expire at once.";
        "continuous_query_ttl_expiration_threshold": PERCENT, "5", User, "Sets the share of a TTL between expirations.";
        "continuous_queries_enabled": Kind::Bool, "on", User, "Runs continuous queries.";
        "continuous_queries_adhoc_enabled": Kind::Bool, "off", User, "Allows continuous queries without a view.";
        "anonymous_update_checks": Kind::Bool, "on", User, "Reports anonymous usage to the vendor.";
    }
}

const SYNCHRONOUS_COMMIT: Kind = choice(&["local", "remote_write", "remote_apply", "on", "off"]);
