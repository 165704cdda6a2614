//! The rows of a query: `COPY (query) TO STDOUT (FORMAT binary)`, decoded as they come.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use futures::{FutureExt, StreamExt, join};
use tidemill_sql::copy::{CopyColumn, CopyDecoder, CopyFormat};
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio_postgres::{Column, CopyOutStream, Statement};

use super::connect::{Connection, Pool};
use super::error::failed;
use crate::connector::{RemoteColumn, RemoteQuery};
use crate::snapshot::Shared;

/// Batches that wait for whoever reads them. When they are as many, the server is read no further.
const BATCHES_AHEAD: usize = 2;
/// How long a query that nobody wants any more may take to end before its connection is closed.
const CANCEL_MAX: Duration = Duration::from_secs(5);
const BEGIN: &str = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY";

type Batches = Sender<datafusion::error::Result<RecordBatch>>;

/// Runs the query in a task of its own, which ends with the stream.
pub fn rows(
    pool: Arc<Pool>,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    batch_rows: usize,
    shared: Option<Arc<Shared>>,
    counted: Box<dyn Fn(usize) + Send + Sync>,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), BATCHES_AHEAD);
    let batches = builder.tx();
    builder.spawn(async move {
        let scan = Scan { pool, query, schema, batch_rows, shared, counted };
        scan.run(batches).await.map_err(|error| DataFusionError::External(Box::new(error)))
    });
    builder.build()
}

struct Scan {
    pool: Arc<Pool>,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    batch_rows: usize,
    shared: Option<Arc<Shared>>,
    counted: Box<dyn Fn(usize) + Send + Sync>,
}

impl Scan {
    async fn run(self, batches: Batches) -> Result<()> {
        let begin = match &self.shared {
            Some(shared) => format!("{BEGIN}; SET TRANSACTION SNAPSHOT '{}'", self.exported(shared).await?),
            None => BEGIN.to_string(),
        };
        let begin = match &self.query.cascade {
            Some(cascade) => format!("{begin}; {}", cascade.set_route(true)),
            None => begin,
        };
        let (running, copied) = self.start(&begin).await?;
        if self.send(copied, &batches).await? {
            match &self.query.cascade {
                Some(cascade) => cascade.warn(running.end_heard().await),
                None => running.end(),
            }
        }
        Ok(())
    }

    /// The name of the snapshot that scans share, which the first of them takes.
    async fn exported(&self, shared: &Shared) -> Result<String> {
        let found = shared.0.get_or_try_init(|| async {
            let exported = match Exported::new(&self.pool, self.pool.get().await?).await {
                // As in `start`.
                Err(error)
                    if error.is_closed() || error.code().is_some_and(|c| c.code().starts_with("57P")) =>
                {
                    Exported::new(&self.pool, self.pool.connect().await?).await
                }
                exported => exported,
            };
            let exported = exported.map_err(|error| failed(&self.pool.server, &self.query, &error))?;
            Ok::<_, SqlError>(Box::new(exported) as _)
        });
        let exported = found.await?.downcast_ref::<Exported>();
        exported
            .map(|exported| exported.name.clone())
            .ok_or_else(|| SqlError::internal("a snapshot of another kind"))
    }

    /// A connection that was kept may be lost without anybody knowing: then a new one is made.
    async fn start(&self, begin: &str) -> Result<(Running, CopyOutStream)> {
        let connection = self.pool.get().await?;
        let is_used = connection.is_used;
        match self.start_on(connection, begin).await {
            Err((error, true)) if is_used => {
                tracing::debug!(%error, "a kept connection was lost");
                self.start_on(self.pool.connect().await?, begin).await.map_err(|(error, _)| error)
            }
            started => started.map_err(|(error, _)| error),
        }
    }

    /// An error comes with whether the connection is lost.
    async fn start_on(
        &self,
        connection: Connection,
        begin: &str,
    ) -> std::result::Result<(Running, CopyOutStream), (SqlError, bool)> {
        let failed = |error: tokio_postgres::Error| {
            let failed = failed(&self.pool.server, &self.query, &error);
            let is_lost = failed.state == SqlState::CONNECTION_FAILURE;
            (failed, is_lost)
        };
        let running = Running { connection: Some(connection), pool: Arc::clone(&self.pool) };
        let Some(Connection { client, .. }) = &running.connection else {
            return Err((SqlError::internal("a scan has no connection"), false));
        };
        let copy = format!("COPY ({}) TO STDOUT (FORMAT binary)", self.query.sql);
        // All three are on their way before the first is answered.
        let (begun, described, prepared) =
            join!(client.batch_execute(begin), client.prepare(&self.query.sql), client.prepare(&copy));
        begun.map_err(failed)?;
        self.check_columns(&described.map_err(failed)?).map_err(|error| (error, false))?;
        // It is reached.
        (self.counted)(0);
        // From here on it may have run for long: it is not tried again.
        let copied = client.copy_out(&prepared.map_err(failed)?).await.map_err(|e| (failed(e).0, false))?;
        Ok((running, copied))
    }

    /// Binary values say nothing about their type, so what the server calls them has to fit.
    fn check_columns(&self, described: &Statement) -> Result<()> {
        for (wanted, found) in self.query.columns.iter().zip(described.columns()) {
            if !fits(wanted.ty, found.type_().oid()) {
                let RemoteQuery { table, relation, .. } = self.query.as_ref();
                return Err(mismatch(&self.pool.server, table, relation, wanted, found));
            }
        }
        if described.columns().len() != self.query.columns.len() {
            let message = format!("server \"{}\" sends other columns than asked for", self.pool.server);
            return Err(SqlError::new(SqlState::FDW_ERROR, message));
        }
        Ok(())
    }

