//! Rows of other databases into Arrow batches, value by value, each strictly of the type that the foreign table says.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use tidemill_sql::copy::BATCH_BYTES_MAX;
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::Scalar;
use tidemill_sql::value::ColumnBuilder;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::connector::{RemoteColumn, RemoteQuery};

/// PostgreSQL's binary timestamps count from 2000, microseconds.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// Integers up to this are floats without rounding.
const EXACT_MAX: u64 = 1 << f64::MANTISSA_DIGITS;

/// A value as another database has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    /// Too large for [`Cell::Integer`].
    Unsigned(u64),
    Float(f64),
    /// In decimal digits.
    Number(&'a str),
    /// An object or an array of JSON.
    Json(&'a str),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// Microseconds since 1970 in UTC.
    Time(i64),
    /// A value of the column's type in PostgreSQL's binary form.
    Binary(&'a [u8]),
}

impl Cell<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Cell::Null => "null",
            Cell::Bool(_) => "boolean",
            Cell::Integer(_) | Cell::Unsigned(_) => "integer",
            Cell::Float(_) => "float",
            Cell::Number(_) => "number",
            Cell::Json(_) => "json",
            Cell::Text(_) => "text",
            Cell::Bytes(_) | Cell::Binary(_) => "binary",
            Cell::Time(_) => "time",
        }
    }
}

/// Builds the batches of one scan.
pub struct Rows<'a> {
    server: &'a str,
    query: &'a RemoteQuery,
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    count: usize,
    batch_rows: usize,
}

impl<'a> Rows<'a> {
    pub fn new(server: &'a str, query: &'a RemoteQuery, schema: SchemaRef, batch_rows: usize) -> Self {
        let context = Context { now: 0.into(), zone: TimeZone::UTC };
        let batch_rows = batch_rows.max(1);
        let columns = query.columns.iter().map(|c| ColumnBuilder::new(c.ty, &context, batch_rows)).collect();
        Self { server, query, schema, columns, count: 0, batch_rows }
    }

    /// A value of the row that is being made; each column gets one.
    #[inline]
    pub fn put(&mut self, column: usize, cell: Cell<'_>) -> Result<()> {
        let Some(builder) = self.columns.get_mut(column) else {
            let message = format!("server \"{}\" sends more columns than asked for", self.server);
            return Err(SqlError::new(SqlState::FDW_ERROR, message));
        };
        match append(builder, cell) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.misfit(column, cell)),
            Err(error) => Err(self.bad_value(column, error)),
        }
    }

    /// The row has all its values. A batch when there are enough.
    pub fn end_row(&mut self) -> Result<Option<RecordBatch>> {
        self.count += 1;
        let is_full = self.count >= self.batch_rows
            || self.columns.iter().map(ColumnBuilder::size).sum::<usize>() > BATCH_BYTES_MAX;
        if is_full { self.finish() } else { Ok(None) }
    }

    /// What is there of a batch.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if self.count == 0 {
            return Ok(None);
        }
        let arrays = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        self.count = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map(Some)
            .map_err(|error| SqlError::internal(error.to_string()))
    }

    fn misfit(&self, column: usize, cell: Cell<'_>) -> SqlError {
        let Some(RemoteColumn { name, ty, remote }) = self.query.columns.get(column) else {
            return SqlError::internal("a value of no column");
        };
        let (table, relation, server) = (&self.query.table, &self.query.relation, self.server);
        let message = format!(
            "column \"{name}\" of foreign table \"{table}\" is of type {}, but column \"{remote}\" of {relation} on server \"{server}\" has a value of type {}",
            ty.with_typmod(-1).display(),
            cell.kind(),
        );
        SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
            .with_hint("Give the foreign table's column the type that it has there.")
    }

    fn bad_value(&self, column: usize, error: SqlError) -> SqlError {
        let name = self.query.columns.get(column).map_or("", |column| column.name.as_str());
        let (table, server) = (&self.query.table, self.server);
        let place = format!("column \"{name}\" of foreign table \"{table}\" on server \"{server}\"");
        let context = match &error.context {
            Some(inner) => format!("{inner}\n{place}"),
            None => place,
        };
        error.with_context(context)
    }
}

/// False: a value of such a kind is none of the column's type.
fn append(builder: &mut ColumnBuilder, cell: Cell<'_>) -> Result<bool> {
    use Scalar::*;
    let ty = builder.ty();
    let appended = match (ty.scalar, cell) {
        (_, Cell::Null) => {
            builder.append_null();
            Ok(())
        }
        (_, Cell::Binary(bytes)) => builder.append_binary(bytes),
        (_, Cell::Text(text)) if ty.array => builder.append_text(text),
        _ if ty.array => return Ok(false),
        (Bool, Cell::Bool(value)) => builder.append_binary(&[u8::from(value)]),
        (Bool, Cell::Integer(value @ 0..=1)) => builder.append_binary(&[u8::from(value == 1)]),
        (Int2 | Int4 | Int8 | Oid | Numeric, Cell::Integer(value)) => integer(builder, value),
        (Int2 | Int4 | Int8 | Oid | Numeric, Cell::Unsigned(value)) => {
            builder.append_text(value.to_string().as_bytes())
        }
        (Float4 | Float8, Cell::Integer(value)) if value.unsigned_abs() <= EXACT_MAX => {
            float(builder, value as f64)
        }
        (Float4 | Float8, Cell::Float(value)) => float(builder, value),
        (Numeric, Cell::Float(value)) => builder.append_text(format!("{value:?}").as_bytes()),
        (Int2 | Int4 | Int8 | Oid | Float4 | Float8 | Numeric | Json | Jsonb, Cell::Number(written)) => {
            builder.append_text(written.as_bytes())
        }
        (Json | Jsonb, Cell::Json(written)) => builder.append_text(written.as_bytes()),
        (Json | Jsonb, Cell::Bool(value)) => builder.append_text(value.to_string().as_bytes()),
        (Bytea, Cell::Bytes(bytes)) => builder.append_binary(bytes),
        (Uuid, Cell::Bytes(bytes)) if bytes.len() == 16 => builder.append_binary(bytes),
        (Timestamp | Timestamptz, Cell::Time(us)) => timestamp(builder, us),
        (Bool | Int2 | Int4 | Int8 | Oid | Float4 | Float8 | Bytea, Cell::Text(_)) => return Ok(false),
        (_, Cell::Text(text)) => builder.append_text(text),
        _ => return Ok(false),
    };
    appended.map(|()| true)
}

fn integer(builder: &mut ColumnBuilder, value: i64) -> Result<()> {
    match builder.ty().scalar {
        Scalar::Int8 => return builder.append_binary(&value.to_be_bytes()),
        Scalar::Int4 => {
            if let Ok(value) = i32::try_from(value) {
                return builder.append_binary(&value.to_be_bytes());
            }
        }
        _ => {}
    }
    // Says so if it is too large.
    builder.append_text(value.to_string().as_bytes())
}

fn float(builder: &mut ColumnBuilder, value: f64) -> Result<()> {
    if builder.ty().scalar == Scalar::Float8 {
        return builder.append_binary(&value.to_be_bytes());
    }
    let narrow = value as f32;
    if narrow.is_infinite() && value.is_finite() {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    builder.append_binary(&narrow.to_be_bytes())
}

fn timestamp(builder: &mut ColumnBuilder, us: i64) -> Result<()> {
    let us = us
        .checked_sub(EPOCH_MICROS)
        .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))?;
    builder.append_binary(&us.to_be_bytes())
}
