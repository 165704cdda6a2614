//! What a server knows of its tables, by which a query of them is made.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use futures::future::join_all;
use parking_lot::Mutex;
use tidemill_sql::types::Type;

use crate::connector::Connector;
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

/// What servers tell of tables while a query is planned. Who plans finds it as an extension of the session's configuration.
#[derive(Debug, Default)]
pub struct Telling(Mutex<Vec<Answer>>);

#[derive(Debug)]
struct Answer {
    connector: Arc<dyn Connector>,
    table: Arc<TableDefinition>,
    used: Vec<usize>,
    facts: Arc<TableFacts>,
}

impl Telling {
    pub(crate) fn note(
        &self,
        connector: &Arc<dyn Connector>,
        table: &Arc<TableDefinition>,
        used: Vec<usize>,
        facts: &Arc<TableFacts>,
    ) {
        let (connector, table, facts) = (Arc::clone(connector), Arc::clone(table), Arc::clone(facts));
        self.0.lock().push(Answer { connector, table, used, facts });
    }

    /// So far.
    pub fn take(&self) -> Told {
        Told(mem::take(&mut self.0.lock()))
    }
}

/// What servers have told of the tables of a query.
#[derive(Debug)]
pub struct Told(Vec<Answer>);

impl Told {
    /// Whether they tell the same when they are asked again.
    pub async fn holds(&self) -> bool {
        let again = self.0.iter().map(|answer| async {
            let facts = answer.connector.facts(&answer.table, &answer.used).await;
            facts.is_ok_and(|facts| facts == answer.facts)
        });
        join_all(again).await.into_iter().all(|is_same| is_same)
    }

    /// Whether some of the columns are not what is shown there, but the states that it is made of.
    pub fn has_states(&self) -> bool {
        self.0.iter().any(|answer| answer.table.columns.iter().any(|column| column.is_state))
    }
}