    /// Whether all rows were wanted.
    async fn send(&self, copied: CopyOutStream, batches: &Batches) -> Result<bool> {
        let columns: Vec<_> =
            self.query.columns.iter().map(|c| CopyColumn { name: c.name.clone(), ty: c.ty }).collect();
        let context = Context { now_us: 0, zone: TimeZone::UTC };
        let (table, rows) = (&self.query.table, self.batch_rows);
        let mut decoder = CopyDecoder::with_batch_rows(&CopyFormat::Binary, &columns, table, &context, rows);
        let mut copied = std::pin::pin!(copied);
        while let Some(chunk) = copied.next().await {
            let chunk = chunk.map_err(|error| failed(&self.pool.server, &self.query, &error))?;
            (self.counted)(chunk.len());
            decoder.push(&chunk).map_err(|error| self.garbled(error))?;
            while let Some(batch) = decoder.take_batch() {
                if !self.pass_on(batch, batches).await? {
                    return Ok(false);
                }
            }
        }
        while let Some(batch) = decoder.finish().map_err(|error| self.garbled(error))? {
            if !self.pass_on(batch, batches).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until there is room; false: nobody wants it.
    async fn pass_on(&self, batch: RecordBatch, batches: &Batches) -> Result<bool> {
        let (_, columns, rows) = batch.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| SqlError::internal(error.to_string()))?;
        Ok(batches.send(Ok(batch)).await.is_ok())
    }

    /// What came is no row of the columns that were asked for.
    fn garbled(&self, error: SqlError) -> SqlError {
        let server = &self.pool.server;
        let context = error.context.clone().unwrap_or_default();
        error
            .with_context(format!("{context}\nremote SQL command on server \"{server}\": {}", self.query.sql))
    }
}

/// A column has another type there.
pub(super) fn mismatch(
    server: &str,
    table: &str,
    relation: &str,
    wanted: &RemoteColumn,
    found: &Column,
) -> SqlError {
    let found = match Type::from_oid(found.type_().oid()) {
        Some(ty) => ty.display(),
        None => found.type_().name().to_string(),
    };
    let message = format!(
        "column \"{}\" of foreign table \"{table}\" is of type {}, but column \"{}\" of {relation} on server \"{server}\" is of type {found}",
        wanted.name,
        wanted.ty.with_typmod(-1).display(),
        wanted.remote,
    );
    SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
        .with_hint("Give the foreign table's column the type that it has there.")
}

/// Whether values of a type there, by its number, are in the binary form of a type here.
pub(super) fn fits(ours: Type, theirs: u32) -> bool {
    use Scalar::*;
    let is_text = |ty: Type| matches!(ty.scalar, Text | Varchar | Bpchar | Name);
    ours.oid() == theirs
        || Type::from_oid(theirs).is_some_and(|ty| is_text(ty) && is_text(ours) && ty.array == ours.array)
}

/// A query that is under way there. Unless it came to its end, it is cancelled when this is dropped.
pub(super) struct Running {
    pub connection: Option<Connection>,
    pub pool: Arc<Pool>,
}

impl Running {
    /// All rows have come: the connection is free once it has read that the transaction is over, which nobody waits for.
    fn end(mut self) {
        if let Some(connection) = self.connection.take() {
            // Sent when it is first polled; what answers comes before the answers to the next query.
            drop(connection.client.batch_execute("COMMIT").now_or_never());
            self.pool.put(connection);
        }
    }

    /// As [`Running::end`], with the warnings that came.
    async fn end_heard(mut self) -> Vec<SqlError> {
        let Some(connection) = self.connection.take() else { return vec![] };
        // The answer comes after them.
        let ended = connection.client.batch_execute("COMMIT").await;
        let warnings = connection.take_warnings(&self.pool.server);
        if ended.is_ok() {
            self.pool.put(connection);
        }
        warnings
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (Some(connection), Ok(runtime)) = (self.connection.take(), Handle::try_current()) else { return };
        let pool = Arc::clone(&self.pool);
        // It has a deadline, so it needs no owner.
        runtime.spawn(async move {
            let canceled = async {
                connection.client.cancel_token().cancel_query(pool.tls.clone()).await?;
                connection.client.batch_execute("ROLLBACK").await
            };
            match tokio::time::timeout(CANCEL_MAX, canceled).await {
                Ok(Ok(())) => pool.put(connection),
                ended => tracing::debug!(?ended, server = pool.server, "a query could not be canceled"),
            }
        });
    }
}

/// A snapshot that other connections read. It lasts as long as its transaction, which is idle.
struct Exported {
    name: String,
    connection: Option<Connection>,
    pool: Arc<Pool>,
}

impl Exported {
    async fn new(
        pool: &Arc<Pool>,
        connection: Connection,
    ) -> std::result::Result<Self, tokio_postgres::Error> {
        let client = &connection.client;
        let (begun, exported) =
            join!(client.batch_execute(BEGIN), client.query_one("SELECT pg_export_snapshot()", &[]));
        begun?;
        let name = exported?.try_get(0)?;
        Ok(Self { name, connection: Some(connection), pool: Arc::clone(pool) })
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // As at the end of a scan.
            drop(connection.client.batch_execute("COMMIT").now_or_never());
            self.pool.put(connection);
        }
    }
}
