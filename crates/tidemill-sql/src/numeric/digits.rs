//! Arbitrary-precision decimals in base 10,000: the slow path of `Numeric`, scaled as in PostgreSQL.

use std::cmp::Ordering;

use super::small::Small;

/// Decimal digits in one base-10,000 digit.
pub(super) const DIGIT_WIDTH: i32 = 4;
pub(super) const BASE: u32 = 10_000;
/// Extra base-10,000 digits that a rounded product is computed with, as PostgreSQL has them: its logarithms
/// and powers are the same to the last digit only if their intermediate products are cut off at the same
/// place.
const PRODUCT_GUARD_DIGITS: i32 = 2;
const TENS: [u16; 4] = [1, 10, 100, 1000];

/// A finite number: the sum of `digits[i] * 10000^(weight - i)`, shown with `scale` decimals.
///
/// Invariant: neither the first nor the last digit is zero; zero has no digits, weight 0 and no sign. `scale`
/// may be negative within a calculation (rounding before the decimal point) but not in a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digits {
    pub negative: bool,
    pub weight: i32,
    pub scale: i32,
    pub digits: Vec<u16>,
}

/// What a division does with what follows the last wanted digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Half away from zero.
    Round,
    Truncate,
}

impl Digits {
    pub fn zero(scale: i32) -> Self {
        Self { negative: false, weight: 0, scale, digits: Vec::new() }
    }

    /// Strips zero digits at both ends, so that the invariant holds.
    pub fn new(negative: bool, weight: i32, scale: i32, digits: Vec<u16>) -> Self {
        let mut value = Self { negative, weight, scale, digits };
        value.strip();
        value
    }

    pub fn integer(value: u64) -> Self {
        Self::from(Small { mantissa: i128::from(value), scale: 0 })
    }

