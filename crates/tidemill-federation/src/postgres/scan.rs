//! The rows of a query: `COPY (query) TO STDOUT (FORMAT binary)`, decoded as they come.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use futures::channel::mpsc::Receiver;
use futures::future::FusedFuture;
use futures::{FutureExt, StreamExt};
use tidemill_sql::copy::{CopyColumn, CopyDecoder, CopyFormat};
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::mpsc::Sender;
use tokio::task::consume_budget;
use tokio_postgres::{Error, Statement};

use super::column::{fits, mismatch};
use super::connect::{Connection, Pool};
use super::error::{failed, incomplete};
use super::outlet::{Piece, Told, TooLong};
use super::running::Running;
use super::snapshot;
use crate::bound::Bounds;
use crate::cascade::Below;
use crate::connector::RemoteQuery;
use crate::snapshot::Shared;

/// Batches that wait for whoever reads them. When they are as many, the server is read no further.
const BATCHES_AHEAD: usize = 2;
/// How long rows wait for those that would fill their batch, when none come.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// What a Tidemill has got from its nodes.
const BELOW: &str = "SELECT node, state = 'skipped', rows, error FROM tidemill.last_query_nodes";
pub(super) const BEGIN: &str = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY";

type Batches = Sender<datafusion::error::Result<RecordBatch>>;

/// Runs the query in a task of its own, which ends with the stream.
pub fn rows(
    pool: Arc<Pool>,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    bounds: Bounds,
    shared: Option<Arc<Shared>>,
    counted: Box<dyn Fn(usize) + Send + Sync>,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), BATCHES_AHEAD);
    let batches = builder.tx();
    builder.spawn(async move {
        let scan = Scan { pool, query, schema, bounds, shared, counted };
        scan.run(batches).await.map_err(|error| DataFusionError::External(Box::new(error)))
    });
    builder.build()
}

struct Scan {
    pool: Arc<Pool>,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    bounds: Bounds,
    shared: Option<Arc<Shared>>,
    counted: Box<dyn Fn(usize) + Send + Sync>,
}

/// Why there are no more rows.
struct Failure {
    error: SqlError,
    /// The connection was lost before anything came: another one may do.
    is_lost_early: bool,
}

/// What was seen before the columns were known.
#[derive(Default)]
struct Early {
    rows: Option<Piece>,
    ended: Option<std::result::Result<(), Error>>,
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self { error, is_lost_early: false }
    }
}

impl Scan {
    async fn run(mut self, batches: Batches) -> Result<()> {
        let Some(kept) = self.connection().await? else { return Ok(()) };
        let is_used = kept.is_used;
        match self.copy(kept, &batches).await {
            Err(Failure { error, is_lost_early: true }) if is_used => {
                tracing::debug!(%error, "a kept connection was lost");
                let new = self.pool.connect().await?;
                self.copy(new, &batches).await.map_err(|failure| failure.error)
            }
            copied => copied.map_err(|failure| failure.error),
        }
    }

    /// `None`: another scan reads its rows.
    async fn connection(&mut self) -> Result<Option<Connection>> {
        let Some(shared) = &self.shared else { return self.pool.get().await.map(Some) };
        let exported = snapshot::shared(shared, &self.pool, &self.query).await?;
        let is_spare = match self.query.range.clone() {
            Some(range) if !exported.is_divided && range.is_first => {
                self.query = Arc::new(range.whole.clone());
                false
            }
            Some(_) if !exported.is_divided => {
                (self.counted)(0);
                return Ok(None);
            }
            range => range.is_some_and(|range| !range.is_first),
        };
        exported.connection(is_spare).await.map(Some)
    }

    /// All that the server is told, at once.
    async fn script(&self, connection: &Connection) -> Result<String> {
        let mut script = BEGIN.to_string();
        if connection.is_tidemill {
            if let Some(cascade) = &self.query.cascade {
                script += &format!("; {}", cascade.settings(true));
            }
        } else if let Some(shared) = &self.shared {
            let exported = snapshot::shared(shared, &self.pool, &self.query).await?;
            if let Some(name) = exported.name() {
                script += &format!("; SET TRANSACTION SNAPSHOT '{name}'");
            }
        }
        Ok(script + &format!("; COPY ({}) TO STDOUT (FORMAT binary); COMMIT", self.query.sql))
    }

