//! Values of Arrow batches, for databases that are given them one by one.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Schema, TimestampMicrosecondType, UInt32Type,
};
use arrow::record_batch::RecordBatch;
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::Scalar;
use tidemill_sql::value::ValueEncoder;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::cell::Cell;
use crate::connector::{Assigned, Assignment, Insertion, RemoteColumn, RemoteQuery};

/// The rows of an insertion.
pub struct Values<'a> {
    into: &'a Insertion,
    columns: Vec<(&'a RemoteColumn, &'a ArrayRef, ValueEncoder)>,
}

impl<'a> Values<'a> {
    pub fn new(into: &'a Insertion, rows: &'a RecordBatch) -> Result<Self> {
        let context = Context { now: 0.into(), zone: TimeZone::UTC };
        let column = |(column, array): (&'a RemoteColumn, &'a ArrayRef)| {
            Ok((column, array, ValueEncoder::new(array, column.ty, &context)?))
        };
        let columns = into.columns.iter().zip(rows.columns()).map(column).collect::<Result<_>>()?;
        Ok(Self { into, columns })
    }

    pub fn scalar(&self, column: usize) -> Scalar {
        self.columns[column].0.ty.scalar
    }

    /// A value. What has no form of its own is a text, which is written into `text`.
    pub fn get<'t>(&self, column: usize, row: usize, text: &'t mut Vec<u8>) -> Result<Cell<'t>> {
        let (RemoteColumn { ty, .. }, array, encoder) = &self.columns[column];
        if encoder.is_null(row) {
            return Ok(Cell::Null);
        }
        text.clear();
        Ok(match ty.scalar {
            _ if ty.array => written(encoder, row, text)?,
            Scalar::Bool => Cell::Bool(array.as_boolean().value(row)),
            Scalar::Int2 => Cell::Integer(array.as_primitive::<Int16Type>().value(row).into()),
            Scalar::Int4 => Cell::Integer(array.as_primitive::<Int32Type>().value(row).into()),
            Scalar::Int8 => Cell::Integer(array.as_primitive::<Int64Type>().value(row)),
            Scalar::Oid => Cell::Integer(array.as_primitive::<UInt32Type>().value(row).into()),
            Scalar::Float4 => Cell::Float(array.as_primitive::<Float32Type>().value(row).into()),
            Scalar::Float8 => Cell::Float(array.as_primitive::<Float64Type>().value(row)),
            Scalar::Timestamp | Scalar::Timestamptz => {
                Cell::Time(array.as_primitive::<TimestampMicrosecondType>().value(row))
            }
            Scalar::Bytea => {
                encoder.write_binary(row, text)?;
                Cell::Bytes(text)
            }
            _ => written(encoder, row, text)?,
        })
    }

    /// The constants of an UPDATE as the one row of an insertion: what is refused of that is refused of them.
    pub fn of_constants(statement: &RemoteQuery) -> Result<Option<(Insertion, RecordBatch)>> {
        let (mut columns, mut arrays) = (Vec::new(), Vec::new());
        for Assignment { column, value } in &statement.assigned {
            if let Assigned::Constant(value) = value {
                arrays.push(value.to_array().map_err(|error| SqlError::internal(error.to_string()))?);
                columns.push(column.clone());
            }
        }
        if columns.is_empty() {
            return Ok(None);
        }
        let fields: Vec<_> = columns.iter().map(|column| column.ty.field(&column.name)).collect();
        let row = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        let row = row.map_err(|error| SqlError::internal(error.to_string()))?;
        Ok(Some((Insertion::of(statement, columns), row)))
    }

    /// The error for a value that the other side would make another one of.
    pub fn refused(&self, column: usize, why: &str) -> SqlError {
        let (RemoteColumn { name, remote, .. }, ..) = &self.columns[column];
        let Insertion { definition, relation, .. } = self.into;
        let message = format!(
            "value for column \"{name}\" of foreign table \"{}\" cannot be kept: {why}",
            definition.name
        );
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
            .with_detail(format!("It is column \"{remote}\" of {relation} there."))
    }
}

/// The error for an UPDATE that gives a column the values of another, of which it would make others.
pub fn not_kept(statement: &RemoteQuery, column: &RemoteColumn, from: &RemoteColumn, why: &str) -> SqlError {
    let message = format!(
        "column \"{}\" of foreign table \"{}\" would not keep every value of column \"{}\"",
        column.name, statement.table, from.name
    );
    SqlError::unsupported(message).with_detail(format!("In {} there, {why}.", statement.relation))
}

fn written<'t>(encoder: &ValueEncoder, row: usize, text: &'t mut Vec<u8>) -> Result<Cell<'t>> {
    encoder.write_text(row, text)?;
    Ok(Cell::Text(text))
}
