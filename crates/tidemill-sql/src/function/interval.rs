//! Arithmetic of intervals: months, days and microseconds are kept apart, as in PostgreSQL.

use arrow::array::ArrayRef;
use arrow::datatypes::IntervalMonthDayNano;

use super::kernel::{Float8, Int4, Interval, row};
use super::{Call, Param, Registry, Returns};
use crate::calendar::{self, DAYS_PER_MONTH};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};

const SECONDS_PER_DAY: f64 = 86_400.0;
const NANOS_PER_MICRO: i64 = 1000;

pub(super) fn register(r: &mut Registry) {
    r.strict2::<Interval, Interval, Interval>("+", |_, a, b| add(a, b));
    r.strict2::<Interval, Interval, Interval>("-", |_, a, b| add(a, negate(b)?));
    r.strict1::<Interval, Interval>("-", |_, i| negate(i));
    r.strict1::<Interval, Interval>("+", |_, i| Ok(i));
    r.strict2::<Interval, Float8, Interval>("*", |_, i, factor| scale(i, |part| part * factor));
    r.strict2::<Float8, Interval, Interval>("*", |_, factor, i| scale(i, |part| part * factor));
    r.strict2::<Interval, Float8, Interval>("/", |_, i, divisor| {
        if divisor == 0.0 { Err(SqlError::division_by_zero()) } else { divide(i, divisor) }
    });
    // Each argument has a default, so any number of them may be given.
    let int = Param::Is(Type::new(Scalar::Int4));
    for count in 0..=7 {
        let params = [int, int, int, int, int, int, Param::Is(Type::new(Scalar::Float8))];
        r.kernel("make_interval", &params[..count], Returns::Is(Type::new(Scalar::Interval)), make);
    }
}

/// The divisor must not be zero.
pub(crate) fn divide(i: IntervalMonthDayNano, divisor: f64) -> Result<IntervalMonthDayNano> {
    scale(i, |part| part / divisor)
}

/// Between two intervals, as far from the first to the second as the share says.
pub(crate) fn interpolate(
    low: IntervalMonthDayNano,
    high: IntervalMonthDayNano,
    share: f64,
) -> Result<IntervalMonthDayNano> {
    add(scale(add(high, negate(low)?)?, |part| part * share)?, low)
}

pub(super) fn negate(i: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let negated = i.months.checked_neg().zip(i.days.checked_neg()).zip(i.nanoseconds.checked_neg());
    let ((months, days), nanos) = negated.ok_or_else(calendar::interval_out_of_range)?;
    Ok(IntervalMonthDayNano::new(months, days, nanos))
}

pub(super) fn add(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let sum = a.months.checked_add(b.months).zip(a.days.checked_add(b.days));
    let sum = sum.zip(a.nanoseconds.checked_add(b.nanoseconds));
    let ((months, days), nanos) = sum.ok_or_else(calendar::interval_out_of_range)?;
    Ok(IntervalMonthDayNano::new(months, days, nanos))
}

/// To microseconds, as PostgreSQL's `TSROUND`.
fn to_micros(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

fn whole(value: f64) -> Result<i32> {
    if value.is_nan() || value > f64::from(i32::MAX) || value < f64::from(i32::MIN) {
        return Err(calendar::interval_out_of_range());
    }
    Ok(value as i32)
}

/// `interval_mul` and `interval_div`: parts of a month become days, parts of a day become time.
fn scale(i: IntervalMonthDayNano, f: impl Fn(f64) -> f64) -> Result<IntervalMonthDayNano> {
    let (exact_months, exact_days) = (f(f64::from(i.months)), f(f64::from(i.days)));
    let months = whole(exact_months)?;
    let mut days = whole(exact_days)?;
    let left_days = to_micros((exact_months - f64::from(months)) * f64::from(DAYS_PER_MONTH));
    let mut left_seconds =
        to_micros((exact_days - f64::from(days) + left_days - left_days.trunc()) * SECONDS_PER_DAY);
    // Rounding may have made a whole day of the rest.
    if left_seconds.abs() >= SECONDS_PER_DAY {
        let whole_days = (left_seconds / SECONDS_PER_DAY).trunc();
        days = days.checked_add(whole_days as i32).ok_or_else(calendar::interval_out_of_range)?;
        left_seconds -= whole_days * SECONDS_PER_DAY;
    }
    days = days.checked_add(left_days as i32).ok_or_else(calendar::interval_out_of_range)?;
    let micros = (f((i.nanoseconds / NANOS_PER_MICRO) as f64) + left_seconds * 1e6).round_ties_even();
    if micros.is_nan() || micros.abs() >= (i64::MAX / NANOS_PER_MICRO) as f64 {
        return Err(calendar::interval_out_of_range());
    }
    Ok(IntervalMonthDayNano::new(months, days, micros as i64 * NANOS_PER_MICRO))
}

/// `make_interval(years, months, weeks, days, hours, mins, secs)`.
fn make(call: &Call) -> Result<ArrayRef> {
    call.rows::<Interval>(|row| {
        let mut parts = [0i64; 6];
        for (n, part) in parts.iter_mut().enumerate().take(call.inputs.len()) {
            *part = row!(call.column::<Int4>(n)?, row).into();
        }
        let seconds = if call.inputs.len() > 6 { row!(call.column::<Float8>(6)?, row) } else { 0.0 };
        let [years, months, weeks, days, hours, minutes] = parts;
        let micros = (seconds * 1e6).round_ties_even();
        if !micros.is_finite() || micros.abs() > 9e15 {
            return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range"));
        }
        let small = |value: i64| i32::try_from(value).map_err(|_| calendar::interval_out_of_range());
        let micros = hours * 3_600_000_000 + minutes * 60_000_000 + micros as i64;
        let nanos = micros.checked_mul(NANOS_PER_MICRO).ok_or_else(calendar::interval_out_of_range)?;
        Ok(Some(IntervalMonthDayNano::new(small(years * 12 + months)?, small(weeks * 7 + days)?, nanos)))
    })
}
