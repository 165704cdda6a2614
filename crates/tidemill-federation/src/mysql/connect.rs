//! Connections: made with a deadline, kept for the next query.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder};
use parking_lot::Mutex;
use tidemill_sql::{Result, SqlError, SqlState};

use super::login::{Login, cause, opened};
use crate::connector::RemoteQuery;
use crate::fact::TableFacts;
use crate::keepalive;
use crate::option::Options;
use crate::table::TableDefinition;
use crate::underway::Underway;

/// How long a connection may take to be there, unless the server's options say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a query that nobody wants any more may take to end.
const CANCEL_MAX: Duration = Duration::from_secs(5);
const HOST: &str = "127.0.0.1";
const PORT: u16 = 3306;
/// Connections of a server at most.
const CONNECTIONS_MAX: usize = 100;
/// Connections that are kept for the next query at most, and for how long.
const IDLE_MAX: usize = 16;
const IDLE_FOR: Duration = Duration::from_secs(300);
/// Tables that are known to fit their definitions at most.
const KNOWN_MAX: usize = 1000;
/// What times, texts and division mean must not depend on that server's settings.
const SET_UP: &str = "SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = ''";
pub const KILL_QUERY: &str = "KILL QUERY";
const KILL_CONNECTION: &str = "KILL CONNECTION";
/// The mode of queries.
pub const SQL_MODE: &str = "SET sql_mode = ''";

/// The connections to one server as one user.
pub struct Pool {
    /// The server's name.
    pub server: String,
    /// Where it is, as messages say it.
    pub address: String,
    login: Login,
    init: Option<String>,
    connect_timeout: Duration,
    idle: Mutex<Vec<(Instant, Connection)>>,
    /// The connection of the probe.
    probe: Mutex<Option<Connection>>,
    open: Arc<AtomicUsize>,
    known: Mutex<Vec<(Arc<TableDefinition>, Arc<TableFacts>)>>,
}

/// Without the password.
impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A connection. Unless it is [put](Pool::put) back, what it does there is ended when it is dropped.
pub struct Connection {
    conn: Option<Conn>,
    options: Opts,
    /// Whether it has served a query before: it may have been lost since.
    pub is_used: bool,
    /// A query may be, if there is one.
    underway: Option<Underway>,
    _counted: Counted,
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Connection {
    pub fn conn(&mut self) -> Result<&mut Conn> {
        self.conn.as_mut().ok_or_else(|| SqlError::internal("a connection without one"))
    }

    /// Ends what is under way, from outside.
    pub fn stop(&self) -> Option<impl Future<Output = std::result::Result<(), Error>> + use<>> {
        Some(kill(self.options.clone(), KILL_QUERY, self.conn.as_ref()?.id()))
    }
}

async fn kill(options: Opts, command: &str, id: u32) -> std::result::Result<(), Error> {
    let mut killer = opened(&options).await?;
    killer.query_drop(format!("{command} {id}")).await?;
    killer.disconnect().await
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (Some(conn), Ok(runtime)) = (self.conn.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (options, underway, id) = (self.options.clone(), self.underway.take(), conn.id());
        // It has deadlines, so it needs no owner.
        runtime.spawn(async move {
            if underway.is_some() {
                let killed = tokio::time::timeout(CANCEL_MAX, kill(options, KILL_CONNECTION, id)).await;
                tracing::debug!(?killed, "a query is given up");
            }
            drop(tokio::time::timeout(CANCEL_MAX, conn.disconnect()).await);
            drop(underway);
        });
    }
}

impl Pool {
    pub fn new(server: &str, options: &Options, mapping: &Options) -> Result<Self> {
        let host = options.get("host").unwrap_or(HOST);
        let number = |name: &str| options.get(name).and_then(|text| text.trim().parse::<u64>().ok());
        let port = number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT);
        let connect_timeout = match number("connect_timeout") {
            None | Some(0) => CONNECT_TIMEOUT,
            Some(seconds) => Duration::from_secs(seconds),
        };
        let builder = OptsBuilder::default()
            .ip_or_hostname(host)
            .tcp_port(port)
            .user(mapping.get("username"))
            .pass(mapping.get("password"))
            .client_found_rows(true)
            // The library sets no more than when it is asked for the first time.
            .tcp_keepalive(u32::try_from(keepalive::IDLE.as_millis()).ok())
            .prefer_socket(false);
        Ok(Self {
            server: server.to_string(),
            address: format!("at \"{host}\", port {port}"),
            login: Login::new(builder, options)?,
            init: options.get("init_command").map(str::to_string),
            connect_timeout,
            idle: Mutex::default(),
            probe: Mutex::default(),
            open: Arc::default(),
            known: Mutex::default(),
        })
    }

    /// A connection that was kept, or a new one.
    pub async fn get(&self) -> Result<Connection> {
        let kept = {
            let mut idle = self.idle.lock();
            idle.retain(|(since, _)| since.elapsed() < IDLE_FOR);
            idle.pop()
        };
        match kept {
            Some((_, mut connection)) => {
                connection.underway = Some(Underway::begin());
                Ok(connection)
            }
            None => self.connect().await,
        }
    }

