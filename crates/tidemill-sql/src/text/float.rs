//! `real` and `double precision`: the shortest digits that read back as the same value.

use crate::error::{Result, SqlError, SqlState};

use super::{invalid, trim};

pub fn parse_f64(bytes: &[u8]) -> Result<f64> {
    match fast_float2::parse_partial::<f64, _>(bytes) {
        Ok((value, used)) if used == bytes.len() && value.is_finite() && value != 0.0 => Ok(value),
        _ => parse_unusual(bytes, "double precision", f64::NAN, f64::INFINITY),
    }
}

pub fn parse_f32(bytes: &[u8]) -> Result<f32> {
    match fast_float2::parse_partial::<f32, _>(bytes) {
        Ok((value, used)) if used == bytes.len() && value.is_finite() && value != 0.0 => Ok(value),
        _ => parse_unusual(bytes, "real", f32::NAN, f32::INFINITY),
    }
}

pub fn write_f64(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return write_special(value, out);
    }
    let mut digits = Digits::shortest(ryu::Buffer::new().format_finite(value));
    let bits = value.to_bits();
    if digits.is_halfway(bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32, 52) {
        digits = digits.longer(|precision| format!("{value:.precision$e}"), |text| text.parse() == Ok(value));
    }
    digits.write(15, out);
}

pub fn write_f32(value: f32, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return write_special(f64::from(value), out);
    }
    let mut digits = Digits::shortest(ryu::Buffer::new().format_finite(value));
    let bits = value.to_bits();
    if digits.is_halfway(u64::from(bits & ((1 << 23) - 1)), (bits >> 23 & 0xff) as i32, 23) {
        digits = digits.longer(|precision| format!("{value:.precision$e}"), |text| text.parse() == Ok(value));
    }
    digits.write(6, out);
}

/// Zero, the special values, spaces around, a plus, and the errors.
fn parse_unusual<T>(bytes: &[u8], type_name: &str, nan: T, infinity: T) -> Result<T>
where
    T: fast_float2::FastFloat + std::ops::Neg<Output = T> + Into<f64>,
{
    let text = trim(bytes);
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let signed = |value: T| if negative { -value } else { value };
    if unsigned.eq_ignore_ascii_case(b"nan") {
        return Ok(nan);
    }
    if unsigned.eq_ignore_ascii_case(b"infinity") || unsigned.eq_ignore_ascii_case(b"inf") {
        return Ok(signed(infinity));
    }
    // Only digits may follow the sign that was taken off, and no name that the number parser knows.
    if !matches!(unsigned, [b'0'..=b'9' | b'.', ..]) {
        return Err(invalid(type_name, bytes));
    }
    let Ok((value, used)) = fast_float2::parse_partial::<T, _>(unsigned) else {
        return Err(invalid(type_name, bytes));
    };
    let magnitude: f64 = value.into();
    let mantissa = unsigned[..used].split(|b| matches!(b, b'e' | b'E')).next().unwrap_or_default();
    let is_zero = !mantissa.iter().any(|b| matches!(b, b'1'..=b'9'));
    if magnitude.is_infinite() || (magnitude == 0.0 && !is_zero) {
        return Err(out_of_range(type_name, &text[..text.len() - unsigned.len() + used]));
    }
    if used < unsigned.len() {
        return Err(invalid(type_name, bytes));
    }
    Ok(signed(value))
}

#[cold]
fn out_of_range(type_name: &str, number: &[u8]) -> SqlError {
    let number = String::from_utf8_lossy(number);
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("\"{number}\" is out of range for type {type_name}"),
    )
}

fn write_special(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(match value {
        _ if value.is_nan() => b"NaN",
        _ if value > 0.0 => b"Infinity",
        _ => b"-Infinity",
    });
}

/// A decimal number: 0.DIGITS times ten to the power of `point`. Zero has no digits.
struct Digits {
    is_negative: bool,
    digits: [u8; 40],
    length: usize,
    point: i32,
}

impl Digits {
    /// From the form of ryu and of `{:e}`: `1.5e20`, `0.00001`, `3.0`.
    fn shortest(text: &str) -> Self {
        let (mantissa, exponent) = match text.split_once('e') {
            Some((mantissa, exponent)) => {
                (mantissa, exponent.parse().expect("an exponent is a small number"))
            }
            None => (text, 0),
        };
        let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let mut digits = [0; 40];
        let (mut length, mut point) = (0, whole.len() as i32 + exponent);
        for byte in whole.bytes().chain(fraction.bytes()).take(digits.len()) {
            if length == 0 && byte == b'0' {
                point -= 1;
                continue;
            }
            digits[length] = byte;
            length += 1;
        }
        length -= digits[..length].iter().rev().take_while(|b| **b == b'0').count();
        Self { is_negative: unsigned.len() < mantissa.len(), digits, length, point }
    }

    /// Whether the number lies exactly between two floats, so that only rounding to even reads it back.
    /// PostgreSQL takes one more digit then: 1e23 is 9.999999999999999e+22. `fraction_bits` is the width of
    /// the mantissa as stored.
    fn is_halfway(&self, mantissa: u64, biased_exponent: i32, fraction_bits: i32) -> bool {
        // Only a whole number that ends in zeros can be: 5 to the power of the zeros divides the odd number
        // between two mantissas.
        let zeros = self.point - self.length as i32;
        if !(1..=23).contains(&zeros) {
            return false;
        }
        let number =
            self.digits[..self.length].iter().fold(0u128, |n, digit| n * 10 + u128::from(digit - b'0'));
        let Some(scaled) = number.checked_mul(5u128.pow(zeros as u32)) else { return false };
        let bias = if fraction_bits == 52 { 1_075 } else { 150 };
        let significand = u128::from(mantissa) + (1 << fraction_bits);
        let shift = scaled.trailing_zeros() as i32;
        let (odd, power) = (scaled >> shift, shift + zeros);
        let is_neighbour = odd == 2 * significand + 1 || odd == 2 * significand - 1;
        is_neighbour && power == biased_exponent - bias - 1
    }

    /// The next longer digits that read back.
    #[cold]
    fn longer(self, format: impl Fn(usize) -> String, reads_back: impl Fn(&str) -> bool) -> Self {
        (self.length..17)
            .map(format)
            .filter(|text| reads_back(text))
            .map(|text| Self::shortest(&text))
            .find(|digits| digits.length > self.length)
            .unwrap_or(self)
    }

    /// Plain from 0.0001 up to `plain_max` digits before the point, else with an exponent of at least two
    /// digits.
    fn write(&self, plain_max: i32, out: &mut Vec<u8>) {
        if self.is_negative {
            out.push(b'-');
        }
        let digits = &self.digits[..self.length];
        let (length, point) = (self.length as i32, self.point);
        if digits.is_empty() {
            out.push(b'0');
        } else if point < -3 || point > plain_max {
            self.write_with_exponent(out);
        } else if point <= 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-point) as usize, b'0');
            out.extend_from_slice(digits);
        } else if length <= point {
            out.extend_from_slice(digits);
            out.resize(out.len() + (point - length) as usize, b'0');
        } else {
            let (whole, fraction) = digits.split_at(point as usize);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
    }

    fn write_with_exponent(&self, out: &mut Vec<u8>) {
        out.push(self.digits[0]);
        if self.length > 1 {
            out.push(b'.');
            out.extend_from_slice(&self.digits[1..self.length]);
        }
        let exponent = self.point - 1;
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        out.extend_from_slice(itoa::Buffer::new().format(exponent.abs()).as_bytes());
    }
}
