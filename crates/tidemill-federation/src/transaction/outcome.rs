//! What has become of a statement's transactions, and how an error tells it that comes when some of them have lasted.

use std::fmt;
use std::sync::Arc;

use tidemill_sql::{SqlError, SqlState};

use super::Transaction;

/// Whether what was written to a server lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Not yet, or it never will.
    #[default]
    Open,
    Done,
    /// It was told to, and has not answered.
    Unknown,
}

impl Outcome {
    /// After an error of what was to make it last.
    pub fn note(&mut self, error: &SqlError) {
        if *self == Outcome::Open && error.state == SqlState::TRANSACTION_RESOLUTION_UNKNOWN {
            *self = Outcome::Unknown;
        }
    }
}

/// What was written in a transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub rows: u64,
    /// Tables have lost all rows, which nobody has counted.
    pub is_emptied: bool,
    /// A statement outside of it has not been answered: nobody knows how many rows it has changed, if any.
    pub is_unanswered: bool,
}

impl Tally {
    fn is_empty(self) -> bool {
        self.rows == 0 && !self.is_emptied && !self.is_unanswered
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rows, self.is_emptied) {
            _ if self.is_unanswered => Ok(()),
            (_, true) => f.write_str(" (all rows)"),
            (1, _) => f.write_str(" (1 row)"),
            (rows, _) => write!(f, " ({rows} rows)"),
        }
    }
}

/// Some nodes have their part, others do not, and of those that have not answered it may not be known.
pub(super) async fn half_done(all: &[Arc<Transaction>], error: SqlError) -> SqlError {
    let (mut done, mut unknown, mut undone) = (Vec::new(), Vec::new(), Vec::new());
    for transaction in all {
        let tally = transaction.course.lock().await.tally;
        if tally.is_empty() {
            continue;
        }
        let outcome = *transaction.outcome.lock();
        let side = match outcome {
            Outcome::Done => &mut done,
            Outcome::Unknown => &mut unknown,
            Outcome::Open => &mut undone,
        };
        side.push(format!("{}{tally}", transaction.node));
    }
    if done.is_empty() && unknown.len() + undone.len() <= 1 {
        return error;
    }
    let none = |nodes: Vec<String>| if nodes.is_empty() { "none".into() } else { nodes.join(", ") };
    let unknown =
        if unknown.is_empty() { String::new() } else { format!("not known: {}; ", unknown.join(", ")) };
    let detail = format!("Nodes that are changed: {}; {unknown}not: {}.", none(done), none(undone));
    let before = error.detail.as_ref().map(|before| format!("{before}\n")).unwrap_or_default();
    error.with_detail(before + &detail)
}
