//! SQLite: a database is a file, or several in a folder by options of their own.

mod dialect;
mod import;
mod scan;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::Scalar;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::connector::{Aggregate, Capabilities, Connector, ImportedTable, Logic, RemoteQuery};
use crate::dialect::Comparison;
use crate::option::{Check, OptionSpec, Options, Place, Support};
use crate::snapshot::Shared;
use dialect::SqliteDialect;

const SERVER: &[Place] = &[Place::Server];
const SERVER_AND_TABLE: &[Place] = &[Place::Server, Place::Table];
const READ_ONLY: Support = Support::NoEffect("foreign tables are only read");

/// The options of `sqlite_fdw`, in its order.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("database", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("table", &[Place::Table], Check::Text, Support::Yes),
    OptionSpec::new("key", &[Place::Column], Check::Bool, READ_ONLY),
    OptionSpec::new("column_name", &[Place::Column], Check::Text, Support::Yes),
    OptionSpec::new("column_type", &[Place::Column], Check::OneOf(&["INT", "TEXT", "BLOB"]), Support::Yes),
    OptionSpec::new("truncatable", SERVER_AND_TABLE, Check::Bool, READ_ONLY),
    OptionSpec::new(
        "keep_connections",
        SERVER,
        Check::Bool,
        Support::NoEffect("a file is opened for each scan"),
    ),
    OptionSpec::new("batch_size", SERVER_AND_TABLE, Check::Positive, READ_ONLY),
];

/// What is stored strictly as one kind of value. Not float4, which SQLite has as float8; no dates and times, which it has as
/// texts of many forms; no numeric, which it has as float8.
const EQUAL: &[Scalar] = &[
    Scalar::Bool,
    Scalar::Int2,
    Scalar::Int4,
    Scalar::Int8,
    Scalar::Float8,
    Scalar::Text,
    Scalar::Varchar,
    Scalar::Name,
    Scalar::Bytea,
];
const GROUPED: &[Scalar] = &[
    Scalar::Bool,
    Scalar::Int2,
    Scalar::Int4,
    Scalar::Int8,
    Scalar::Text,
    Scalar::Varchar,
    Scalar::Name,
    Scalar::Bytea,
];
const NUMBERS: &[Scalar] =
    &[Scalar::Bool, Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float8, Scalar::Bytea];

const EXTREMES: &[Scalar] =
    &[Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float8, Scalar::Text, Scalar::Varchar, Scalar::Name];
const NUMERIC_EXTREMES: &[Scalar] = &[Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float8];

/// Sums of floats are made here: SQLite's are rounded in another way, and it has no NaN.
const AGGREGATES: &[Aggregate] = &[
    Aggregate { names: &["count"], of: &[] },
    Aggregate { names: &["sum", "avg"], of: &[Scalar::Int2, Scalar::Int4] },
    Aggregate { names: &["min", "max"], of: EXTREMES },
];

pub(crate) static CAPABILITIES: Capabilities = Capabilities {
    dialect: &SqliteDialect,
    label: "Remote SQL",
    comparisons: &Comparison::ALL,
    lists: true,
    logic: &[Logic::And, Logic::Or, Logic::Not, Logic::IsNull, Logic::Truth],
    equal: EQUAL,
    ordered: EQUAL,
    grouped: GROUPED,
    grouped_by_key: &[],
    aggregates: AGGREGATES,
    joins: false,
    limit: true,
    sort: true,
    functions: &[],
    casts: &[],
    cases: false,
    prunes: false,
};

/// A database in UTF-16 has texts in the order of other bytes.
static UTF_16: Capabilities = Capabilities {
    dialect: &SqliteDialect,
    label: "Remote SQL",
    comparisons: &Comparison::ALL,
    lists: true,
    logic: &[Logic::And, Logic::Or, Logic::Not, Logic::IsNull, Logic::Truth],
    equal: EQUAL,
    ordered: NUMBERS,
    grouped: GROUPED,
    grouped_by_key: &[],
    aggregates: &[
        Aggregate { names: &["count"], of: &[] },
        Aggregate { names: &["sum", "avg"], of: &[Scalar::Int2, Scalar::Int4] },
        Aggregate { names: &["min", "max"], of: NUMERIC_EXTREMES },
    ],
    joins: false,
    limit: true,
    sort: true,
    functions: &[],
    casts: &[],
    cases: false,
    prunes: false,
};

