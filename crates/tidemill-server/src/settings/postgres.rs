//! Settings of PostgreSQL that clients set or read.

use super::table::Effect::{Honoured, None};
use super::table::{Kind, Unit, choice, integer, quantity, settings};

const INT_MAX: i64 = i32::MAX as i64;
const TIMEOUT: Kind = quantity(0, INT_MAX, Unit::Milliseconds);
const COST: Kind = Kind::Real { min: 0.0, max: f64::MAX };
const ISOLATION: Kind = choice(&["serializable", "repeatable read", "read committed", "read uncommitted"]);
/// Spellings of on and off beside those that are listed.
const BOOLEAN: &[(&str, &str)] =
    &[("true", "on"), ("yes", "on"), ("1", "on"), ("false", "off"), ("no", "off"), ("0", "off")];

settings! {
    "Preset Options", Honoured => {
        "server_version": Kind::Text, super::SERVER_VERSION, Internal, "Shows the server version.";
        "server_version_num": integer(150_000, 150_000), "150000", Internal, "Shows the server version as an integer.";
        "server_encoding": Kind::Text, "UTF8", Internal, "Shows the server (database) character set encoding.";
        "integer_datetimes": Kind::Bool, "on", Internal, "Shows whether datetimes are integer based.";
        "in_hot_standby": Kind::Bool, "off", Internal, "Shows whether hot standby is currently active.";
        "is_superuser": Kind::Bool, "on", Internal, "Shows whether the current user is a superuser.";
        "max_identifier_length": integer(63, 63), "63", Internal, "Shows the maximum identifier length.";
        "max_index_keys": integer(32, 32), "32", Internal, "Shows the maximum number of index keys.";
        "max_function_args": integer(100, 100), "100", Internal, "Shows the maximum number of function arguments.";
        "block_size": integer(8192, 8192), "8192", Internal, "Shows the size of a disk block.";
        "data_checksums": Kind::Bool, "on", Internal, "Shows whether data checksums are turned on for this cluster.";
        "lc_collate": Kind::Text, "C.UTF-8", Internal, "Shows the collation order locale.";
        "lc_ctype": Kind::Text, "C.UTF-8", Internal, "Shows the character classification and case conversion locale.";
        "ssl": Kind::Bool, "off", Internal, "Shows whether SSL connections are accepted.";
        "max_prepared_transactions": integer(0, 0), "0", Internal,
            "Shows the maximum number of simultaneously prepared transactions.";
    }
    "Client Connection Defaults / Statement Behavior", Honoured => {
        "search_path": Kind::Names, "\"$user\", public", User,
            "Sets the schema search order for names that are not schema-qualified.";
        "statement_timeout": TIMEOUT, "0", User, "Sets the maximum allowed duration of any statement.";
        "lock_timeout": TIMEOUT, "0", User, "Sets the maximum allowed duration of any wait for a lock.";
        "idle_in_transaction_session_timeout": TIMEOUT, "0", User,
            "Sets the maximum allowed idle time between queries, when in a transaction.";
        "idle_session_timeout": TIMEOUT, "0", User,
            "Sets the maximum allowed idle time between queries, when not in a transaction.";
        "client_min_messages": Kind::Enum {
                values: &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"],
                aliases: &[("debug", "debug2"), ("info", "info")],
            },
            "notice", User, "Sets the message levels that are sent to the client.";
        "bytea_output": choice(&["escape", "hex"]), "hex", User, "Sets the output format for bytea.";
        "default_transaction_isolation": ISOLATION, "read committed", User,
            "Sets the transaction isolation level of each new transaction.";
        "default_transaction_read_only": Kind::Bool, "off", User, "Sets the default read-only status of new transactions.";
        "default_transaction_deferrable": Kind::Bool, "off", User, "Sets the default deferrable status of new transactions.";
        "transaction_isolation": ISOLATION, "read committed", User, "Sets the current transaction's isolation level.";
        "transaction_read_only": Kind::Bool, "off", User, "Sets the current transaction's read-only status.";
        "transaction_deferrable": Kind::Bool, "off", User,
            "Whether to defer a read-only serializable transaction until it can be executed with no possible serialization \
             failures.";
        "role": Kind::Text, "none", User, "Sets the current role.";
        "session_authorization": Kind::Text, "", User, "Sets the session user name.";
    }
    "Client Connection Defaults / Locale and Formatting", Honoured => {
        "client_encoding": Kind::Text, "UTF8", User, "Sets the client's character set encoding.";
        "DateStyle": Kind::Words, "ISO, MDY", User, "Sets the display format for date and time values.";
        "IntervalStyle": choice(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]), "postgres", User,
            "Sets the display format for interval values.";
        "TimeZone": Kind::Text, "UTC", User, "Sets the time zone for displaying and interpreting time stamps.";
        "extra_float_digits": integer(-15, 3), "1", User, "Sets the number of digits displayed for floating-point values.";
        "lc_messages": Kind::Text, "C.UTF-8", User, "Sets the language in which messages are displayed.";
        "lc_monetary": Kind::Text, "C.UTF-8", User, "Sets the locale for formatting monetary amounts.";
        "lc_numeric": Kind::Text, "C.UTF-8", User, "Sets the locale for formatting numbers.";
        "lc_time": Kind::Text, "C.UTF-8", User, "Sets the locale for formatting date and time values.";
    }
    "Reporting and Logging", Honoured => {
        "application_name": Kind::Text, "", User, "Sets the application name to be reported in statistics and logs.";
    }
    "Version and Platform Compatibility", Honoured => {
        "standard_conforming_strings": Kind::Bool, "on", User, "Causes '...' strings to treat backslashes literally.";
    }
    "Client Connection Defaults / Statement Behavior", None => {
        "row_security": Kind::Bool, "on", User, "Enable row security.";
        "check_function_bodies": Kind::Bool, "on", User, "Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE.";
        "default_tablespace": Kind::Text, "", User, "Sets the default tablespace to create tables and indexes in.";
        "temp_tablespaces": Kind::Names, "", User, "Sets the tablespace(s) to use for temporary tables and sort files.";
        "default_table_access_method": Kind::Text, "heap", User, "Sets the default table access method for new tables.";
        "default_toast_compression": choice(&["pglz", "lz4"]), "pglz", User,
            "Sets the default compression method for compressible values.";
        "session_replication_role": choice(&["origin", "replica", "local"]), "origin", User,
            "Sets the session's behavior for triggers and rewrite rules.";
        "xmlbinary": choice(&["base64", "hex"]), "base64", User, "Sets how binary values are to be encoded in XML.";
        "xmloption": choice(&["content", "document"]), "content", User,
            "Sets whether XML data in implicit parsing and serialization operations is to be considered as documents or \
             content fragments.";
        "default_text_search_config": Kind::Text, "pg_catalog.english", User,
            "Sets default text search configuration.";
        "timezone_abbreviations": Kind::Text, "Default", User, "Selects a file of time zone abbreviations.";
    }
    "Version and Platform Compatibility", None => {
        "array_nulls": Kind::Bool, "on", User, "Enable input of NULL elements in arrays.";
        "backslash_quote": Kind::Enum { values: &["safe_encoding", "on", "off"], aliases: BOOLEAN }, "safe_encoding", User,
            "Sets whether \"\\'\" is allowed in string literals.";
        "escape_string_warning": Kind::Bool, "on", User, "Warn about backslash escapes in ordinary string literals.";
        "lo_compat_privileges": Kind::Bool, "off", User,
            "Enables backward compatibility mode for privilege checks on large objects.";
        "quote_all_identifiers": Kind::Bool, "off", User, "When generating SQL fragments, quote all identifiers.";
        "synchronize_seqscans": Kind::Bool, "on", User, "Enable synchronized sequential scans.";
        "transform_null_equals": Kind::Bool, "off", User, "Treats \"expr=NULL\" as \"expr IS NULL\".";
    }
    "Connections and Authentication", None => {
        "password_encryption": choice(&["md5", "scram-sha-256"]), "scram-sha-256", User,
            "Chooses the algorithm for encrypting passwords.";
        "tcp_keepalives_idle": quantity(0, INT_MAX, Unit::Seconds), "0", User, "Time between issuing TCP keepalives.";
        "tcp_keepalives_interval": quantity(0, INT_MAX, Unit::Seconds), "0", User,
            "Time between TCP keepalive retransmits.";
        "tcp_keepalives_count": integer(0, INT_MAX), "0", User, "Maximum number of TCP keepalive retransmits.";
        "tcp_user_timeout": TIMEOUT, "0", User, "TCP user timeout.";
        "client_connection_check_interval": TIMEOUT, "0", User,
            "Sets the time interval between checks for disconnection while running queries.";
    }
    "Reporting and Logging", None => {
        "log_statement": choice(&["none", "ddl", "mod", "all"]), "none", User, "Sets the type of statements logged.";
        "log_min_duration_statement": quantity(-1, INT_MAX, Unit::Milliseconds), "-1", User,
            "Sets the minimum execution time above which all statements will be logged.";
        "log_duration": Kind::Bool, "off", User, "Logs the duration of each completed SQL statement.";
    }
    "Write-Ahead Log", None => {
        "synchronous_commit": Kind::Enum { values: &["local", "remote_write", "remote_apply", "on", "off"], aliases: BOOLEAN },
            "on", User, "Sets the current transaction's synchronization level.";
    }
    "Resource Usage", None => {
        "work_mem": quantity(64, INT_MAX, Unit::Kilobytes), "4MB", User,
            "Sets the maximum memory to be used for query workspaces.";
        "maintenance_work_mem": quantity(1024, INT_MAX, Unit::Kilobytes), "64MB", User,
            "Sets the maximum memory to be used for maintenance operations.";
        "temp_buffers": quantity(100, INT_MAX / 2, Unit::Blocks), "8MB", User,
            "Sets the maximum number of temporary buffers used by each session.";
        "max_parallel_workers_per_gather": integer(0, 1024), "2", User,
            "Sets the maximum number of parallel processes per executor node.";
    }
    "Query Tuning", None => {
        "enable_bitmapscan": Kind::Bool, "on", User, "Enables the planner's use of bitmap-scan plans.";
        "enable_hashagg": Kind::Bool, "on", User, "Enables the planner's use of hashed aggregation plans.";
        "enable_hashjoin": Kind::Bool, "on", User, "Enables the planner's use of hash join plans.";
        "enable_indexonlyscan": Kind::Bool, "on", User, "Enables the planner's use of index-only-scan plans.";
        "enable_indexscan": Kind::Bool, "on", User, "Enables the planner's use of index-scan plans.";
        "enable_material": Kind::Bool, "on", User, "Enables the planner's use of materialization.";
        "enable_mergejoin": Kind::Bool, "on", User, "Enables the planner's use of merge join plans.";
        "enable_nestloop": Kind::Bool, "on", User, "Enables the planner's use of nested-loop join plans.";
        "enable_seqscan": Kind::Bool, "on", User, "Enables the planner's use of sequential-scan plans.";
        "enable_sort": Kind::Bool, "on", User, "Enables the planner's use of explicit sort steps.";
        "constraint_exclusion": Kind::Enum { values: &["partition", "on", "off"], aliases: BOOLEAN }, "partition", User,
            "Enables the planner to use constraints to optimize queries.";
        "cursor_tuple_fraction": Kind::Real { min: 0.0, max: 1.0 }, "0.1", User,
            "Sets the planner's estimate of the fraction of a cursor's rows that will be retrieved.";
        "default_statistics_target": integer(1, 10_000), "100", User, "Sets the default statistics target.";
        "effective_cache_size": quantity(1, INT_MAX, Unit::Blocks), "4GB", User,
            "Sets the planner's assumption about the total size of the data caches.";
        "from_collapse_limit": integer(1, INT_MAX), "8", User,
            "Sets the FROM-list size beyond which subqueries are not collapsed.";
        "geqo": Kind::Bool, "on", User, "Enables genetic query optimization.";
        "jit": Kind::Bool, "on", User, "Allow JIT compilation.";
        "join_collapse_limit": integer(1, INT_MAX), "8", User,
            "Sets the FROM-list size beyond which JOIN constructs are not flattened.";
        "plan_cache_mode": choice(&["auto", "force_generic_plan", "force_custom_plan"]), "auto", User,
            "Controls the planner's selection of custom or generic plan.";
        "random_page_cost": COST, "4", User,
            "Sets the planner's estimate of the cost of a nonsequentially fetched disk page.";
        "seq_page_cost": COST, "1", User, "Sets the planner's estimate of the cost of a sequentially fetched disk page.";
    }
}
