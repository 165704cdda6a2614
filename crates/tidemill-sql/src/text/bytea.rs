//! `bytea`: hex (`\x00ff`) and, for input only, the older escape form (`\000\\a`).

use crate::error::{Result, SqlError, SqlState};

/// Appends the bytes that the text stands for; after an error `out` is as before.
pub fn parse_bytea(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let before = out.len();
    let parsed = match bytes {
        [b'\\', b'x', hex @ ..] => parse_hex(hex, out),
        _ => parse_escape(bytes, out),
    };
    if parsed.is_err() {
        out.truncate(before);
    }
    parsed
}

pub fn write_bytea(value: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 + 2 * value.len());
    out.extend_from_slice(b"\\x");
    for byte in value {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Spaces may stand between pairs of digits.
fn parse_hex(hex: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.reserve(hex.len() / 2);
    let mut at = 0;
    while let Some(&byte) = hex.get(at) {
        if matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
            at += 1;
            continue;
        }
        let high = hex_digit(hex, at)?;
        if at + 1 == hex.len() {
            let message = "invalid hexadecimal data: odd number of digits";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        out.push(high << 4 | hex_digit(hex, at + 1)?);
        at += 2;
    }
    Ok(())
}

fn hex_digit(hex: &[u8], at: usize) -> Result<u8> {
    match hex[at] {
        byte @ b'0'..=b'9' => Ok(byte - b'0'),
        byte @ b'a'..=b'f' => Ok(byte - b'a' + 10),
        byte @ b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => {
            let rest = String::from_utf8_lossy(&hex[at..]);
            let shown = rest.chars().next().unwrap_or_default();
            let message = format!("invalid hexadecimal digit: \"{shown}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// A backslash stands before another backslash or before three octal digits.
fn parse_escape(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.reserve(bytes.len());
    let mut rest = bytes;
    while let Some(slash) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..slash]);
        rest = match &rest[slash + 1..] {
            [b'\\', after @ ..] => {
                out.push(b'\\');
                after
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            _ => {
                let message = "invalid input syntax for type bytea";
                return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
            }
        };
    }
    out.extend_from_slice(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_leaves_the_buffer_as_it_was() {
        let mut out = b"kept".to_vec();
        parse_bytea(b"ab\\9", &mut out).unwrap_err();
        parse_bytea(b"\\x00f", &mut out).unwrap_err();
        assert_eq!(out, b"kept");
    }
}
