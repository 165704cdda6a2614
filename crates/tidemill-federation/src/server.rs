//! A foreign server as one user sees it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tidemill_sql::{Result, SqlError, SqlState};

use crate::connector::Connector;
use crate::option::Options;
use crate::wrapper::Wrapper;

/// A server and the user mapping with which it is reached. A change of either makes another one of it.
pub struct Server {
    pub name: String,
    pub wrapper: &'static Wrapper,
    options: Options,
    mapping: Option<Options>,
    connector: OnceLock<Result<Arc<dyn Connector>>>,
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
        Self { name: name.into(), wrapper, options, mapping, connector: OnceLock::new() }
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
        self.connector.get_or_init(|| (self.wrapper.connect)(&self.name, &self.options, mapping)).clone()
    }
}
