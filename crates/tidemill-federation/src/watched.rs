//! A connector whose server is watched: what is known to be down is not asked, and who waits for it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::{Result, SqlError};

use crate::bound::Bounds;
use crate::connector::{
    Answer, Capabilities, Connector, Fate, ImportedTable, Insertion, RemoteQuery, Writer, unanswered, unknown,
};
use crate::fact::TableFacts;
use crate::health::{Health, cause, is_absence};
use crate::option::Options;
use crate::snapshot::Shared;
use crate::table::TableDefinition;

/// A connector, and whether its server is there.
#[derive(Debug)]
pub struct Watched {
    pub connector: Arc<dyn Connector>,
    pub health: Arc<Health>,
}

impl Watched {
    /// Work of the server, unless it is known to be down.
    async fn guarded<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.health.down() {
            Some(down) => Err(down),
            None => guarded(&self.health, work).await,
        }
    }
}

#[async_trait]
impl Connector for Watched {
    fn capabilities(&self) -> &'static Capabilities {
        self.connector.capabilities()
    }

    fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        bounds: Bounds,
        shared: Option<Arc<Shared>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream {
        if let Some(down) = self.health.down() {
            let failed = stream::once(async move { Err(DataFusionError::External(Box::new(down))) });
            return Box::pin(RecordBatchStreamAdapter::new(schema, failed));
        }
        let is_reached = Arc::new(AtomicBool::new(false));
        let reached = Arc::clone(&is_reached);
        let counted = Box::new(move |bytes| {
            reached.store(true, Ordering::Relaxed);
            counted(bytes);
        });
        let rows = Arc::clone(&self.connector).rows(query, Arc::clone(&schema), bounds, shared, counted);
        let guarded = stream::unfold(Some(rows), move |rows| {
            let (watched, is_reached) = (Arc::clone(&self), Arc::clone(&is_reached));
            async move {
                let mut rows = rows?;
                let batch = tokio::select! {
                    biased;
                    batch = rows.next() => batch?,
                    gone = watched.health.until_gone(|| is_reached.load(Ordering::Relaxed)) => {
                        return Some((Err(DataFusionError::External(Box::new(gone))), None));
                    }
                };
                match batch {
                    Ok(batch) => Some((Ok(batch), Some(rows))),
                    Err(error) => {
                        let error = plan_error(error);
                        if is_absence(&error) {
                            watched.health.suspect();
                        }
                        Some((Err(DataFusionError::External(Box::new(error))), None))
                    }
                }
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, guarded))
    }

    async fn tables(
        &self,
        schema: &str,
        selection: &ImportSelection,
        options: &Options,
    ) -> Result<Option<Vec<ImportedTable>>> {
        self.guarded(self.connector.tables(schema, selection, options)).await
    }

    /// Whoever reads a table of a server that is not there is told so.
    async fn facts(&self, table: &TableDefinition, used: &[usize]) -> Result<Arc<TableFacts>> {
        if self.health.down().is_some() {
            return Ok(Arc::new(TableFacts::unknown(table, self.capabilities().dialect)));
        }
        tokio::select! {
            biased;
            facts = self.connector.facts(table, used) => facts,
            _ = self.health.until_gone(|| false) => Ok(Arc::new(TableFacts::unknown(table, self.capabilities().dialect))),
        }
    }

    async fn probe(&self) -> Result<()> {
        self.connector.probe().await
    }

    fn is_cascade(&self) -> bool {
        self.connector.is_cascade()
    }

    fn address(&self) -> Option<String> {
        self.connector.address()
    }

    fn absence(&self) -> Option<SqlError> {
        self.health.down()
    }

    fn is_writable(&self) -> bool {
        self.connector.is_writable()
    }

    fn changes_rows(&self) -> bool {
        self.connector.changes_rows()
    }

    fn connections(&self) -> usize {
        self.connector.connections()
    }

    async fn fate(&self, id: &str) -> Result<Fate> {
        self.guarded(self.connector.fate(id)).await
    }

    async fn begin(&self, is_block: bool) -> Result<Box<dyn Writer>> {
        let writer = self.guarded(self.connector.begin(is_block)).await?;
        Ok(Box::new(WatchedWriter { health: Arc::clone(&self.health), writer }))
    }
}

/// A transaction that ends when its server goes down.
struct WatchedWriter {
    health: Arc<Health>,
    writer: Box<dyn Writer>,
}

#[async_trait]
impl Writer for WatchedWriter {
    async fn insert(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<Answer> {
        guarded(&self.health, self.writer.insert(into, rows)).await
    }

    async fn generated(&mut self, into: &Insertion) -> Result<Arc<[String]>> {
        guarded(&self.health, self.writer.generated(into)).await
    }

    async fn execute(&mut self, statement: &RemoteQuery) -> Result<Answer> {
        guarded(&self.health, self.writer.execute(statement)).await
    }

    async fn execute_alone(&mut self, statement: &RemoteQuery) -> Result<Answer> {
        let done = tokio::select! {
            biased;
            done = self.writer.execute_alone(statement) => done,
            gone = self.health.until_gone(|| true) => Err(unanswered(&self.health.server, cause(&gone))),
        };
        suspecting(&self.health, done)
    }

    async fn id(&mut self) -> Result<Option<String>> {
        guarded(&self.health, self.writer.id()).await
    }

    fn forget(&mut self) {
        self.writer.forget();
    }

    async fn flush(&mut self) -> Result<()> {
        guarded(&self.health, self.writer.flush()).await
    }

    async fn judge(&mut self) -> Result<()> {
        guarded(&self.health, self.writer.judge()).await
    }

    async fn commit(&mut self) -> Result<()> {
        self.flush().await?;
        let committed = tokio::select! {
            biased;
            committed = self.writer.commit() => committed,
            gone = self.health.until_gone(|| true) => Err(unknown(&self.health.server, cause(&gone))),
        };
        suspecting(&self.health, committed)
    }

    fn stop(&self) -> Option<BoxFuture<'static, Result<()>>> {
        self.writer.stop()
    }
}

/// Work of a server, which ends when it goes down.
async fn guarded<T>(health: &Health, work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = tokio::select! {
        biased;
        done = work => done,
        gone = health.until_gone(|| true) => Err(gone),
    };
    suspecting(health, done)
}

/// A query that did not reach the server has it probed.
fn suspecting<T>(health: &Health, done: Result<T>) -> Result<T> {
    done.inspect_err(|error| {
        if is_absence(error) {
            health.suspect();
        }
    })
}
