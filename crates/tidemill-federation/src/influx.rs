//! InfluxDB 1.x: a measurement is a table of its time, its tags and its fields.

mod answer;
mod dialect;
mod http;
mod import;
mod scan;
mod write;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::Scalar;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::bound::Bounds;
use crate::connector::{Capabilities, Connector, ImportedTable, Logic, RemoteQuery, Writer};
use crate::dialect::Comparison;
use crate::option::{Check, OptionSpec, Options, Place, Support};
use crate::snapshot::Shared;
use dialect::InfluxDialect;
use http::Address;

const SERVER: &[Place] = &[Place::Server];
const TABLE: &[Place] = &[Place::Table];

/// The options of `influxdb_fdw`, in its order.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("host", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("port", SERVER, Check::Port, Support::Yes),
    OptionSpec::new("dbname", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("connect_timeout", SERVER, Check::Count, Support::Yes),
    OptionSpec::new("sslmode", SERVER, Check::OneOf(&["require", "verify-ca", "verify-full"]), Support::Yes),
    OptionSpec::new("sslrootcert", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("sslcert", &[Place::Server, Place::UserMapping], Check::Text, Support::Yes),
    OptionSpec::new("sslkey", &[Place::Server, Place::UserMapping], Check::Text, Support::Yes),
    OptionSpec::new("user", &[Place::UserMapping], Check::Text, Support::Yes),
    OptionSpec::new("password", &[Place::UserMapping], Check::Text, Support::Yes),
    OptionSpec::new("table", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("column_name", &[Place::Column], Check::Text, Support::Yes),
    OptionSpec::new("tags", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("schemaless", TABLE, Check::OneOf(&["false", "off", "0"]), Support::Yes),
    OptionSpec::new(
        "batch_size",
        &[Place::Server, Place::Table],
        Check::Positive,
        Support::NoEffect("rows are always sent many at once"),
    ),
];

const NUMBERS: &[Scalar] =
    &[Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float8, Scalar::Timestamp, Scalar::Timestamptz];

/// A field that is null fulfils no comparison, as in SQL; a tag that is not there is an empty text, so that texts are only
/// compared for equality with one that is not empty. Aggregates leave out groups without values, so they are made here; LIMIT is
/// of rows.
pub(crate) static CAPABILITIES: Capabilities = Capabilities {
    comparisons: &[
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ],
    lists: true,
    logic: &[Logic::And, Logic::Or, Logic::Truth],
    equal: &[
        Scalar::Bool,
        Scalar::Int2,
        Scalar::Int4,
        Scalar::Int8,
        Scalar::Float8,
        Scalar::Text,
        Scalar::Varchar,
        Scalar::Timestamp,
        Scalar::Timestamptz,
    ],
    ordered: NUMBERS,
    limit: true,
    ..Capabilities::none(&InfluxDialect, "Remote InfluxQL")
};

/// What `influxdb_fdw` says of the options of a server as a whole.
pub fn check(place: Place, options: &Options) -> Result<()> {
    let Some(host) = options.get("host").filter(|_| place == Place::Server) else { return Ok(()) };
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    if host.contains('@') {
        // It is not shown: it may have a password.
        return invalid("option \"host\" has a user or a password before an \"@\"".to_string())
            .map_err(|error| error.with_hint("They are options of the user mapping: user, password."));
    }
    match host.split_once("://") {
        Some((scheme, _)) if !["http", "https"].contains(&scheme) => {
            invalid(format!("invalid value for option \"host\": \"{host}\"")).map_err(|error| {
                error.with_hint("It is a name or an address, or begins with http:// or https://.")
            })
        }
        _ => Ok(()),
    }
}

pub fn connector(name: &str, server: &Options, mapping: &Options) -> Result<Arc<dyn Connector>> {
    Ok(Arc::new(Influx { address: Arc::new(Address::new(name, server, mapping)?) }))
}

#[derive(Debug)]
struct Influx {
    address: Arc<Address>,
}

#[async_trait]
impl Connector for Influx {
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        bounds: Bounds,
        _: Option<Arc<Shared>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream {
        scan::rows(Arc::clone(&self.address), query, schema, bounds.batch_rows, counted)
    }

    /// There are no schemas: whatever is named is the database.
    async fn tables(
        &self,
        _: &str,
        selection: &ImportSelection,
        _: &Options,
    ) -> Result<Option<Vec<ImportedTable>>> {
        import::tables(&self.address, selection).await.map(Some)
    }

    async fn probe(&self) -> Result<()> {
        self.address.ping().await
    }

    fn address(&self) -> Option<String> {
        Some(self.address.shown())
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn changes_rows(&self) -> bool {
        false
    }

    async fn begin(&self, _: bool) -> Result<Box<dyn Writer>> {
        Ok(Box::new(write::Points::new(Arc::clone(&self.address))))
    }
}