pub fn connector(name: &str, server: &Options, _: &Options) -> Result<Arc<dyn Connector>> {
    let Some(database) = server.get("database") else {
        let message = format!("server \"{name}\" has no database");
        return Err(SqlError::new(SqlState::FDW_ERROR, message)
            .with_hint(format!("ALTER SERVER {name} OPTIONS (ADD database '/path/of/the/file').")));
    };
    let (name, path) = (name.to_string(), PathBuf::from(database));
    Ok(Arc::new(Sqlite { database: Database { name, path }, capabilities: OnceLock::new() }))
}

#[derive(Debug)]
struct Sqlite {
    database: Database,
    capabilities: OnceLock<&'static Capabilities>,
}

/// The file of a server.
#[derive(Debug, Clone)]
struct Database {
    /// The server's name.
    name: String,
    path: PathBuf,
}

#[async_trait]
impl Connector for Sqlite {
    fn capabilities(&self) -> &'static Capabilities {
        self.capabilities.get_or_init(|| match is_utf_16(&self.database.path) {
            true => &UTF_16,
            false => &CAPABILITIES,
        })
    }

    fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        batch_rows: usize,
        shared: Option<Arc<Shared>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream {
        scan::rows(self.database.clone(), query, schema, batch_rows, shared, counted)
    }

    /// SQLite has no schemas: whatever is named is the database.
    async fn tables(
        &self,
        _: &str,
        selection: &ImportSelection,
        _: &Options,
    ) -> Result<Option<Vec<ImportedTable>>> {
        let (database, selection) = (self.database.clone(), selection.clone());
        let tables = tokio::task::spawn_blocking(move || import::tables(&database, &selection));
        tables.await.map_err(|error| SqlError::internal(error.to_string()))?.map(Some)
    }
}

/// The header of a database says in which encoding its texts are.
fn is_utf_16(path: &Path) -> bool {
    let mut header = [0; 60];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && matches!(header[56..60], [0, 0, 0, 2 | 3])
}

impl Database {
    /// Blocks.
    fn open(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&self.path, flags).and_then(|connection| {
            connection.busy_timeout(BUSY_MAX)?;
            // A name that is unknown is an error, not a text.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
            // Reads the header, so that a file that is no database is found out here.
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(connection)
        });
        opened.map_err(|error| {
            let message = format!("could not connect to server \"{}\"", self.name);
            let detail = format!("{}: {}", self.path.display(), cause(&error));
            SqlError::new(SqlState::UNABLE_TO_ESTABLISH_CONNECTION, message).with_detail(detail)
        })
    }

    /// What is said of a query that failed.
    fn failed(&self, query: &RemoteQuery, error: &rusqlite::Error) -> SqlError {
        let said = cause(error);
        let context = format!("remote SQL command on server \"{}\": {}", self.name, query.sql);
        let state = match said.as_str() {
            "integer overflow" => return SqlError::out_of_range("bigint").with_context(context),
            said if said.starts_with("no such table") => SqlState::UNDEFINED_TABLE,
            said if said.starts_with("no such column") => SqlState::UNDEFINED_COLUMN,
            _ => SqlState::FDW_ERROR,
        };
        let message = match state {
            SqlState::FDW_ERROR => format!("server \"{}\": {said}", self.name),
            _ => format!("foreign table \"{}\" does not fit server \"{}\": {said}", query.table, self.name),
        };
        SqlError::new(state, message).with_context(context)
    }
}

/// How long a writer may keep the database to itself.
const BUSY_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Without what the library says around it.
fn cause(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(said)) => match said.rsplit_once(" in \"") {
            Some((said, _)) => said.to_string(),
            None => said.clone(),
        },
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}
