//! `smallint`, `integer`, `bigint` and `oid`. The parsers are made for COPY: no allocation and no UTF-8
//! check.

use crate::error::Result;

use super::{invalid, is_space, value_out_of_range};

pub fn parse_i16(bytes: &[u8]) -> Result<i16> {
    match short(bytes).map(i16::try_from) {
        Some(Ok(value)) => Ok(value),
        _ => long(bytes, "smallint", i64::from(i16::MIN), i64::from(i16::MAX)).map(|value| value as i16),
    }
}

pub fn parse_i32(bytes: &[u8]) -> Result<i32> {
    match short(bytes).map(i32::try_from) {
        Some(Ok(value)) => Ok(value),
        _ => long(bytes, "integer", i64::from(i32::MIN), i64::from(i32::MAX)).map(|value| value as i32),
    }
}

pub fn parse_i64(bytes: &[u8]) -> Result<i64> {
    match short(bytes) {
        Some(value) => Ok(value),
        None => long(bytes, "bigint", i64::MIN, i64::MAX),
    }
}

/// Like C's `strtoul`, PostgreSQL takes a negative number as its two's complement.
pub fn parse_oid(bytes: &[u8]) -> Result<u32> {
    let value = match short(bytes) {
        Some(value) => value,
        None => long(bytes, "oid", i64::MIN, i64::MAX)?,
    };
    match u32::try_from(value) {
        Ok(oid) => Ok(oid),
        Err(_) if value >= i64::from(i32::MIN) && value < 0 => Ok(value as u32),
        Err(_) => Err(value_out_of_range("oid", bytes)),
    }
}

pub fn write_i64(value: impl Into<i64>, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value.into()).as_bytes());
}

/// One to 18 digits with at most a minus: what nearly every integer looks like, and it cannot overflow.
#[inline]
fn short(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0i64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// Everything else: spaces around, a plus, leading zeros, the limits, and the errors.
#[cold]
fn long(bytes: &[u8], type_name: &str, min: i64, max: i64) -> Result<i64> {
    let start = bytes.iter().position(|b| !is_space(*b)).unwrap_or(bytes.len());
    let (negative, unsigned) = match &bytes[start..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits = unsigned.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut value = 0i64;
    for &byte in &unsigned[..digits] {
        let digit = i64::from(byte - b'0');
        let signed = if negative { -digit } else { digit };
        value = value
            .checked_mul(10)
            .and_then(|shifted| shifted.checked_add(signed))
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| value_out_of_range(type_name, bytes))?;
    }
    if digits == 0 || unsigned[digits..].iter().any(|b| !is_space(*b)) {
        return Err(invalid(type_name, bytes));
    }
    Ok(value)
}
