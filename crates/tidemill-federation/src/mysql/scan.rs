//! The rows of a query, in MySQL's binary protocol.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use mysql_async::prelude::Queryable;
use mysql_async::{Column, Value};
use tidemill_sql::types::Scalar;
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::mpsc::Sender;

use super::connect::{Connection, Pool};
use super::kind;
use crate::cell::{Cell, Rows};
use crate::connector::{RemoteColumn, RemoteQuery};
use crate::dialect::Dialect;
use crate::table::TableDefinition;

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
        let mut connection = self.start().await?;
        if self.send(&mut connection).await? {
            self.pool.put(connection);
        }
        Ok(())
    }

    /// A connection that was kept may be lost without anybody knowing: then a new one is made.
    async fn start(&self) -> Result<Connection> {
        let mut connection = self.pool.get().await?;
        match self.check_table(&mut connection).await {
            Err(error) if connection.is_used && error.state == SqlState::CONNECTION_FAILURE => {
                tracing::debug!(%error, "a kept connection was lost");
                let mut connection = self.pool.connect().await?;
                self.check_table(&mut connection).await.map(|()| connection)
            }
            checked => checked.map(|()| connection),
        }
    }

    /// A comparison with a value of another type is no error there, so the columns have to be of the right types.
    async fn check_table(&self, connection: &mut Connection) -> Result<()> {
        let definition = &self.query.definition;
        let failed = |error: mysql_async::Error| self.pool.failed(&self.query, &error);
        if definition.columns.is_empty() || self.pool.is_checked(definition) {
            return connection.conn()?.ping().await.map_err(failed);
        }
        let statement = connection.conn()?.prep(described(definition)).await.map_err(failed)?;
        for (column, found) in definition.columns.iter().zip(statement.columns()) {
            if !kind::fits(found, column.ty) {
                return Err(mismatch(&self.pool, &self.query, &column.remote_column(), found));
            }
        }
        connection.conn()?.close(statement).await.map_err(failed)?;
        self.pool.set_checked(definition);
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

/// A column has another type there.
pub fn mismatch(pool: &Pool, query: &RemoteQuery, column: &RemoteColumn, found: &Column) -> SqlError {
    let (table, relation, server) = (&query.table, &query.relation, &pool.server);
    let message = format!(
        "column \"{}\" of foreign table \"{table}\" is of type {}, but column \"{}\" of {relation} on server \"{server}\" is of type {}",
        column.name,
        column.ty.with_typmod(-1).display(),
        column.remote,
        kind::shown(found),
    );
    SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
        .with_hint("Give the foreign table's column the type that it has there.")
}

/// A query for the types of all columns, which is not carried out.
fn described(definition: &TableDefinition) -> String {
    let dialect = super::dialect::MysqlDialect;
    let columns: Vec<_> = definition.columns.iter().map(|column| dialect.name(&column.remote)).collect();
    let relation = dialect.relation(&definition.remote_schema, &definition.remote_table);
    format!("SELECT {} FROM {relation}", columns.join(", "))
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
