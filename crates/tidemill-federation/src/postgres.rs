//! PostgreSQL, and whatever speaks its protocol.

mod capability;
mod column;
mod connect;
mod deferred;
pub mod dialect;
mod error;
mod facts;
mod fate;
mod generated;
mod import;
mod insert;
mod outlet;
mod running;
mod scan;
mod snapshot;
mod socket;
mod tap;
mod tls;
mod value;
mod vigil;
mod write;

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use socket2::TcpKeepalive;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::{Result, SqlError, SqlState};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::bound::Bounds;
use crate::connector::{Capabilities, Connector, Fate, ImportedTable, RemoteQuery, Writer};
use crate::fact::TableFacts;
use crate::keepalive;
use crate::option::{Check, OptionSpec, Options, Place, Support, parse_bool};
use crate::room::{CONNECTION_WAIT, CONNECTIONS_MAX, Room};
use crate::snapshot::Shared;
use crate::table::TableDefinition;
pub(crate) use capability::{CAPABILITIES, OF_TIDEMILL};
use connect::Pool;
use facts::Facts;
use socket::Address;
use tls::Tls;

/// How long a connection may take to be there, unless the server's options say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const PORT: u16 = 5432;
const HOST: &str = "localhost";
const USER: &str = "postgres";

const SERVER: &[Place] = &[Place::Server];
const MAPPING: &[Place] = &[Place::UserMapping];
const SERVER_AND_TABLE: &[Place] = &[Place::Server, Place::Table];
const TABLE: &[Place] = &[Place::Table];
const COLUMN: &[Place] = &[Place::Column];
const IMPORT: &[Place] = &[Place::Import];

const NO_COSTS: Support = Support::NoEffect("costs are not estimated");
const NO_CURSOR: Support = Support::NoEffect("rows come without a cursor");

