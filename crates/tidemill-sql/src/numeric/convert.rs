//! Between `Numeric` and the machine's integers and floats, and Arrow's decimals.

use std::fmt::Debug;
use std::str::FromStr;

use super::Numeric;
use super::digits::{DIGIT_WIDTH, Digits};
use super::small::Small;
use crate::error::{Result, SqlError, SqlState};

/// The largest integer up to which a double holds every integer.
const F64_EXACT_MAX: u128 = 1 << 53;
/// The largest power of ten that a double holds exactly.
const F64_EXACT_TENS: u16 = 22;

macro_rules! from_integer {
    ($($integer:ty),*) => {
        $(impl From<$integer> for Numeric {
            fn from(value: $integer) -> Self {
                Self::small(Small::integer(i128::from(value)))
            }
        })*
    };
}

from_integer!(i16, i32, i64, i128, u32, u64);

/// To 15 significant digits, as PostgreSQL's cast.
impl From<f64> for Numeric {
    fn from(value: f64) -> Self {
        if value.is_finite() { from_scientific(&format!("{value:.14e}")) } else { from_non_finite(value) }
    }
}

/// To 6 significant digits, as PostgreSQL's cast.
impl From<f32> for Numeric {
    fn from(value: f32) -> Self {
        if value.is_finite() {
            from_scientific(&format!("{value:.5e}"))
        } else {
            from_non_finite(f64::from(value))
        }
    }
}

fn from_non_finite(value: f64) -> Numeric {
    if value.is_nan() { Numeric::NAN } else { Numeric::infinity(value < 0.0) }
}

/// From `1.2500e-7`: the zeros at the end are not significant, as in C's `%g`.
fn from_scientific(text: &str) -> Numeric {
    let (mantissa, exponent) = text.split_once('e').expect("the format has an exponent");
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    Numeric::parse(&format!("{mantissa}e{exponent}")).expect("a finite float is within the range of numeric")
}

impl Numeric {
    pub fn from_i128(value: i128) -> Self {
        Self::from(value)
    }

    /// `mantissa / 10^scale`, as Arrow's Decimal128 means it; a negative scale multiplies.
    pub fn from_decimal(mantissa: i128, scale: i8) -> Self {
        Self::from_decimal_digits(Digits::from(Small::integer(mantissa)), scale)
    }

    /// `(high * 2^128 + low) / 10^scale`: Arrow's Decimal256, from `i256::to_parts`.
    pub fn from_decimal256(low: u128, high: i128, scale: i8) -> Self {
        let half = Digits::from(Small::integer(1 << 64));
        let part = |value: u128| {
            Digits::from(Small::integer((value >> 64) as i128))
                .mul(&half, 0)
                .add(&Digits::integer(value as u64))
        };
        let high = Digits::from(Small::integer(high)).mul(&half, 0).mul(&half, 0);
        Self::from_decimal_digits(high.add(&part(low)), scale)
    }

    fn from_decimal_digits(integer: Digits, scale: i8) -> Self {
        if let (Some(small), Ok(scale)) = (Small::from_digits(&integer), u16::try_from(scale)) {
            return Self::small(Small { scale, ..small });
        }
        let power = Digits::from(Small::integer(1)).shifted(-i32::from(scale));
        let value = integer.mul_exact(&power).with_scale(i32::from(scale).max(0));
        Self::finish(value).expect("a decimal of 256 bits is within the range of numeric")
    }

    /// Rounded half away from zero.
    pub fn to_i64(&self) -> Result<i64> {
        self.to_integer("bigint")
    }

    /// Rounded half away from zero.
    pub fn to_i32(&self) -> Result<i32> {
        self.to_integer("integer")
    }

    /// Rounded half away from zero.
    pub fn to_i16(&self) -> Result<i16> {
        self.to_integer("smallint")
    }

    fn to_integer<T: TryFrom<i128>>(&self, type_name: &str) -> Result<T> {
        if !self.is_finite() {
            let what = if self.is_nan() { "NaN" } else { "infinity" };
            return Err(SqlError::unsupported(format!("cannot convert {what} to {type_name}")));
        }
        let integer = self.to_decimal(0).and_then(|value| T::try_from(value).ok());
        integer.ok_or_else(|| SqlError::out_of_range(type_name))
    }

