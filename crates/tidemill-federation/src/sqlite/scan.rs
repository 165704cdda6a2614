//! The rows of a query, read by a thread of its own.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use parking_lot::Mutex;
use rusqlite::types::ValueRef;
use tidemill_sql::Result;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;

use super::Database;
use super::declared::{check_columns, is_epoch};
use crate::cell::{Cell, Rows};
use crate::connector::RemoteQuery;
use crate::snapshot::Shared;
use crate::thread;

/// Batches that wait for whoever reads them. When they are as many, nothing more is read.
const BATCHES_AHEAD: usize = 2;
/// Steps of SQLite's machine after which a query that nobody wants any more is noticed.
const STEPS: i32 = 10_000;

type Batches = Sender<datafusion::error::Result<RecordBatch>>;

pub fn rows(
    database: Database,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    batch_rows: usize,
    shared: Option<Arc<Shared>>,
    counted: Box<dyn Fn(usize) + Send + Sync>,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), BATCHES_AHEAD);
    let batches = builder.tx();
    let runtime = Handle::current();
    builder.spawn(thread::run(move || {
        let scan = Scan { database, query, schema, batch_rows, counted };
        scan.run(&runtime, shared, &batches)
    }));
    builder.build()
}

struct Scan {
    database: Database,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    batch_rows: usize,
    counted: Box<dyn Fn(usize) + Send + Sync>,
}

impl Scan {
    fn run(self, runtime: &Handle, shared: Option<Arc<Shared>>, batches: &Batches) -> Result<()> {
        if let Some(shared) = &shared {
            runtime.block_on(shared.taken.get_or_try_init(|| async { self.hold() }))?;
        }
        let mut connection = self.database.open()?;
        let failed = |error: rusqlite::Error| self.database.failed(&self.query, &error);
        let wanted = batches.clone();
        connection.progress_handler(STEPS, Some(move || wanted.is_closed())).map_err(failed)?;
        check_columns(&self.database, &connection, &self.query)?;
        let mut statement = connection.prepare(&self.query.sql).map_err(failed)?;
        let mut found = statement.query([]).map_err(failed)?;
        let mut rows = Rows::new(&self.database.name, &self.query, Arc::clone(&self.schema), self.batch_rows);
        let is_epoch: Vec<bool> =
            self.query.columns.iter().map(|c| is_epoch(&self.query, &c.remote)).collect();
        let mut bytes = 0;
        loop {
            let row = match found.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                // Nobody waits for the rest.
                Err(_) if batches.is_closed() => return Ok(()),
                Err(error) => return Err(failed(error)),
            };
            for (place, is_epoch) in is_epoch.iter().enumerate() {
                let value = row.get_ref(place).map_err(failed)?;
                bytes += length(value);
                rows.put(place, cell(value, *is_epoch))?;
            }
            if let Some(batch) = rows.end_row()?
                && !self.pass_on(batch, std::mem::take(&mut bytes), batches)
            {
                return Ok(());
            }
        }
        if let Some(batch) = rows.finish()? {
            self.pass_on(batch, bytes, batches);
        }
        Ok(())
    }

    /// Keeps writers from committing until all scans of the statement have ended, so that they read the same. A database with a
    /// write-ahead log has no such way.
    fn hold(&self) -> Result<Box<dyn Any + Send + Sync>> {
        let connection = self.database.open()?;
        connection
            .execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")
            .map_err(|error| self.database.failed(&self.query, &error))?;
        Ok(Box::new(Mutex::new(connection)))
    }

    /// Waits until there is room; false: nobody wants it.
    fn pass_on(&self, batch: RecordBatch, bytes: usize, batches: &Batches) -> bool {
        (self.counted)(bytes);
        batches.blocking_send(Ok(batch)).is_ok()
    }
}

/// Bytes of a value as SQLite gives it.
fn length(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null => 0,
        ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
    }
}

pub fn cell(value: ValueRef<'_>, is_epoch: bool) -> Cell<'_> {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(seconds) if is_epoch => Cell::Time(seconds.saturating_mul(1_000_000)),
        ValueRef::Integer(value) => Cell::Integer(value),
        ValueRef::Real(value) => Cell::Float(value),
        ValueRef::Text(text) => Cell::Text(text),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes),
    }
}
