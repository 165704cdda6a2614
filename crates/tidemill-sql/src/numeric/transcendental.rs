//! Roots, exponentials, logarithms and powers of `Numeric`, exact to PostgreSQL 15's digit.
//!
//! Their results are rounded approximations. To agree with PostgreSQL to the last digit it takes the same
//! series, the same reductions of the argument and the same number of guard digits, hence the exactness of
//! the constants here.

use std::cmp::Ordering;

use super::digits::{BASE, Cut, DIGIT_WIDTH, Digits};
use super::small::Small;
use super::{CHOSEN_SCALE_MAX, Numeric, SIGNIFICANT_DIGITS_MIN, WEIGHT_MAX, chosen_scale, overflow};
use crate::error::{Result, SqlError, SqlState};

// As many places as PostgreSQL writes, so that an estimate is cut to an integer on the same side of it.
#[expect(clippy::approx_constant, reason = "PostgreSQL's own value")]
const LOG10_E: f64 = 0.434294481903252;
#[expect(clippy::approx_constant, reason = "PostgreSQL's own value")]
const LOG10_2: f64 = 0.301029995663981;
#[expect(clippy::approx_constant, reason = "PostgreSQL's own value")]
const LN_10: f64 = 2.302585092994046;
/// Guard digits of the series.
const GUARD_DIGITS: i32 = 8;
/// e to this power overflows.
const EXPONENT_MAX: f64 = 6000.0;

impl Numeric {
    pub fn sqrt(&self) -> Result<Self> {
        let Some(value) = self.digits() else {
            return if self.is_negative() { Err(root_of_negative()) } else { Ok(self.clone()) };
        };
        if value.negative {
            return Err(root_of_negative());
        }
        let weight = (value.weight + 1) * DIGIT_WIDTH / 2 - 1;
        let scale = chosen_scale(SIGNIFICANT_DIGITS_MIN - weight, &[value.scale]);
        Self::finish(value.sqrt(scale))
    }

    pub fn exp(&self) -> Result<Self> {
        let Some(value) = self.digits() else {
            return Ok(if self.is_negative() { Self::ZERO } else { self.clone() });
        };
        let weight = (value.to_f64() * LOG10_E).clamp(-2000.0, 2000.0) as i32;
        let scale = chosen_scale(SIGNIFICANT_DIGITS_MIN - weight, &[value.scale]);
        Self::finish(value.exp(scale)?)
    }

    pub fn ln(&self) -> Result<Self> {
        let Some(value) = self.digits() else {
            return if self.is_negative() { Err(log_of_negative()) } else { Ok(self.clone()) };
        };
        let scale = chosen_scale(SIGNIFICANT_DIGITS_MIN - value.ln_weight(), &[value.scale]);
        Self::finish(value.ln(scale)?)
    }

    pub fn log10(&self) -> Result<Self> {
        Self::log(&Self::from(10i32), self)
    }

    /// The logarithm of `x` to a base.
    pub fn log(base: &Self, x: &Self) -> Result<Self> {
        if let Some((base, x)) = base.both_finite(x) {
            return Self::finish(x.log(&base)?);
        }
        if base.is_nan() || x.is_nan() {
            return Ok(Self::NAN);
        }
        if base.is_negative() || x.is_negative() {
            return Err(log_of_negative());
        }
        if base.is_zero() || x.is_zero() {
            return Err(log_of_zero());
        }
        Ok(match (base.is_infinite(), x.is_infinite()) {
            (true, true) => Self::NAN,
            (true, false) => Self::ZERO,
            (false, _) => Self::INFINITY,
        })
    }

    pub fn power(&self, exponent: &Self) -> Result<Self> {
        if self.is_nan() || exponent.is_nan() {
            let one = (self.is_nan() && exponent.is_zero()) || (exponent.is_nan() && *self == Self::ONE);
            return Ok(if one { Self::ONE } else { Self::NAN });
        }
        if self.is_zero() && exponent.is_negative() {
            return Err(power_error("zero raised to a negative power is undefined"));
        }
        if self.is_negative() && !exponent.is_integral() {
            return Err(complex_power());
        }
        match self.both_finite(exponent) {
            Some((base, exponent)) => Self::finish(base.power(&exponent)?),
            None => Ok(self.power_special(exponent)),
        }
    }

