//! Text to `Numeric` and back, and the type modifier of `numeric(precision, scale)`.

use std::fmt;
use std::str::FromStr;

use super::digits::{DIGIT_WIDTH, Digits};
use super::small::{Small, power_of_ten};
use super::{Numeric, Repr, overflow};
use crate::error::{Result, SqlError, SqlState};

/// Exponents from here on overflow whatever the digits are.
const EXPONENT_LIMIT: i64 = i32::MAX as i64 / 2;
/// So many decimal digits always fit an `i128`.
const SMALL_DIGITS_MAX: usize = 38;

impl Numeric {
    /// Reads what PostgreSQL 15 reads: blanks around it, a sign, decimals, an exponent; `NaN`, `inf`,
    /// `Infinity`.
    pub fn parse(text: &str) -> Result<Self> {
        let trimmed = text.trim_matches(is_space);
        if let Some(special) = parse_special(trimmed) {
            return Ok(special);
        }
        match Literal::read(trimmed.as_bytes()) {
            Some(literal) => literal.value(),
            None => Err(SqlError::invalid_text("numeric", text)),
        }
    }

    /// Rounds to what a column `numeric(precision, scale)` holds, or `numeric field overflow`.
    pub fn apply_typmod(&self, precision: i32, scale: i32) -> Result<Self> {
        match &self.0 {
            Repr::NaN => return Ok(Self::NAN),
            Repr::Infinity | Repr::NegativeInfinity => {
                let limit = "cannot hold an infinite value";
                return Err(field_overflow(precision, scale, limit));
            }
            Repr::Small { .. } | Repr::Large(_) => {}
        }
        let rounded = self.round(scale)?;
        let digits_max = precision - scale;
        if !rounded.is_zero() && rounded.decimal_weight() >= digits_max {
            let power = if digits_max == 0 { "1".to_owned() } else { format!("10^{digits_max}") };
            let limit = format!("must round to an absolute value less than {power}");
            return Err(field_overflow(precision, scale, &limit));
        }
        Ok(rounded)
    }

    /// The power of ten of the first digit. Needs a finite number that is not zero.
    fn decimal_weight(&self) -> i32 {
        match &self.0 {
            Repr::Small { mantissa, scale } => {
                mantissa.unsigned_abs().checked_ilog10().unwrap_or(0) as i32 - i32::from(*scale)
            }
            Repr::Large(value) => {
                let first = value.digits.first().and_then(|d| d.checked_ilog10()).unwrap_or(0);
                value.weight * DIGIT_WIDTH + first as i32
            }
            Repr::NaN | Repr::Infinity | Repr::NegativeInfinity => 0,
        }
    }
}

fn field_overflow(precision: i32, scale: i32, limit: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
        .with_detail(format!("A field with precision {precision}, scale {scale} {limit}."))
}

/// C's `isspace`.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

fn parse_special(text: &str) -> Option<Numeric> {
    let named = |name: &str| text.eq_ignore_ascii_case(name);
    if named("nan") {
        Some(Numeric::NAN)
    } else if ["infinity", "+infinity", "inf", "+inf"].into_iter().any(named) {
        Some(Numeric::INFINITY)
    } else if ["-infinity", "-inf"].into_iter().any(named) {
        Some(Numeric::NEG_INFINITY)
    } else {
        None
    }
}

/// A number in text, taken apart.
struct Literal<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Literal<'a> {
    /// `None` if it is not the syntax of a number.
    fn read(text: &'a [u8]) -> Option<Self> {
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let (whole, rest) = take_digits(rest);
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => take_digits(rest),
            rest => (&[][..], rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', rest @ ..] => read_exponent(rest)?,
            _ => return None,
        };
        Some(Self { negative, whole, fraction, exponent })
    }

    fn value(&self) -> Result<Numeric> {
        if self.exponent.abs() >= EXPONENT_LIMIT {
            return Err(overflow());
        }
        if let Some(small) = self.small() {
            return Ok(Numeric::small(small));
        }
        let decimals: Vec<u8> = self.whole.iter().chain(self.fraction).map(|c| c - b'0').collect();
        let scale = (self.fraction.len() as i64 - self.exponent).max(0);
        let scale = i32::try_from(scale).map_err(|_| overflow())?;
        let weight = self.whole.len() as i64 - 1 + self.exponent;
        let digits = Digits::from_decimals(self.negative, &decimals, weight, scale).ok_or_else(overflow)?;
        Numeric::finish(digits)
    }

    fn small(&self) -> Option<Small> {
        if self.whole.len() + self.fraction.len() > SMALL_DIGITS_MAX {
            return None;
        }
        let digits = || self.whole.iter().chain(self.fraction).map(|c| c - b'0');
        // 64-bit arithmetic is several times faster, and enough for almost all.
        let magnitude = if self.whole.len() + self.fraction.len() <= 18 {
            i128::from(digits().fold(0u64, |n, d| n * 10 + u64::from(d)))
        } else {
            digits().fold(0i128, |n, d| n * 10 + i128::from(d))
        };
        let mantissa = if self.negative { -magnitude } else { magnitude };
        let scale = self.fraction.len() as i64 - self.exponent;
        if scale < 0 {
            let power = power_of_ten(u32::try_from(-scale).ok()?)?;
            return Some(Small { mantissa: mantissa.checked_mul(power)?, scale: 0 });
        }
        if scale > i64::from(super::SCALE_MAX) {
            return None;
        }
        Some(Small { mantissa, scale: scale as u16 })
    }
}

