//! The rows of a query, as its answer comes.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use tidemill_sql::text::{JsonValue, json_string, write_timestamp};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::mpsc::Sender;

use super::answer::{self, Series};
use super::dialect::{InfluxDialect, TIME, TIME_TEXT};
use super::http::Address;
use super::import::{self, Measurement};
use crate::cell::{Cell, Rows};
use crate::connector::RemoteQuery;
use crate::dialect::Dialect;
use crate::table::ForeignColumn;

/// Batches that wait for whoever reads them. When they are as many, the server is read no further.
const BATCHES_AHEAD: usize = 2;

/// Runs the query in a task of its own, which ends with the stream.
pub fn rows(
    address: Arc<Address>,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    batch_rows: usize,
    counted: Box<dyn Fn(usize) + Send + Sync>,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), BATCHES_AHEAD);
    let batches = builder.tx();
    builder.spawn(async move {
        let scan = Scan { address, query, schema, batch_rows, counted, batches };
        scan.run().await.map_err(|error| DataFusionError::External(Box::new(error)))
    });
    builder.build()
}

struct Scan {
    address: Arc<Address>,
    query: Arc<RemoteQuery>,
    schema: SchemaRef,
    batch_rows: usize,
    counted: Box<dyn Fn(usize) + Send + Sync>,
    batches: Sender<datafusion::error::Result<RecordBatch>>,
}

impl Scan {
    async fn run(self) -> Result<()> {
        self.check_table().await?;
        let (server, schema) = (&self.address.server, Arc::clone(&self.schema));
        let mut rows = Rows::new(server, &self.query, schema, self.batch_rows);
        let mut answer = self.address.ask(&self.query.sql).await?;
        while let Some(line) = answer.line().await.map_err(|error| self.address.lost(&error))? {
            (self.counted)(line.len());
            let found = answer::series(&line).map_err(|error| self.garbled(error))?;
            for series in found.map_err(|said| self.address.failed(&self.query, &said))? {
                if !self.send(&series, &mut rows).await? {
                    return Ok(());
                }
            }
        }
        if let Some(batch) = rows.finish()? {
            drop(self.batches.send(Ok(batch)).await);
        }
        Ok(())
    }

    /// False: nobody wants more.
    async fn send(&self, series: &Series, rows: &mut Rows<'_>) -> Result<bool> {
        let place = |name: &str| series.columns.iter().position(|column| column == name);
        let places: Vec<_> = self
            .query
            .columns
            .iter()
            .map(|column| place(if column.remote == TIME_TEXT { TIME } else { &column.remote }))
            .collect();
        for row in &series.rows {
            let values = answer::values(row).map_err(|error| self.garbled(error))?;
            for (column, place) in places.iter().enumerate() {
                let value = place.and_then(|place| values.get(place)).unwrap_or(&JsonValue::Null);
                self.put(rows, column, value)?;
            }
            if let Some(batch) = rows.end_row()?
                && self.batches.send(Ok(batch)).await.is_err()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn put(&self, rows: &mut Rows<'_>, column: usize, value: &JsonValue<'_>) -> Result<()> {
        let remote = self.query.columns.get(column).map_or("", |column| column.remote.as_str());
        match value {
            JsonValue::Null => rows.put(column, Cell::Null),
            JsonValue::Bool(value) => rows.put(column, Cell::Bool(*value)),
            JsonValue::Number(written) if remote == TIME || remote == TIME_TEXT => {
                let ns: i64 =
                    written.parse().map_err(|_| self.garbled(SqlError::invalid_text("time", written)))?;
                match remote {
                    TIME => rows.put(column, Cell::Time(ns.div_euclid(1000))),
                    _ => rows.put(column, Cell::Text(time_text(ns).as_bytes())),
                }
            }
            JsonValue::Number(written) => rows.put(column, Cell::Number(written)),
            JsonValue::String(written) => rows.put(column, Cell::Text(json_string(written)?.as_bytes())),
            JsonValue::Composite(written) => rows.put(column, Cell::Json(written)),
        }
    }

    /// What a measurement has not is null in a query, and no error: so the columns have to be there.
    async fn check_table(&self) -> Result<()> {
        let definition = &self.query.definition;
        if self.address.is_checked(definition) {
            return Ok(());
        }
        let from = format!(" FROM {}", InfluxDialect.relation("", &definition.remote_table));
        let found = import::measurements(&self.address, &from).await?;
        let server = &self.address.server;
        let Some(found) = found.into_iter().find(|found| found.name == definition.remote_table) else {
            let message = format!(
                "foreign table \"{}\" does not fit server \"{server}\": measurement {} does not exist",
                definition.name, self.query.relation
            );
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
        };
        for column in &definition.columns {
            self.check_column(column, &found)?;
        }
        if let Some(tags) = definition.options.get("tags") {
            for tag in tags.split(',').map(str::trim) {
                if !found.tags.iter().any(|known| known == tag) {
                    return Err(self.no_column("tag", tag));
                }
            }
        }
        self.address.set_checked(definition);
        Ok(())
    }

    fn check_column(&self, column: &ForeignColumn, found: &Measurement) -> Result<()> {
        let ForeignColumn { name, ty, remote, .. } = column;
        let kind = found.kind(remote).ok_or_else(|| self.no_column("tag or field", remote))?;
        if fits(kind, *ty) {
            return Ok(());
        }
        let (table, relation, server) = (&self.query.table, &self.query.relation, &self.address.server);
        let message = format!(
            "column \"{name}\" of foreign table \"{table}\" is of type {}, but column \"{remote}\" of {relation} on server \"{server}\" is of type {kind}",
            ty.with_typmod(-1).display(),
        );
        Err(SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
            .with_hint("Give the foreign table's column the type that it has there."))
    }

    fn no_column(&self, what: &str, name: &str) -> SqlError {
        let (table, relation, server) = (&self.query.table, &self.query.relation, &self.address.server);
        let message = format!(
            "foreign table \"{table}\" does not fit server \"{server}\": measurement {relation} has no {what} \"{name}\""
        );
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    }

    fn garbled(&self, error: SqlError) -> SqlError {
        self.address.failed(&self.query, &error.message)
    }
}

fn fits(kind: &str, ty: Type) -> bool {
    use Scalar::*;
    let is_text = matches!(ty.scalar, Text | Varchar | Bpchar | Name | Json | Jsonb | Uuid);
    !ty.array
        && match kind {
            "time" => matches!(ty.scalar, Timestamp | Timestamptz),
            "float" => matches!(ty.scalar, Float8),
            "integer" => matches!(ty.scalar, Int2 | Int4 | Int8 | Numeric),
            "boolean" => ty.scalar == Bool,
            _ => is_text,
        }
}

/// As InfluxDB writes it: `2020-01-01T00:00:00.5Z`.
fn time_text(ns: i64) -> String {
    let (seconds, fraction) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let mut written = Vec::new();
    write_timestamp(seconds.saturating_mul(1_000_000), &mut written);
    let mut text = String::from_utf8_lossy(&written).replace(' ', "T");
    if fraction > 0 {
        text += format!(".{fraction:09}").trim_end_matches('0');
    }
    text + "Z"
}
