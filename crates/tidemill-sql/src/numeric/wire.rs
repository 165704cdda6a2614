//! PostgreSQL's binary format of `numeric`: 16-bit words of digit count, weight, sign, scale, then digits.

use super::digits::{BASE, Digits};
use super::small::Small;
use super::{Numeric, Repr, SCALE_MAX};
use crate::error::{Result, SqlError, SqlState};

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const NEGATIVE_INFINITY: u16 = 0xf000;
/// PostgreSQL sends this as the scale of an infinity. It means nothing, and is ignored when it is read.
const INFINITY_SCALE: u16 = 0x20;

impl Numeric {
    /// Appends what `numeric_send` sends.
    pub fn to_wire(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Small { mantissa, scale } => {
                let split = Small { mantissa: *mantissa, scale: *scale }.split();
                write(out, split.weight, *mantissa < 0, i32::from(*scale), split.digits());
            }
            Repr::Large(value) => write(out, value.weight, value.negative, value.scale, &value.digits),
            Repr::NaN => write_words(out, &[0, 0, NAN, 0]),
            Repr::Infinity => write_words(out, &[0, 0, INFINITY, INFINITY_SCALE]),
            Repr::NegativeInfinity => write_words(out, &[0, 0, NEGATIVE_INFINITY, INFINITY_SCALE]),
        }
    }

    /// Reads what `numeric_recv` reads: digits beyond the scale are cut off, and zeros may surround the
    /// digits.
    pub fn from_wire(bytes: &[u8]) -> Result<Self> {
        let (words, rest) = bytes.as_chunks::<2>();
        let mut words = words.iter().map(|word| u16::from_be_bytes(*word));
        let mut next = || words.next().ok_or_else(too_short);
        let count = next()?;
        let weight = next()? as i16;
        let sign = next()?;
        if ![POSITIVE, NEGATIVE, NAN, INFINITY, NEGATIVE_INFINITY].contains(&sign) {
            return Err(invalid("invalid sign in external \"numeric\" value"));
        }
        let scale = i32::from(next()?);
        if scale > SCALE_MAX {
            return Err(invalid("invalid scale in external \"numeric\" value"));
        }
        let mut digits = Vec::with_capacity(usize::from(count).min(bytes.len() / 2));
        for _ in 0..count {
            let digit = next()?;
            if u32::from(digit) >= BASE {
                return Err(invalid("invalid digit in external \"numeric\" value"));
            }
            digits.push(digit);
        }
        if words.next().is_some() || !rest.is_empty() {
            return Err(invalid("incorrect binary data format"));
        }
        match sign {
            NAN => Ok(Self::NAN),
            INFINITY => Ok(Self::INFINITY),
            NEGATIVE_INFINITY => Ok(Self::NEG_INFINITY),
            _ => {
                Self::finish(Digits::new(sign == NEGATIVE, i32::from(weight), scale, digits).truncate(scale))
            }
        }
    }
}

fn write(out: &mut Vec<u8>, weight: i32, negative: bool, scale: i32, digits: &[u16]) {
    let sign = if negative { NEGATIVE } else { POSITIVE };
    // All of them fit: a result has at most 36,864 digits, and its weight and scale are checked when it is
    // made.
    write_words(out, &[digits.len() as u16, weight as u16, sign, scale as u16]);
    write_words(out, digits);
}

fn write_words(out: &mut Vec<u8>, words: &[u16]) {
    out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

fn too_short() -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(hex: &str) -> Result<String> {
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[i * 2..i * 2 + 2], 16).unwrap()).collect();
        Numeric::from_wire(&bytes).map(|value| value.to_string())
    }

    /// Each of these is what PostgreSQL 15 made of the same bytes in a binary COPY.
    #[test]
    fn reads_what_postgresql_reads() {
        let cases = [
            ("0003000000000002000109291a85", "1.23"),
            ("000400024000000300000000000c1388", "-12.500"),
            ("00010000400000010000", "0.0"),
            ("00010005c00000030007", "NaN"),
            ("00000000d0000020", "Infinity"),
            ("00000000f0000000", "-Infinity"),
            ("000280000000000300000009", "0.000"),
            ("0000004d40000005", "0.00000"),
        ];
        for (hex, expected) in cases {
            assert_eq!(read(hex).unwrap(), expected, "{hex}");
        }
        assert_eq!(read("00017fff000000000001").unwrap().len(), 131_069);
        assert!(read("0001800000003fff0001").unwrap().ends_with("000"));
    }

    #[test]
    fn refuses_what_postgresql_refuses() {
        let cases = [
            ("00010000800000010005", "22P03", "invalid sign in external \"numeric\" value"),
            ("00010000000040000005", "22P03", "invalid scale in external \"numeric\" value"),
            ("00010000000000002710", "22P03", "invalid digit in external \"numeric\" value"),
            ("0001000000000000ffff", "22P03", "invalid digit in external \"numeric\" value"),
            ("000100000000000000070007", "22P03", "incorrect binary data format"),
            ("0001000000000000", "08P01", "insufficient data left in message"),
            ("000100000000000007", "08P01", "insufficient data left in message"),
            ("", "08P01", "insufficient data left in message"),
        ];
        for (hex, state, message) in cases {
            let error = read(hex).unwrap_err();
            assert_eq!((error.state.0, error.message.as_str()), (state, message), "{hex}");
        }
    }
}