    /// A power with an infinity in it, by the rules of POSIX.
    fn power_special(&self, exponent: &Self) -> Self {
        if *self == Self::ONE || exponent.is_zero() {
            return Self::ONE;
        }
        if self.is_zero() {
            return Self::ZERO;
        }
        if exponent.is_infinite() {
            return match self.abs().cmp(&Self::ONE) {
                Ordering::Equal => Self::ONE,
                size if (size == Ordering::Greater) == (exponent.signum() > 0) => Self::INFINITY,
                _ => Self::ZERO,
            };
        }
        if exponent.is_negative() {
            return Self::ZERO;
        }
        let odd = exponent.digits().is_some_and(|e| e.is_odd());
        Self::infinity(self.is_negative() && odd)
    }
}

fn root_of_negative() -> SqlError {
    power_error("cannot take square root of a negative number")
}

fn complex_power() -> SqlError {
    power_error("a negative number raised to a non-integer power yields a complex result")
}

fn power_error(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER, message)
}

fn log_of_negative() -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOG, "cannot take logarithm of a negative number")
}

fn log_of_zero() -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOG, "cannot take logarithm of zero")
}

impl Digits {
    fn one() -> Self {
        Self::integer(1)
    }

    /// Whether an integer is odd.
    fn is_odd(&self) -> bool {
        self.digit_at(0) % 2 == 1
    }

    /// The square root rounded to `scale` decimals. A negative scale rounds before the decimal point.
    pub fn sqrt(&self, scale: i32) -> Self {
        if self.is_zero() {
            return Self::zero(scale);
        }
        let weight = self.weight.div_euclid(2);
        // One decimal more than wanted, in whole base-10,000 digits: the root is cut off there and then
        // rounded.
        let fraction =
            if scale + 1 >= 0 { (scale + DIGIT_WIDTH) / DIGIT_WIDTH } else { -((-scale - 1) / DIGIT_WIDTH) };
        let count = (weight + 1 + fraction).max(1);
        let source = (self.weight + 1 + (count - weight - 1) * 2).max(1) as usize;
        let mut digits = self.digits.clone();
        digits.resize(source, 0);
        let (mut root, _) = square_root(&digits);
        root.weight = weight;
        root.round(scale)
    }

    /// e to the power of this, rounded to `scale` decimals.
    fn exp(&self, scale: i32) -> Result<Self> {
        let mut estimate = self.to_f64();
        if estimate.abs() >= EXPONENT_MAX {
            return if estimate > 0.0 { Err(overflow()) } else { Ok(Self::zero(scale)) };
        }
        let weight = (estimate * LOG10_E) as i32;
        // The series converges fast below 0.01; halving the argument squares the result.
        let mut halvings = 0;
        while estimate.abs() > 0.01 {
            halvings += 1;
            estimate /= 2.0;
        }
        let x = match halvings {
            0 => self.clone(),
            _ => self.div_int(1 << halvings, self.scale + halvings),
        };
        let significant = 1 + weight + scale + (f64::from(halvings) * LOG10_2) as i32;
        let significant = significant.max(0) + GUARD_DIGITS;
        let mut result = exp_series(&x, significant - 1);
        for _ in 0..halvings {
            let local = (significant - result.weight * 2 * DIGIT_WIDTH).max(0);
            result = result.mul(&result, local);
        }
        Ok(result.round(scale))
    }

    /// About the power of ten of the first digit of the natural logarithm; 0 where there is none.
    fn ln_weight(&self) -> i32 {
        let Some(first) = self.digits.first().filter(|_| !self.negative) else { return 0 };
        if self.is_near_one() {
            let x = self.sub(&Self::one());
            return x.digits.first().map_or(0, |first| x.weight * DIGIT_WIDTH + log10_floor(*first));
        }
        let mut digits = f64::from(*first);
        let mut weight = self.weight * DIGIT_WIDTH;
        if let Some(second) = self.digits.get(1) {
            digits = digits * f64::from(BASE) + f64::from(*second);
            weight -= DIGIT_WIDTH;
        }
        let ln = digits.ln() + f64::from(weight) * LN_10;
        ln.abs().log10() as i32
    }

    /// From 0.9 to 1.1, both included.
    fn is_near_one(&self) -> bool {
        self.cmp_value(&nine_tenths()).is_ge() && self.cmp_value(&eleven_tenths()).is_le()
    }

