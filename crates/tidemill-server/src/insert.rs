//! INSERT without a planner: rows of literals and parameters, or series, straight into event batches.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use tidemill_sql::insert::{InsertRows, InsertShape, SeriesColumn, Value};
use tidemill_sql::text::Context;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::stream::{ARRIVAL, StreamDefinition};

use crate::catalog::{Relation, Stream};
use crate::define::public;
use crate::server::Server;
use crate::value::ColumnBuilder;

/// Rows of one generated series at most.
const SERIES_ROWS_MAX: i64 = 10_000_000;

/// An insert into a stream, checked against one version of the catalog and executed any number of times.
#[derive(Debug)]
pub struct InsertPlan {
    pub stream: Arc<Stream>,
    pub version: u64,
    schema: SchemaRef,
    /// For each written column, its place in the event and its type; `None` if no view wants it.
    columns: Vec<Option<(usize, Type)>>,
    rows: InsertRows,
    /// Types of the parameters, in order.
    pub parameters: Vec<Type>,
}

/// A parameter of Bind: format and bytes.
pub type Parameter<'a> = (i16, Option<&'a [u8]>);

/// The stream of this name, or the error of INSERT.
pub fn target(server: &Server, name: &tidemill_sql::statement::Name) -> Result<Arc<Stream>> {
    let plain = public(name)?;
    server.catalog.stream(plain).ok_or_else(|| match server.catalog.get(plain) {
        Some(Relation::PlainView(_)) => {
            let message = format!("cannot insert into view \"{plain}\"");
            SqlError::new(SqlState::INVALID_OBJECT_STATE, message)
                .with_detail("Views are not automatically updatable.")
                .with_hint("Insert into the stream or the table that it reads.")
        }
        Some(_) => SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("cannot insert into continuous view \"{plain}\""),
        )
        .with_hint("Insert into the stream that it reads."),
        None => SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{plain}\" does not exist"))
            .with_position(name.position),
    })
}

/// Places of the named columns in a stream's events. A column that an undeclared stream does not have is ignored; for
/// a declared stream it is an error.
pub fn event_columns(stream: &Stream, names: &[String]) -> Result<Vec<Option<(usize, Type)>>> {
    if names.is_empty() {
        return Ok(stream.object.columns.iter().enumerate().map(|(i, (_, ty))| Some((i + 1, *ty))).collect());
    }
    let mut seen: Vec<&String> = Vec::new();
    names
        .iter()
        .map(|name| {
            if seen.contains(&name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            seen.push(name);
            if name == ARRIVAL {
                return Ok(Some((0, Type::new(Scalar::Timestamptz))));
            }
            let found = stream.object.columns.iter().position(|(n, _)| n == name);
            match found {
                Some(i) => Ok(Some((i + 1, stream.object.columns[i].1))),
                None if stream.object.declared => Err(SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" of relation \"{}\" does not exist", stream.object.name),
                )),
                None => Ok(None),
            }
        })
        .collect()
}

impl InsertPlan {
    pub fn new(server: &Server, shape: InsertShape) -> Result<Self> {
        let version = server.catalog.version();
        let stream = target(server, &shape.name)?;
        let columns = event_columns(&stream, &shape.columns)?;
        let width = columns.len();
        let widths: Vec<usize> = match &shape.rows {
            InsertRows::Values(rows) => rows.iter().map(Vec::len).collect(),
            InsertRows::Series(columns) => vec![columns.len()],
        };
        if widths.iter().any(|w| *w > width) {
            return Err(SqlError::syntax("INSERT has more expressions than target columns"));
        }
        if widths.iter().any(|w| *w < width && !shape.columns.is_empty()) {
            return Err(SqlError::syntax("INSERT has more target columns than expressions"));
        }
        let schema = stream.definition.event_schema();
        let parameters = parameter_types(&shape.rows, &columns)?;
        Ok(Self { stream, version, schema, columns, rows: shape.rows, parameters })
    }

    /// The events of one execution.
    pub fn events(
        &self,
        parameters: &[Parameter<'_>],
        context: &Context,
        now_us: i64,
    ) -> Result<RecordBatch> {
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; self.schema.fields().len()];
        let rows = match &self.rows {
            InsertRows::Values(rows) => {
                self.values(rows, parameters, context, &mut arrays)?;
                rows.len()
            }
            InsertRows::Series(columns) => self.series(columns, parameters, context, &mut arrays)?,
        };
        StreamDefinition::event_batch(&self.schema, arrays, rows, now_us)
            .map_err(|e| SqlError::internal(e.to_string()))
    }

