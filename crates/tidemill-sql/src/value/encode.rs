//! Values of a column in PostgreSQL's text form (its `output` functions).

use crate::numeric::Numeric;
use crate::text::{self, Context};
use crate::types::{Scalar, Type};
use crate::{Result, SqlError};
use arrow::array::{Array, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, i256};

use super::source::{Source, taken};

/// Writes the values of one column, whatever Arrow type `Type::from_arrow` accepts it has.
pub struct ValueEncoder {
    pub(super) ty: Type,
    pub(super) context: Context,
    pub(super) nulls: Option<NullBuffer>,
    pub(super) source: Source,
}

impl ValueEncoder {
    /// `ty` is the type to show it as; it must be of the column's Arrow type.
    pub fn new(array: &dyn Array, ty: Type, context: &Context) -> Result<Self> {
        let source = if ty.array && *array.data_type() != DataType::Null {
            list(array, Type { array: false, ..ty }, context)?
        } else {
            Source::new(array)?
        };
        let encoder = Self { ty, context: context.clone(), nulls: array.logical_nulls(), source };
        if encoder.shows(ty.scalar) {
            return Ok(encoder);
        }
        Err(SqlError::internal(format!(
            "a column of type {} cannot be shown as {}",
            array.data_type(),
            ty.display()
        )))
    }

    /// Whether the column can be of this type.
    fn shows(&self, scalar: Scalar) -> bool {
        use Scalar::*;
        match &self.source {
            Source::Null | Source::List(..) => true,
            Source::Bool(_) => scalar == Bool,
            Source::Int2(_) => scalar == Int2,
            Source::Int4(_) => scalar == Int4,
            Source::Int8(_) => scalar == Int8,
            Source::Oid(_) => matches!(scalar, Oid | Xid) || scalar.is_object_name(),
            Source::Float4(_) => scalar == Float4,
            Source::Float8(_) => scalar == Float8,
            Source::Numeric(_) | Source::Decimal(..) | Source::Decimal256(..) => scalar == Numeric,
            Source::Text(_) | Source::TextView(_) | Source::LargeText(_) => {
                matches!(scalar, Text | Varchar | Bpchar | Name | Char | Json | Jsonb)
            }
            Source::Bytea(_) | Source::ByteaView(_) => scalar == Bytea,
            Source::Date(_) => scalar == Date,
            Source::Time(_) => scalar == Time,
            Source::Timestamp(_) => matches!(scalar, Timestamp | Timestamptz),
            Source::Interval(_) => scalar == Interval,
            Source::Uuid(_) => scalar == Uuid,
        }
    }

    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the value's text; nothing for NULL, which `is_null` tells.
    pub fn write_text(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.is_null(row) {
            return Ok(());
        }
        match &self.source {
            Source::Null => {}
            Source::Bool(values) => out.push(if values.value(row) { b't' } else { b'f' }),
            Source::Int2(values) => write_integer(values[row], out),
            Source::Int4(values) => write_integer(values[row], out),
            Source::Int8(values) => write_integer(values[row], out),
            Source::Oid(values) => write_integer(values[row], out),
            Source::Float4(values) => text::write_f32(values[row], out),
            Source::Float8(values) => text::write_f64(values[row], out),
            Source::Numeric(values) => write_numeric(&Numeric::decode(values.value(row))?, out),
            Source::Decimal(values, scale) => write_numeric(&Numeric::from_decimal(values[row], *scale), out),
            Source::Decimal256(values, scale) => write_numeric(&from_decimal256(values[row], *scale), out),
            Source::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Source::TextView(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Source::LargeText(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Source::Bytea(values) => text::write_bytea(values.value(row), out),
            Source::ByteaView(values) => text::write_bytea(values.value(row), out),
            Source::Date(values) => text::write_date(values[row], out),
            Source::Time(values) => text::write_time(values[row], out),
            Source::Timestamp(values) if self.ty.scalar == Scalar::Timestamptz => {
                text::write_timestamptz(values[row], &self.context.zone, out);
            }
            Source::Timestamp(values) => text::write_timestamp(values[row], out),
            Source::Interval(values) => text::write_interval(values[row], out),
            Source::Uuid(values) => text::write_uuid(values.value(row), out),
            Source::List(offsets, items) => {
                return write_array(offsets[row] as usize..offsets[row + 1] as usize, items, out);
            }
        }
        Ok(())
    }
}

/// A list of any of Arrow's kinds as offsets into its items.
fn list(array: &dyn Array, item: Type, context: &Context) -> Result<Source> {
    let (offsets, items) = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (list.offsets().iter().map(|o| i64::from(*o)).collect(), list.values().clone())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (list.offsets().inner().clone(), list.values().clone())
        }
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            let length = i64::from(list.value_length());
            ((0..=list.len() as i64).map(|i| i * length).collect(), list.values().clone())
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            return list(&taken(dictionary.values(), dictionary.keys())?, item, context);
        }
        other => return Err(SqlError::internal(format!("a column of type {other} is not a list"))),
    };
    Ok(Source::List(offsets, Box::new(ValueEncoder::new(&items, item, context)?)))
}

fn write_integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn write_numeric(value: &Numeric, out: &mut Vec<u8>) {
    use std::io::Write;
    write!(out, "{value}").expect("a vector takes every write");
}

pub(super) fn from_decimal256(value: i256, scale: i8) -> Numeric {
    let (low, high) = value.to_parts();
    Numeric::from_decimal256(low, high, scale)
}

fn write_array(range: std::ops::Range<usize>, items: &ValueEncoder, out: &mut Vec<u8>) -> Result<()> {
    out.push(b'{');
    let mut item = Vec::new();
    for (i, row) in range.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if items.is_null(row) {
            out.extend_from_slice(b"NULL");
        } else {
            item.clear();
            items.write_text(row, &mut item)?;
            text::array::write_element(&item, out);
        }
    }
    out.push(b'}');
    Ok(())
}
