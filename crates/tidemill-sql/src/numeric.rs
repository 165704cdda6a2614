//! PostgreSQL's `numeric`: exact decimals with a display scale, equal to PostgreSQL 15's to the digit.
//!
//! # Representation
//!
//! A number whose digits fit an `i128` is a mantissa and a scale (`Small`): nothing is allocated, and most
//! operations are one checked machine operation. When that does not fit, the value becomes base-10,000 digits
//! (`Digits`), which calculate as PostgreSQL's numeric.c does, guard digits of the transcendental functions
//! included. Both forms can hold the same value; nothing depends on which one does.
//!
//! The *scale* is what PostgreSQL calls dscale: the number of decimals shown. It never hides a digit, it
//! follows PostgreSQL's rules through every operation, and it does not count in comparisons: `1.0 = 1.00`.
//!
//! # Storage encoding
//!
//! In Arrow a numeric is a `LargeBinary` whose bytes compare (memcmp) as the numbers do:
//!
//! ```text
//! header [exponent, 2 bytes] base-100 digits ...   scale, 2 bytes big-endian
//! └──────────────── key ───────────────────┘       └──────────────────────┘
//! ```
//!
//! The header tells the class and, for numbers near 1, the base-100 exponent; an exponent outside of -16..=63
//! follows it in two bytes. A digit `d` is the byte `2d + 1`, the last one `2d`, so the digits end by
//! themselves and a number sorts before every longer one that begins with its digits. There are no zero
//! digits at either end. The bytes of a negative number are those of its absolute value, complemented:
//!
//! | header | value |
//! |---|---|
//! | `1f` | -Infinity |
//! | `2d`, `2e..=7d`, `7e` | negative, complements of the positive headers |
//! | `80` | zero, with no digits |
//! | `81`, then the exponent + 8192 | positive, exponent below -16 |
//! | `82..=d1` | positive, exponent -16..=63 |
//! | `d2`, then the exponent | positive, exponent above 63 |
//! | `e0` | Infinity |
//! | `f0` | NaN |
//!
//! So the key of 7 is the two bytes `92 0e`. No key is the beginning of another, hence equal values that
//! differ in their scale differ in the last two bytes only, and [`Numeric::key`], which cuts them off, is
//! what to hash and group by.

mod aggregate;
mod arithmetic;
mod convert;
mod digits;
mod small;
mod storage;
mod text;
mod transcendental;
mod wire;

#[cfg(test)]
mod golden;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::error::{Result, SqlError, SqlState};

pub use aggregate::Spread;
use digits::Digits;
use small::Small;

/// The largest number of decimals.
const SCALE_MAX: i32 = 16_383;
/// The largest base-10,000 weight: 131,072 decimal digits before the point.
const WEIGHT_MAX: i32 = i16::MAX as i32;
/// What a calculation whose result has no natural scale is done to, at least.
const SIGNIFICANT_DIGITS_MIN: i32 = 16;
/// The scale that such a calculation chooses at most.
const CHOSEN_SCALE_MAX: i32 = 1000;

/// A value of PostgreSQL's type `numeric`.
#[derive(Debug, Clone)]
pub struct Numeric(Repr);

#[derive(Debug, Clone)]
enum Repr {
    /// The fields of a `Small`: as a struct in a variant it would make every value half as large again.
    Small {
        mantissa: i128,
        scale: u16,
    },
    Large(Box<Digits>),
    NaN,
    Infinity,
    NegativeInfinity,
}

impl Numeric {
    pub const ZERO: Self = Self::small(Small { mantissa: 0, scale: 0 });
    pub const ONE: Self = Self::small(Small { mantissa: 1, scale: 0 });
    pub const NAN: Self = Self(Repr::NaN);
    pub const INFINITY: Self = Self(Repr::Infinity);
    pub const NEG_INFINITY: Self = Self(Repr::NegativeInfinity);

    const fn small(value: Small) -> Self {
        Self(Repr::Small { mantissa: value.mantissa, scale: value.scale })
    }

    fn large(value: Digits) -> Self {
        Self(Repr::Large(Box::new(value)))
    }

    /// The result of a calculation, or `value overflows numeric format`.
    fn finish(value: Digits) -> Result<Self> {
        if value.weight > WEIGHT_MAX || !(0..=SCALE_MAX).contains(&value.scale) {
            return Err(overflow());
        }
        Ok(match Small::from_digits(&value) {
            Some(small) => Self::small(small),
            None => Self::large(value),
        })
    }

