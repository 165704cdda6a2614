//! Statements that change rows, which the nodes carry out.

use std::pin::pin;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use tidemill_sql::{Result, SqlState};

use super::{Node, Target, Writing};
use crate::change::Change;
use crate::connector::{Answer, RemoteQuery};
use crate::health::is_absence;

impl Writing {
    /// For statements that change rows.
    pub fn changing(table: &str, changes: &[Change]) -> Self {
        let target = |change: &Change| Target {
            server: change.server.clone(),
            node: change.node(),
            table: Arc::clone(&change.table),
            connector: Arc::clone(&change.connector),
            refusal: None,
        };
        Self::new(table, changes.iter().map(target).collect(), true, &Arc::default())
    }

    /// Carries out statements, one on each node, all at the same time. Where it may be, a node that is not there is left
    /// as it is. The places of those that are to be carried out [alone](Writing::execute_alone) come back.
    pub async fn execute(&mut self, changes: &[Change]) -> Result<Vec<usize>> {
        let all = changes.len();
        let mut skipped = 0;
        for (node, change) in self.nodes.iter_mut().zip(changes) {
            node.cascade = node.target.cascade(&self.route, change.dead_nodes.skip)?;
            match self.transactions.begin(&node.target.node, &node.target.connector).await {
                Ok(transaction) => node.enter(transaction),
                Err(error) if is_absence(&error) && change.dead_nodes.skip => {
                    skipped += 1;
                    if !change.dead_nodes.allows(skipped, all) {
                        return Err(error);
                    }
                    node.absent = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        let (table, returned) = (self.table.as_str(), self.returned.as_ref());
        let is_alone = self.is_alone;
        let working = self.nodes.iter_mut().zip(changes).map(async |(node, change)| {
            match node.execute(table, change, returned).await {
                Err(error) if is_alone && error.state == SqlState::ACTIVE_SQL_TRANSACTION => Ok(None),
                executed => executed.map(Some),
            }
        });
        let executed = self.transactions.together(working).await?;
        let refused = executed.iter().enumerate().filter(|(_, rows)| rows.is_none());
        let refused: Vec<_> = refused.map(|(place, _)| place).collect();
        self.rows.extend(executed.into_iter().flatten().flatten());
        Ok(refused)
    }

    /// Carries out what cannot be undone, when all other nodes have done their part. It may be given up, as
    /// [Transactions::commit].
    pub async fn execute_alone(
        &mut self,
        changes: &[Change],
        refused: &[usize],
        given_up: impl Future<Output = &'static str>,
    ) -> Result<()> {
        let (table, returned) = (self.table.as_str(), self.returned.as_ref());
        let mut given_up = pin!(given_up);
        for place in refused {
            let (node, change) = (&mut self.nodes[*place], &changes[*place]);
            match node.execute_alone(table, change, returned, given_up.as_mut()).await {
                Ok(rows) => self.rows.extend(rows),
                Err(error) => return Err(self.transactions.half_done(error).await),
            }
        }
        Ok(())
    }
}

impl Node {
    /// The rows that were changed, if they are wanted.
    async fn execute(
        &mut self,
        table: &str,
        change: &Change,
        returned: Option<&SchemaRef>,
    ) -> Result<Vec<RecordBatch>> {
        if self.transaction.is_none() {
            return Ok(vec![]);
        }
        let answer = self.transaction()?.execute(&self.statement(change, returned)).await?;
        self.changed(answer, table, returned)
    }

    /// As [execute](Node::execute), where the server does not do it in a transaction.
    async fn execute_alone(
        &mut self,
        table: &str,
        change: &Change,
        returned: Option<&SchemaRef>,
        given_up: impl Future<Output = &'static str>,
    ) -> Result<Vec<RecordBatch>> {
        let statement = self.statement(change, returned);
        let answer = self.transaction()?.execute_alone(&statement, given_up).await?;
        self.changed(answer, table, returned)
    }

    fn statement(&self, change: &Change, returned: Option<&SchemaRef>) -> RemoteQuery {
        change.returning(returned, self.cascade.clone())
    }

    fn changed(
        &mut self,
        answer: Answer,
        table: &str,
        returned: Option<&SchemaRef>,
    ) -> Result<Vec<RecordBatch>> {
        self.rows += answer.count;
        self.rows_of(answer.rows, table, returned)
    }
}
