//! What the other side is asked or told.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use tidemill_sql::types::Type;

use crate::cascade::Cascade;
use crate::table::TableDefinition;

/// A query, or another statement, for the other side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteQuery {
    /// In the words of the other side.
    pub sql: String,
    pub columns: Vec<RemoteColumn>,
    /// The foreign table, as errors name it.
    pub table: String,
    /// The relation of the other side, as errors name it.
    pub relation: String,
    /// What is read, with the options of the table and its columns.
    pub definition: Arc<TableDefinition>,
    /// Conditions over the table's columns that all have to hold; for those that [prune](Capabilities::prunes).
    pub pruning: Vec<Expr>,
    /// For servers of this kind.
    pub cascade: Option<Arc<Cascade>>,
    /// Of a part of what is read.
    pub range: Option<Arc<Range>>,
    /// What an UPDATE gives to columns, for servers that would keep some values as others without a word.
    pub assigned: Vec<Assignment>,
    /// It takes all rows away, and nobody counts them.
    pub empties: bool,
}

/// A column of an UPDATE and its new value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub column: RemoteColumn,
    pub value: Assigned,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assigned {
    Constant(ScalarValue),
    Column(RemoteColumn),
    /// Made of columns, as it is made here.
    Expression,
}

/// A query of a part of a table, beside others of the other parts. Where there are no connections for all of them, the first
/// reads everything and the others have no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    pub is_first: bool,
    pub whole: RemoteQuery,
}

/// A column of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteColumn {
    /// As it is called here.
    pub name: String,
    pub ty: Type,
    /// As it is called there.
    pub remote: String,
}

impl RemoteQuery {
    /// A statement without rows.
    pub fn command(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), ..Self::default() }
    }
}
