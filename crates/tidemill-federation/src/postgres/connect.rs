//! Connections: made with a deadline, kept for the next query.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use parking_lot::Mutex;
use tidemill_sql::{Result, SqlError};
use tokio::io::AsyncReadExt;
use tokio::task::{JoinHandle, consume_budget};
use tokio_postgres::error::DbError;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, Error, NoTls};

use super::error::{not_connected, not_read, of_socket, unreachable, warning};
use super::generated::Generated;
use super::outlet::Outlet;
use super::socket::{Address, Socket};
use super::tap::Tap;
use crate::room::{Room, Seats};

/// Connections that are kept for the next query at most, and for how long.
const IDLE_MAX: usize = 16;
/// How often a server that has no room for one more connection is asked again.
const FULL_RETRY: Duration = Duration::from_millis(100);
/// Warnings of a server that are kept at most.
const WARNINGS_MAX: usize = 100;
const IDLE_FOR: Duration = Duration::from_secs(300);
/// What the connection of the probe adds to its `application_name`.
const PROBE: &str = "keep-alive";
/// What texts of dates and numbers mean must not depend on that server's settings; names are looked up as they are written.
const SET_UP: &str = "SET search_path = pg_catalog; SET timezone = 'UTC'; SET datestyle = ISO; \
                      SET intervalstyle = postgres; SET extra_float_digits = 3";

/// The connections to one server as one user.
pub struct Pool {
    /// The server's name.
    pub server: String,
    pub address: Address,
    config: Config,
    connect_timeout: Duration,
    keeps: bool,
    /// The connections that queries have; kept ones, and that of the probe, are not among them.
    pub room: Room,
    idle: Mutex<Vec<(Instant, Connection)>>,
    /// The connection of the probe.
    probe: Mutex<Option<Connection>>,
    pub generated: Generated,
    /// Whether the last connection that was made is to another Tidemill; `None`: there was none yet.
    is_tidemill: Mutex<Option<bool>>,
    open: Arc<AtomicUsize>,
}

/// Without the password.
impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A connection; it is closed at once when it is dropped.
pub struct Connection {
    pub client: Client,
    /// Whether it has served a query before: it may have been lost since.
    pub is_used: bool,
    /// The server is another Tidemill: it listens to the way of a statement, exports no snapshots, and changes the rows of its
    /// own tables in no transaction block.
    pub is_tidemill: bool,
    /// Where the rows of COPY come out.
    pub rows: Outlet,
    warnings: Warnings,
    driver: JoinHandle<()>,
    /// Of whoever has it; a connection that is kept has none.
    seat: Option<Seats>,
    /// The probe gets it back.
    is_of_probe: bool,
    /// When it was begun.
    pub since: Instant,
    _counted: Counted,
}

/// What the server has said, as far back as there is room.
type Warnings = Arc<Mutex<VecDeque<DbError>>>;

impl Connection {
    /// What the server has said since the last time.
    pub fn take_warnings(&self, server: &str) -> Vec<SqlError> {
        let warnings = std::mem::take(&mut *self.warnings.lock());
        warnings.iter().map(|told| warning(server, told)).collect()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Reads what the server says until the connection ends.
async fn drive(mut connection: tokio_postgres::Connection<Tap, NoTlsStream>, warnings: Warnings) {
    loop {
        // A server may send more of them than anybody reads in time.
        consume_budget().await;
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notice(told))) if told.severity() == "WARNING" => {
                let mut warnings = warnings.lock();
                if warnings.len() >= WARNINGS_MAX {
                    warnings.pop_front();
                }
                warnings.push_back(told);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                return tracing::debug!(%error, "a connection to a foreign server was lost");
            }
            None => return,
        }
    }
}

