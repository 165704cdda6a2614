//! The rows of a query, in MySQL's binary protocol.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use mysql_async::Value;
use mysql_async::prelude::Queryable;
use tidemill_sql::Result;
use tidemill_sql::types::Scalar;
use tokio::sync::mpsc::Sender;

use super::check;
use super::connect::{Connection, Pool};
use crate::cell::{Cell, Rows};
use crate::connector::RemoteQuery;

/// Batches that wait for whoever reads them. When they are as many, the server is read no further.
const BATCHES_AHEAD: usize = 2;

/// Runs the query in a task of its own, which ends with the stream.
pub fn rows(
    pool: Arc<Pool>,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    batch_rows: usize,
    counted: Box<dyn Fn(usize) + Send + Sync>,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), BATCHES_AHEAD);
    let batches = builder.tx();
    builder.spawn(async move {
        let scan = Scan { pool, query, schema, batch_rows, counted, batches };
        scan.run().await.map_err(|error| DataFusionError::External(Box::new(error)))
    });
    builder.build()
}

struct Scan {
    pool: Arc<Pool>,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    batch_rows: usize,
    counted: Box<dyn Fn(usize) + Send + Sync>,
    batches: Sender<datafusion::error::Result<RecordBatch>>,
}

impl Scan {
    async fn run(self) -> Result<()> {
        let mut connection = check::start(&self.pool, &self.query).await?;
        if self.send(&mut connection).await? {
            self.pool.put(connection);
        }
        Ok(())
    }

    /// Whether all rows were wanted.
    async fn send(&self, connection: &mut Connection) -> Result<bool> {
        let failed = |error: mysql_async::Error| self.pool.failed(&self.query, &error);
        let mut rows = Rows::new(&self.pool.server, &self.query, Arc::clone(&self.schema), self.batch_rows);
        let mut found = connection.conn()?.exec_iter(self.query.sql.as_str(), ()).await.map_err(failed)?;
        let mut text = String::new();
        while let Some(row) = found.next().await.map_err(failed)? {
            let mut bytes = 0;
            for (place, column) in self.query.columns.iter().enumerate() {
                let value = row.as_ref(place).unwrap_or(&Value::NULL);
                bytes += value.bin_len();
                rows.put(place, cell(value, column.ty.scalar, &mut text))?;
            }
            (self.counted)(usize::try_from(bytes).unwrap_or(0));
            if let Some(batch) = rows.end_row()?
                && self.batches.send(Ok(batch)).await.is_err()
            {
                return Ok(false);
            }
        }
        match rows.finish()? {
            Some(batch) => Ok(self.batches.send(Ok(batch)).await.is_ok()),
            None => Ok(true),
        }
    }
}

/// Dates and times are written into `text`.
pub fn cell<'a>(value: &'a Value, wanted: Scalar, text: &'a mut String) -> Cell<'a> {
    match value {
        Value::NULL => Cell::Null,
        Value::Int(value) => Cell::Integer(*value),
        Value::UInt(value) => i64::try_from(*value).map_or(Cell::Unsigned(*value), Cell::Integer),
        Value::Float(value) => Cell::Float(f64::from(*value)),
        Value::Double(value) => Cell::Float(*value),
        Value::Bytes(bytes) if wanted == Scalar::Bytea => Cell::Bytes(bytes),
        Value::Bytes(bytes) if wanted == Scalar::Uuid && bytes.len() == 16 => Cell::Bytes(bytes),
        // Decimals are texts.
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(written) if matches!(wanted, Scalar::Numeric | Scalar::Int8) => Cell::Number(written),
            _ => Cell::Text(bytes),
        },
        Value::Date(..) | Value::Time(..) => {
            text.clear();
            write_time(value, wanted == Scalar::Date, text);
            Cell::Text(text.as_bytes())
        }
    }
}

fn write_time(value: &Value, is_date: bool, text: &mut String) {
    let written = match *value {
        Value::Date(year, month, day, ..) if is_date => write!(text, "{year:04}-{month:02}-{day:02}"),
        Value::Date(year, month, day, hour, minute, second, us) => {
            write!(text, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{us:06}")
        }
        Value::Time(is_negative, days, hour, minute, second, us) => {
            let (sign, hours) = (if is_negative { "-" } else { "" }, u64::from(days) * 24 + u64::from(hour));
            write!(text, "{sign}{hours:02}:{minute:02}:{second:02}.{us:06}")
        }
        _ => Ok(()),
    };
    written.expect("a string can be written to");
}
