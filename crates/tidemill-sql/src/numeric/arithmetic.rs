//! Addition to factorial: the exact operations of `Numeric`, and division, which chooses a scale.

use super::digits::{Cut, Digits};
use super::small::Small;
use super::{Numeric, Repr, SCALE_MAX, WEIGHT_MAX, overflow};
use crate::error::{Result, SqlError, SqlState};

/// The largest argument whose factorial is in range, with room to spare, as in PostgreSQL.
const FACTORIAL_MAX: i64 = 32_177;

impl Numeric {
    pub fn add(&self, other: &Self) -> Result<Self> {
        if let Some(sum) = self.both_small(other).and_then(|(a, b)| a.add(b)) {
            return Ok(Self::small(sum));
        }
        match self.both_finite(other) {
            Some((a, b)) => Self::finish(a.add(&b)),
            None => Ok(self.add_special(other)),
        }
    }

    pub fn sub(&self, other: &Self) -> Result<Self> {
        if let Some(difference) = self.both_small(other).and_then(|(a, b)| a.sub(b)) {
            return Ok(Self::small(difference));
        }
        match self.both_finite(other) {
            Some((a, b)) => Self::finish(a.sub(&b)),
            None => Ok(self.add_special(&other.neg())),
        }
    }

    /// A sum with NaN or an infinity in it. `Infinity - Infinity` is NaN.
    fn add_special(&self, other: &Self) -> Self {
        let opposite = self.is_infinite() && other.is_infinite() && self.signum() != other.signum();
        if self.is_nan() || other.is_nan() || opposite {
            return Self::NAN;
        }
        if self.is_infinite() { self.clone() } else { other.clone() }
    }

    pub fn mul(&self, other: &Self) -> Result<Self> {
        if let Some(product) = self.both_small(other).and_then(|(a, b)| a.mul(b)) {
            return Ok(Self::small(product));
        }
        let Some((a, b)) = self.both_finite(other) else {
            return Ok(match self.signum() * other.signum() {
                0 => Self::NAN,
                sign => Self::infinity(sign < 0),
            });
        };
        let product = a.mul_exact(&b);
        Self::finish(if product.scale > SCALE_MAX { product.round(SCALE_MAX) } else { product })
    }

    /// The quotient to at least 16 significant digits, and to no fewer decimals than either operand shows.
    pub fn div(&self, divisor: &Self) -> Result<Self> {
        if divisor.is_zero() && !self.is_nan() {
            return Err(SqlError::division_by_zero());
        }
        if let Some(quotient) = self.both_small(divisor).and_then(|(a, b)| a.div(b)) {
            return Ok(Self::small(quotient));
        }
        match self.both_finite(divisor) {
            Some((a, b)) => Self::finish(a.div(&b, a.division_scale(&b), Cut::Round)),
            None => Ok(self.div_special(divisor)),
        }
    }

    /// SQL's `div()`: the quotient without its fraction.
    pub fn div_trunc(&self, divisor: &Self) -> Result<Self> {
        if divisor.is_zero() && !self.is_nan() {
            return Err(SqlError::division_by_zero());
        }
        if let Some(quotient) = self.both_small(divisor).and_then(|(a, b)| a.div_truncated(b)) {
            return Ok(Self::small(quotient));
        }
        match self.both_finite(divisor) {
            Some((a, b)) => Self::finish(a.div(&b, 0, Cut::Truncate)),
            None => Ok(self.div_special(divisor)),
        }
    }

    /// A quotient with NaN or an infinity in it. A number divided by an infinity is zero, and no underflow.
    fn div_special(&self, divisor: &Self) -> Self {
        if self.is_nan() || divisor.is_nan() || (self.is_infinite() && divisor.is_infinite()) {
            return Self::NAN;
        }
        if self.is_infinite() { Self::infinity(self.signum() != divisor.signum()) } else { Self::ZERO }
    }

    /// The remainder, with the sign of the dividend.
    pub fn rem(&self, divisor: &Self) -> Result<Self> {
        if divisor.is_zero() && !self.is_nan() {
            return Err(SqlError::division_by_zero());
        }
        if let Some(rest) = self.both_small(divisor).and_then(|(a, b)| a.rem(b)) {
            return Ok(Self::small(rest));
        }
        let Some((a, b)) = self.both_finite(divisor) else {
            let whole = self.is_finite() && divisor.is_infinite();
            return Ok(if whole { self.clone() } else { Self::NAN });
        };
        let quotient = a.div(&b, 0, Cut::Truncate);
        Self::finish(a.sub(&b.mul(&quotient, b.scale)))
    }

    pub fn neg(&self) -> Self {
        match &self.0 {
            Repr::Small { mantissa, scale } => match mantissa.checked_neg() {
                Some(mantissa) => Self::small(Small { mantissa, scale: *scale }),
                None => Self::large(Digits::from(Small { mantissa: *mantissa, scale: *scale }).negated()),
            },
            Repr::Large(value) => Self::large((**value).clone().negated()),
            Repr::NaN => Self::NAN,
            Repr::Infinity => Self::NEG_INFINITY,
            Repr::NegativeInfinity => Self::INFINITY,
        }
    }

