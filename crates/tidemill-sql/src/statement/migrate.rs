//! PGSpider's statements about the tables on the other side of foreign tables.

use super::{ForeignOption, Name};

/// `CREATE DATASOURCE TABLE [IF NOT EXISTS] name` and `DROP DATASOURCE TABLE [IF EXISTS] name`.
#[derive(Debug, Clone)]
pub struct Datasource {
    pub is_drop: bool,
    /// It is no error if it is there already, or is not there.
    pub is_lenient: bool,
    /// The foreign table.
    pub name: Name,
}

impl Datasource {
    /// As the statement is answered.
    pub fn tag(&self) -> &'static str {
        if self.is_drop { "DROP DATASOURCE TABLE" } else { "CREATE DATASOURCE TABLE" }
    }
}

/// `MIGRATE TABLE source [REPLACE | TO name] [OPTIONS (…)] SERVER server [OPTIONS (…)], …`.
#[derive(Debug, Clone)]
pub struct Migrate {
    pub source: Name,
    pub target: MigrateTarget,
    pub options: Vec<ForeignOption>,
    pub servers: Vec<MigrateServer>,
}

/// The foreign table that stands for the new tables.
#[derive(Debug, Clone)]
pub enum MigrateTarget {
    /// There is none.
    None,
    /// It takes the place of the source.
    Replace,
    To(Name),
}

/// A server that gets a table, and the options of the foreign table for it.
#[derive(Debug, Clone)]
pub struct MigrateServer {
    pub name: String,
    pub options: Vec<ForeignOption>,
    pub position: usize,
}