    /// Decimal digits (values, not characters), of which the first has the decimal weight `decimal_weight`.
    pub fn from_decimals(negative: bool, decimals: &[u8], decimal_weight: i64, scale: i32) -> Option<Self> {
        let weight = i32::try_from(decimal_weight.div_euclid(4)).ok()?;
        let lead = 3 - decimal_weight.rem_euclid(4) as usize;
        let mut digits = vec![0u16; (lead + decimals.len()).div_ceil(4)];
        for (i, decimal) in decimals.iter().enumerate() {
            let at = lead + i;
            digits[at / 4] += u16::from(*decimal) * TENS[3 - at % 4];
        }
        Some(Self::new(negative, weight, scale, digits))
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub fn is_integral(&self) -> bool {
        self.digits.len() as i32 <= self.weight + 1 || self.is_zero()
    }

    /// The digit with the base-10,000 weight `weight`.
    pub fn digit_at(&self, weight: i32) -> u16 {
        usize::try_from(self.weight - weight).ok().and_then(|i| self.digits.get(i)).copied().unwrap_or(0)
    }

    /// The fewest decimals that show the value whole.
    pub fn min_scale(&self) -> i32 {
        let Some(mut last) = self.digits.last().copied() else { return 0 };
        let mut scale = (self.digits.len() as i32 - 1 - self.weight) * DIGIT_WIDTH;
        if scale <= 0 {
            return 0;
        }
        while last.is_multiple_of(10) {
            scale -= 1;
            last /= 10;
        }
        scale
    }

    pub fn with_scale(mut self, scale: i32) -> Self {
        self.scale = scale;
        self
    }

    pub fn with_sign(mut self, negative: bool) -> Self {
        self.negative = negative && !self.is_zero();
        self
    }

    pub fn negated(self) -> Self {
        let negative = !self.negative;
        self.with_sign(negative)
    }

    fn strip(&mut self) {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        let leading = self.digits.iter().take_while(|d| **d == 0).count();
        if leading > 0 {
            self.digits.drain(..leading);
            self.weight -= leading as i32;
        }
        if self.digits.is_empty() {
            self.weight = 0;
            self.negative = false;
        }
    }

    pub fn cmp_abs(&self, other: &Self) -> Ordering {
        if self.is_zero() || other.is_zero() {
            return self.digits.len().min(1).cmp(&other.digits.len().min(1));
        }
        self.weight.cmp(&other.weight).then_with(|| self.digits.cmp(&other.digits))
    }

    pub fn cmp_value(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.cmp_abs(other),
            (true, true) => other.cmp_abs(self),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }

    pub fn add(&self, other: &Self) -> Self {
        if self.negative == other.negative {
            return self.add_abs(other).with_sign(self.negative);
        }
        match self.cmp_abs(other) {
            Ordering::Equal => Self::zero(self.scale.max(other.scale)),
            Ordering::Greater => self.sub_abs(other).with_sign(self.negative),
            Ordering::Less => other.sub_abs(self).with_sign(other.negative),
        }
    }

    pub fn sub(&self, other: &Self) -> Self {
        if other.is_zero() {
            return self.clone().with_scale(self.scale.max(other.scale));
        }
        if self.negative != other.negative {
            return self.add_abs(other).with_sign(!other.negative);
        }
        match self.cmp_abs(other) {
            Ordering::Equal => Self::zero(self.scale.max(other.scale)),
            Ordering::Greater => self.sub_abs(other).with_sign(self.negative),
            Ordering::Less => other.sub_abs(self).with_sign(!self.negative),
        }
    }

    /// The weights of the last digits of two numbers: the smaller one.
    fn last_weight(&self, other: &Self) -> i32 {
        let last = |d: &Self| d.weight - d.digits.len() as i32 + 1;
        last(self).min(last(other))
    }

    fn add_abs(&self, other: &Self) -> Self {
        let scale = self.scale.max(other.scale);
        if self.is_zero() {
            return other.clone().with_scale(scale);
        }
        if other.is_zero() {
            return self.clone().with_scale(scale);
        }
        let (top, last) = (self.weight.max(other.weight) + 1, self.last_weight(other));
        let mut digits = vec![0u16; (top - last + 1) as usize];
        let mut carry = 0;
        for (i, out) in digits.iter_mut().enumerate().rev() {
            let weight = top - i as i32;
            let sum = self.digit_at(weight) + other.digit_at(weight) + carry;
            carry = u16::from(sum >= BASE as u16);
            *out = sum - carry * BASE as u16;
        }
        Self::new(false, top, scale, digits)
    }

    /// Needs `|self| > |other|`.
    fn sub_abs(&self, other: &Self) -> Self {
        let scale = self.scale.max(other.scale);
        if other.is_zero() {
            return self.clone().with_scale(scale).with_sign(false);
        }
        let (top, last) = (self.weight, self.last_weight(other));
        let mut digits = vec![0u16; (top - last + 1) as usize];
        let mut borrow = 0;
        for (i, out) in digits.iter_mut().enumerate().rev() {
            let weight = top - i as i32;
            let (from, take) = (self.digit_at(weight), other.digit_at(weight) + borrow);
            borrow = u16::from(from < take);
            *out = from + borrow * BASE as u16 - take;
        }
        Self::new(false, top, scale, digits)
    }

    /// The whole product; its scale is the sum of the scales.
    pub fn mul_exact(&self, other: &Self) -> Self {
        self.mul(other, self.scale + other.scale)
    }

    /// The product rounded to `scale` decimals. Digits that lie well beyond `scale` are left out of the
    /// calculation, so the last digit of a product that is not exact may be off by one, as in PostgreSQL.
    pub fn mul(&self, other: &Self, scale: i32) -> Self {
        let (short, long) =
            if self.digits.len() > other.digits.len() { (other, self) } else { (self, other) };
        if short.is_zero() {
            return Self::zero(scale);
        }
        let weight = short.weight + long.weight + 2;
        let wanted = weight + 1 + (scale + DIGIT_WIDTH - 1) / DIGIT_WIDTH + PRODUCT_GUARD_DIGITS;
        let count = (short.digits.len() + long.digits.len() + 1).min(wanted.max(0) as usize);
        if count < 3 {
            return Self::zero(scale);
        }
        // A sum of 2^37 products fits, which is more than any operand has digits: carries can wait until the
        // end.
        let mut sums = vec![0u64; count];
        for (i, a) in short.digits.iter().enumerate().take(count - 2) {
            let row = &mut sums[i + 2..];
            for (sum, b) in row.iter_mut().zip(&long.digits) {
                *sum += u64::from(*a) * u64::from(*b);
            }
        }
        let mut digits = vec![0u16; count];
        let mut carry = 0;
        for (out, sum) in digits.iter_mut().zip(&sums).rev() {
            carry += sum;
            *out = (carry % u64::from(BASE)) as u16;
            carry /= u64::from(BASE);
        }
        Self::new(self.negative != other.negative, weight, scale, digits).round(scale)
    }

    /// The quotient to `scale` decimals. The divisor must not be zero.
    pub fn div(&self, divisor: &Self, scale: i32, cut: Cut) -> Self {
        if self.is_zero() {
            return Self::zero(scale);
        }
        let weight = self.weight - divisor.weight;
        let wanted = (weight + 1 + (scale + DIGIT_WIDTH - 1) / DIGIT_WIDTH).max(1);
        // One more digit decides the rounding: what follows it cannot change a half-away-from-zero decision.
        let count = (wanted + i32::from(cut == Cut::Round)) as usize;
        let (digits, weight) = if divisor.digits.len() <= 3 {
            // n digits as an integer stand for a weight that is n - 1 lower.
            (divide_short(&self.digits, &divisor.digits, count), weight + divisor.digits.len() as i32 - 1)
        } else {
            (divide_long(&self.digits, &divisor.digits, count), weight)
        };
        let quotient = Self::new(self.negative != divisor.negative, weight, scale, digits);
        match cut {
            Cut::Round => quotient.round(scale),
            Cut::Truncate => quotient.truncate(scale),
        }
    }

    /// Division by a small positive integer, rounded.
    pub fn div_int(&self, divisor: u32, scale: i32) -> Self {
        self.div(&Self::integer(u64::from(divisor)), scale, Cut::Round)
    }

    /// The scale that PostgreSQL gives the quotient of two numbers: at least 16 significant digits.
    pub fn division_scale(&self, divisor: &Self) -> i32 {
        let first = |d: &Self| d.digits.first().copied().unwrap_or(0);
        super::division_scale(
            (self.weight, first(self), self.scale),
            (divisor.weight, first(divisor), divisor.scale),
        )
    }

    /// Rounds half away from zero to `scale` decimals (tens and hundreds, if negative).
    pub fn round(mut self, scale: i32) -> Self {
        self.scale = scale;
        let keep = i64::from(self.weight + 1) * 4 + i64::from(scale);
        if self.is_zero() || keep >= self.digits.len() as i64 * 4 {
            return self;
        }
        if keep < 0 {
            return Self::zero(scale);
        }
        let (whole, part) = (keep as usize / 4, keep as usize % 4);
        let (unit, up) = if part == 0 {
            (1, self.digits[whole] >= BASE as u16 / 2)
        } else {
            let unit = TENS[4 - part];
            let rest = self.digits[whole] % unit;
            self.digits[whole] -= rest;
            (unit, rest >= unit / 2)
        };
        self.digits.truncate(whole + usize::from(part > 0));
        if up {
            self.increment(unit);
        }
        self.strip();
        self
    }

    /// Adds `unit` in the place of the last digit.
    fn increment(&mut self, unit: u16) {
        let mut add = unit;
        for digit in self.digits.iter_mut().rev() {
            *digit += add;
            if *digit < BASE as u16 {
                return;
            }
            *digit -= BASE as u16;
            add = 1;
        }
        self.digits.insert(0, 1);
        self.weight += 1;
    }

    /// Cuts off after `scale` decimals.
    pub fn truncate(mut self, scale: i32) -> Self {
        self.scale = scale;
        let keep = i64::from(self.weight + 1) * 4 + i64::from(scale);
        if keep <= 0 {
            return Self::zero(scale);
        }
        if keep < self.digits.len() as i64 * 4 {
            let (whole, part) = (keep as usize / 4, keep as usize % 4);
            if part > 0 {
                self.digits[whole] -= self.digits[whole] % TENS[4 - part];
            }
            self.digits.truncate(whole + usize::from(part > 0));
            self.strip();
        }
        self
    }

    /// The nearest double; infinity if it is out of range.
    pub fn to_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::INFINITY)
    }
}

