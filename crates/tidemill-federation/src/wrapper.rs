//! Foreign-data wrappers: the kinds of servers that there are.

use std::sync::Arc;

use tidemill_sql::{Result, SqlError, SqlState};

use crate::connector::Connector;
use crate::multi_tenant;
use crate::option::{OptionSpec, Options, Place, validate};
use crate::postgres;

/// The kind of a server: which options there are, and how it is reached.
#[derive(Debug)]
pub struct Wrapper {
    pub name: &'static str,
    pub options: &'static [OptionSpec],
    /// Whether a user needs a mapping to use a server.
    pub needs_mapping: bool,
    /// A connector for a server of this name; nothing is connected yet.
    pub connect: fn(name: &str, server: &Options, mapping: &Options) -> Result<Arc<dyn Connector>>,
}

/// All wrappers. Each is built in; `CREATE EXTENSION` of its name says so.
pub static WRAPPERS: [Wrapper; 2] = [
    Wrapper {
        name: "postgres_fdw",
        options: postgres::OPTIONS,
        needs_mapping: true,
        connect: postgres::connector,
    },
    Wrapper {
        name: multi_tenant::WRAPPER,
        options: multi_tenant::OPTIONS,
        needs_mapping: false,
        connect: multi_tenant::no_connector,
    },
];

impl Wrapper {
    pub fn find(name: &str) -> Option<&'static Wrapper> {
        WRAPPERS.iter().find(|wrapper| wrapper.name == name)
    }

    pub fn get(name: &str) -> Result<&'static Wrapper> {
        Self::find(name).ok_or_else(|| {
            let known: Vec<_> = WRAPPERS.iter().map(|wrapper| wrapper.name).collect();
            let message = format!("foreign-data wrapper \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                .with_hint(format!("These are built in: {}.", known.join(", ")))
        })
    }

    /// As [`validate`], of this wrapper's options.
    pub fn validate<'o>(&self, place: Place, options: &'o Options) -> Result<Vec<(&'o str, &'static str)>> {
        validate(self.options, place, options)
    }
}
