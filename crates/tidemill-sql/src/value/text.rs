//! Values in PostgreSQL's text form (its `input` functions) into a column, and what modifiers do to a value.

use crate::numeric::Numeric;
use crate::text::{self, modifier};
use crate::types::{Scalar, Type};
use crate::{Result, SqlError, SqlState};
use arrow::datatypes::IntervalMonthDayNano;

use super::buffer::Bytes;
use super::{ColumnBuilder, Slots, check_utf8};

/// `name` keeps this many bytes and cuts the rest off.
const NAME_BYTES_MAX: usize = 63;

impl ColumnBuilder {
    /// Appends one value; after an error the column is as before.
    pub fn append_text(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.slots {
            Slots::Int4(slots) => slots.push(match self.ty.scalar {
                Scalar::Date => text::parse_date(bytes, &self.context)?,
                _ => text::parse_i32(bytes)?,
            }),
            Slots::Int8(slots) => slots.push(match self.ty.scalar {
                Scalar::Time => fit_time(text::parse_time(bytes, &self.context)?, self.ty),
                Scalar::Timestamp => fit_timestamp(text::parse_timestamp(bytes, &self.context)?, self.ty)?,
                Scalar::Timestamptz => {
                    fit_timestamp(text::parse_timestamptz(bytes, &self.context)?, self.ty)?
                }
                _ => text::parse_i64(bytes)?,
            }),
            Slots::Float8(slots) => slots.push(text::parse_f64(bytes)?),
            Slots::Float4(slots) => slots.push(text::parse_f32(bytes)?),
            Slots::Int2(slots) => slots.push(text::parse_i16(bytes)?),
            Slots::Oid(slots) => slots.push(text::parse_oid(bytes)?),
            Slots::Bool(slots) => slots.push(text::parse_bool(bytes)?),
            Slots::Uuid(slots) => slots.push(text::parse_uuid(bytes)?),
            Slots::Interval(slots) => slots.push(fit_interval(text::parse_interval(bytes)?, self.ty)?),
            Slots::Short(slots) => match self.ty.scalar {
                Scalar::Bytea => {
                    check_utf8(bytes)?;
                    return slots.push_with(|out| text::parse_bytea(bytes, out));
                }
                _ => return append_string(slots, check_utf8(bytes)?, self.ty),
            },
            Slots::Long(slots) => {
                let valid = check_utf8(bytes)?;
                return match self.ty.scalar {
                    Scalar::Numeric => append_numeric(slots, Numeric::parse(valid)?, self.ty),
                    Scalar::Jsonb => append_jsonb(slots, valid),
                    _ => append_json(slots, valid),
                };
            }
            Slots::List(lists) => {
                check_utf8(bytes)?;
                return lists.append_text(bytes);
            }
        }
        Ok(())
    }
}

/// text, varchar(n), char(n) and name.
pub(super) fn append_string(slots: &mut Bytes<i32>, value: &str, ty: Type) -> Result<()> {
    match (ty.scalar, ty.max_chars()) {
        (Scalar::Name, _) => slots.push(&value.as_bytes()[..value.floor_char_boundary(NAME_BYTES_MAX)]),
        (Scalar::Char, _) => slots.push(text::letter(value).as_bytes()),
        (_, None) => slots.push(value.as_bytes()),
        (Scalar::Bpchar, Some(chars_max)) => append_padded(slots, value, ty, chars_max),
        (_, Some(chars_max)) => slots.push(fitted(value, ty, chars_max)?.as_bytes()),
    }
}

/// `char(n)` is filled up with spaces.
fn append_padded(slots: &mut Bytes<i32>, value: &str, ty: Type, chars_max: usize) -> Result<()> {
    let value = fitted(value, ty, chars_max)?;
    slots.push_with(|out| {
        out.extend_from_slice(value.as_bytes());
        out.resize(out.len() + chars_max - value.chars().count(), b' ');
        Ok(())
    })
}

/// Only spaces may be beyond the limit, and they are cut off.
fn fitted(value: &str, ty: Type, chars_max: usize) -> Result<&str> {
    if value.len() <= chars_max {
        return Ok(value);
    }
    let Some((end, _)) = value.char_indices().nth(chars_max) else { return Ok(value) };
    if value[end..].bytes().any(|b| b != b' ') {
        let message = format!("value too long for type {}", Type { array: false, ..ty }.display());
        return Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message));
    }
    Ok(&value[..end])
}

pub(super) fn append_numeric(slots: &mut Bytes<i64>, value: Numeric, ty: Type) -> Result<()> {
    let value = match ty.numeric_precision_scale() {
        Some((precision, scale)) => value.apply_typmod(i32::from(precision), i32::from(scale))?,
        None => value,
    };
    slots.push_with(|out| {
        value.encode(out);
        Ok(())
    })
}

/// The text is kept as it came.
pub(super) fn append_json(slots: &mut Bytes<i64>, value: &str) -> Result<()> {
    text::check_json(value)?;
    slots.push(value.as_bytes())
}

/// The text is kept as PostgreSQL would print it again.
pub(super) fn append_jsonb(slots: &mut Bytes<i64>, value: &str) -> Result<()> {
    slots.push_with(|out| text::write_jsonb(value, out))
}

pub(super) fn fit_time(us: i64, ty: Type) -> i64 {
    precision(ty).map_or(us, |p| modifier::round_time(us, p))
}

pub(super) fn fit_timestamp(us: i64, ty: Type) -> Result<i64> {
    precision(ty).map_or(Ok(us), |p| modifier::round_timestamp(us, p))
}

pub(super) fn fit_interval(value: IntervalMonthDayNano, ty: Type) -> Result<IntervalMonthDayNano> {
    precision(ty).map_or(Ok(value), |p| modifier::round_interval(value, p))
}

/// Digits of a second that `timestamp(p)` and its like keep.
fn precision(ty: Type) -> Option<usize> {
    usize::try_from(ty.typmod).ok().filter(|p| *p <= 6)
}
