//! What a server knows of its tables, by which a query of them is made.

use std::collections::HashMap;

use tidemill_sql::types::Type;

use crate::dialect::{Dialect, is_integer, is_text};
use crate::table::{ForeignColumn, TableDefinition};

/// What a server knows of a table without looking at its rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableFacts {
    pub size: Option<TableSize>,
    /// About how many values a column has, by what it is called there.
    pub distinct: HashMap<String, u64>,
    /// Of PostgreSQL: `150004`.
    pub version: Option<i32>,
    /// Columns, as they are called there, whose texts are in the order of their bytes without being told.
    pub ordered_by_bytes: Vec<String>,
    /// Columns, as they are called there, of whose texts some may be equal that have other bytes.
    pub equal_otherwise: Vec<String>,
    /// Columns, as they are called there, of types that there are none of here: they are read as texts.
    pub as_text: Vec<String>,
    /// Those of them that are addresses: a cast to text gives each the length of its mask, which PostgreSQL does not show.
    pub addresses: Vec<String>,
    /// Columns, as they are called there, of years: a number of two digits is one of this century or the last to them.
    pub years: Vec<String>,
}

impl TableFacts {
    /// Of a table of which nothing is known: any text and any number may be compared in another way.
    pub fn unknown(table: &TableDefinition, dialect: &dyn Dialect) -> Self {
        let of = |is: fn(Type) -> bool| {
            let columns = table.columns.iter().filter(|column| is(column.ty));
            columns.map(|column| column.remote.clone()).collect()
        };
        let years = if dialect.has_years() { of(is_integer) } else { vec![] };
        Self { equal_otherwise: of(is_text), years, ..Self::default() }
    }

    /// What a column is there, with texts that are compared by their bytes.
    pub fn column(&self, column: &ForeignColumn, dialect: &dyn Dialect) -> String {
        let name = column.sql(dialect);
        match column.is_state {
            true => name,
            false if self.addresses.contains(&column.remote) => dialect.by_bytes(&dialect.address(&name)),
            false if self.as_text.contains(&column.remote) => dialect.by_bytes(&dialect.as_text(&name)),
            false if self.equal_otherwise.contains(&column.remote) => dialect.by_bytes(&name),
            false if self.years.contains(&column.remote) => dialect.plain_number(&name),
            false => name,
        }
    }
}

/// About how large a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSize {
    pub rows: u64,
    /// Ranges of which can be read; 0: they cannot.
    pub pages: u64,
}