    /// A new connection.
    pub async fn connect(&self) -> Result<Connection> {
        let counted = Counted(Arc::clone(&self.open));
        if self.open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            let message = format!("too many connections to server \"{}\"", self.server);
            return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message)
                .with_detail(format!("There are {CONNECTIONS_MAX}, which is the limit.")));
        }
        let opened = async {
            let (mut conn, options) = self.login.connect().await?;
            if let Some(init) = &self.init {
                conn.query_drop(init).await?;
            }
            conn.query_drop(SET_UP).await?;
            Ok::<_, Error>((conn, options))
        };
        let cause = match tokio::time::timeout(self.connect_timeout, opened).await {
            Ok(Ok((conn, options))) => {
                return Ok(Connection {
                    conn: Some(conn),
                    options,
                    is_used: false,
                    underway: Some(Underway::begin()),
                    _counted: counted,
                });
            }
            Ok(Err(error)) => cause(&error),
            Err(_) => "timeout expired".to_string(),
        };
        let message = format!("could not connect to server \"{}\"", self.server);
        let detail = format!("connection to server {} failed: {cause}", self.address);
        Err(SqlError::new(SqlState::UNABLE_TO_ESTABLISH_CONNECTION, message).with_detail(detail))
    }

    /// A round trip on the connection of the probe, or on a new one if that is lost.
    pub async fn probe(&self) -> Result<()> {
        let kept = self.probe.lock().take();
        if let Some(mut kept) = kept
            && kept.conn()?.ping().await.is_ok()
        {
            *self.probe.lock() = Some(kept);
            return Ok(());
        }
        let mut connection = self.connect().await?;
        connection.underway = None;
        *self.probe.lock() = Some(connection);
        Ok(())
    }

    pub fn connections(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Keeps a connection whose last query has come to its end.
    pub fn put(&self, mut connection: Connection) {
        (connection.is_used, connection.underway) = (true, None);
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push((Instant::now(), connection));
        }
    }

    /// What is known of a table that fits.
    pub fn known(&self, definition: &TableDefinition) -> Option<Arc<TableFacts>> {
        let known = self.known.lock();
        known.iter().find(|(known, _)| **known == *definition).map(|(_, facts)| Arc::clone(facts))
    }

    pub fn set_known(&self, definition: &Arc<TableDefinition>, facts: TableFacts) {
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.remove(0);
        }
        known.push((Arc::clone(definition), Arc::new(facts)));
    }

    /// What is said of a query that failed.
    pub fn failed(&self, query: &RemoteQuery, error: &Error) -> SqlError {
        let (server, table) = (&self.server, &query.table);
        let context = format!("remote SQL command on server \"{server}\": {}", query.excerpt());
        let Error::Server(told) = error else {
            let message = format!("lost the connection to server \"{server}\"");
            return SqlError::new(SqlState::CONNECTION_FAILURE, message)
                .with_detail(cause(error))
                .with_context(context);
        };
        let said = &told.message;
        let (state, message) = match told.code {
            NO_SUCH_TABLE | NO_SUCH_DATABASE => {
                let message = format!("foreign table \"{table}\" does not fit server \"{server}\": {said}");
                (SqlState::UNDEFINED_TABLE, message)
            }
            NO_SUCH_COLUMN => {
                let message = format!("foreign table \"{table}\" does not fit server \"{server}\": {said}");
                (SqlState::UNDEFINED_COLUMN, message)
            }
            code => (state_of(code), format!("server \"{server}\": {said}")),
        };
        let error = SqlError::new(state, message).with_context(context);
        match told.code == NO_SUCH_DATABASE {
            true => error.with_hint("The table's option dbname says which database it is in."),
            false => error,
        }
    }
}

const NO_SUCH_DATABASE: u16 = 1049;
const NO_SUCH_COLUMN: u16 = 1054;
const NO_SUCH_TABLE: u16 = 1146;

/// What PostgreSQL calls the errors of these numbers.
fn state_of(code: u16) -> SqlState {
    match code {
        1048 | 1364 => SqlState::NOT_NULL_VIOLATION,
        1050 => SqlState::DUPLICATE_TABLE,
        1051 => SqlState::UNDEFINED_TABLE,
        1062 | 1586 => SqlState::UNIQUE_VIOLATION,
        1044 | 1142 | 1143 => SqlState::INSUFFICIENT_PRIVILEGE,
        1205 => SqlState::LOCK_NOT_AVAILABLE,
        1213 => SqlState::DEADLOCK_DETECTED,
        1216 | 1217 | 1451 | 1452 => SqlState::FOREIGN_KEY_VIOLATION,
        1264 => SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        1292 => SqlState::INVALID_DATETIME_FORMAT,
        1906 | 3105 => SqlState::GENERATED_ALWAYS,
        1366 | 3988 => SqlState::UNTRANSLATABLE_CHARACTER,
        1406 => SqlState::STRING_DATA_RIGHT_TRUNCATION,
        3819 | 4025 => SqlState::CHECK_VIOLATION,
        _ => SqlState::FDW_ERROR,
    }
}
