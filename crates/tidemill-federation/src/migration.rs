//! New tables on servers that are filled in one transaction a server: all of them, or none.

use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use futures::future::ready;
use futures::stream::{self, StreamExt};
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::runtime::Handle;

use crate::definition;
use crate::underway::Underway;
use crate::write::{Target, Writing};

/// How long it may take to take away a table of a migration that was given up, and how many are taken away at the same time.
const DISCARD_MAX: Duration = Duration::from_secs(10);
const DISCARDS_AT_ONCE: usize = 16;

/// Tables that are being filled. Unless they are [kept](Migration::keep), they go with it.
pub struct Migration {
    writing: Writing,
    targets: Vec<Target>,
    made: Made,
}

impl Migration {
    /// Makes the tables; `table` is what is migrated.
    pub async fn begin(table: &str, targets: Vec<Target>) -> Result<Self> {
        let writing = Writing::new(table, targets.clone(), true, &Arc::default());
        let mut migration = Self { writing, targets, made: Made::default() };
        for target in migration.targets.clone() {
            if let Err(error) = migration.make(&target).await {
                return Err(migration.discard(error).await);
            }
        }
        Ok(migration)
    }

    async fn make(&mut self, target: &Target) -> Result<()> {
        let dialect = target.connector.capabilities().dialect;
        let create = definition::create(&target.table, dialect, false)?;
        if dialect.undoes_definitions() {
            let transaction = self.writing.transactions().begin(&target.node, &target.connector).await?;
            match transaction.execute(&create).await {
                Err(error) if error.state == SqlState::ACTIVE_SQL_TRANSACTION => {}
                executed => return executed.map(drop),
            }
        }
        definition::carry_out(&target.connector, &create).await?;
        self.made.targets.push(target.clone());
        Ok(())
    }

    /// Rows with the columns of the tables by name are dealt out in turn.
    pub async fn insert(&mut self, rows: &RecordBatch) -> Result<()> {
        self.writing.insert(rows).await
    }

    /// How many rows each of the tables has got.
    pub fn rows(&self) -> impl Iterator<Item = (&Target, u64)> {
        self.writing.written().map(|written| (written.target, written.rows))
    }

    /// Returns when the servers have taken all rows.
    pub async fn flush(&self) -> Result<()> {
        self.writing.flush().await.map(drop)
    }

    /// The servers commit, as long as they are not given up.
    pub async fn commit(&mut self, given_up: impl Future<Output = &'static str>) -> Result<()> {
        let committed = self.writing.commit(given_up).await;
        let transactions = self.writing.transactions();
        for target in &self.targets {
            let is_made = |made: &Target| made.node == target.node && made.table == target.table;
            let open = transactions.find(&target.connector);
            if open.is_some_and(|open| open.is_committed()) && !self.made.targets.iter().any(is_made) {
                self.made.targets.push(target.clone());
            }
        }
        committed
    }

    /// The tables stay.
    pub fn keep(mut self) {
        self.made.targets.clear();
    }

    /// Takes away what was made. The error is the one for which that is, with what could not be taken away.
    pub async fn discard(self, error: SqlError) -> SqlError {
        let Self { writing, mut made, .. } = self;
        // Its transactions end, because servers drop no table that one of them has written to.
        drop(writing);
        let left = discard(made.targets.clone()).await;
        made.targets.clear();
        if left.is_empty() {
            return error;
        }
        let before = error.detail.as_ref().map(|before| format!("{before}\n")).unwrap_or_default();
        error.with_detail(format!("{before}Tables that could not be dropped: {}", left.join("; ")))
    }
}

/// Tables that were made, and that no rollback takes away.
struct Made {
    targets: Vec<Target>,
    _underway: Underway,
}

impl Default for Made {
    fn default() -> Self {
        Self { targets: vec![], _underway: Underway::begin() }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let made = std::mem::take(&mut self.targets);
        let (false, Ok(runtime)) = (made.is_empty(), Handle::try_current()) else { return };
        let underway = Underway::begin();
        // It has a deadline, so it needs no owner.
        runtime.spawn(async move {
            let left = discard(made).await;
            if !left.is_empty() {
                tracing::warn!(?left, "tables of a migration that was given up are left");
            }
            drop(underway);
        });
    }
}

/// Drops tables; those that could not be dropped, and why.
async fn discard(made: Vec<Target>) -> Vec<String> {
    let dropping = stream::iter(made.into_iter().map(dropped)).buffered(DISCARDS_AT_ONCE);
    dropping.filter_map(ready).collect().await
}

async fn dropped(made: Target) -> Option<String> {
    let drop = definition::drop(&made.table, made.connector.capabilities().dialect, true);
    let dropped = definition::carry_out(&made.connector, &drop);
    let cause = match tokio::time::timeout(DISCARD_MAX, dropped).await {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => error.message.clone(),
        Err(_) => "timeout expired".to_string(),
    };
    Some(format!("{} on node {}: {cause}", drop.relation, made.node))
}
