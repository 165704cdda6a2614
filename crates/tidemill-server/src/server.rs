//! The server: what all sessions share, start-up, the listener, shutdown.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use futures::future::BoxFuture;
use parking_lot::RwLock;
use rand::RngCore;
use tidemill_federation::keepalive::Keepalive;
use tidemill_federation::underway;
use tidemill_sql::{Result, SqlError, SqlState, parse, planner};
use tidemill_stream::disk::{Disk, RealDisk, atomic_write, read_file};
use tidemill_stream::engine::{Engine, Fatal, Options};
use tokio::sync::watch;

use crate::activity::Activity;
use crate::catalog::{
    Catalog, ContinuousView, ForeignServer, ForeignTable, PlainView, Relation, Stream, Table,
};
use crate::define;
pub use crate::listen::Listener;
use crate::listen::accept_any;
use crate::pg::scram::{MECHANISM, Verifier};
use crate::query::aside::Aside;
use crate::query::wide::WideRows;
use crate::registry::Sessions;
use crate::session;
use crate::session::SUPERUSER;
use crate::settings::Settings;
use crate::tables;

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Unix { uid: u32 },
    Loopback,
    Network,
}

/// What the command line decides.
#[derive(Debug, Clone)]
pub struct Config {
    pub data_dir: PathBuf,
    /// `--superuser-password-file`'s content.
    pub password: Option<String>,
    /// Connections from loopback need no password: for scratch servers and tests.
    pub trust_loopback: bool,
    pub settings: Arc<Settings>,
}

pub struct Server {
    pub config: Config,
    pub catalog: Arc<Catalog>,
    pub engine: Arc<Engine>,
    /// Plans queries: streams are refused.
    pub reading: SessionState,
    /// Plans definitions of views: streams are tables.
    pub defining: SessionState,
    pub sessions: Arc<Sessions>,
    /// The memory of all queries together.
    pub memory: Arc<dyn MemoryPool>,
    disk: Arc<dyn Disk>,
    verifier: RwLock<Arc<Verifier>>,
    mock_secret: Vec<u8>,
    /// What tells it from all other servers, as long as it runs.
    pub identity: String,
    /// Microseconds since 1970.
    pub started_us: i64,
    shutdown: watch::Sender<bool>,
    /// Probes the foreign servers.
    _keepalive: SpawnedTask<()>,
}

/// How long sessions may take to end when the server stops.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);
/// How long what they have given up on foreign servers may then take to end there: longer than it takes to cancel a query and, after
/// that, to drop the tables of a migration.
const UNDERWAY_PATIENCE: Duration = Duration::from_secs(20);
/// How long no connections are accepted after that has failed.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const PASSWORD_FILE: &str = "superuser.scram";
const SPILL_DIR: &str = "tmp";
const SECRET_FILE: &str = "mock.secret";
const CATALOG_FILE: &str = "catalog.redb";

fn io_error(context: &str, error: impl std::fmt::Display) -> SqlError {
    SqlError::new(SqlState::IO_ERROR, format!("{context}: {error}"))
}