    pub fn abs(&self) -> Self {
        if self.is_negative() { self.neg() } else { self.clone() }
    }

    /// -1, 0 or 1 as a numeric; NaN for NaN.
    pub fn sign(&self) -> Self {
        if self.is_nan() { Self::NAN } else { Self::from(self.signum()) }
    }

    pub fn ceil(&self) -> Result<Self> {
        Ok(self.neg().floor()?.neg())
    }

    pub fn floor(&self) -> Result<Self> {
        if let Some(floor) = self.as_small().and_then(Small::floor) {
            return Ok(Self::small(floor));
        }
        let Some(value) = self.digits() else { return Ok(self.clone()) };
        let whole = value.clone().truncate(0);
        if value.negative && whole.cmp_value(&value).is_ne() {
            return Self::finish(whole.sub(&Digits::integer(1)));
        }
        Self::finish(whole)
    }

    /// Rounds half away from zero to `scale` decimals; a negative scale rounds to tens, hundreds, and so on.
    pub fn round(&self, scale: i32) -> Result<Self> {
        let scale = clamp_scale(scale);
        if let (Some(value), Ok(wanted)) = (self.as_small(), u16::try_from(scale))
            && let Some(rounded) = value.round(wanted)
        {
            return Ok(Self::small(rounded));
        }
        match self.digits() {
            Some(value) => Self::finish(value.round(scale).with_scale(scale.max(0))),
            None => Ok(self.clone()),
        }
    }

    /// Cuts off after `scale` decimals; a negative scale cuts off tens, hundreds, and so on.
    pub fn trunc(&self, scale: i32) -> Result<Self> {
        let scale = clamp_scale(scale);
        if let (Some(value), Ok(wanted)) = (self.as_small(), u16::try_from(scale))
            && let Some(cut) = value.truncate(wanted)
        {
            return Ok(Self::small(cut));
        }
        match self.digits() {
            Some(value) => Self::finish(value.truncate(scale).with_scale(scale.max(0))),
            None => Ok(self.clone()),
        }
    }

    /// The fewest decimals that show the value whole; `None` for NaN and the infinities.
    pub fn min_scale(&self) -> Option<i32> {
        Some(self.digits()?.min_scale())
    }

    /// The same value without zeros at the end of its decimals.
    pub fn trim_scale(&self) -> Self {
        let Some(value) = self.digits() else { return self.clone() };
        let scale = value.min_scale();
        self.rescaled(scale)
    }

    /// The same value shown with `scale` decimals, which must be enough for it.
    fn rescaled(&self, scale: i32) -> Self {
        let Some(value) = self.digits() else { return self.clone() };
        let value = value.with_scale(scale);
        match Small::from_digits(&value) {
            Some(small) => Self::small(small),
            None => Self::large(value),
        }
    }

    /// The greatest common divisor, not negative; NaN if either is not finite.
    pub fn gcd(&self, other: &Self) -> Result<Self> {
        let (Some(scale), Some(other_scale)) = (self.scale(), other.scale()) else { return Ok(Self::NAN) };
        let (mut a, mut b) = (self.abs(), other.abs());
        if a < b {
            std::mem::swap(&mut a, &mut b);
        }
        while !b.is_zero() {
            let rest = a.rem(&b)?;
            a = std::mem::replace(&mut b, rest);
        }
        Ok(a.rescaled(scale.max(other_scale)))
    }

    /// The least common multiple, not negative; NaN if either is not finite.
    pub fn lcm(&self, other: &Self) -> Result<Self> {
        let (Some(scale), Some(other_scale)) = (self.scale(), other.scale()) else { return Ok(Self::NAN) };
        let scale = scale.max(other_scale);
        if self.is_zero() || other.is_zero() {
            return Ok(Self::ZERO.rescaled(scale));
        }
        let parts = self.div_trunc(&self.gcd(other)?)?;
        let Some((parts, other)) = parts.both_finite(other) else { return Ok(Self::NAN) };
        Self::finish(other.mul(&parts, other.scale).with_sign(false).with_scale(scale))
    }

    pub fn factorial(n: i64) -> Result<Self> {
        if n < 0 {
            let message = "factorial of a negative number is undefined";
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        if n > FACTORIAL_MAX {
            return Err(overflow());
        }
        let product = (2..=n.unsigned_abs()).fold(Digits::integer(1), |p, k| p.mul(&Digits::integer(k), 0));
        Self::finish(product)
    }
}

/// Bounds the scale of a rounding: beyond these nothing changes any more.
fn clamp_scale(scale: i32) -> i32 {
    scale.clamp(-(WEIGHT_MAX + 1) * 4 - 1, SCALE_MAX)
}
