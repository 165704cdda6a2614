//! INSERT without a planner: rows of literals and parameters, or series, straight into event batches.

mod assign;
mod fill;
mod foreign;
mod route;
mod target;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use tidemill_sql::insert::{InsertRows, InsertShape, Placed, SeriesColumn, Value};
use tidemill_sql::planner::coerce::check_assignable;
use tidemill_sql::text::Context;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};

use crate::server::Server;
use assign::{Spot, as_written, own_type};
use tidemill_sql::value::ColumnBuilder;

pub use assign::{Assign, check_item, position_of_item};
pub use fill::{Computed, Fill};
pub use foreign::{ForeignTarget, rows_of};
pub use route::Route;
pub use target::{Place, Target};

/// Rows of one generated series at most.
const SERIES_ROWS_MAX: i64 = 10_000_000;

/// An insert, checked against one version of the catalog and executed any number of times.
#[derive(Debug)]
pub struct InsertPlan {
    pub target: Target,
    pub version: u64,
    /// For each written column, its place; `None` if nobody wants it, or it has its default in all rows.
    columns: Vec<Option<Place>>,
    rows: InsertRows,
    /// Types of the parameters, in order.
    pub parameters: Vec<Type>,
}

/// A parameter of Bind: format and bytes.
pub type Parameter<'a> = (i16, Option<&'a [u8]>);

impl InsertPlan {
    /// `None` if it takes a planner: a default that is to be computed, in some of the rows.
    pub fn new(server: &Server, mut shape: InsertShape) -> Result<Option<Self>> {
        let version = server.catalog.version();
        let target = Target::find(&server.catalog, &shape.name)?;
        let mut columns = target.columns(&shape.columns)?;
        check_widths(&shape, columns.len())?;
        check_types(&target, &shape.rows, &columns)?;
        let parameters = parameter_types(&shape.rows, &columns)?;
        if !place_defaults(&target, &mut shape.rows, &mut columns) {
            return Ok(None);
        }
        Ok(Some(Self { target, version, columns, rows: shape.rows, parameters }))
    }

    /// The columns of one execution in the places of the stream's events, and the number of rows.
    pub fn columns(
        &self,
        parameters: &[Parameter<'_>],
        context: &Context,
    ) -> Result<(Vec<Option<ArrayRef>>, usize)> {
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; self.target.stream().width()];
        let rows = match &self.rows {
            InsertRows::Values(rows) => {
                self.values(rows, parameters, context, &mut arrays)?;
                rows.len()
            }
            InsertRows::Series(columns) => self.series(columns, parameters, context, &mut arrays)?,
        };
        Ok((arrays, rows))
    }

    fn values(
        &self,
        rows: &[Vec<Placed>],
        parameters: &[Parameter<'_>],
        context: &Context,
        arrays: &mut [Option<ArrayRef>],
    ) -> Result<()> {
        for (i, column) in self.columns.iter().enumerate() {
            let Some((place, ty)) = *column else { continue };
            let mut builder = ColumnBuilder::new(ty, context, rows.len());
            for (number, row) in rows.iter().enumerate() {
                match row.get(i) {
                    Some(placed) => append(&mut builder, &placed.value, parameters, context)
                        .map_err(|error| self.locate(error, number, place, placed, parameters))?,
                    None => builder.append_null(),
                }
            }
            arrays[place] = Some(builder.into_array());
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
                    numbers(*start, *step, count, rows, ty, context).map_err(|(number, error)| {
                        let text = (start + step * number as i64).to_string();
                        self.spot(number, place).locate(error, Some(&text))
                    })?
                }
                SeriesColumn::Value(placed) => constant(&placed.value, rows, ty, parameters, context)
                    .map_err(|error| self.locate(error, 0, place, placed, parameters))?,
            });
        }
        Ok(rows)
    }

    fn spot(&self, number: usize, place: usize) -> Spot<'_> {
        let relation = &self.target.stream().object.name;
        Spot { relation, row: number + 1, column: self.target.column_name(place) }
    }

    /// Tells where the value is that could not be taken: of which row and column, and in the text, as PostgreSQL does.
    fn locate(
        &self,
        mut error: SqlError,
        number: usize,
        place: usize,
        placed: &Placed,
        parameters: &[Parameter<'_>],
    ) -> SqlError {
        if matches!(placed.value, Value::String(_) | Value::Cast(..)) {
            error.position = Some(placed.position);
        }
        self.spot(number, place).locate(error, as_written(&placed.value, parameters))
    }
}