impl Server {
    /// Opens the data directory and brings every view to the state of the last commit. The second value is the
    /// password that was made up, to be shown once.
    pub async fn open(config: Config) -> Result<(Arc<Server>, Option<String>)> {
        let disk: Arc<dyn Disk> = Arc::new(
            RealDisk::open(&config.data_dir)
                .map_err(|e| SqlError::new(SqlState::OBJECT_IN_USE, e.to_string()))?,
        );
        let (verifier, shown) = load_verifier(disk.as_ref(), config.password.as_deref())?;
        let mock_secret = load_secret(disk.as_ref())?;
        let (catalog, loaded) = Catalog::open(&config.data_dir.join(CATALOG_FILE))?;
        let catalog = Arc::new(catalog);
        let rules = tidemill_federation::pushdown::rules(planner::physical_rules());
        let builder = planner::session_state_builder().with_runtime_env(spilling(&config.data_dir)?);
        let builder = builder.with_physical_optimizer_rules(rules);
        let builder = builder.with_physical_optimizer_rule(Arc::new(planner::SortTogether));
        let builder = builder.with_physical_optimizer_rule(Arc::new(planner::SeriesInPieces));
        let builder = builder.with_physical_optimizer_rule(Arc::new(WideRows));
        let base = builder.with_physical_optimizer_rule(Arc::new(Aside::default())).build();
        let reading = tables::with_catalog(&base, Arc::clone(&catalog), tables::Streams::Refused);
        let defining = tables::with_catalog(&base, Arc::clone(&catalog), tables::Streams::Planned);
        for (oid, object) in loaded.streams {
            catalog.install(Relation::Stream(Arc::new(Stream::new(oid, object))));
        }
        let mut engine_views = Vec::new();
        for (oid, object) in loaded.tables {
            let table = Arc::new(Table::new(oid, object)?);
            engine_views.push(Arc::clone(&table.view));
            catalog.install(Relation::Table(table));
        }
        for (oid, object) in loaded.servers {
            let mappings = loaded.user_mappings.iter().filter(|(_, mapping)| mapping.server == oid);
            catalog.install_server(ForeignServer::new(
                oid,
                object,
                mappings.cloned().collect(),
                &catalog.suspected,
            )?);
        }
        for (oid, object) in loaded.foreign_tables {
            catalog.install(Relation::Foreign(Arc::new(ForeignTable::new(oid, object))));
        }
        for (oid, object) in loaded.plain_views {
            catalog.install(Relation::PlainView(Arc::new(PlainView::new(oid, object)?)));
        }
        for (oid, object) in loaded.views {
            let query = parse::parse_query(&object.query)?;
            let view: ContinuousView = define::plan_view(&defining, oid, object, query).await?;
            engine_views.push(Arc::clone(&view.view));
            catalog.install(Relation::View(Arc::new(view)));
        }
        let transforms = define::load_transforms(&catalog, &defining, loaded.transforms).await?;
        let deliveries: Vec<_> =
            catalog.transforms().iter().flat_map(|transform| transform.deliveries.clone()).collect();
        let queues = deliveries.iter().flat_map(|delivery| delivery.tables());
        engine_views.extend(queues.map(|table| Arc::clone(&table.view)));
        let keepalive = keepalive(&config.settings, &catalog);
        let (shutdown, _) = watch::channel(false);
        let stop = shutdown.clone();
        let fatal = Fatal::new(move |_| {
            stop.send_replace(true);
        });
        let options = Options {
            // Writes that go on may take half as much.
            memory_bytes: (config.settings.memory_limit_bytes() / 8 * 3) as usize,
            cache_bytes: (config.settings.memory_limit_bytes() / 8) as usize,
            checkpoint_log_bytes: config.settings.checkpoint_log_size_bytes(),
            commit_delay: config.settings.commit_delay(),
            runtime: Some(tokio::runtime::Handle::current()),
            ..Options::default()
        };
        let engine = Engine::open(Arc::clone(&disk), options, engine_views, fatal)
            .map_err(|e| e.into_sql(planner::plan_error))?;
        transforms.into_iter().for_each(|transform| engine.add_transform(transform));
        let memory = Arc::new(GreedyMemoryPool::new((config.settings.memory_limit_bytes() / 4) as usize));
        let server = Server {
            config,
            catalog,
            engine: Arc::new(engine),
            reading,
            defining,
            sessions: Arc::default(),
            memory,
            disk,
            verifier: RwLock::new(Arc::new(verifier)),
            mock_secret,
            identity: random_word(),
            started_us: planner::vars::now_us(),
            shutdown,
            _keepalive: keepalive,
        };
        let server = Arc::new(server);
        deliveries.iter().for_each(|delivery| delivery.start(&server));
        Ok((server, shown))
    }