/// The options of `postgres_fdw`, in its order, and how many connections there may be.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("service", SERVER, Check::Text, Support::No),
    OptionSpec::new("passfile", SERVER, Check::Text, Support::No),
    OptionSpec::new("channel_binding", SERVER, Check::Text, Support::No),
    OptionSpec::new("connect_timeout", SERVER, Check::Count, Support::Yes),
    OptionSpec::new("dbname", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("host", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("hostaddr", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("port", SERVER, Check::Port, Support::Yes),
    OptionSpec::new("options", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("application_name", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("keepalives", SERVER, Check::Count, Support::Yes),
    OptionSpec::new("keepalives_idle", SERVER, Check::Count, Support::Yes),
    OptionSpec::new("keepalives_interval", SERVER, Check::Count, Support::Yes),
    OptionSpec::new("keepalives_count", SERVER, Check::Count, Support::Yes),
    OptionSpec::new("tcp_user_timeout", SERVER, Check::Count, Support::Yes),
    OptionSpec::new("sslmode", SERVER, Check::OneOf(crate::tls::MODES), Support::Yes),
    OptionSpec::new("sslcert", &[Place::Server, Place::UserMapping], Check::Text, Support::Yes),
    OptionSpec::new("sslkey", &[Place::Server, Place::UserMapping], Check::Text, Support::Yes),
    OptionSpec::new("sslrootcert", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("sslcrl", SERVER, Check::Text, Support::No),
    OptionSpec::new("target_session_attrs", SERVER, Check::Text, Support::No),
    OptionSpec::new("fdw_startup_cost", SERVER, Check::Quantity, NO_COSTS),
    OptionSpec::new("fdw_tuple_cost", SERVER, Check::Quantity, NO_COSTS),
    OptionSpec::new("extensions", SERVER, Check::Text, Support::NoEffect("functions of extensions run here")),
    OptionSpec::new("keep_connections", SERVER, Check::Bool, Support::Yes),
    OptionSpec::new(
        "parallel_commit",
        SERVER,
        Check::Bool,
        Support::NoEffect("servers commit one after the other"),
    ),
    OptionSpec::new("max_connections", SERVER, Check::Positive, Support::Yes),
    OptionSpec::new("connection_wait", SERVER, Check::Count, Support::Yes),
    OptionSpec::new("user", MAPPING, Check::Text, Support::Yes),
    OptionSpec::new("password", MAPPING, Check::Text, Support::Yes),
    OptionSpec::new("sslpassword", MAPPING, Check::Text, Support::No),
    OptionSpec::new("password_required", MAPPING, Check::Bool, Support::NoEffect("there is one user")),
    OptionSpec::new("schema_name", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("table_name", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("column_name", COLUMN, Check::Text, Support::Yes),
    OptionSpec::new("use_remote_estimate", SERVER_AND_TABLE, Check::Bool, NO_COSTS),
    OptionSpec::new("updatable", SERVER_AND_TABLE, Check::Bool, Support::Yes),
    OptionSpec::new("truncatable", SERVER_AND_TABLE, Check::Bool, Support::Yes),
    OptionSpec::new("fetch_size", SERVER_AND_TABLE, Check::Positive, NO_CURSOR),
    OptionSpec::new(
        "batch_size",
        SERVER_AND_TABLE,
        Check::Positive,
        Support::NoEffect("rows are always sent many at once"),
    ),
    OptionSpec::new(
        "async_capable",
        SERVER_AND_TABLE,
        Check::Bool,
        Support::NoEffect("servers are always read at the same time"),
    ),
    OptionSpec::new("import_not_null", IMPORT, Check::Bool, Support::Yes),
    OptionSpec::new(
        "import_collate",
        IMPORT,
        Check::Bool,
        Support::NoEffect("texts are compared by their bytes"),
    ),
    OptionSpec::new("import_default", IMPORT, Check::OneOf(&["false", "off", "0"]), Support::Yes),
    OptionSpec::new(
        "import_generated",
        IMPORT,
        Check::Bool,
        Support::NoEffect("the server is asked which columns it makes"),
    ),
];

pub fn connector(name: &str, server: &Options, mapping: &Options) -> Result<Arc<dyn Connector>> {
    connector_with(&CAPABILITIES, name, server, mapping)
}

/// Another Tidemill.
pub fn of_tidemill(name: &str, server: &Options, mapping: &Options) -> Result<Arc<dyn Connector>> {
    connector_with(&OF_TIDEMILL, name, server, mapping)
}

fn connector_with(
    capabilities: &'static Capabilities,
    name: &str,
    server: &Options,
    mapping: &Options,
) -> Result<Arc<dyn Connector>> {
    let (address, config) = (address(server, mapping)?, config(server, mapping));
    let connect_timeout = match number(server, "connect_timeout")? {
        None | Some(0) => CONNECT_TIMEOUT,
        Some(seconds) => Duration::from_secs(seconds),
    };
    let keeps = server.get("keep_connections").and_then(parse_bool).unwrap_or(true);
    let connections_max =
        number(server, "max_connections")?.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let wait = number(server, "connection_wait")?.map(Duration::from_secs);
    let room = Room::new(name, connections_max.unwrap_or(CONNECTIONS_MAX), wait.unwrap_or(CONNECTION_WAIT));
    let pool = Arc::new(Pool::new(name, address, config, connect_timeout, keeps, room));
    Ok(Arc::new(Postgres { capabilities, pool, facts: Facts::default() }))
}

fn address(server: &Options, mapping: &Options) -> Result<Address> {
    let parse = |address: &str| {
        address.parse().map_err(|_| {
            let message = format!("could not parse network address \"{address}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })
    };
    let user_timeout = number(server, "tcp_user_timeout")?.filter(|ms| *ms > 0);
    Ok(Address {
        host: server.get("host").or(server.get("hostaddr")).unwrap_or(HOST).to_string(),
        hostaddr: server.get("hostaddr").map(parse).transpose()?,
        port: number(server, "port")?.and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT),
        keepalive: keepalive(server)?,
        user_timeout: user_timeout.map(Duration::from_millis),
        tls: Tls::new(server, mapping)?,
    })
}

fn keepalive(server: &Options) -> Result<Option<TcpKeepalive>> {
    if number(server, "keepalives")? == Some(0) {
        return Ok(None);
    }
    let positive = |name| number(server, name).map(|value| value.filter(|value| *value > 0));
    let idle = positive("keepalives_idle")?.map_or(keepalive::IDLE, Duration::from_secs);
    let interval = positive("keepalives_interval")?.map_or(keepalive::INTERVAL, Duration::from_secs);
    let count =
        positive("keepalives_count")?.map_or(keepalive::COUNT, |count| count.try_into().unwrap_or(u32::MAX));
    Ok(Some(TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(count)))
}

fn config(server: &Options, mapping: &Options) -> Config {
    let mut config = Config::new();
    // The socket encrypts, if anything does.
    config.ssl_mode(SslMode::Disable);
    config.user(mapping.get("user").unwrap_or(USER));
    if let Some(password) = mapping.get("password") {
        config.password(password);
    }
    if let Some(database) = server.get("dbname") {
        config.dbname(database);
    }
    config.application_name(server.get("application_name").unwrap_or("tidemill"));
    if let Some(options) = server.get("options") {
        config.options(options);
    }
    config
}

fn number(options: &Options, name: &str) -> Result<Option<u64>> {
    let parse = |value: &str| {
        value.trim().parse().map_err(|_| {
            let message = format!("invalid integer value \"{value}\" for connection option \"{name}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })
    };
    options.get(name).map(parse).transpose()
}

#[derive(Debug)]
struct Postgres {
    capabilities: &'static Capabilities,
    pool: Arc<Pool>,
    facts: Facts,
}

#[async_trait]
impl Connector for Postgres {
    fn capabilities(&self) -> &'static Capabilities {
        self.capabilities
    }

    fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        bounds: Bounds,
        shared: Option<Arc<Shared>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream {
        scan::rows(Arc::clone(&self.pool), query, schema, bounds, shared, counted)
    }

    async fn tables(
        &self,
        schema: &str,
        selection: &ImportSelection,
        _: &Options,
    ) -> Result<Option<Vec<ImportedTable>>> {
        import::tables(&self.pool, schema, selection).await
    }

    async fn facts(&self, table: &TableDefinition, used: &[usize]) -> Result<Arc<TableFacts>> {
        self.facts.of(&self.pool, table, used).await
    }

    async fn probe(&self) -> Result<()> {
        self.pool.probe().await
    }

    fn is_cascade(&self) -> bool {
        self.pool.is_tidemill() != Some(false)
    }

    fn address(&self) -> Option<String> {
        Some(self.pool.address.shown())
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn connections(&self) -> usize {
        self.pool.connections()
    }

    async fn fate(&self, id: &str) -> Result<Fate> {
        fate::of(&self.pool, id).await
    }

    async fn begin(&self, is_block: bool) -> Result<Box<dyn Writer>> {
        Ok(Box::new(write::Transaction::begin(&self.pool, is_block).await?))
    }
}