    async fn copy(&self, connection: Connection, batches: &Batches) -> std::result::Result<(), Failure> {
        let script = self.script(&connection).await?;
        let mut running = Running::new(connection, &self.pool);
        let Some(connection) = &running.connection else { return Ok(()) };
        let received = self.receive(connection, &script, batches).await;
        if let Err(Failure { error, .. }) = &received
            && error.state == SqlState::PROTOCOL_VIOLATION
        {
            // What it says next would be taken for the answer to something else.
            drop(running.connection.take());
        }
        let is_over = received?;
        if is_over && let Some(connection) = running.connection.take() {
            if let Some(cascade) = self.query.cascade.as_ref().filter(|_| connection.is_tidemill) {
                let warnings = connection.take_warnings(&self.pool.server);
                if !warnings.is_empty() {
                    cascade.report(self.below(&connection).await?);
                }
                cascade.warn(warnings);
            }
            self.pool.put(connection);
        }
        Ok(())
    }

    /// The nodes of another Tidemill, if it has left out any for this query.
    async fn below(&self, connection: &Connection) -> Result<Vec<Below>> {
        let found = connection.client.query_typed(BELOW, &[]).await;
        let found = found.map_err(|error| failed(&self.pool.server, &RemoteQuery::command(BELOW), &error))?;
        let nodes = found.iter().map(|row| {
            let (node, is_skipped, rows): (_, _, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok(Below { node, is_skipped, rows: rows.unsigned_abs(), error: row.try_get(3)? })
        });
        let nodes = nodes.collect::<std::result::Result<Vec<_>, Error>>();
        let nodes = nodes.map_err(|error| failed(&self.pool.server, &RemoteQuery::command(BELOW), &error))?;
        Ok(if nodes.iter().any(|node| node.is_skipped) { nodes } else { vec![] })
    }

    /// Whether all rows were wanted: then the transaction is over.
    async fn receive(
        &self,
        connection: &Connection,
        script: &str,
        batches: &Batches,
    ) -> std::result::Result<bool, Failure> {
        let mut pieces = connection.rows.open(self.bounds.row_bytes_max);
        let describing = pin!(connection.client.prepare(&self.query.sql));
        let mut ending = pin!(connection.client.batch_execute(script).fuse());
        let describing = self.describe(connection, describing, &mut ending, &mut pieces);
        let early = self.pool.attended(connection, describing).await?;
        // It is reached, and may run for long: it is not tried again.
        (self.counted)(0);
        let mut decoder = self.decoder();
        if let Some(rows) = early.rows
            && !self.decode(&mut decoder, rows, batches).await?
        {
            return Ok(false);
        }
        let mut ended = early.ended;
        let mut are_waiting = true;
        let mut forgotten = pin!(self.pool.until_forgotten(connection));
        while ended.is_none() {
            tokio::select! {
                biased;
                Some(rows) = pieces.next() => {
                    if !self.decode(&mut decoder, rows, batches).await? {
                        return Ok(false);
                    }
                    are_waiting = true;
                }
                result = &mut ending => ended = Some(result),
                lost = &mut forgotten => return Err(lost.into()),
                () = tokio::time::sleep(PAUSE_MAX), if are_waiting => {
                    are_waiting = false;
                    if let Some(batch) = decoder.take_any().map_err(|error| self.garbled(error))?
                        && !self.pass_on(batch, batches).await?
                    {
                        return Ok(false);
                    }
                }
            }
        }
        ended.transpose().map_err(|error| failed(&self.pool.server, &self.query, &error))?;
        connection.rows.close();
        while let Some(rows) = pieces.next().await {
            if !self.decode(&mut decoder, rows, batches).await? {
                return Ok(false);
            }
        }
        let told = connection.rows.told();
        // Before the decoder misses what has not come.
        if !told.is_ended() {
            self.check_end(told, &decoder)?;
        }
        while let Some(batch) = decoder.finish().map_err(|error| self.garbled(error))? {
            if !self.pass_on(batch, batches).await? {
                return Ok(false);
            }
        }
        self.check_end(told, &decoder)?;
        Ok(true)
    }

    /// A result that is cut short looks like one of fewer rows: what the server says of it has to fit.
    fn check_end(&self, told: Told, decoder: &CopyDecoder) -> Result<()> {
        match told.gap(self.query.columns.len(), decoder.rows(), decoder.has_trailer()) {
            None => Ok(()),
            Some(gap) => Err(incomplete(&self.pool.server, &self.query, gap)),
        }
    }

    /// Checks the columns. COPY is on its way before they are known, so its answers may be seen earlier; only if a type is not
    /// one of PostgreSQL's own the library has to ask for it after the COPY, which has then been in vain.
    async fn describe(
        &self,
        connection: &Connection,
        mut describing: Pin<&mut impl Future<Output = std::result::Result<Statement, Error>>>,
        ending: &mut Pin<&mut impl FusedFuture<Output = std::result::Result<(), Error>>>,
        pieces: &mut Receiver<Piece>,
    ) -> std::result::Result<Early, Failure> {
        let mut early = Early::default();
        let mut is_in_vain = false;
        let described = loop {
            tokio::select! {
                biased;
                described = &mut describing => break described,
                Some(rows) = pieces.next() => match early.rows {
                    None => early.rows = Some(rows),
                    Some(_) if is_in_vain => {}
                    Some(_) => {
                        is_in_vain = true;
                        self.pool.cancel(connection.client.cancel_token()).await?;
                    }
                },
                ended = &mut *ending, if early.ended.is_none() => early.ended = Some(ended),
            }
        };
        let described = described.map_err(|error| {
            let error = failed(&self.pool.server, &self.query, &error);
            Failure { is_lost_early: error.state == SqlState::CONNECTION_FAILURE, error }
        })?;
        self.check_columns(&described)?;
        match is_in_vain {
            true => Err(SqlError::internal("rows came before their columns").into()),
            false => Ok(early),
        }
    }

    /// Binary values say nothing about their type, so what the server calls them has to fit.
    fn check_columns(&self, described: &Statement) -> Result<()> {
        for (wanted, found) in self.query.columns.iter().zip(described.columns()) {
            if !fits(wanted.ty, found.type_().oid()) {
                let RemoteQuery { table, relation, .. } = self.query.as_ref();
                return Err(mismatch(&self.pool.server, table, relation, wanted, &found.into()));
            }
        }
        if described.columns().len() != self.query.columns.len() {
            let message = format!("server \"{}\" sends other columns than asked for", self.pool.server);
            return Err(SqlError::new(SqlState::FDW_ERROR, message));
        }
        Ok(())
    }

    fn decoder(&self) -> CopyDecoder {
        let columns = self.query.columns.iter().map(|c| CopyColumn { name: c.name.clone(), ty: c.ty });
        let columns: Vec<_> = columns.collect();
        let context = Context { now: 0.into(), zone: TimeZone::UTC };
        let (table, Bounds { batch_rows, row_bytes_max }) = (&self.query.table, self.bounds);
        CopyDecoder::with_batch_rows(&CopyFormat::Binary, &columns, table, &context, batch_rows)
            .with_row_bytes_max(row_bytes_max)
    }

    /// Whether the rows are wanted.
    async fn decode(&self, decoder: &mut CopyDecoder, rows: Piece, batches: &Batches) -> Result<bool> {
        // The pieces come through a channel that lets nobody else in.
        consume_budget().await;
        let rows = rows.map_err(|TooLong| self.too_long())?;
        (self.counted)(rows.len());
        decoder.push_messages(&rows).map_err(|error| self.garbled(error))?;
        while let Some(batch) = decoder.take_batch() {
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

    fn too_long(&self) -> SqlError {
        let (server, bytes) = (&self.pool.server, self.bounds.row_bytes_max);
        let message = format!("a row of server \"{server}\" is longer than {bytes} bytes");
        SqlError::new(SqlState::OUT_OF_MEMORY, message)
            .with_context(format!("remote SQL command on server \"{server}\": {}", self.query.excerpt()))
            .with_hint("Raise \"query_memory_limit\"; a row has at most 1 GB.")
    }

    /// What came is no row of the columns that were asked for, or too long to be kept.
    fn garbled(&self, error: SqlError) -> SqlError {
        if error.state == SqlState::PROGRAM_LIMIT_EXCEEDED {
            return self.too_long();
        }
        let server = &self.pool.server;
        error.within(format!("remote SQL command on server \"{server}\": {}", self.query.excerpt()))
    }
}