    fn infinity(negative: bool) -> Self {
        if negative { Self::NEG_INFINITY } else { Self::INFINITY }
    }

    pub fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    pub fn is_infinite(&self) -> bool {
        matches!(self.0, Repr::Infinity | Repr::NegativeInfinity)
    }

    pub fn is_finite(&self) -> bool {
        matches!(self.0, Repr::Small { .. } | Repr::Large(_))
    }

    pub fn is_zero(&self) -> bool {
        self.signum() == 0 && !self.is_nan()
    }

    pub fn is_negative(&self) -> bool {
        self.signum() < 0
    }

    /// Whether there is nothing after the decimal point; true for the infinities, as in PostgreSQL.
    pub fn is_integral(&self) -> bool {
        match self.digits() {
            Some(value) => value.is_integral(),
            None => !self.is_nan(),
        }
    }

    /// -1, 0 or 1; 0 for NaN.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Repr::Small { mantissa, .. } => mantissa.signum() as i32,
            Repr::Large(value) => match (value.is_zero(), value.negative) {
                (true, _) => 0,
                (false, negative) => 1 - 2 * i32::from(negative),
            },
            Repr::NaN => 0,
            Repr::Infinity => 1,
            Repr::NegativeInfinity => -1,
        }
    }

    /// The number of decimals shown; `None` for NaN and the infinities, as SQL's `scale()` is null for them.
    pub fn scale(&self) -> Option<i32> {
        match &self.0 {
            Repr::Small { scale, .. } => Some(i32::from(*scale)),
            Repr::Large(value) => Some(value.scale),
            Repr::NaN | Repr::Infinity | Repr::NegativeInfinity => None,
        }
    }

    /// The value as base-10,000 digits; `None` for NaN and the infinities.
    fn digits(&self) -> Option<Digits> {
        match &self.0 {
            Repr::Small { mantissa, scale } => Some(Small { mantissa: *mantissa, scale: *scale }.into()),
            Repr::Large(value) => Some((**value).clone()),
            Repr::NaN | Repr::Infinity | Repr::NegativeInfinity => None,
        }
    }

    /// The value, if it is held in an `i128`.
    fn as_small(&self) -> Option<Small> {
        match self.0 {
            Repr::Small { mantissa, scale } => Some(Small { mantissa, scale }),
            _ => None,
        }
    }

    /// Both values, if both are held in an `i128`.
    fn both_small(&self, other: &Self) -> Option<(Small, Small)> {
        Some((self.as_small()?, other.as_small()?))
    }

    /// Both values as digits, if both are finite.
    fn both_finite(&self, other: &Self) -> Option<(Digits, Digits)> {
        Some((self.digits()?, other.digits()?))
    }

    /// The order of the kinds: -Infinity, finite numbers, Infinity, NaN.
    fn rank(&self) -> u8 {
        match self.0 {
            Repr::NegativeInfinity => 0,
            Repr::Small { .. } | Repr::Large(_) => 1,
            Repr::Infinity => 2,
            Repr::NaN => 3,
        }
    }
}

impl Default for Numeric {
    fn default() -> Self {
        Self::ZERO
    }
}

/// PostgreSQL's order: NaN equals itself and is greater than everything else; the scale does not count.
impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> Ordering {
        if let Some(order) = self.both_small(other).and_then(|(a, b)| a.compare(b)) {
            return order;
        }
        match self.both_finite(other) {
            Some((a, b)) => a.cmp_value(&b),
            None => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = Vec::with_capacity(24);
        self.encode(&mut bytes);
        Self::key(&bytes).hash(state);
    }
}

/// The scale of a quotient: at least 16 significant digits and no fewer decimals than either operand shows.
/// Each operand is given by its weight, first base-10,000 digit and scale. `select_div_scale` in numeric.c.
fn division_scale(dividend: (i32, u16, i32), divisor: (i32, u16, i32)) -> i32 {
    let weight = dividend.0 - divisor.0 - i32::from(dividend.1 <= divisor.1);
    chosen_scale(SIGNIFICANT_DIGITS_MIN - weight * digits::DIGIT_WIDTH, &[dividend.2, divisor.2])
}

/// The scale that a calculation would like, but at least that of its operands, and within bounds.
fn chosen_scale(wish: i32, operands: &[i32]) -> i32 {
    operands.iter().fold(wish.max(0), |scale, operand| scale.max(*operand)).min(CHOSEN_SCALE_MAX)
}

fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}
