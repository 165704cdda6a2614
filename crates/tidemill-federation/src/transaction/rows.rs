//! What a block reads of a server to which it has written.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, StreamExt, TryStreamExt};
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::watch;

use super::Transaction;
use crate::connector::{Answer, RemoteQuery};

/// How long a query that was told to end may take to end, before its transaction is ended.
const STOP_MAX: Duration = Duration::from_secs(1);

impl Transaction {
    /// The rows of a query as the transaction sees them. All of them come before the first is given out, because the
    /// connection is needed for what is asked next.
    pub fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        counted: impl Fn(usize) + Send + 'static,
    ) -> SendableRecordBatchStream {
        let mut unwanted = self.unwanted.clone();
        // What another statement has given up is not this one.
        unwanted.mark_unchanged();
        let answered = async move {
            // In a task of its own, so that the answer is read to its end if nobody wants the rest and the block goes on. It
            // ends when the statement fails, or the block ends.
            let asked = tokio::spawn(async move { self.answer(&query, unwanted).await });
            let answer = asked.await.map_err(|error| SqlError::internal(error.to_string()))??;
            counted(answer.rows.iter().map(RecordBatch::get_array_memory_size).sum());
            Ok::<_, SqlError>(answer)
        };
        let of_answer = Arc::clone(&schema);
        let batches = stream::once(answered)
            .map_err(|error| DataFusionError::External(Box::new(error)))
            .map_ok(move |answer| stream::iter(batches(answer, &of_answer)))
            .try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed()))
    }

    async fn answer(&self, query: &RemoteQuery, mut unwanted: watch::Receiver<()>) -> Result<Answer> {
        let mut used = tokio::select! {
            biased;
            _ = unwanted.changed() => return Err(given_up()),
            used = self.ready() => used?,
        };
        let stop = used.writer.stop();
        let ended = {
            let mut asked = pin!(used.writer.execute(query));
            tokio::select! {
                biased;
                answer = &mut asked => Some(answer),
                // A query that has ended leaves the savepoints of its transaction to go back to.
                _ = unwanted.changed() => {
                    let stopped = async {
                        stop?.await.ok()?;
                        Some(asked.await)
                    };
                    tokio::time::timeout(STOP_MAX, stopped).await.ok().flatten()
                }
            }
        };
        let answer = ended.ok_or_else(given_up)?;
        used.end();
        answer
    }
}

/// Nobody is told.
fn given_up() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "the statement was given up")
}

/// Batches of the schema that is wanted; where no column is, the rows are counted.
fn batches(answer: Answer, schema: &SchemaRef) -> Vec<datafusion::error::Result<RecordBatch>> {
    let batch = |columns, rows: usize| {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    };
    if schema.fields().is_empty() {
        return vec![batch(vec![], usize::try_from(answer.count).unwrap_or(usize::MAX))];
    }
    answer.rows.into_iter().map(|rows| batch(rows.columns().to_vec(), rows.num_rows())).collect()
}