fn check_widths(shape: &InsertShape, width: usize) -> Result<()> {
    let widths: Vec<usize> = match &shape.rows {
        InsertRows::Values(rows) => rows.iter().map(Vec::len).collect(),
        InsertRows::Series(columns) => vec![columns.len()],
    };
    if widths.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(SqlError::syntax("VALUES lists must all be the same length"));
    }
    if widths.iter().any(|w| *w > width) {
        return Err(SqlError::syntax("INSERT has more expressions than target columns"));
    }
    if widths.iter().any(|w| *w < width && !shape.columns.is_empty()) {
        return Err(SqlError::syntax("INSERT has more target columns than expressions"));
    }
    Ok(())
}

/// Refuses values that have a type of their own and no cast to their column's.
fn check_types(target: &Target, rows: &InsertRows, columns: &[Option<Place>]) -> Result<()> {
    let check = |i: usize, from: Type, position: Option<usize>| match columns.get(i).copied().flatten() {
        Some((place, to)) => check_assignable(target.column_name(place), to, from, position),
        None => Ok(()),
    };
    let check_value = |i: usize, placed: &Placed| match own_type(&placed.value) {
        Some(from) => check(i, from, Some(placed.position)),
        None => Ok(()),
    };
    match rows {
        InsertRows::Values(rows) => rows
            .iter()
            .flat_map(|row| row.iter().enumerate())
            .try_for_each(|(i, placed)| check_value(i, placed)),
        InsertRows::Series(series) => series.iter().enumerate().try_for_each(|(i, column)| match column {
            SeriesColumn::Series { .. } => check(i, Type::new(Scalar::Int4), None),
            SeriesColumn::Value(placed) => check_value(i, placed),
        }),
    }
}

/// Puts the defaults of a table into the rows that ask for them, or leaves a column out that has its default in all.
/// False if a default has to be computed for some of the rows.
fn place_defaults(target: &Target, rows: &mut InsertRows, columns: &mut [Option<Place>]) -> bool {
    let (Some(table), InsertRows::Values(rows)) = (target.table(), rows) else { return true };
    for (i, column) in columns.iter_mut().enumerate() {
        let Some(default) = column.and_then(|(place, _)| table.default(place - 1)) else { continue };
        let is_default = |row: &Vec<Placed>| row.get(i).is_none_or(|placed| placed.value == Value::Default);
        if rows.iter().all(is_default) {
            *column = None;
            continue;
        }
        let values = rows.iter_mut().filter_map(|row| Some(&mut row.get_mut(i)?.value));
        for value in values.filter(|value| **value == Value::Default) {
            let Some(constant) = &default.constant else { return false };
            value.clone_from(constant);
        }
    }
    true
}

/// `count` numbers, then NULL up to `rows`, as PostgreSQL runs series of different lengths. The error comes with the number
/// of the row, from 0.
fn numbers(
    start: i64,
    step: i64,
    count: usize,
    rows: usize,
    ty: Type,
    context: &Context,
) -> Result<ArrayRef, (usize, SqlError)> {
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
            append_number(&mut builder, text.format(value(i))).map_err(|error| (i, error))?;
        } else {
            builder.append_null();
        }
    }
    Ok(builder.finish())
}

pub fn constant(
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
            let encoder = tidemill_sql::value::ValueEncoder::new(&array, *ty, context)?;
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
    let ty = builder.ty();
    if !matches!(ty.scalar, Scalar::Int2 | Scalar::Int4 | Scalar::Int8) || ty.array {
        return builder.append_text(text.as_bytes());
    }
    let appended = if text.contains(['.', 'e', 'E']) {
        let rounded = tidemill_sql::numeric::Numeric::parse(text)?.round(0)?;
        builder.append_text(rounded.to_string().as_bytes())
    } else {
        builder.append_text(text.as_bytes())
    };
    // The number itself is right, as opposed to a text of one.
    appended.map_err(|error| match error.state {
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE => SqlError::out_of_range(&ty.display()),
        _ => error,
    })
}

fn parameter_types(rows: &InsertRows, columns: &[Option<Place>]) -> Result<Vec<Type>> {
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
            for (i, placed) in rows.iter().flat_map(|row| row.iter().enumerate()) {
                note(&placed.value, type_at(i))?;
            }
        }
        InsertRows::Series(series) => {
            for (i, column) in series.iter().enumerate() {
                if let SeriesColumn::Value(placed) = column {
                    note(&placed.value, type_at(i))?;
                }
            }
        }
    }
    Ok(types.into_iter().map(|t| t.unwrap_or(Type::new(Scalar::Text))).collect())
}
