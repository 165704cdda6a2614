//! Foreign-data wrappers: the kinds of servers that there are.

use std::sync::Arc;

use tidemill_sql::{Result, SqlError, SqlState};

use crate::connector::{Capabilities, Connector};
use crate::multi_tenant;
use crate::option::{OptionSpec, Options, Place, validate};
use crate::{file, influx, mysql, postgres, sqlite};

/// The kind of a server: which options there are, and how it is reached.
#[derive(Debug)]
pub struct Wrapper {
    pub name: &'static str,
    pub options: &'static [OptionSpec],
    /// What its servers do as PostgreSQL does; `None` if it has none.
    pub capabilities: Option<&'static Capabilities>,
    /// Whether a user needs a mapping to use a server.
    pub needs_mapping: bool,
    /// What is said of options as a whole, each of which is known.
    pub check: fn(Place, &Options) -> Result<()>,
    /// A connector for a server of this name; nothing is connected yet.
    pub connect: fn(name: &str, server: &Options, mapping: &Options) -> Result<Arc<dyn Connector>>,
}

/// All wrappers. Each is built in; `CREATE EXTENSION` of its name says so.
pub static WRAPPERS: [Wrapper; 9] = [
    Wrapper {
        name: "postgres_fdw",
        options: postgres::OPTIONS,
        capabilities: Some(&postgres::CAPABILITIES),
        needs_mapping: true,
        check: nothing_more,
        connect: postgres::connector,
    },
    Wrapper {
        name: "pgspider_fdw",
        options: postgres::OPTIONS,
        capabilities: Some(&postgres::CAPABILITIES),
        needs_mapping: true,
        check: nothing_more,
        connect: postgres::connector,
    },
    Wrapper {
        name: "tidemill_fdw",
        options: postgres::OPTIONS,
        capabilities: Some(&postgres::OF_TIDEMILL),
        needs_mapping: true,
        check: nothing_more,
        connect: postgres::of_tidemill,
    },
    Wrapper {
        name: "mysql_fdw",
        options: mysql::OPTIONS,
        capabilities: Some(&mysql::CAPABILITIES),
        needs_mapping: true,
        check: nothing_more,
        connect: mysql::connector,
    },
    Wrapper {
        name: "sqlite_fdw",
        options: sqlite::OPTIONS,
        capabilities: Some(&sqlite::CAPABILITIES),
        needs_mapping: false,
        check: sqlite::check,
        connect: sqlite::connector,
    },
    Wrapper {
        name: "influxdb_fdw",
        options: influx::OPTIONS,
        capabilities: Some(&influx::CAPABILITIES),
        needs_mapping: false,
        check: influx::check,
        connect: influx::connector,
    },
    Wrapper {
        name: "file_fdw",
        options: file::OPTIONS,
        capabilities: Some(&file::CAPABILITIES),
        needs_mapping: false,
        check: file::check,
        connect: file::connector,
    },
    Wrapper {
        name: "parquet_fdw",
        options: file::PARQUET_OPTIONS,
        capabilities: Some(&file::PARQUET),
        needs_mapping: false,
        check: file::check_parquet,
        connect: file::parquet_connector,
    },
    Wrapper {
        name: multi_tenant::WRAPPER,
        options: multi_tenant::OPTIONS,
        capabilities: None,
        needs_mapping: false,
        check: nothing_more,
        connect: multi_tenant::no_connector,
    },
];

fn nothing_more(_: Place, _: &Options) -> Result<()> {
    Ok(())
}

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

    /// Whether what it reaches may be a server of this kind, or a PGSpider.
    pub fn speaks_postgresql(&self) -> bool {
        matches!(self.name, "postgres_fdw" | "pgspider_fdw" | "tidemill_fdw")
    }

    /// As [`validate`], of this wrapper's options.
    pub fn validate<'o>(&self, place: Place, options: &'o Options) -> Result<Vec<(&'o str, &'static str)>> {
        let idle = validate(self.options.iter(), place, options)?;
        (self.check)(place, options)?;
        Ok(idle)
    }
}