    /// The natural logarithm to `scale` decimals, from the series of the inverse hyperbolic tangent.
    fn ln(&self, scale: i32) -> Result<Self> {
        if self.is_zero() {
            return Err(log_of_zero());
        }
        if self.negative {
            return Err(log_of_negative());
        }
        // Square roots bring the argument near 1; each halves the logarithm.
        let mut x = self.clone();
        let mut factor = Self::integer(2);
        let mut roots = 0;
        while x.cmp_value(&nine_tenths()).is_le() || x.cmp_value(&eleven_tenths()).is_ge() {
            x = x.sqrt(scale - x.weight * DIGIT_WIDTH / 2 + GUARD_DIGITS);
            factor = factor.mul(&Self::integer(2), 0);
            roots += 1;
        }
        let local = scale + (f64::from(roots + 1) * LOG10_2) as i32 + GUARD_DIGITS;
        let one = Self::one();
        let (below, above) = (x.sub(&one), x.add(&one));
        Ok(atanh_series(&below.div(&above, local, Cut::Round), local).mul(&factor, scale))
    }

    /// The logarithm to a base, with a scale of its own choice.
    fn log(&self, base: &Self) -> Result<Self> {
        let (base_weight, weight) = (base.ln_weight(), self.ln_weight());
        let result_weight = weight - base_weight;
        let scale = chosen_scale(SIGNIFICANT_DIGITS_MIN - result_weight, &[base.scale, self.scale]);
        let local = |weight: i32| (scale + result_weight - weight + GUARD_DIGITS).max(0);
        let ln_base = base.ln(local(base_weight))?;
        let ln = self.ln(local(weight))?;
        if ln_base.is_zero() {
            return Err(SqlError::division_by_zero());
        }
        Ok(ln.div(&ln_base, scale, Cut::Round))
    }

    /// A power, with a scale of its own choice. A negative base needs an integer exponent.
    fn power(&self, exponent: &Self) -> Result<Self> {
        if let Some(exponent) = exponent.to_i32_exact() {
            return self.power_integer(exponent, chosen_scale(SIGNIFICANT_DIGITS_MIN, &[self.scale]));
        }
        if self.is_zero() {
            return Ok(Self::zero(SIGNIFICANT_DIGITS_MIN));
        }
        let negative = self.negative && exponent.is_odd();
        let base = self.clone().with_sign(false);

        // The size of the result is known from exponent * ln(base) to a few digits.
        let ln_weight = base.ln_weight();
        let rough_scale = (GUARD_DIGITS - ln_weight).max(0);
        let estimate = base.ln(rough_scale)?.mul(exponent, rough_scale).to_f64();
        if estimate.abs() > 2000.0 * 3.01 {
            return if estimate > 0.0 { Err(overflow()) } else { Ok(Self::zero(CHOSEN_SCALE_MAX)) };
        }
        let weight = (estimate * LOG10_E) as i32;
        let scale = chosen_scale(SIGNIFICANT_DIGITS_MIN - weight, &[base.scale, exponent.scale]);
        let significant = (scale + weight).max(0);
        let local = (significant - ln_weight + GUARD_DIGITS).max(0);
        Ok(base.ln(local)?.mul(exponent, local).exp(scale)?.with_sign(negative))
    }

    /// The value, if it is an integer of 32 bits.
    fn to_i32_exact(&self) -> Option<i32> {
        let whole = Small::from_digits(&self.clone().truncate(0)).filter(|_| self.is_integral())?;
        whole.mantissa.try_into().ok()
    }

    /// An integer power rounded to `scale` decimals.
    fn power_integer(&self, exponent: i32, scale: i32) -> Result<Self> {
        match exponent {
            0 => return Ok(Self::one().with_scale(scale)),
            1 => return Ok(self.clone().round(scale)),
            -1 => return Ok(Self::one().div(self, scale, Cut::Round)),
            _ if self.is_zero() => return Ok(Self::zero(scale)),
            _ => {}
        }
        let estimate = f64::from(exponent) * self.log10_estimate();
        // PostgreSQL multiplies up to three times as many digits before it sees that. The estimate is off by less.
        let slack = 1.0 + f64::from(exponent).abs() * 1e-12;
        if estimate > f64::from((WEIGHT_MAX + 1) * DIGIT_WIDTH) + slack {
            return Err(overflow());
        }
        if exponent == 2 {
            return Ok(self.mul(self, scale));
        }
        if estimate + 1.0 < f64::from(-scale) || estimate + 1.0 < f64::from(-CHOSEN_SCALE_MAX) {
            return Ok(Self::zero(scale));
        }
        let significant = 1 + scale + estimate as i32 + f64::from(exponent).abs().ln() as i32 + GUARD_DIGITS;
        Ok(match self.power_by_squaring(exponent.unsigned_abs(), significant) {
            Some(power) if exponent < 0 => Self::one().div(&power, scale, Cut::Round),
            Some(power) => power.round(scale),
            None if exponent < 0 => Self::zero(scale),
            None => return Err(overflow()),
        })
    }

