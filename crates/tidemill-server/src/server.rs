//! The server: what all sessions share, start-up, the listener, shutdown.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::execution::session_state::SessionState;
use parking_lot::Mutex;
use rand::RngCore;
use tidemill_sql::{Result, SqlError, SqlState, parse, planner};
use tidemill_stream::disk::{Disk, RealDisk, atomic_write, read_file};
use tidemill_stream::engine::{Engine, Fatal, Options};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use crate::activity::Activity;
use crate::catalog::{Catalog, ContinuousView, Relation, Stream};
use crate::define;
use crate::pg::scram::Verifier;
use crate::session;
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
    pub listen: SocketAddr,
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
    verifier: Verifier,
    mock_secret: Vec<u8>,
    next_process_id: AtomicU32,
    running: Mutex<HashMap<u32, (Vec<u8>, Arc<Notify>)>>,
    activities: Mutex<BTreeMap<u32, Arc<Activity>>>,
    /// Microseconds since 1970.
    pub started_us: i64,
    shutdown: watch::Sender<bool>,
}

const PASSWORD_FILE: &str = "superuser.scram";
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
        let (catalog, streams, views) = Catalog::open(&config.data_dir.join(CATALOG_FILE))?;
        let catalog = Arc::new(catalog);
        let base = planner::session_state_builder().build();
        let reading = tables::with_catalog(&base, Arc::clone(&catalog), tables::Streams::Refused);
        let defining = tables::with_catalog(&base, Arc::clone(&catalog), tables::Streams::Planned);
        for (oid, object) in streams {
            catalog.install(Relation::Stream(Arc::new(Stream::new(oid, object))));
        }
        let mut engine_views = Vec::new();
        for (oid, object) in views {
            let query = parse::parse_query(&object.query)?;
            let view: ContinuousView = define::plan_view(&defining, oid, object, query).await?;
            engine_views.push(Arc::clone(&view.view));
            catalog.install(Relation::View(Arc::new(view)));
        }
        let (shutdown, _) = watch::channel(false);
        let stop = shutdown.clone();
        let fatal = Fatal::new(move |_| {
            stop.send_replace(true);
        });
        let options = Options {
            memory_bytes: (config.settings.memory_limit_bytes() / 2) as usize,
            cache_bytes: (config.settings.memory_limit_bytes() / 8) as usize,
            ..Options::default()
        };
        let engine =
            Engine::open(disk, options, engine_views, fatal).map_err(|e| e.into_sql(planner::plan_error))?;
        let server = Server {
            config,
            catalog,
            engine: Arc::new(engine),
            reading,
            defining,
            verifier,
            mock_secret,
            next_process_id: AtomicU32::new(1),
            running: Mutex::default(),
            activities: Mutex::default(),
            started_us: planner::vars::now_us(),
            shutdown,
        };
        Ok((Arc::new(server), shown))
    }

    /// Binds the address; the caller learns the port when it asked for port 0.
    pub async fn bind(&self) -> Result<TcpListener> {
        let listen = self.config.listen;
        TcpListener::bind(listen).await.map_err(|e| io_error(&format!("could not listen on {listen}"), e))
    }

    /// Serves until [`Server::stop`], then lets the engine write its last checkpoint.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener) -> Result<()> {
        let mut stopped = self.shutdown.subscribe();
        let mut sessions = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((socket, address)) => {
                        let peer = if address.ip().is_loopback() { Peer::Loopback } else { Peer::Network };
                        drop(socket.set_nodelay(true));
                        sessions.spawn(session::run(Arc::clone(self), Box::new(socket), peer, Some(address)));
                    }
                    Err(error) => tracing::warn!(%error, "could not accept a connection"),
                },
                Some(ended) = sessions.join_next(), if !sessions.is_empty() => {
                    if let Err(error) = ended && error.is_panic() {
                        tracing::error!(%error, "a session panicked");
                    }
                }
                _ = stopped.changed() => break,
            }
        }
        sessions.shutdown().await;
        let engine = Arc::clone(&self.engine);
        tokio::task::spawn_blocking(move || engine.shutdown()).await.map_err(|e| io_error("shutdown", e))
    }

    pub fn stop(&self) {
        self.shutdown.send_replace(true);
    }

    pub fn uid(&self) -> u32 {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(&self.config.data_dir).map_or(u32::MAX, |m| m.uid())
    }

    pub fn trusts_loopback(&self) -> bool {
        self.config.trust_loopback
    }

    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    pub fn mock_secret(&self) -> &[u8] {
        &self.mock_secret
    }

    /// A process id and secret for a session, and what tells it to cancel.
    pub fn register(&self) -> (u32, Vec<u8>, Arc<Notify>) {
        let id = self.next_process_id.fetch_add(1, Ordering::Relaxed);
        let mut secret = vec![0; 4];
        rand::rng().fill_bytes(&mut secret);
        let cancel = Arc::new(Notify::new());
        self.running.lock().insert(id, (secret.clone(), Arc::clone(&cancel)));
        (id, secret, cancel)
    }

    /// Shows a session to the others until it is unregistered.
    pub fn show(&self, activity: Arc<Activity>) {
        self.activities.lock().insert(activity.process_id, activity);
    }

    /// What all sessions are doing, by process id.
    pub fn sessions(&self) -> Vec<Arc<Activity>> {
        self.activities.lock().values().cloned().collect()
    }

    pub fn unregister(&self, id: u32) {
        self.activities.lock().remove(&id);
        self.running.lock().remove(&id);
    }

    /// Cancels what a session runs, if the secret is its own.
    pub fn cancel(&self, id: u32, secret: &[u8]) {
        if let Some((own, cancel)) = self.running.lock().get(&id)
            && own == secret
        {
            cancel.notify_waiters();
        }
    }

    /// `pg_cancel_backend`: the caller may, as there is one user.
    pub fn cancel_session(&self, id: u32) -> bool {
        let running = self.running.lock();
        let found = running.get(&id);
        if let Some((_, cancel)) = found {
            cancel.notify_waiters();
        }
        found.is_some()
    }

    pub fn disk_bytes(&self) -> u64 {
        self.engine.disk_bytes() + self.catalog.disk_bytes()
    }
}

fn load_verifier(disk: &dyn Disk, password: Option<&str>) -> Result<(Verifier, Option<String>)> {
    let path = Path::new(PASSWORD_FILE);
    let store = |verifier: &Verifier| {
        atomic_write(disk, path, verifier.to_string().as_bytes())
            .map_err(|e| io_error("could not keep the password", e))
    };
    if let Some(password) = password {
        let verifier = Verifier::new(password, &mut rand::rng());
        store(&verifier)?;
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
            let password = random_password();
            let verifier = Verifier::new(&password, &mut rand::rng());
            store(&verifier)?;
            Ok((verifier, Some(password)))
        }
        Err(error) => Err(io_error("could not read the password file", error)),
    }
}

fn random_password() -> String {
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
