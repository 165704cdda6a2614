//! Values in PostgreSQL's binary form (its `receive` functions) into a column.

use crate::numeric::Numeric;
use crate::types::Scalar;
use crate::{Result, SqlError, SqlState};
use arrow::datatypes::IntervalMonthDayNano;

use super::text::{
    append_json, append_jsonb, append_numeric, append_string, fit_interval, fit_time, fit_timestamp,
};
use super::{ColumnBuilder, Slots, check_utf8};

/// From PostgreSQL's epoch, 2000-01-01, to Arrow's.
pub(super) const EPOCH_DAYS: i32 = 10_957;
pub(super) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;
/// Days and microseconds from 2000-01-01 that PostgreSQL has: 4714-11-24 BC to the end of 5874897 and 294276.
const DATE_MIN: i32 = -2_451_545;
const DATE_END: i32 = 2_145_031_949;
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
const DAY_MICROS: i64 = 86_400_000_000;
const JSONB_VERSION: u8 = 1;

impl ColumnBuilder {
    /// The width of all values, if whatever has that width is a value, as it stands there.
    pub fn plain_width(&self) -> Option<usize> {
        match (&self.slots, self.ty.scalar) {
            (Slots::Int4(_), Scalar::Int4) | (Slots::Float4(_) | Slots::Oid(_), _) => Some(4),
            (Slots::Int8(_), Scalar::Int8) | (Slots::Float8(_), _) => Some(8),
            (Slots::Int2(_), _) => Some(2),
            _ => None,
        }
    }

    /// Appends the values of this width that are at `at` in all `rows`.
    pub fn append_plain<'a>(&mut self, rows: impl ExactSizeIterator<Item = &'a [u8]>, at: usize) {
        match &mut self.slots {
            Slots::Int4(slots) => slots.extend(rows.map(|row| i32::from_be_bytes(bytes_at(row, at)))),
            Slots::Int8(slots) => slots.extend(rows.map(|row| i64::from_be_bytes(bytes_at(row, at)))),
            Slots::Float8(slots) => slots.extend(rows.map(|row| f64::from_be_bytes(bytes_at(row, at)))),
            Slots::Float4(slots) => slots.extend(rows.map(|row| f32::from_be_bytes(bytes_at(row, at)))),
            Slots::Int2(slots) => slots.extend(rows.map(|row| i16::from_be_bytes(bytes_at(row, at)))),
            Slots::Oid(slots) => slots.extend(rows.map(|row| u32::from_be_bytes(bytes_at(row, at)))),
            _ => unreachable!("a column without a plain width"),
        }
    }

    /// Appends one value; after an error the column is as before.
    #[inline]
    pub fn append_binary(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.slots {
            Slots::Int4(slots) => match self.ty.scalar {
                Scalar::Date => slots.push(date(i32::from_be_bytes(exact(bytes)?))?),
                _ => slots.push(i32::from_be_bytes(exact(bytes)?)),
            },
            Slots::Int8(slots) => {
                let value = i64::from_be_bytes(exact(bytes)?);
                slots.push(match self.ty.scalar {
                    Scalar::Int8 => value,
                    Scalar::Time => fit_time(time(value)?, self.ty),
                    _ => fit_timestamp(timestamp(value)?, self.ty)?,
                });
            }
            Slots::Float8(slots) => slots.push(f64::from_be_bytes(exact(bytes)?)),
            Slots::Float4(slots) => slots.push(f32::from_be_bytes(exact(bytes)?)),
            Slots::Int2(slots) => slots.push(i16::from_be_bytes(exact(bytes)?)),
            Slots::Oid(slots) => slots.push(u32::from_be_bytes(exact(bytes)?)),
            Slots::Bool(slots) => slots.push(exact::<1>(bytes)? != [0]),
            Slots::Uuid(slots) => slots.push(exact(bytes)?),
            Slots::Interval(slots) => slots.push(fit_interval(interval(exact(bytes)?)?, self.ty)?),
            Slots::Short(slots) => match self.ty.scalar {
                Scalar::Bytea => return slots.push(bytes),
                _ => return append_string(slots, check_utf8(bytes)?, self.ty),
            },
            Slots::Long(slots) => match self.ty.scalar {
                Scalar::Numeric => return append_numeric(slots, Numeric::from_wire(bytes)?, self.ty),
                Scalar::Jsonb => {
                    let (&version, text) = bytes.split_first().ok_or_else(insufficient)?;
                    if version != JSONB_VERSION {
                        return Err(SqlError::internal(format!(
                            "unsupported jsonb version number {version}"
                        )));
                    }
                    return append_jsonb(slots, check_utf8(text)?);
                }
                _ => return append_json(slots, check_utf8(bytes)?),
            },
            Slots::List(lists) => return lists.append_binary(bytes),
        }
        Ok(())
    }
}

#[inline]
fn bytes_at<const N: usize>(row: &[u8], at: usize) -> [u8; N] {
    *row[at..].first_chunk().expect("a row is as long as its fields")
}

#[inline]
fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| wrong_length(bytes.len() < N))
}

#[cold]
fn wrong_length(short: bool) -> SqlError {
    if short {
        return insufficient();
    }
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}

pub(super) fn insufficient() -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

/// The infinities are the ends of the integers on both sides.
fn date(days: i32) -> Result<i32> {
    match days {
        i32::MIN | i32::MAX => Ok(days),
        DATE_MIN..DATE_END => Ok(days + EPOCH_DAYS),
        _ => Err(out_of_range("date")),
    }
}

fn time(micros: i64) -> Result<i64> {
    if (0..=DAY_MICROS).contains(&micros) { Ok(micros) } else { Err(out_of_range("time")) }
}

fn timestamp(micros: i64) -> Result<i64> {
    if matches!(micros, i64::MIN | i64::MAX) {
        return Ok(micros);
    }
    // The last 30 years that PostgreSQL has are beyond an Arrow timestamp.
    let shifted = micros.checked_add(EPOCH_MICROS);
    shifted.filter(|t| *t < i64::MAX && micros >= TIMESTAMP_MIN).ok_or_else(|| out_of_range("timestamp"))
}

fn interval(bytes: [u8; 16]) -> Result<IntervalMonthDayNano> {
    let micros =
        i64::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]);
    let days = i32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    let months = i32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    let nanos = micros.checked_mul(1_000).ok_or_else(|| out_of_range("interval"))?;
    Ok(IntervalMonthDayNano::new(months, days, nanos))
}
