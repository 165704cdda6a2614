//! `uuid`: 32 hexadecimal digits, in any case, with hyphens after any group of four, braces around or not.

use crate::error::Result;

use super::invalid;

pub fn parse_uuid(bytes: &[u8]) -> Result<[u8; 16]> {
    parse(bytes).ok_or_else(|| invalid("uuid", bytes))
}

pub fn write_uuid(value: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (i, byte) in value.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn parse(bytes: &[u8]) -> Option<[u8; 16]> {
    let mut rest = match bytes {
        [b'{', inner @ .., b'}'] => inner,
        _ => bytes,
    };
    let mut value = [0; 16];
    for (i, byte) in value.iter_mut().enumerate() {
        let [high, low, after @ ..] = rest else { return None };
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        rest = match after {
            [b'-', after @ ..] if i % 2 == 1 && i < 15 => after,
            _ => after,
        };
    }
    rest.is_empty().then_some(value)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}
