//! Values of a column in PostgreSQL's binary form (its `send` functions).

use crate::Result;
use crate::numeric::Numeric;
use crate::types::Scalar;
use arrow::datatypes::IntervalMonthDayNano;

use super::binary::{EPOCH_DAYS, EPOCH_MICROS};
use super::encode::{ValueEncoder, from_decimal256};
use super::source::Source;

impl ValueEncoder {
    /// Appends the value's bytes without their length; nothing for NULL, which `is_null` tells.
    #[inline]
    pub fn write_binary(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.is_null(row) {
            return Ok(());
        }
        match &self.source {
            Source::Null => {}
            Source::Bool(values) => out.push(u8::from(values.value(row))),
            Source::Int2(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            Source::Int4(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            Source::Int8(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            Source::Oid(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            Source::Float4(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            Source::Float8(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            Source::Numeric(values) => Numeric::decode(values.value(row))?.to_wire(out),
            Source::Decimal(values, scale) => Numeric::from_decimal(values[row], *scale).to_wire(out),
            Source::Decimal256(values, scale) => from_decimal256(values[row], *scale).to_wire(out),
            Source::Text(values) => self.write_string(values.value(row), out),
            Source::TextView(values) => self.write_string(values.value(row), out),
            Source::LargeText(values) => self.write_string(values.value(row), out),
            Source::Bytea(values) => out.extend_from_slice(values.value(row)),
            Source::ByteaView(values) => out.extend_from_slice(values.value(row)),
            Source::Date(values) => out.extend_from_slice(&wire_date(values[row]).to_be_bytes()),
            Source::Time(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            Source::Timestamp(values) => out.extend_from_slice(&wire_timestamp(values[row]).to_be_bytes()),
            Source::Interval(values) => write_interval(values[row], out),
            Source::Uuid(values) => out.extend_from_slice(values.value(row)),
            Source::List(offsets, items) => {
                return write_array(offsets[row] as usize..offsets[row + 1] as usize, items, out);
            }
        }
        Ok(())
    }

    /// Appends the value with its length in front, -1 for NULL, as DataRow and COPY have it.
    #[inline]
    pub fn write_binary_field(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        self.with_length(row, out, Self::write_binary)
    }

    /// As `write_binary_field`, in text.
    #[inline]
    pub fn write_text_field(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        self.with_length(row, out, Self::write_text)
    }

    #[inline]
    fn with_length(
        &self,
        row: usize,
        out: &mut Vec<u8>,
        write: impl Fn(&Self, usize, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        if self.is_null(row) {
            return Ok(());
        }
        write(self, row, out)?;
        let length = i32::try_from(out.len() - start - 4).map_err(|_| too_long())?;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn write_string(&self, value: &str, out: &mut Vec<u8>) {
        if self.ty.scalar == Scalar::Jsonb {
            out.push(1);
        }
        out.extend_from_slice(value.as_bytes());
    }
}

fn too_long() -> crate::SqlError {
    crate::SqlError::new(crate::SqlState::PROGRAM_LIMIT_EXCEEDED, "a value is longer than 2 GiB")
}

/// The ends of the integer are the infinities; other days are moved to PostgreSQL's epoch.
fn wire_date(days: i32) -> i32 {
    if days == i32::MAX { days } else { days.saturating_sub(EPOCH_DAYS) }
}

fn wire_timestamp(micros: i64) -> i64 {
    if micros == i64::MAX { micros } else { micros.saturating_sub(EPOCH_MICROS) }
}

fn write_interval(value: IntervalMonthDayNano, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.nanoseconds / 1_000).to_be_bytes());
    out.extend_from_slice(&value.days.to_be_bytes());
    out.extend_from_slice(&value.months.to_be_bytes());
}

/// Dimensions, whether there are NULLs, the element type, then length and lower bound of the one dimension
/// and the elements.
fn write_array(range: std::ops::Range<usize>, items: &ValueEncoder, out: &mut Vec<u8>) -> Result<()> {
    let mut word = |value: i32| out.extend_from_slice(&value.to_be_bytes());
    word(i32::from(!range.is_empty()));
    word(i32::from(range.clone().any(|row| items.is_null(row))));
    word(items.ty.oid() as i32);
    if !range.is_empty() {
        word(i32::try_from(range.len()).map_err(|_| too_long())?);
        word(1);
    }
    range.into_iter().try_for_each(|row| items.write_binary_field(row, out))
}