    /// Listens on TCP addresses and, with the port of the first one, on Unix sockets.
    pub async fn listen(&self, addresses: &[SocketAddr]) -> Result<Vec<Listener>> {
        let mut listeners = Vec::new();
        for address in addresses {
            listeners.push(Listener::tcp(*address, "--listen").await?);
        }
        let port = match listeners.first().and_then(Listener::address) {
            Some(address) => address.port(),
            None => self.config.settings.port(),
        };
        for directory in self.config.settings.unix_socket_directories() {
            listeners.push(Listener::unix(&self.config.data_dir.join(directory), port)?);
        }
        Ok(listeners)
    }

    /// Serves until [`Server::stop`], then ends the sessions, sees to it that other servers do nothing for them any more, and lets the
    /// engine write its last checkpoint.
    ///
    /// An async function is compiled where it is awaited. What is boxed here is compiled with this crate, optimised.
    pub fn serve(self: &Arc<Self>, listeners: Vec<Listener>) -> BoxFuture<'static, Result<()>> {
        Box::pin(Arc::clone(self).accept(listeners))
    }

    async fn accept(self: Arc<Self>, listeners: Vec<Listener>) -> Result<()> {
        let mut stopped = self.shutdown.subscribe();
        let mut sessions = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = accept_any(&listeners) => match accepted {
                    Ok((socket, connection)) => {
                        sessions.spawn(session::run(Arc::clone(&self), socket, connection));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a connection");
                        // Out of file descriptors, most likely: sessions that end free some.
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(ended) = sessions.join_next(), if !sessions.is_empty() => note_end(ended),
                _ = stopped.changed() => break,
            }
        }
        drop(listeners);
        self.sessions.terminate_all();
        let all = async {
            while let Some(ended) = sessions.join_next().await {
                note_end(ended);
            }
        };
        if tokio::time::timeout(SHUTDOWN_PATIENCE, all).await.is_err() {
            tracing::warn!("some sessions did not end in time");
        }
        sessions.shutdown().await;
        if tokio::time::timeout(UNDERWAY_PATIENCE, underway::until_none()).await.is_err() {
            tracing::warn!("foreign servers may go on with what they were asked");
        }
        let engine = Arc::clone(&self.engine);
        tokio::task::spawn_blocking(move || engine.shutdown()).await.map_err(|e| io_error("shutdown", e))
    }

    /// Why the engine has stopped, if an error of the disk made it.
    pub fn failure(&self) -> Option<String> {
        self.engine.failure()
    }

    /// Why it takes nothing new, if so.
    pub fn ailment(&self) -> Option<String> {
        self.failure().or_else(|| self.shutdown.borrow().then(|| "shutting down".to_string()))
    }

    pub fn stop(&self) {
        self.shutdown.send_replace(true);
    }

    /// Returns when it is stopped, and says so.
    pub async fn until_stopped(&self) -> &'static str {
        // The sender is `self`.
        drop(self.shutdown.subscribe().wait_for(|is_stopped| *is_stopped).await);
        "the server is shutting down"
    }

    /// What all sessions are doing, by process id.
    pub fn sessions(&self) -> Vec<Arc<Activity>> {
        self.sessions.activities()
    }

    /// `pg_cancel_backend`: the caller may, as there is one user.
    pub fn cancel_session(&self, id: u32) -> bool {
        self.sessions.cancel(id)
    }

    /// `pg_terminate_backend`
    pub fn terminate_session(&self, id: u32) -> bool {
        self.sessions.terminate(id)
    }

    pub fn uid(&self) -> u32 {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(&self.config.data_dir).map_or(u32::MAX, |m| m.uid())
    }

    pub fn trusts_loopback(&self) -> bool {
        self.config.trust_loopback
    }

    pub fn verifier(&self) -> Arc<Verifier> {
        Arc::clone(&self.verifier.read())
    }

    /// `ALTER ROLE name PASSWORD 'text'`: a password, or a verifier of one.
    pub fn set_password(&self, name: &str, password: Option<&str>) -> Result<()> {
        if name != SUPERUSER {
            let message = format!("role \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                .with_hint("There is one user, \"postgres\"."));
        }
        let Some(password) = password.filter(|password| !password.is_empty()) else {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "the superuser needs a password"));
        };
        let verifier = match password.strip_prefix(MECHANISM).is_some_and(|rest| rest.starts_with('$')) {
            true => password.parse()?,
            false => Verifier::new(password, &mut rand::rng()),
        };
        store_verifier(self.disk.as_ref(), &verifier)?;
        *self.verifier.write() = Arc::new(verifier);
        Ok(())
    }

    pub fn mock_secret(&self) -> &[u8] {
        &self.mock_secret
    }

    pub fn disk_bytes(&self) -> u64 {
        self.engine.disk_bytes() + self.catalog.disk_bytes()
    }
}

