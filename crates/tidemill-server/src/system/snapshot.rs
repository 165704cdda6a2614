//! What a query on system relations reads: the server at one moment.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tidemill_federation::node::Nodes;
use tidemill_sql::planner::vars;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::catalog::{Comments, ForeignServer, Relation};
use crate::server::Server;
use crate::session::{Declared, Prepared};
use crate::settings::{Scope, SessionSettings};

/// Calls of `set_config` in one statement at most.
const SETTING_CHANGES_MAX: usize = 1000;

/// The server at one moment, in the eyes of one session.
pub struct Snapshot {
    pub server: Arc<Server>,
    pub session: SessionInfo,
    /// Streams and views, by number.
    pub relations: Vec<Relation>,
    pub servers: Vec<Arc<ForeignServer>>,
    pub comments: Arc<Comments>,
    /// Microseconds since 1970.
    pub taken_us: i64,
}

/// What system relations tell about the session that asks.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    pub process_id: u32,
    /// The schemas that names are looked up in, those that exist.
    pub search_path: Vec<String>,
    pub settings: SessionSettings,
    pub server: Option<SocketAddr>,
    pub client: Option<SocketAddr>,
    /// Declared cursors, by name.
    pub cursors: Vec<(String, Declared)>,
    /// Prepared statements, by name.
    pub statements: Vec<(String, Arc<Prepared>)>,
    /// The foreign tables that the last query that had any has read.
    pub nodes: Option<Arc<Nodes>>,
}

/// A `set_config` that the session is still to take over.
#[derive(Debug, Clone)]
pub struct SettingChange {
    pub name: String,
    pub value: Option<String>,
    pub scope: Scope,
}

impl Snapshot {
    fn take(server: Arc<Server>, session: SessionInfo) -> Self {
        let catalog = &server.catalog;
        let (relations, servers, comments) = (catalog.relations(), catalog.servers(), catalog.comments());
        Self { server, session, relations, servers, comments, taken_us: vars::now_us() }
    }
}

/// Where the relations and functions of one statement find their snapshot; it is taken when the first one asks.
pub struct Snapshots {
    server: Arc<Server>,
    session: SessionInfo,
    taken: OnceLock<Snapshot>,
    /// The session's settings with what the statement has changed so far.
    settings: Mutex<SessionSettings>,
    changes: Mutex<Vec<SettingChange>>,
    /// The statement wants settings to be read anew.
    wants_reload: AtomicBool,
}

impl Snapshots {
    pub fn new(server: Arc<Server>, session: SessionInfo) -> Self {
        let settings = Mutex::new(session.settings.clone());
        Self {
            server,
            session,
            taken: OnceLock::new(),
            settings,
            changes: Mutex::default(),
            wants_reload: AtomicBool::default(),
        }
    }

    pub fn get(&self) -> &Snapshot {
        self.taken.get_or_init(|| Snapshot::take(Arc::clone(&self.server), self.session.clone()))
    }

    pub fn session(&self) -> &SessionInfo {
        &self.session
    }

    pub fn settings(&self) -> &Mutex<SessionSettings> {
        &self.settings
    }

    pub(super) fn remember(&self, change: SettingChange) -> Result<()> {
        let mut changes = self.changes.lock();
        if changes.len() >= SETTING_CHANGES_MAX {
            let message =
                format!("set_config can be called {SETTING_CHANGES_MAX} times in a statement at most");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        changes.push(change);
        Ok(())
    }

    pub(super) fn note_reload(&self) {
        self.wants_reload.store(true, Ordering::Relaxed);
    }

    /// Whether the statement wants settings to be read anew, once.
    pub fn take_reload(&self) -> bool {
        self.wants_reload.swap(false, Ordering::Relaxed)
    }

    /// What the statement has changed in the session's settings, once.
    pub fn take_changes(&self) -> Vec<SettingChange> {
        std::mem::take(&mut *self.changes.lock())
    }
}
