//! What functions may know about the session that calls them.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::logical_expr::ScalarFunctionArgs;

use crate::objects::{NoObjects, Objects};
use crate::text::{Now, TimeZone};

/// Values of the session, put into the configuration of each execution; kernels find them there.
/// Instants are microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone)]
pub struct SessionVars {
    /// `now()`: when the transaction began.
    pub transaction_now: Now,
    pub statement_now_us: i64,
    pub zone: TimeZone,
    pub user: String,
    pub database: String,
    /// The schemas of the search path that exist.
    pub search_path: Vec<String>,
    pub objects: Arc<dyn Objects>,
}

impl Default for SessionVars {
    fn default() -> Self {
        let now = now_us();
        Self {
            transaction_now: now.into(),
            statement_now_us: now,
            zone: TimeZone::UTC,
            user: "postgres".into(),
            database: "tidemill".into(),
            search_path: vec!["public".into()],
            objects: Arc::new(NoObjects),
        }
    }
}

impl SessionVars {
    /// Those of the session that a function is called in.
    pub fn with<R>(args: &ScalarFunctionArgs, f: impl FnOnce(&SessionVars) -> R) -> R {
        match args.config_options.extensions.get::<SessionVars>() {
            Some(vars) => f(vars),
            None => f(&SessionVars::default()),
        }
    }
}

/// The clock, in microseconds since 1970.
pub fn now_us() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock that was never set can be before it.
    let us = |passed: Duration| i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
    since_1970.map_or_else(|before| -us(before.duration()), us)
}

impl ConfigExtension for SessionVars {
    const PREFIX: &'static str = "tidemill";
}

impl ExtensionOptions for SessionVars {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    /// The session's settings are the server's to change, not DataFusion's.
    fn set(&mut self, key: &str, _: &str) -> datafusion::error::Result<()> {
        datafusion::common::config_err!("{key} is not a setting of the planner")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![]
    }
}
