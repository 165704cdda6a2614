//! What a query on system relations reads: the server at one moment.

use std::sync::{Arc, OnceLock};

use tidemill_sql::planner::vars;

use crate::catalog::Relation;
use crate::server::Server;
use crate::settings::SessionSettings;

/// The server at one moment, in the eyes of one session.
pub struct Snapshot {
    pub server: Arc<Server>,
    pub session: SessionInfo,
    /// Streams and views, by number.
    pub relations: Vec<Relation>,
    /// Microseconds since 1970.
    pub taken_us: i64,
}

/// What system relations tell about the session that asks.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    pub process_id: u32,
    pub user: String,
    /// The schemas that names are looked up in, those that exist.
    pub search_path: Vec<String>,
    pub settings: SessionSettings,
}

impl Snapshot {
    fn take(server: Arc<Server>, session: SessionInfo) -> Self {
        let relations = server.catalog.relations();
        Self { server, session, relations, taken_us: vars::now_us() }
    }
}

/// Where the relations of one statement find their snapshot; it is taken when the first one asks.
pub struct Snapshots {
    server: Arc<Server>,
    session: SessionInfo,
    taken: OnceLock<Snapshot>,
}

impl Snapshots {
    pub fn new(server: Arc<Server>, session: SessionInfo) -> Self {
        Self { server, session, taken: OnceLock::new() }
    }

    pub fn get(&self) -> &Snapshot {
        self.taken.get_or_init(|| Snapshot::take(Arc::clone(&self.server), self.session.clone()))
    }
}