fn take_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|c| c.is_ascii_digit()).count())
}

/// As C's `strtol`, which PostgreSQL uses here: blanks and a sign may come first, and too large is as large
/// as can be.
fn read_exponent(text: &[u8]) -> Option<i64> {
    let blanks = text.iter().take_while(|c| is_space(char::from(**c))).count();
    let (negative, rest) = match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (digits, rest) = take_digits(rest);
    if digits.is_empty() || !rest.is_empty() {
        return None;
    }
    let value = digits.iter().fold(0i64, |n, c| n.saturating_mul(10).saturating_add(i64::from(c - b'0')));
    Some(if negative { -value } else { value })
}

impl FromStr for Numeric {
    type Err = SqlError;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Small { mantissa, scale } => Small { mantissa: *mantissa, scale: *scale }.fmt(f),
            Repr::Large(value) => value.fmt(f),
            Repr::NaN => f.write_str("NaN"),
            Repr::Infinity => f.write_str("Infinity"),
            Repr::NegativeInfinity => f.write_str("-Infinity"),
        }
    }
}

impl fmt::Display for Small {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [b'0'; 40];
        let digits = write_decimals(self.mantissa.unsigned_abs(), &mut buffer);
        if self.mantissa < 0 {
            f.write_str("-")?;
        }
        let scale = usize::from(self.scale);
        if scale == 0 {
            return f.write_str(digits);
        }
        let Some(whole) = digits.len().checked_sub(scale).filter(|n| *n > 0) else {
            f.write_str("0.")?;
            write_zeros(f, scale - digits.len())?;
            return f.write_str(digits);
        };
        f.write_str(&digits[..whole])?;
        f.write_str(".")?;
        f.write_str(&digits[whole..])
    }
}

/// The decimal digits of a number, at least one, at the end of a buffer that is full of zeros.
fn write_decimals(mut rest: u128, buffer: &mut [u8; 40]) -> &str {
    // Nineteen digits at a time: 128-bit division is slow.
    const CHUNK_LEN: usize = 19;
    const CHUNK: u128 = 10u128.pow(CHUNK_LEN as u32);
    let mut end = buffer.len();
    let start = loop {
        let mut chunk = (rest % CHUNK) as u64;
        rest /= CHUNK;
        let mut at = end;
        while chunk > 0 {
            at -= 1;
            buffer[at] = b'0' + (chunk % 10) as u8;
            chunk /= 10;
        }
        if rest == 0 {
            break at.min(buffer.len() - 1);
        }
        end -= CHUNK_LEN;
    };
    std::str::from_utf8(&buffer[start..]).expect("only ASCII digits were written")
}

fn write_zeros(f: &mut fmt::Formatter<'_>, mut count: usize) -> fmt::Result {
    const ZEROS: &str = "0000000000000000000000000000000000000000";
    while count > 0 {
        let chunk = count.min(ZEROS.len());
        f.write_str(&ZEROS[..chunk])?;
        count -= chunk;
    }
    Ok(())
}

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if self.negative {
            text.push('-');
        }
        if self.weight < 0 || self.is_zero() {
            text.push('0');
        } else {
            text.push_str(&self.digit_at(self.weight).to_string());
            for weight in (0..self.weight).rev() {
                push_digit(&mut text, self.digit_at(weight));
            }
        }
        if self.scale > 0 {
            text.push('.');
            let end = text.len() + self.scale as usize;
            let mut weight = -1;
            while text.len() < end {
                push_digit(&mut text, self.digit_at(weight));
                weight -= 1;
            }
            text.truncate(end);
        }
        f.write_str(&text)
    }
}

fn push_digit(text: &mut String, digit: u16) {
    text.extend([1000, 100, 10, 1].map(|unit| char::from(b'0' + (digit / unit % 10) as u8)));
}