    fn values(
        &self,
        rows: &[Vec<Value>],
        parameters: &[Parameter<'_>],
        context: &Context,
        arrays: &mut [Option<ArrayRef>],
    ) -> Result<()> {
        for (i, column) in self.columns.iter().enumerate() {
            let Some((place, ty)) = *column else { continue };
            let mut builder = ColumnBuilder::new(ty, context, rows.len());
            for row in rows {
                append(&mut builder, row.get(i).unwrap_or(&Value::Default), parameters, context)?;
            }
            arrays[place] = Some(builder.finish());
        }
        Ok(())
    }

    fn series(
        &self,
        columns: &[SeriesColumn],
        parameters: &[Parameter<'_>],
        context: &Context,
        arrays: &mut [Option<ArrayRef>],
    ) -> Result<usize> {
        let length = |c: &SeriesColumn| match c {
            SeriesColumn::Series { start, stop, step } => {
                let span = i128::from(*stop) - i128::from(*start);
                (span / i128::from(*step) + 1).clamp(0, i128::from(i64::MAX)) as i64
                    * i64::from(span.signum() * i128::from(*step).signum() >= 0)
            }
            SeriesColumn::Value(_) => 1,
        };
        let rows = columns
            .iter()
            .filter(|c| matches!(c, SeriesColumn::Series { .. }))
            .map(length)
            .max()
            .unwrap_or(0);
        if rows > SERIES_ROWS_MAX {
            let message = format!("a series of {rows} rows exceeds the limit of {SERIES_ROWS_MAX} rows");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let rows = rows as usize;
        for (source, column) in columns.iter().zip(&self.columns) {
            let Some((place, ty)) = *column else { continue };
            arrays[place] = Some(match source {
                SeriesColumn::Series { start, step, .. } => {
                    let count = length(source) as usize;
                    numbers(*start, *step, count, rows, ty, context)?
                }
                SeriesColumn::Value(value) => constant(value, rows, ty, parameters, context)?,
            });
        }
        Ok(rows)
    }
}

/// `count` numbers, then NULL up to `rows`, as PostgreSQL runs series of different lengths.
fn numbers(
    start: i64,
    step: i64,
    count: usize,
    rows: usize,
    ty: Type,
    context: &Context,
) -> Result<ArrayRef> {
    let value = |i: usize| start + step * i as i64;
    if ty == Type::new(Scalar::Int8) && count == rows {
        return Ok(Arc::new(Int64Array::from_iter_values((0..rows).map(value))));
    }
    let last = if count == 0 { start } else { value(count - 1) };
    let fits = i32::try_from(start).is_ok() && i32::try_from(last).is_ok();
    if ty == Type::new(Scalar::Int4) && count == rows && fits {
        return Ok(Arc::new(Int32Array::from_iter_values((0..rows).map(|i| value(i) as i32))));
    }
    let mut builder = ColumnBuilder::new(ty, context, rows);
    let mut text = itoa::Buffer::new();
    for i in 0..rows {
        if i < count {
            builder.append_text(text.format(value(i)).as_bytes())?;
        } else {
            builder.append_null();
        }
    }
    Ok(builder.finish())
}

fn constant(
    value: &Value,
    rows: usize,
    ty: Type,
    parameters: &[Parameter<'_>],
    context: &Context,
) -> Result<ArrayRef> {
    let mut one = ColumnBuilder::new(ty, context, 1);
    append(&mut one, value, parameters, context)?;
    let scalar = datafusion::common::ScalarValue::try_from_array(&one.finish(), 0)
        .map_err(|e| SqlError::internal(e.to_string()))?;
    scalar.to_array_of_size(rows).map_err(|e| SqlError::internal(e.to_string()))
}

fn append(
    builder: &mut ColumnBuilder,
    value: &Value,
    parameters: &[Parameter<'_>],
    context: &Context,
) -> Result<()> {
    match value {
        Value::Null | Value::Default => builder.append_null(),
        Value::Bool(value) => builder.append_text(if *value { b"true" } else { b"false" })?,
        Value::Number(text) => append_number(builder, text)?,
        Value::String(text) => builder.append_text(text.as_bytes())?,
        Value::Cast(inner, ty) => {
            // The cast may refuse or round what the column's own type would take.
            let mut cast = ColumnBuilder::new(*ty, context, 1);
            append(&mut cast, inner, parameters, context)?;
            let array = cast.finish();
            let encoder = crate::value::ValueEncoder::new(&array, *ty, context)?;
            if encoder.is_null(0) {
                builder.append_null();
            } else {
                let mut text = Vec::new();
                encoder.write_text(0, &mut text)?;
                builder.append_text(&text)?;
            }
        }
        Value::Parameter(number) => match parameters.get(number - 1) {
            Some((_, None)) => builder.append_null(),
            Some((0, Some(bytes))) => builder.append_text(bytes)?,
            Some((_, Some(bytes))) => builder.append_binary(bytes)?,
            None => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_PARAMETER,
                    format!("there is no parameter ${number}"),
                ));
            }
        },
    }
    Ok(())
}

/// A numeric literal is assigned: rounded for an integer column, as PostgreSQL's assignment cast does.
fn append_number(builder: &mut ColumnBuilder, text: &str) -> Result<()> {
    let is_integer =
        matches!(builder.ty().scalar, Scalar::Int2 | Scalar::Int4 | Scalar::Int8) && !builder.ty().array;
    if is_integer && text.contains(['.', 'e', 'E']) {
        let rounded = tidemill_sql::numeric::Numeric::parse(text)?.round(0)?;
        return builder.append_text(rounded.to_string().as_bytes());
    }
    builder.append_text(text.as_bytes())
}

fn parameter_types(rows: &InsertRows, columns: &[Option<(usize, Type)>]) -> Result<Vec<Type>> {
    let mut types: Vec<Option<Type>> = Vec::new();
    let mut note = |value: &Value, ty: Type| {
        let (number, ty) = match value {
            Value::Parameter(number) => (*number, ty),
            Value::Cast(inner, cast) => match inner.as_ref() {
                Value::Parameter(number) => (*number, *cast),
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        if number == 0 || number > u16::MAX as usize {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${number}"),
            ));
        }
        if types.len() < number {
            types.resize(number, None);
        }
        types[number - 1].get_or_insert(ty);
        Ok(())
    };
    let type_at = |i: usize| columns.get(i).copied().flatten().map_or(Type::new(Scalar::Text), |(_, ty)| ty);
    match rows {
        InsertRows::Values(rows) => {
            for (i, value) in rows.iter().flat_map(|row| row.iter().enumerate()) {
                note(value, type_at(i))?;
            }
        }
        InsertRows::Series(series) => {
            for (i, column) in series.iter().enumerate() {
                if let SeriesColumn::Value(value) = column {
                    note(value, type_at(i))?;
                }
            }
        }
    }
    Ok(types.into_iter().map(|t| t.unwrap_or(Type::new(Scalar::Text))).collect())
}
