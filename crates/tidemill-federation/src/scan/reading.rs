//! A scan that the statement's report follows to its end.

use std::cell::Cell;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use tidemill_sql::planner::plan_error;

use crate::health::is_absence;
use crate::node::{Node, Nodes, State};

pub(super) struct Reading {
    nodes: Arc<Nodes>,
    node: Arc<Node>,
    /// Rows that are asked for and have not come; `None`: nobody has said how many.
    left: Cell<Option<usize>>,
}

impl Reading {
    /// `limit` rows are asked for, if anybody has said how many.
    pub fn new(nodes: Arc<Nodes>, node: Arc<Node>, limit: Option<usize>) -> Self {
        Self { nodes, node, left: Cell::new(limit) }
    }

    /// A server that is not there may be left out: then its rows end here.
    pub fn note(&self, batch: Option<Result<RecordBatch>>) -> Option<Result<RecordBatch>> {
        match batch {
            Some(Ok(batch)) => {
                self.node.count_rows(batch.num_rows());
                self.left.set(self.left.get().map(|left| left.saturating_sub(batch.num_rows())));
                Some(Ok(batch))
            }
            Some(Err(error)) => {
                let error = plan_error(error);
                let ended = match is_absence(&error) {
                    true => self.nodes.skip(&self.node, error),
                    false => {
                        self.node.end(State::Failed, Some(error.clone()));
                        Err(error)
                    }
                };
                ended.err().map(|error| Err(DataFusionError::External(Box::new(error))))
            }
            None => {
                let completed = self.nodes.complete(&self.node);
                completed.err().map(|error| Err(DataFusionError::External(Box::new(error))))
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let has_all = self.left.get() == Some(0);
        self.node.end(if has_all { State::Complete } else { State::Stopped }, None);
    }
}
