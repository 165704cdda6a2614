//! Decimals whose digits fit an `i128`: the fast path of `Numeric`. What does not fit is `None`.

use std::cmp::Ordering;

use super::digits::{BASE, Digits};

/// The number `mantissa / 10^scale`, shown with `scale` decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Small {
    pub mantissa: i128,
    pub scale: u16,
}

/// The powers of ten that fit an `i128`.
const POWERS: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut i = 1;
    while i < 39 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

pub(super) fn power_of_ten(exponent: u32) -> Option<i128> {
    POWERS.get(exponent as usize).copied()
}

impl Small {
    pub fn integer(mantissa: i128) -> Self {
        Self { mantissa, scale: 0 }
    }

    /// `None` if the digits do not fit. The scale must be one that a result may have.
    pub fn from_digits(value: &Digits) -> Option<Self> {
        let scale = u16::try_from(value.scale).ok()?;
        if value.digits.len() > 10 {
            return None;
        }
        let mut magnitude = 0u128;
        for digit in &value.digits {
            magnitude = magnitude.checked_mul(u128::from(BASE))?.checked_add(u128::from(*digit))?;
        }
        let magnitude = i128::try_from(magnitude).ok()?;
        let last_weight = value.weight - value.digits.len() as i32 + 1;
        let shift = last_weight * 4 + value.scale;
        let magnitude = if value.is_zero() {
            0
        } else if shift >= 0 {
            magnitude.checked_mul(power_of_ten(shift as u32)?)?
        } else {
            // Exact: the last digit has at least this many zeros at its end, because the scale hides nothing.
            magnitude / power_of_ten(shift.unsigned_abs())?
        };
        Some(Self { mantissa: if value.negative { -magnitude } else { magnitude }, scale })
    }

    /// The same value with more decimals.
    fn rescale(self, scale: u16) -> Option<i128> {
        match scale - self.scale {
            0 => Some(self.mantissa),
            more => self.mantissa.checked_mul(power_of_ten(u32::from(more))?),
        }
    }

    /// Both mantissas at the larger of the scales, and that scale.
    fn align(self, other: Self) -> Option<(i128, i128, u16)> {
        let scale = self.scale.max(other.scale);
        Some((self.rescale(scale)?, other.rescale(scale)?, scale))
    }

    pub fn add(self, other: Self) -> Option<Self> {
        let (a, b, scale) = self.align(other)?;
        Some(Self { mantissa: a.checked_add(b)?, scale })
    }

    pub fn sub(self, other: Self) -> Option<Self> {
        let (a, b, scale) = self.align(other)?;
        Some(Self { mantissa: a.checked_sub(b)?, scale })
    }

    pub fn mul(self, other: Self) -> Option<Self> {
        let scale = self.scale + other.scale;
        if i32::from(scale) > super::SCALE_MAX {
            return None;
        }
        Some(Self { mantissa: self.mantissa.checked_mul(other.mantissa)?, scale })
    }

    /// The divisor must not be zero.
    pub fn div(self, divisor: Self) -> Option<Self> {
        let scale = super::division_scale(self.magnitude_of(), divisor.magnitude_of());
        let shift = scale - i32::from(self.scale) + i32::from(divisor.scale);
        let dividend = self.mantissa.checked_mul(power_of_ten(shift.try_into().ok()?)?)?;
        let mantissa = divide_rounded(dividend, divisor.mantissa)?;
        Some(Self { mantissa, scale: scale.try_into().ok()? })
    }

    /// The remainder with the dividend's sign. The divisor must not be zero.
    pub fn rem(self, divisor: Self) -> Option<Self> {
        let (a, b, scale) = self.align(divisor)?;
        Some(Self { mantissa: a.checked_rem(b)?, scale })
    }

    /// The whole part of the quotient. The divisor must not be zero.
    pub fn div_truncated(self, divisor: Self) -> Option<Self> {
        let (a, b, _) = self.align(divisor)?;
        Some(Self::integer(a.checked_div(b)?))
    }

