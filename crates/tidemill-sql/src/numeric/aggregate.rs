//! The last step of `avg`, `variance` and `stddev`: from sums to the result, as PostgreSQL does it.

use super::Numeric;
use super::digits::{Cut, Digits};
use crate::error::Result;

/// Which of the two variances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// `var_samp`, `stddev_samp`: divided by n - 1.
    Sample,
    /// `var_pop`, `stddev_pop`: divided by n.
    Population,
}

impl Numeric {
    /// `avg`: the sum divided by the count, which must not be zero.
    pub fn avg_of(sum: &Self, count: i64) -> Result<Self> {
        sum.div(&Self::from(count))
    }

    /// `var_samp` or `var_pop` of `count` values with this sum and this sum of squares, which carry the
    /// largest scale of the values and twice that. `None` (null) without enough values; NaN if a value was
    /// not finite.
    pub fn variance_of(
        count: i64,
        sum: &Self,
        sum_of_squares: &Self,
        spread: Spread,
    ) -> Result<Option<Self>> {
        Self::spread_of(count, sum, sum_of_squares, spread, |variance, _| variance)
    }

    /// `stddev_samp` or `stddev_pop`; everything else as for `variance_of`.
    pub fn stddev_of(count: i64, sum: &Self, sum_of_squares: &Self, spread: Spread) -> Result<Option<Self>> {
        Self::spread_of(count, sum, sum_of_squares, spread, |variance, scale| variance.sqrt(scale))
    }

    fn spread_of(
        count: i64,
        sum: &Self,
        sum_of_squares: &Self,
        spread: Spread,
        last: impl FnOnce(Digits, i32) -> Digits,
    ) -> Result<Option<Self>> {
        if count < 1 || (count == 1 && spread == Spread::Sample) {
            return Ok(None);
        }
        let Some((sum, squares)) = sum.both_finite(sum_of_squares) else { return Ok(Some(Self::NAN)) };
        let n = Digits::integer(count.unsigned_abs());
        let scale = sum.scale * 2;
        let numerator = n.mul(&squares, scale).sub(&sum.mul(&sum, scale));
        // Rounding errors of the sums could make it negative.
        if numerator.is_zero() || numerator.negative {
            return Ok(Some(Self::ZERO));
        }
        let denominator = match spread {
            Spread::Sample => n.mul(&Digits::integer(count.unsigned_abs() - 1), 0),
            Spread::Population => n.mul(&n, 0),
        };
        let scale = numerator.division_scale(&denominator);
        Self::finish(last(numerator.div(&denominator, scale, Cut::Round), scale)).map(Some)
    }
}
