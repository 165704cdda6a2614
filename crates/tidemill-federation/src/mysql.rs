//! MySQL and MariaDB.

mod check;
mod connect;
mod dialect;
mod import;
mod keep;
mod kind;
mod login;
mod scan;
mod write;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use tidemill_sql::Result;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::Scalar;

use crate::bound::Bounds;
use crate::connector::{Aggregate, Capabilities, Connector, ImportedTable, Logic, RemoteQuery, Writer};
use crate::dialect::Comparison;
use crate::fact::TableFacts;
use crate::option::{Check, OptionSpec, Options, Place, Support};
use crate::snapshot::Shared;
use crate::table::TableDefinition;
use connect::Pool;
use dialect::MysqlDialect;

const SERVER: &[Place] = &[Place::Server];
const MAPPING: &[Place] = &[Place::UserMapping];
const TABLE: &[Place] = &[Place::Table];
const SERVER_AND_TABLE: &[Place] = &[Place::Server, Place::Table];
const IMPORT: &[Place] = &[Place::Import];

/// The options of `mysql_fdw`, in its order.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("host", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("port", SERVER, Check::Port, Support::Yes),
    OptionSpec::new("init_command", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("username", MAPPING, Check::Text, Support::Yes),
    OptionSpec::new("password", MAPPING, Check::Text, Support::Yes),
    OptionSpec::new("dbname", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("table_name", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("column_name", &[Place::Column], Check::Text, Support::Yes),
    OptionSpec::new("connect_timeout", SERVER, Check::Count, Support::Yes),
    OptionSpec::new("secure_auth", SERVER, Check::Bool, Support::NoEffect("old passwords are never sent")),
    OptionSpec::new("max_blob_size", TABLE, Check::Count, Support::NoEffect("values are never cut")),
    OptionSpec::new("use_remote_estimate", SERVER, Check::Bool, Support::NoEffect("costs are not estimated")),
    OptionSpec::new(
        "fetch_size",
        SERVER_AND_TABLE,
        Check::Positive,
        Support::NoEffect("rows come without a cursor"),
    ),
    OptionSpec::new(
        "reconnect",
        SERVER,
        Check::Bool,
        Support::NoEffect("a lost connection is always made anew"),
    ),
    OptionSpec::new("character_set", SERVER, Check::Text, Support::NoEffect("texts come in UTF-8")),
    OptionSpec::new("ssl_key", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("ssl_cert", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("ssl_ca", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("sslmode", SERVER, Check::OneOf(login::MODES), Support::Yes),
    OptionSpec::new("ssl_capath", SERVER, Check::Text, Support::No),
    OptionSpec::new("ssl_cipher", SERVER, Check::Text, Support::No),
    OptionSpec::new("import_not_null", IMPORT, Check::Bool, Support::Yes),
    OptionSpec::new("import_default", IMPORT, Check::OneOf(&["false", "off", "0"]), Support::Yes),
    OptionSpec::new(
        "import_generated",
        IMPORT,
        Check::Bool,
        Support::NoEffect("the server is asked which columns it makes"),
    ),
];

/// Not numeric, whose zeros behind the point differ; not uuid, json and interval, which are texts there.
const COMPARED: &[Scalar] = &[
    Scalar::Bool,
    Scalar::Int2,
    Scalar::Int4,
    Scalar::Int8,
    Scalar::Float4,
    Scalar::Float8,
    Scalar::Text,
    Scalar::Varchar,
    Scalar::Bytea,
    Scalar::Date,
    Scalar::Time,
    Scalar::Timestamp,
    Scalar::Timestamptz,
];
/// Floats have two zeros.
const GROUPED: &[Scalar] = &[
    Scalar::Bool,
    Scalar::Int2,
    Scalar::Int4,
    Scalar::Int8,
    Scalar::Text,
    Scalar::Varchar,
    Scalar::Bytea,
    Scalar::Date,
    Scalar::Time,
    Scalar::Timestamp,
    Scalar::Timestamptz,
];
const EXTREMES: &[Scalar] = &[
    Scalar::Int2,
    Scalar::Int4,
    Scalar::Int8,
    Scalar::Float4,
    Scalar::Float8,
    Scalar::Text,
    Scalar::Varchar,
    Scalar::Date,
    Scalar::Time,
    Scalar::Timestamp,
    Scalar::Timestamptz,
];
const SUMMED: &[Scalar] = &[Scalar::Int2, Scalar::Int4, Scalar::Float4, Scalar::Float8];

pub(crate) static CAPABILITIES: Capabilities = Capabilities {
    dialect: &MysqlDialect,
    label: "Remote SQL",
    comparisons: &Comparison::ALL,
    lists: true,
    logic: &[Logic::And, Logic::Or, Logic::Not, Logic::IsNull, Logic::Truth],
    equal: COMPARED,
    ordered: COMPARED,
    grouped: GROUPED,
    grouped_by_key: &[],
    aggregates: &[
        Aggregate { names: &["count"], of: &[] },
        Aggregate { names: &["sum", "avg"], of: SUMMED },
        Aggregate { names: &["min", "max"], of: EXTREMES },
    ],
    joins: false,
    limit: true,
    sort: true,
    functions: &[],
    functions_in_utc: &[],
    casts: &[],
    casts_in_utc: &[],
    mixed: &[],
    cases: false,
    modifiers: false,
    prunes: false,
};

pub fn connector(name: &str, server: &Options, mapping: &Options) -> Result<Arc<dyn Connector>> {
    Ok(Arc::new(Mysql { pool: Arc::new(Pool::new(name, server, mapping)?) }))
}

#[derive(Debug)]
struct Mysql {
    pool: Arc<Pool>,
}

#[async_trait]
impl Connector for Mysql {
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    /// There is no snapshot that several connections read.
    fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        bounds: Bounds,
        _: Option<Arc<Shared>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream {
        scan::rows(Arc::clone(&self.pool), query, schema, bounds.batch_rows, counted)
    }

    /// A schema is a database.
    async fn tables(
        &self,
        schema: &str,
        selection: &ImportSelection,
        _: &Options,
    ) -> Result<Option<Vec<ImportedTable>>> {
        import::tables(&self.pool, schema, selection).await
    }

    /// Only which columns are compared there as something else.
    async fn facts(&self, table: &TableDefinition, _: &[usize]) -> Result<Arc<TableFacts>> {
        check::facts(&self.pool, table).await
    }

    async fn probe(&self) -> Result<()> {
        self.pool.probe().await
    }

    fn address(&self) -> Option<String> {
        Some(self.pool.address.clone())
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn connections(&self) -> usize {
        self.pool.connections()
    }

    async fn begin(&self, _: bool) -> Result<Box<dyn Writer>> {
        Ok(Box::new(write::Transaction::begin(Arc::clone(&self.pool)).await?))
    }
}
