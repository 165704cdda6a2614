//! A foreign server as one user sees it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::Notify;

use crate::connector::Connector;
use crate::health::Health;
use crate::option::Options;
use crate::watched::Watched;
use crate::wrapper::Wrapper;

/// A server and the user mapping with which it is reached. A change of either makes another one of it.
pub struct Server {
    pub name: String,
    pub wrapper: &'static Wrapper,
    options: Options,
    mapping: Option<Options>,
    connector: OnceLock<Result<Arc<dyn Connector>>>,
    /// `None`: nobody watches it.
    health: Option<Arc<Health>>,
    is_probed: AtomicBool,
}

/// Without the options, which have secrets.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Server {
    pub fn new(
        name: impl Into<String>,
        wrapper: &'static Wrapper,
        options: Options,
        mapping: Option<Options>,
    ) -> Self {
        let (connector, health) = (OnceLock::new(), None);
        Self {
            name: name.into(),
            wrapper,
            options,
            mapping,
            connector,
            health,
            is_probed: AtomicBool::default(),
        }
    }

    /// It is probed in the background; `suspected` asks for that at once.
    pub fn watched(mut self, suspected: &Arc<Notify>) -> Self {
        self.health = Some(Arc::new(Health::new(&self.name, Arc::clone(suspected))));
        self
    }

    /// Whether it is there, if it is watched.
    pub fn health(&self) -> Option<&Arc<Health>> {
        self.health.as_ref()
    }

    /// False if a probe is under way.
    pub fn begin_probe(&self) -> bool {
        !self.is_probed.swap(true, Ordering::AcqRel)
    }

    pub fn end_probe(&self) {
        self.is_probed.store(false, Ordering::Release);
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.connector.get().and_then(|found| found.as_ref().ok()).map_or(0, |found| found.connections())
    }

    /// What reaches it; an error if the user has no mapping.
    pub fn connector(&self, user: &str) -> Result<Arc<dyn Connector>> {
        let mapping = match &self.mapping {
            Some(mapping) => mapping,
            None if !self.wrapper.needs_mapping => &Options::default(),
            None => {
                let message = format!("user mapping not found for \"{user}\"");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                    .with_detail(format!("The server is \"{}\".", self.name))
                    .with_hint(format!("CREATE USER MAPPING FOR CURRENT_USER SERVER {} …", self.name)));
            }
        };
        self.connector.get_or_init(|| self.connect(mapping)).clone()
    }

    /// What is wrong with an option does not say by itself whose it is.
    fn named(&self, error: SqlError) -> SqlError {
        let name = format!("\"{}\"", self.name);
        match error.detail.is_some() || error.message.contains(&name) {
            true => error,
            false => error.with_detail(format!("The server is {name}.")),
        }
    }

    fn connect(&self, mapping: &Options) -> Result<Arc<dyn Connector>> {
        let connector = (self.wrapper.connect)(&self.name, &self.options, mapping);
        let connector = connector.map_err(|error| self.named(error))?;
        let Some(health) = self.health.clone() else { return Ok(connector) };
        Ok(Arc::new(Watched { connector, health }))
    }
}
