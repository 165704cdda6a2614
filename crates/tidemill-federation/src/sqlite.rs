//! SQLite: a database is a file, or several in a folder by options of their own.

mod declared;
mod dialect;
mod import;
mod scan;
mod write;

use std::io::{ErrorKind, Read};
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

use crate::bound::Bounds;
use crate::connector::{Aggregate, Capabilities, Connector, ImportedTable, Logic, RemoteQuery, Writer};
use crate::dialect::Comparison;
use crate::option::{Check, OptionSpec, Options, Place, Support};
use crate::regular;
use crate::snapshot::Shared;
use dialect::SqliteDialect;

const SERVER: &[Place] = &[Place::Server];
const SERVER_AND_TABLE: &[Place] = &[Place::Server, Place::Table];

/// The options of `sqlite_fdw`, in its order.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("database", SERVER, Check::Text, Support::Yes),
    OptionSpec::new("table", &[Place::Table], Check::Text, Support::Yes),
    OptionSpec::new(
        "key",
        &[Place::Column],
        Check::Bool,
        Support::NoEffect("rows are changed by a condition"),
    ),
    OptionSpec::new("column_name", &[Place::Column], Check::Text, Support::Yes),
    OptionSpec::new("column_type", &[Place::Column], Check::OneOf(&["INT", "TEXT", "BLOB"]), Support::Yes),
    OptionSpec::new("import_not_null", &[Place::Import], Check::Bool, Support::Yes),
    OptionSpec::new("import_default", &[Place::Import], Check::OneOf(&["false", "off", "0"]), Support::Yes),
    OptionSpec::new("truncatable", SERVER_AND_TABLE, Check::Bool, Support::Yes),
    OptionSpec::new(
        "keep_connections",
        SERVER,
        Check::Bool,
        Support::NoEffect("a file is opened for each scan"),
    ),
    OptionSpec::new(
        "batch_size",
        SERVER_AND_TABLE,
        Check::Positive,
        Support::NoEffect("rows are all of one transaction"),
    ),
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
    functions_in_utc: &[],
    casts: &[],
    casts_in_utc: &[],
    mixed: &[],
    cases: false,
    modifiers: false,
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
    functions_in_utc: &[],
    casts: &[],
    casts_in_utc: &[],
    mixed: &[],
    cases: false,
    modifiers: false,
    prunes: false,
};

/// A database that is nowhere but in memory, or in a file without a name, is empty and goes with its connection.
pub fn check(place: Place, options: &Options) -> Result<()> {
    match options.get("database").filter(|_| place == Place::Server) {
        Some(none @ ("" | ":memory:")) => {
            let message = format!("invalid value for option \"database\": \"{none}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .with_hint("It is the path of a file."))
        }
        _ => Ok(()),
    }
}

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
        bounds: Bounds,
        shared: Option<Arc<Shared>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream {
        scan::rows(self.database.clone(), query, schema, bounds.batch_rows, shared, counted)
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

    /// Looks at the file without a lock, for which it might have to wait.
    async fn probe(&self) -> Result<()> {
        let database = self.database.clone();
        let probed = tokio::task::spawn_blocking(move || database.probe());
        probed.await.map_err(|error| SqlError::internal(error.to_string()))?
    }

    fn is_writable(&self) -> bool {
        true
    }

    async fn begin(&self, _: bool) -> Result<Box<dyn Writer>> {
        Ok(Box::new(write::Transaction::begin(self.database.clone()).await?))
    }
}

/// The header of a database says in which encoding its texts are.
fn is_utf_16(path: &Path) -> bool {
    let mut header = [0; 60];
    let read = regular::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && matches!(header[56..60], [0, 0, 0, 2 | 3])
}

impl Database {
    /// Blocks.
    fn open(&self) -> Result<Connection> {
        self.open_with(OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn open_with(&self, access: OpenFlags) -> Result<Connection> {
        // What is not there is for SQLite to tell.
        if let Err(error) = regular::check(&self.path)
            && error.kind() == ErrorKind::InvalidInput
        {
            return Err(self.not_connected(&told(&error)));
        }
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&self.path, flags).and_then(|connection| {
            connection.busy_timeout(BUSY_MAX)?;
            // A name that is unknown is an error, not a text.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
            // Reads the header, so that a file that is no database is found out here.
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(connection)
        });
        opened.map_err(|error| self.not_connected(&cause(&error)))
    }

    fn not_connected(&self, cause: &str) -> SqlError {
        let message = format!("could not connect to server \"{}\"", self.name);
        let detail = format!("{}: {cause}", self.path.display());
        SqlError::new(SqlState::UNABLE_TO_ESTABLISH_CONNECTION, message).with_detail(detail)
    }

    /// Blocks. Whether the file is a database, which may be empty.
    fn probe(&self) -> Result<()> {
        let file = regular::open(&self.path);
        let mut file = file.map_err(|error| self.not_connected(&told(&error)))?;
        let mut header = [0; HEADER.len()];
        match file.read(&mut header) {
            Ok(0) => Ok(()),
            Ok(read) if header[..read] == *HEADER => Ok(()),
            Ok(_) => Err(self.not_connected("file is not a database")),
            Err(error) => Err(self.not_connected(&told(&error))),
        }
    }

    /// What is said of a query that failed.
    fn failed(&self, query: &RemoteQuery, error: &rusqlite::Error) -> SqlError {
        let said = cause(error);
        let context = format!("remote SQL command on server \"{}\": {}", self.name, query.excerpt());
        let state = match said.as_str() {
            "integer overflow" => return SqlError::out_of_range("bigint").with_context(context),
            said if said.starts_with("no such table") => SqlState::UNDEFINED_TABLE,
            said if said.starts_with("no such column") => SqlState::UNDEFINED_COLUMN,
            said if said.contains(" has no column named ") => SqlState::UNDEFINED_COLUMN,
            said if said.ends_with(" already exists") => SqlState::DUPLICATE_TABLE,
            _ => refusal(error),
        };
        let message = match state {
            SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN => {
                format!("foreign table \"{}\" does not fit server \"{}\": {said}", query.table, self.name)
            }
            _ => format!("server \"{}\": {said}", self.name),
        };
        SqlError::new(state, message).with_context(context)
    }
}

/// With which the file of a database begins.
const HEADER: &[u8; 16] = b"SQLite format 3\0";

/// Without the number of the operating system's error.
fn told(error: &std::io::Error) -> String {
    let said = error.to_string();
    said.split_once(" (os error").map_or(said.clone(), |(said, _)| said.to_string())
}

/// What a constraint, or a lock, has refused.
fn refusal(error: &rusqlite::Error) -> SqlState {
    use rusqlite::ffi;
    let Some(code) = error.sqlite_error() else { return SqlState::FDW_ERROR };
    match (code.extended_code, code.code) {
        (ffi::SQLITE_CONSTRAINT_NOTNULL, _) => SqlState::NOT_NULL_VIOLATION,
        (ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY, _) => SqlState::UNIQUE_VIOLATION,
        (ffi::SQLITE_CONSTRAINT_FOREIGNKEY, _) => SqlState::FOREIGN_KEY_VIOLATION,
        (ffi::SQLITE_CONSTRAINT_CHECK, _) => SqlState::CHECK_VIOLATION,
        (_, ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked) => SqlState::LOCK_NOT_AVAILABLE,
        _ => SqlState::FDW_ERROR,
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