/// Asks the foreign servers in the background whether they are there, until it is dropped.
fn keepalive(settings: &Settings, catalog: &Arc<Catalog>) -> SpawnedTask<()> {
    let keepalive = Keepalive {
        interval: settings.node_check_interval(),
        timeout: settings.node_check_timeout(),
        suspected: Arc::clone(&catalog.suspected),
    };
    let catalog = Arc::clone(catalog);
    let servers = move || catalog.servers().iter().map(|server| Arc::clone(server.reached())).collect();
    SpawnedTask::spawn(keepalive.run(servers, SUPERUSER))
}

/// What queries put on disk is in a folder of the data directory, and nothing in it outlives the server.
fn spilling(data_dir: &Path) -> Result<Arc<RuntimeEnv>> {
    let directory = data_dir.join(SPILL_DIR);
    match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io_error("could not clear the folder of temporary files", error));
        }
        _ => {}
    }
    std::fs::create_dir(&directory)
        .map_err(|e| io_error("could not make the folder of temporary files", e))?;
    let mode = DiskManagerMode::Directories(vec![directory]);
    RuntimeEnvBuilder::new()
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode))
        .build_arc()
        .map_err(planner::plan_error)
}

fn note_end(ended: std::result::Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a session panicked");
    }
}

fn load_verifier(disk: &dyn Disk, password: Option<&str>) -> Result<(Verifier, Option<String>)> {
    let path = Path::new(PASSWORD_FILE);
    if let Some(password) = password {
        let verifier = Verifier::new(password, &mut rand::rng());
        store_verifier(disk, &verifier)?;
        return Ok((verifier, None));
    }
    match read_file(disk, path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let verifier =
                text.trim().parse().map_err(|_| io_error("the password file is damaged", PASSWORD_FILE))?;
            Ok((verifier, None))
        }
        Err(error) if error.is_not_found() => {
            let password = random_word();
            let verifier = Verifier::new(&password, &mut rand::rng());
            store_verifier(disk, &verifier)?;
            Ok((verifier, Some(password)))
        }
        Err(error) => Err(io_error("could not read the password file", error)),
    }
}

fn store_verifier(disk: &dyn Disk, verifier: &Verifier) -> Result<()> {
    atomic_write(disk, Path::new(PASSWORD_FILE), verifier.to_string().as_bytes())
        .map_err(|e| io_error("could not keep the password", e))
}

fn random_word() -> String {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 20];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().map(|b| LETTERS[*b as usize % LETTERS.len()] as char).collect()
}

fn load_secret(disk: &dyn Disk) -> Result<Vec<u8>> {
    let path = Path::new(SECRET_FILE);
    match read_file(disk, path) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.is_not_found() => {
            let mut secret = vec![0; 32];
            rand::rng().fill_bytes(&mut secret);
            atomic_write(disk, path, &secret).map_err(|e| io_error("could not write a file", e))?;
            Ok(secret)
        }
        Err(error) => Err(io_error("could not read a file", error)),
    }
}