/// Why there is no connection.
struct Refusal {
    error: SqlError,
    /// The server is there, and has no room for one more.
    is_full: bool,
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Self { error, is_full: false }
    }
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pool {
    pub fn new(
        server: &str,
        address: Address,
        config: Config,
        connect_timeout: Duration,
        keeps: bool,
        room: Room,
    ) -> Self {
        Self {
            server: server.to_string(),
            address,
            config,
            connect_timeout,
            keeps,
            room,
            idle: Mutex::default(),
            probe: Mutex::default(),
            generated: Generated::default(),
            is_tidemill: Mutex::default(),
            open: Arc::default(),
        }
    }

    /// A connection that was kept, or a new one, as soon as there is one.
    pub async fn get(&self) -> Result<Connection> {
        self.seated(self.room.take(1).await?, false).await
    }

    /// A new connection, as soon as there may be one.
    pub async fn connect(&self) -> Result<Connection> {
        self.seated(self.room.take(1).await?, true).await
    }

    /// A connection for whoever may have one. While the server has no room for another it is asked again.
    pub async fn seated(&self, seat: Seats, is_new: bool) -> Result<Connection> {
        let deadline = Instant::now() + self.room.wait;
        loop {
            match if is_new { self.connect_as(&self.config).await } else { self.any().await } {
                Err(refusal) if refusal.is_full && Instant::now() < deadline => {
                    tokio::time::sleep(FULL_RETRY).await;
                }
                Err(refusal) => return Err(refusal.error),
                Ok(mut connection) => {
                    connection.seat = Some(seat);
                    return Ok(connection);
                }
            }
        }
    }

    /// A connection for what is asked before a statement takes those that it needs: one that is free now, or that of the probe,
    /// which is soon.
    pub async fn aside(&self) -> Result<Connection> {
        if let Some(seat) = self.room.at_once()
            && let Ok(mut connection) = self.any().await
        {
            connection.seat = Some(seat);
            return Ok(connection);
        }
        let of_probe = async {
            loop {
                if let Some(kept) = self.take_probe() {
                    return kept;
                }
                tokio::time::sleep(FULL_RETRY).await;
            }
        };
        tokio::select! {
            biased;
            of_probe = of_probe => Ok(of_probe),
            free = self.get() => free,
        }
    }

    /// The connection of the probe, which gets it back; `None` if it has none, or uses it.
    pub fn take_probe(&self) -> Option<Connection> {
        let kept = self.probe.lock().take();
        let mut kept = kept.filter(|kept| !kept.client.is_closed())?;
        (kept.is_of_probe, kept.is_used) = (true, true);
        Some(kept)
    }

    /// Connections that nobody waits for; `None` if there is no room for all of them.
    pub async fn spare(&self, count: usize) -> Option<Vec<Connection>> {
        let mut seats = self.room.spare(count)?;
        let made = join_all((0..count).map(|_| self.any())).await;
        let mut connections: Vec<_> = made.into_iter().filter_map(std::result::Result::ok).collect();
        if connections.len() < count {
            connections.into_iter().for_each(|connection| self.put(connection));
            return None;
        }
        for connection in &mut connections {
            connection.seat = seats.split(1);
        }
        Some(connections)
    }

    /// A connection that was kept, or a new one; that of the probe if the server has no room for another.
    async fn any(&self) -> std::result::Result<Connection, Refusal> {
        let kept = {
            let mut idle = self.idle.lock();
            idle.retain(|(since, connection)| since.elapsed() < IDLE_FOR && !connection.client.is_closed());
            idle.pop()
        };
        match kept {
            Some((_, connection)) => Ok(connection),
            None => match self.connect_as(&self.config).await {
                Err(refusal) if refusal.is_full => {
                    let of_probe = self.probe.lock().take();
                    of_probe.filter(|kept| !kept.client.is_closed()).ok_or(refusal)
                }
                connected => connected,
            },
        }
    }

    /// A round trip on the connection of the probe, or on a new one if that is lost. A server that has no room for one more has
    /// answered, too.
    pub async fn probe(&self) -> Result<()> {
        let kept = self.probe.lock().take();
        if let Some(kept) = kept
            && kept.client.batch_execute("").await.is_ok()
        {
            *self.probe.lock() = Some(kept);
            return Ok(());
        }
        let mut config = self.config.clone();
        let name = config.get_application_name().unwrap_or_default().to_string();
        config.application_name(format!("{name} {PROBE}"));
        match self.connect_as(&config).await {
            Ok(connection) => *self.probe.lock() = Some(connection),
            Err(refusal) if refusal.is_full => {}
            Err(refusal) => return Err(refusal.error),
        }
        Ok(())
    }

    /// Whether the server is another Tidemill, as far as it is known.
    pub fn is_tidemill(&self) -> Option<bool> {
        *self.is_tidemill.lock()
    }

    pub fn connections(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    async fn connect_as(&self, config: &Config) -> std::result::Result<Connection, Refusal> {
        let counted = Counted(Arc::clone(&self.open));
        self.open.fetch_add(1, Ordering::AcqRel);
        match tokio::time::timeout(self.connect_timeout, self.open(config, counted)).await {
            Ok(opened) => opened,
            Err(_) => Err(unreachable(&self.server, &self.address, "timeout expired").into()),
        }
    }

    async fn open(&self, config: &Config, counted: Counted) -> std::result::Result<Connection, Refusal> {
        let since = Instant::now();
        let socket = self.socket().await?;
        let failed = |error: Error| Refusal {
            error: not_connected(&self.server, &self.address, &error),
            is_full: error.code().is_some_and(|code| code.code().starts_with("53")),
        };
        let rows = Outlet::default();
        let tap = Tap::new(socket, rows.clone());
        let (client, connection) = config.connect_raw(tap, NoTls).await.map_err(failed)?;
        if let Some(version) = connection.parameter("questdb_version") {
            return Err(not_read(&self.server, &format!("QuestDB {version}")).into());
        }
        let is_tidemill = connection.parameter("server_version").is_some_and(|it| it.contains("Tidemill"));
        *self.is_tidemill.lock() = Some(is_tidemill);
        let warnings = Warnings::default();
        // It ends with the client, or is aborted with the connection.
        let driver = tokio::spawn(drive(connection, Arc::clone(&warnings)));
        let is_used = false;
        let connection = Connection {
            client,
            is_used,
            is_tidemill,
            rows,
            warnings,
            driver,
            seat: None,
            is_of_probe: false,
            since,
            _counted: counted,
        };
        connection.client.batch_execute(SET_UP).await.map_err(failed)?;
        Ok(connection)
    }

    async fn socket(&self) -> Result<Box<dyn Socket>> {
        let connected = self.address.connect().await;
        connected.map_err(|error| unreachable(&self.server, &self.address, &of_socket(&error)))
    }

    /// Asks the server to end what a connection has asked for; it has been told to when this returns.
    pub async fn cancel(&self, asked: CancelToken) -> Result<()> {
        let mut socket = self.socket().await?;
        let canceled = asked.cancel_query_raw(&mut socket, NoTls).await;
        canceled.map_err(|error| not_connected(&self.server, &self.address, &error))?;
        // The server says nothing, and closes the connection when it has done its work.
        drop(socket.read(&mut [0]).await);
        Ok(())
    }

    /// Keeps a connection that is in no transaction, or is told to end one, for the next query.
    pub fn put(&self, mut connection: Connection) {
        if connection.is_of_probe {
            connection.is_of_probe = false;
            *self.probe.lock() = Some(connection);
            return;
        }
        if !self.keeps {
            return;
        }
        connection.is_used = true;
        connection.seat = None;
        connection.warnings.lock().clear();
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push((Instant::now(), connection));
        }
    }
}