    /// The mantissa at `scale` decimals, rounded half away from zero, as Arrow's Decimal128 has it. `None`
    /// for NaN, the infinities and what does not fit.
    pub fn to_decimal(&self, scale: u16) -> Option<i128> {
        let rounded = self.round(i32::from(scale)).ok()?.as_small()?;
        (rounded.scale == scale).then_some(rounded.mantissa)
    }

    /// The nearest double, or an error if that would be infinite, or zero for a value that is not.
    pub fn to_f64(&self) -> Result<f64> {
        if let Some(Small { mantissa, scale }) = self.as_small()
            && mantissa.unsigned_abs() <= F64_EXACT_MAX
            && scale <= F64_EXACT_TENS
        {
            // Both sides are exact, so the one rounding of the division is the right one.
            return Ok(mantissa as f64 / 10f64.powi(i32::from(scale)));
        }
        let value: f64 = self.parse_display();
        self.check_float(value.is_infinite(), value == 0.0, "double precision").map(|()| value)
    }

    /// The nearest single-precision float, or an error as for `to_f64`.
    pub fn to_f32(&self) -> Result<f32> {
        let value: f32 = self.parse_display();
        self.check_float(value.is_infinite(), value == 0.0, "real").map(|()| value)
    }

    fn parse_display<T: FromStr<Err: Debug>>(&self) -> T {
        self.to_string().parse().expect("every numeric is written as a float can be")
    }

    fn check_float(&self, infinite: bool, zero: bool, type_name: &str) -> Result<()> {
        if self.is_finite() && (infinite || (zero && !self.is_zero())) {
            let message = format!("\"{self}\" is out of range for type {type_name}");
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        Ok(())
    }
}

impl Digits {
    /// Ten to the power `exponent` times one: a single digit.
    fn shifted(&self, exponent: i32) -> Self {
        let unit = 10u64.pow(exponent.rem_euclid(DIGIT_WIDTH) as u32);
        let mut value = self.mul(&Self::integer(unit), 0);
        value.weight += exponent.div_euclid(DIGIT_WIDTH);
        value.with_scale((-exponent).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_arrow() {
        assert_eq!(Numeric::from_decimal(-12345, 2).to_string(), "-123.45");
        assert_eq!(Numeric::from_decimal(5, 4).to_string(), "0.0005");
        assert_eq!(Numeric::from_decimal(12, -3).to_string(), "12000");
        assert_eq!(
            Numeric::from_decimal(i128::MAX, -128).to_string(),
            format!("{}{}", i128::MAX, "0".repeat(128))
        );
        assert_eq!(Numeric::from_decimal(i128::MIN, 0).to_string(), i128::MIN.to_string());
        let max = "57896044618658097711785492504343953926634992332820282019728792003956564819967";
        assert_eq!(Numeric::from_decimal256(u128::MAX, i128::MAX, 0).to_string(), max);
        assert_eq!(Numeric::from_decimal256(u128::MAX, -1, 3).to_string(), "-0.001");
        assert_eq!(Numeric::from_decimal256(0, i128::MIN, 76).to_string().len(), 79);
    }

    #[test]
    fn back_to_decimals() {
        let value = Numeric::parse("123.455").unwrap();
        assert_eq!(value.to_decimal(2), Some(12346));
        assert_eq!(value.to_decimal(5), Some(12_345_500));
        assert_eq!(value.to_decimal(40), None);
        assert_eq!(Numeric::NAN.to_decimal(2), None);
        assert_eq!(Numeric::from(i128::MIN).to_decimal(0), Some(i128::MIN));
    }

    #[test]
    fn integers_survive() {
        for value in [i128::MIN, i128::MIN + 1, -1, 0, 1, 9999, 10_000, i128::MAX] {
            assert_eq!(Numeric::from(value).to_string(), value.to_string());
            assert_eq!(Numeric::parse(&value.to_string()).unwrap(), Numeric::from(value));
        }
        assert_eq!(Numeric::from(u64::MAX).to_string(), u64::MAX.to_string());
        assert_eq!(Numeric::from(i64::MIN).to_i64().unwrap(), i64::MIN);
    }
}