impl From<Small> for Digits {
    fn from(value: Small) -> Self {
        let split = value.split();
        Self {
            negative: value.mantissa < 0,
            weight: split.weight,
            scale: i32::from(value.scale),
            digits: split.digits().to_vec(),
        }
    }
}

/// `count` digits of the quotient by up to three digits. Knuth 4.3.1, exercise 16.
fn divide_short(dividend: &[u16], divisor: &[u16], count: usize) -> Vec<u16> {
    // The divisor is an integer here, which pushes the quotient's digits down by its length less one.
    let count = count + divisor.len() - 1;
    let divisor = divisor.iter().fold(0u64, |n, d| n * u64::from(BASE) + u64::from(*d));
    let mut rest = 0u64;
    let step = |i: usize| {
        rest = rest * u64::from(BASE) + u64::from(dividend.get(i).copied().unwrap_or(0));
        let digit = rest / divisor;
        rest %= divisor;
        digit as u16
    };
    (0..count).map(step).collect()
}

/// `count` digits of the quotient. Knuth 4.3.1, algorithm D.
fn divide_long(dividend: &[u16], divisor: &[u16], count: usize) -> Vec<u16> {
    let base = i64::from(BASE);
    let factor = base / (i64::from(divisor[0]) + 1);
    let divisor = scaled(divisor, factor, divisor.len());
    let n = divisor.len() - 1;
    let mut rest = scaled(dividend, factor, dividend.len().max(count + n));
    let mut quotient = Vec::with_capacity(count);
    for j in 0..count {
        let top = rest[j] * base + rest[j + 1];
        let mut guess = (top / divisor[1]).min(base - 1);
        while divisor[2] * guess > (top - guess * divisor[1]) * base + rest[j + 2] {
            guess -= 1;
        }
        if guess > 0 && subtract_multiple(&mut rest[j..=j + n], &divisor, guess) {
            guess -= 1;
            add_back(&mut rest[j..=j + n], &divisor);
        }
        quotient.push(guess as u16);
    }
    quotient
}

/// `digits * factor` in `length` digits after a leading digit for the carry.
fn scaled(digits: &[u16], factor: i64, length: usize) -> Vec<i64> {
    let mut out = vec![0i64; length + 1];
    let mut carry = 0;
    for (i, digit) in digits.iter().enumerate().rev() {
        carry += i64::from(*digit) * factor;
        out[i + 1] = carry % i64::from(BASE);
        carry /= i64::from(BASE);
    }
    out[0] = carry;
    out
}

/// Subtracts `divisor * guess`; true if that went below zero.
fn subtract_multiple(rest: &mut [i64], divisor: &[i64], guess: i64) -> bool {
    let mut borrow = 0;
    for (r, d) in rest.iter_mut().zip(divisor).rev() {
        let value = *r - borrow - d * guess;
        *r = value.rem_euclid(i64::from(BASE));
        borrow = -value.div_euclid(i64::from(BASE));
    }
    borrow > 0
}

fn add_back(rest: &mut [i64], divisor: &[i64]) {
    let mut carry = 0;
    for (r, d) in rest.iter_mut().zip(divisor).rev() {
        let sum = *r + d + carry;
        carry = i64::from(sum >= i64::from(BASE));
        *r = sum - carry * i64::from(BASE);
    }
}
