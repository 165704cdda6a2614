//! How deep subqueries may be nested in expressions and in WITH: what is planned of each is done twice at each level.

use sqlparser::ast::{Query, Spanned, TableFactor};

use crate::error::{Result, SqlError, SqlState};

/// Subqueries in each other, those in FROM not counted.
const SUBQUERY_NESTING_MAX: usize = 16;

/// The queries that are being visited.
#[derive(Debug, Default)]
pub struct Nesting {
    /// From the outermost: whether it is counted.
    queries: Vec<bool>,
    depth: usize,
    /// The next query is the one of a relation.
    is_relation: bool,
}

impl Nesting {
    pub fn factor(&mut self, factor: &TableFactor) {
        self.is_relation = matches!(factor, TableFactor::Derived { .. });
    }

    pub fn enter(&mut self, query: &Query) -> Result<()> {
        let is_counted = !self.queries.is_empty() && !std::mem::take(&mut self.is_relation);
        self.queries.push(is_counted);
        self.depth += usize::from(is_counted);
        if self.depth <= SUBQUERY_NESTING_MAX {
            return Ok(());
        }
        let message = format!("subqueries are nested more than {SUBQUERY_NESTING_MAX} deep");
        let mut error = SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)
            .with_hint("Subqueries in FROM, and views, may be nested deeper.");
        error.position = Some(query.span().start.column as usize).filter(|at| *at > 0);
        Err(error)
    }

    pub fn leave(&mut self) {
        self.depth -= usize::from(self.queries.pop().unwrap_or(false));
    }
}