    /// The decimal logarithm of the absolute value, from its first 16 decimals.
    fn log10_estimate(&self) -> f64 {
        let digits = self.digits.iter().take(4);
        let power = (self.weight + 1 - digits.len() as i32) * DIGIT_WIDTH;
        let leading = digits.fold(0.0, |f, d| f * f64::from(BASE) + f64::from(*d));
        leading.log10() + f64::from(power)
    }

    /// A power to about so many significant digits; `None` once it is too large to be a result.
    fn power_by_squaring(&self, exponent: u32, significant: i32) -> Option<Self> {
        let mut square = self.clone();
        let mut result = if exponent & 1 == 1 { self.clone() } else { Self::one() };
        let mut bits = exponent >> 1;
        while bits > 0 {
            let local = significant - 2 * square.weight * DIGIT_WIDTH;
            square = square.mul(&square, local.min(2 * square.scale).max(0));
            if bits & 1 == 1 {
                let local = significant - (square.weight + result.weight) * DIGIT_WIDTH;
                result = square.mul(&result, local.min(square.scale + result.scale).max(0));
            }
            if square.weight > WEIGHT_MAX || result.weight > WEIGHT_MAX {
                return None;
            }
            bits >>= 1;
        }
        Some(result)
    }
}

fn nine_tenths() -> Digits {
    Digits { negative: false, weight: -1, scale: 1, digits: vec![9000] }
}

fn eleven_tenths() -> Digits {
    Digits { negative: false, weight: 0, scale: 1, digits: vec![1, 1000] }
}

fn log10_floor(digit: u16) -> i32 {
    digit.checked_ilog10().unwrap_or(0) as i32
}

/// 1 + x + x^2/2! + x^3/3! + ...
fn exp_series(x: &Digits, scale: i32) -> Digits {
    let mut sum = Digits::one().add(x);
    let mut term = x.clone();
    for n in 2.. {
        term = term.mul(x, scale).div_int(n, scale);
        if term.is_zero() {
            break;
        }
        sum = sum.add(&term);
    }
    sum
}

/// z + z^3/3 + z^5/5 + ...
fn atanh_series(z: &Digits, scale: i32) -> Digits {
    let square = z.mul(z, scale);
    let mut sum = z.clone();
    let mut power = z.clone();
    for n in (3..).step_by(2) {
        power = power.mul(&square, scale);
        let term = power.div_int(n, scale);
        if term.is_zero() {
            break;
        }
        sum = sum.add(&term);
        if term.weight < sum.weight - scale * 2 / DIGIT_WIDTH {
            break;
        }
    }
    sum
}

/// The whole square root of an integer, and what is left. Zimmermann's Karatsuba square root (INRIA RR-3805).
fn square_root(digits: &[u16]) -> (Digits, Digits) {
    let n = digits.len();
    // Nine base-10,000 digits fit a u128.
    if n <= 9 {
        let value = digits.iter().fold(0u128, |v, d| v * u128::from(BASE) + u128::from(*d));
        let root = value.isqrt();
        let whole = |v: u128| Digits::from(Small::integer(v as i128));
        return (whole(root), whole(value - root * root));
    }
    // The leading quarter must be at least a fourth of what it can be.
    let quarter = n / 4 - usize::from(n.is_multiple_of(4) && digits[0] < BASE as u16 / 4);
    let (high, low) = digits.split_at(n - 2 * quarter);
    let (root, rest) = square_root(high);
    let part = |digits: &[u16]| Digits::new(false, digits.len() as i32 - 1, 0, digits.to_vec());
    let shift = |mut value: Digits| {
        value.weight += if value.is_zero() { 0 } else { quarter as i32 };
        value
    };
    let dividend = shift(rest).add(&part(&low[..quarter]));
    let double = root.add(&root);
    let q = dividend.div(&double, 0, Cut::Truncate);
    let u = dividend.sub(&q.mul(&double, 0));
    let mut root = shift(root).add(&q);
    let mut rest = shift(u).add(&part(&low[quarter..])).sub(&q.mul(&q, 0));
    if rest.negative {
        rest = rest.add(&root);
        root = root.sub(&Digits::one());
        rest = rest.add(&root);
    }
    (root, rest)
}