    pub fn round(self, scale: u16) -> Option<Self> {
        if scale >= self.scale {
            return Some(Self { mantissa: self.rescale(scale)?, scale });
        }
        let unit = power_of_ten(u32::from(self.scale - scale))?;
        Some(Self { mantissa: divide_rounded(self.mantissa, unit)?, scale })
    }

    pub fn truncate(self, scale: u16) -> Option<Self> {
        if scale >= self.scale {
            return Some(Self { mantissa: self.rescale(scale)?, scale });
        }
        let unit = power_of_ten(u32::from(self.scale - scale))?;
        Some(Self { mantissa: self.mantissa / unit, scale })
    }

    /// The largest integer that is not greater.
    pub fn floor(self) -> Option<Self> {
        Some(Self::integer(self.mantissa.div_euclid(power_of_ten(u32::from(self.scale))?)))
    }

    pub fn compare(self, other: Self) -> Option<Ordering> {
        let (a, b) = (self.mantissa, other.mantissa);
        if self.scale == other.scale || a.signum() != b.signum() {
            return Some(a.cmp(&b));
        }
        let (a, b, _) = self.align(other)?;
        Some(a.cmp(&b))
    }

    /// Weight, first base-10,000 digit and scale, as `division_scale` wants them.
    fn magnitude_of(self) -> (i32, u16, i32) {
        let scale = i32::from(self.scale);
        let magnitude = self.mantissa.unsigned_abs();
        let Some(log) = magnitude.checked_ilog10() else { return (0, 0, scale) };
        let decimal_weight = log as i32 - scale;
        let keep = decimal_weight.rem_euclid(4) as u32;
        let first = match log.checked_sub(keep) {
            Some(drop) => magnitude / POWERS[drop as usize].unsigned_abs(),
            None => magnitude * POWERS[(keep - log) as usize].unsigned_abs(),
        };
        (decimal_weight.div_euclid(4), first as u16, scale)
    }

    /// The base-10,000 digits, without zeros at either end.
    pub fn split(self) -> Split {
        let mut rest = self.mantissa.unsigned_abs();
        let part = u32::from(self.scale % 4);
        let mut split = Split { buffer: [0; 11], from: 11, to: 11, weight: -(i32::from(self.scale / 4)) };
        if part > 0 {
            let unit = 10u128.pow(part);
            split.push((rest % unit) as u16 * 10u16.pow(4 - part));
            rest /= unit;
            split.weight -= 1;
        }
        while rest > 0 {
            // 128-bit division is slow: most values leave it at once.
            if let Ok(mut short) = u64::try_from(rest) {
                while short > 0 {
                    split.push((short % u64::from(BASE)) as u16);
                    short /= u64::from(BASE);
                }
                break;
            }
            split.push((rest % u128::from(BASE)) as u16);
            rest /= u128::from(BASE);
        }
        split.finish()
    }
}

/// A quotient rounded half away from zero.
fn divide_rounded(dividend: i128, divisor: i128) -> Option<i128> {
    let quotient = dividend.checked_div(divisor)?;
    let rest = (dividend % divisor).unsigned_abs();
    if rest >= divisor.unsigned_abs() - rest {
        return quotient.checked_add(if (dividend < 0) == (divisor < 0) { 1 } else { -1 });
    }
    Some(quotient)
}

/// The base-10,000 digits of a small number, without an allocation.
pub(super) struct Split {
    /// An `i128` has 39 decimals: at most 10 digits, and one more where the decimal point does not fall
    /// between two.
    buffer: [u16; 11],
    from: usize,
    to: usize,
    /// Of the first digit; while the digits are pushed, from the last to the first: of the next one.
    pub weight: i32,
}

impl Split {
    fn push(&mut self, digit: u16) {
        self.from -= 1;
        self.buffer[self.from] = digit;
        self.weight += 1;
    }

    fn finish(mut self) -> Self {
        self.weight -= 1;
        while self.from < self.to && self.buffer[self.to - 1] == 0 {
            self.to -= 1;
        }
        while self.from < self.to && self.buffer[self.from] == 0 {
            self.from += 1;
            self.weight -= 1;
        }
        if self.from == self.to {
            self.weight = 0;
        }
        self
    }

    pub fn digits(&self) -> &[u16] {
        &self.buffer[self.from..self.to]
    }
}
