//! SQLite in this process: a file, or one database in memory that all connections share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, InterruptHandle, ToSql};

use crate::error::{Error, Result};
use crate::figure::nearest;
use crate::target::{Cell, Connection, Dialect, Done, Driver, Load, Rows, Statement, Url, Value};

/// Waits for a lock of another connection as long as this, unless `?busy_timeout=` says otherwise (ms).
const BUSY_TIMEOUT_MS: u64 = 60_000;
/// Rows in one transaction of a load.
const LOAD_BATCH_ROWS: u64 = 100_000;

pub struct Sqlite {
    path: PathBuf,
    busy_timeout: Duration,
    synchronous: String,
    journal_mode: String,
    interrupts: Arc<Mutex<Vec<InterruptHandle>>>,
    /// Keeps a database in memory alive.
    _anchor: Option<Mutex<rusqlite::Connection>>,
}

static MEMORY: AtomicU64 = AtomicU64::new(0);

impl Sqlite {
    pub fn new(url: &Url) -> Result<Self> {
        for (name, _) in &url.options {
            if !matches!(name.as_str(), "busy_timeout" | "synchronous" | "journal_mode") {
                return Err(Error::usage(format!(
                    "a sqlite target has no option \"{name}\" (busy_timeout, synchronous and journal_mode are there)"
                )));
            }
        }
        let word = |name: &str, default: &str| {
            let value = url.option(name).unwrap_or(default);
            if value.chars().all(|c| c.is_ascii_alphanumeric()) {
                return Ok(value.to_owned());
            }
            Err(Error::usage(format!("\"{value}\" is no {name}")))
        };
        let busy = url.option("busy_timeout").map_or(Ok(BUSY_TIMEOUT_MS), |text| {
            text.parse()
                .map_err(|_| Error::usage(format!("busy_timeout is no number of milliseconds: \"{text}\"")))
        })?;
        let is_memory = url.path.is_empty() || url.path == ":memory:";
        let path = match is_memory {
            true => {
                let n = MEMORY.fetch_add(1, Ordering::Relaxed);
                PathBuf::from(format!("file:bench{}-{n}?mode=memory&cache=shared", std::process::id()))
            }
            false => PathBuf::from(&url.path),
        };
        let anchor = if is_memory {
            Some(Mutex::new(rusqlite::Connection::open(&path).map_err(error)?))
        } else {
            None
        };
        Ok(Self {
            path,
            busy_timeout: Duration::from_millis(busy),
            synchronous: word("synchronous", "normal")?,
            journal_mode: word("journal_mode", "wal")?,
            interrupts: Arc::default(),
            _anchor: anchor,
        })
    }
}

impl Driver for Sqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        let refused = |e: rusqlite::Error| Error::Unreachable {
            target: format!("sqlite:{}", self.path.display()),
            cause: e.to_string(),
        };
        let connection = rusqlite::Connection::open(&self.path).map_err(refused)?;
        connection.busy_timeout(self.busy_timeout).map_err(refused)?;
        connection.set_prepared_statement_cache_capacity(0);
        let settings =
            format!("pragma journal_mode={}; pragma synchronous={};", self.journal_mode, self.synchronous);
        connection.execute_batch(&settings).map_err(refused)?;
        let mut interrupts = self.interrupts.lock().unwrap_or_else(PoisonError::into_inner);
        interrupts.push(connection.get_interrupt_handle());
        Ok(Box::new(Session { texts: Vec::new(), connection }))
    }

    fn abort(&self) {
        for handle in self.interrupts.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            handle.interrupt();
        }
    }
}

/// SQLite takes a pragma that it does not know for none.
pub(super) fn check_pragma(connection: &mut dyn Connection, name: &str) -> Result<()> {
    let mut known = Rows::default();
    connection.query("select name from pragma_pragma_list order by name", &mut known)?;
    let names: Vec<_> = (0..known.len()).filter_map(|row| known.text(row, 0)).collect();
    if names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let near = nearest(name, names.iter().map(|name| name.as_ref()));
    let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
    Err(Error::usage(format!("SQLite has no pragma \"{name}\"{hint}")))
}

struct Session {
    /// Prepared statements by number. SQLite's own are borrowed from the connection, so it is its cache that keeps them.
    texts: Vec<String>,
    connection: rusqlite::Connection,
}

impl Connection for Session {
    fn execute(&mut self, sql: &str) -> Result<Done> {
        each(&self.connection, sql, None)
    }

    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<Done> {
        rows.start(0);
        each(&self.connection, sql, Some(rows))
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.texts.push(sql.to_owned());
        self.connection.set_prepared_statement_cache_capacity(self.texts.len());
        drop(self.connection.prepare_cached(sql).map_err(error)?);
        Ok(Statement(self.texts.len() as u32 - 1))
    }

    fn run(&mut self, statement: Statement, values: &[Value<'_>], rows: Option<&mut Rows>) -> Result<Done> {
        let sql = &self.texts[statement.0 as usize];
        let mut prepared = self.connection.prepare_cached(sql).map_err(error)?;
        step(&self.connection, &mut prepared, values, rows)
    }

    /// Takes the one write lock at once: two readers that both want to write would never get on.
    fn begin(&mut self) -> Result<()> {
        self.execute("BEGIN IMMEDIATE").map(drop)
    }

    fn run_once(&mut self, sql: &str, values: &[Value<'_>], rows: Option<&mut Rows>) -> Result<Done> {
        let mut prepared = self.connection.prepare(sql).map_err(error)?;
        step(&self.connection, &mut prepared, values, rows)
    }

    fn load<'a>(&'a mut self, table: &str, columns: &[&str]) -> Result<Box<dyn Load + 'a>> {
        let places: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
        let sql = format!("insert into {table} ({}) values ({})", columns.join(", "), places.join(", "));
        let insert = self.connection.prepare(&sql).map_err(error)?;
        self.connection.execute_batch("begin immediate").map_err(error)?;
        Ok(Box::new(Inserting { connection: &self.connection, insert, rows: 0, is_finished: false }))
    }

    fn is_in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    fn version(&mut self) -> Result<String> {
        Ok(format!("SQLite {}", rusqlite::version()))
    }
}

/// All statements of a text; rows of the last one that has columns are kept.
fn each(connection: &rusqlite::Connection, sql: &str, mut rows: Option<&mut Rows>) -> Result<Done> {
    let mut done = Done::default();
    let mut batch = rusqlite::Batch::new(connection, sql);
    while let Some(mut statement) = batch.next().map_err(error)? {
        let has_columns = statement.column_count() > 0;
        let kept = if has_columns { rows.as_deref_mut() } else { None };
        done = step(connection, &mut statement, &[], kept)?;
        rows.iter_mut().filter(|_| !has_columns).for_each(|rows| rows.end_without_columns());
    }
    Ok(done)
}

fn step(
    connection: &rusqlite::Connection,
    statement: &mut rusqlite::Statement<'_>,
    values: &[Value<'_>],
    mut kept: Option<&mut Rows>,
) -> Result<Done> {
    let columns = statement.column_count();
    if let Some(rows) = kept.as_deref_mut() {
        rows.start(columns);
        rows.set_names(statement.column_names().map(str::to_owned).collect::<Vec<_>>());
    }
    for (i, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(i + 1, value).map_err(error)?;
    }
    let is_readonly = statement.readonly();
    let mut done = Done::default();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(error)? {
        done.rows += 1;
        if let Some(kept) = kept.as_deref_mut() {
            kept.start_row();
            for column in 0..columns {
                keep(kept, row.get_ref(column).map_err(error)?)?;
            }
        }
    }
    if !is_readonly {
        done.affected = connection.changes();
    }
    Ok(done)
}

fn keep(rows: &mut Rows, value: ValueRef<'_>) -> Result<()> {
    match value {
        ValueRef::Null => rows.push(Cell::Null),
        ValueRef::Integer(value) => rows.push(Cell::Int(value)),
        ValueRef::Real(value) => rows.push(Cell::Float(value)),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            if !rows.has_room_for(bytes.len()) {
                return Err(Error::Unsupported("an answer is larger than 4 GB".to_owned()));
            }
            rows.push_bytes(bytes);
        }
    }
    Ok(())
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(value) => ValueRef::Integer(*value),
            Value::Float(value) => ValueRef::Real(*value),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

struct Inserting<'a> {
    connection: &'a rusqlite::Connection,
    insert: rusqlite::Statement<'a>,
    rows: u64,
    is_finished: bool,
}

impl Load for Inserting<'_> {
    fn row(&mut self, values: &[Value<'_>]) -> Result<()> {
        step(self.connection, &mut self.insert, values, None)?;
        self.rows += 1;
        if self.rows.is_multiple_of(LOAD_BATCH_ROWS) {
            self.connection.execute_batch("commit; begin immediate").map_err(error)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.connection.execute_batch("commit").map_err(error)?;
        self.is_finished = true;
        Ok(self.rows)
    }
}

impl Drop for Inserting<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // Whatever failed has been told; the connection must be usable again.
            let _ = self.connection.execute_batch("rollback");
        }
    }
}

fn error(error: rusqlite::Error) -> Error {
    let code = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => "SQLITE_BUSY",
        Some(ErrorCode::DatabaseLocked) => "SQLITE_LOCKED",
        Some(ErrorCode::ConstraintViolation) => "SQLITE_CONSTRAINT",
        Some(ErrorCode::OperationInterrupted) => return Error::Lost("interrupted".to_owned()),
        _ => "SQLITE_ERROR",
    };
    Error::server(code, error.to_string())
}
