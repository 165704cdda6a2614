//! Arithmetic of timestamps and intervals: sums, differences, ages, bins and the order of intervals.

use arrow::datatypes::IntervalMonthDayNano;

use crate::error::{Result, SqlError, SqlState};
use crate::text::TimeZone;

use super::{
    Civil, DAY_US, DAYS_PER_MONTH, MONTHS_PER_YEAR, days_in_month, interval_out_of_range,
    is_finite_timestamp, join, split, timestamp_out_of_range,
};

/// Adds months (the day is cut to the month's last), then days, then the rest. With a zone, months and days
/// are those of local time, so that a day later is the same time of day.
pub fn add_interval(us: i64, interval: IntervalMonthDayNano, zone: Option<&TimeZone>) -> Result<i64> {
    if us == i64::MAX || us == i64::MIN {
        return Ok(us);
    }
    let mut moved = Some(us);
    if interval.months != 0 {
        moved = moved.and_then(|us| in_local(us, zone, |local| add_months(local, interval.months)));
    }
    if interval.days != 0 {
        moved = moved.and_then(|us| in_local(us, zone, |local| add_days(local, interval.days)));
    }
    moved
        .and_then(|us| us.checked_add(interval.nanoseconds / 1_000))
        .filter(|us| is_finite_timestamp(*us))
        .ok_or_else(timestamp_out_of_range)
}

/// `timestamp - timestamp`: days and the rest, never months.
pub fn subtract_timestamps(a: i64, b: i64) -> Result<IntervalMonthDayNano> {
    if [a, b].iter().any(|us| matches!(*us, i64::MAX | i64::MIN)) {
        let message = "cannot subtract infinite timestamps";
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
    }
    let us = a.checked_sub(b).ok_or_else(interval_out_of_range)?;
    let days = i32::try_from(us / DAY_US).map_err(|_| interval_out_of_range())?;
    Ok(IntervalMonthDayNano::new(0, days, us % DAY_US * 1_000))
}

/// The years, months, days and time from `b` to `a`, both in local time: what one would say, not what `b +
/// age` gives back.
pub fn age(a: i64, b: i64) -> Result<IntervalMonthDayNano> {
    if ![a, b].iter().all(|us| is_finite_timestamp(*us)) {
        return Err(timestamp_out_of_range());
    }
    let (later, earlier) = (a.max(b), a.min(b));
    let ((late, late_time), (early, early_time)) =
        (Civil::from_timestamp(later), Civil::from_timestamp(earlier));
    let mut time_us = late_time - early_time;
    let mut days = late.day as i32 - early.day as i32;
    let mut months = (late.year - early.year) * MONTHS_PER_YEAR + late.month as i32 - early.month as i32;
    if time_us < 0 {
        time_us += DAY_US;
        days -= 1;
    }
    // PostgreSQL borrows the days of the second argument's month, or of the first's when the age is negative:
    // the earlier one's.
    let borrowed = days_in_month(early.year, early.month) as i32;
    while days < 0 {
        days += borrowed;
        months -= 1;
    }
    let sign = if a < b { -1 } else { 1 };
    Ok(IntervalMonthDayNano::new(sign * months, sign * days, i64::from(sign) * time_us * 1_000))
}

/// The start of the bin of width `stride` that `us` is in; bins are counted from `origin`.
pub fn date_bin(stride: IntervalMonthDayNano, us: i64, origin: i64) -> Result<i64> {
    let overflow = |message| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message);
    if us == i64::MAX || us == i64::MIN {
        return Ok(us);
    }
    if origin == i64::MAX || origin == i64::MIN {
        return Err(overflow("origin out of range"));
    }
    if stride.months != 0 {
        return Err(SqlError::unsupported(
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let width = i64::from(stride.days)
        .checked_mul(DAY_US)
        .and_then(|days| days.checked_add(stride.nanoseconds / 1_000))
        .ok_or_else(interval_out_of_range)?;
    if width <= 0 {
        return Err(overflow("stride must be greater than zero"));
    }
    let since = us.checked_sub(origin).ok_or_else(interval_out_of_range)?;
    us.checked_sub(since.rem_euclid(width))
        .filter(|us| is_finite_timestamp(*us))
        .ok_or_else(timestamp_out_of_range)
}

/// Intervals are ordered by this: a month is 30 days, a day 24 hours. Microseconds.
pub fn interval_order_key(value: IntervalMonthDayNano) -> i128 {
    let days = i128::from(value.months) * i128::from(DAYS_PER_MONTH) + i128::from(value.days);
    days * i128::from(DAY_US) + i128::from(value.nanoseconds / 1_000)
}

/// 24 hours become a day.
pub fn justify_hours(value: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let us = value.nanoseconds / 1_000;
    let days = i64::from(value.days) + us / DAY_US;
    same_sign(i64::from(value.months), days, us % DAY_US, false)
}

/// 30 days become a month.
pub fn justify_days(value: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let per_month = i64::from(DAYS_PER_MONTH);
    let (mut months, mut days) =
        (i64::from(value.months) + i64::from(value.days) / per_month, i64::from(value.days) % per_month);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + per_month);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - per_month);
    }
    build(months, days, value.nanoseconds / 1_000)
}

/// Both, and all parts get the same sign.
pub fn justify_interval(value: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let per_month = i64::from(DAYS_PER_MONTH);
    let us = value.nanoseconds / 1_000;
    let days = i64::from(value.days) + us / DAY_US;
    same_sign(i64::from(value.months) + days / per_month, days % per_month, us % DAY_US, true)
}

fn same_sign(mut months: i64, mut days: i64, mut us: i64, with_months: bool) -> Result<IntervalMonthDayNano> {
    if with_months {
        if months > 0 && (days < 0 || (days == 0 && us < 0)) {
            (months, days) = (months - 1, days + i64::from(DAYS_PER_MONTH));
        } else if months < 0 && (days > 0 || (days == 0 && us > 0)) {
            (months, days) = (months + 1, days - i64::from(DAYS_PER_MONTH));
        }
    }
    if days > 0 && us < 0 {
        (days, us) = (days - 1, us + DAY_US);
    } else if days < 0 && us > 0 {
        (days, us) = (days + 1, us - DAY_US);
    }
    build(months, days, us)
}

fn build(months: i64, days: i64, us: i64) -> Result<IntervalMonthDayNano> {
    match (i32::try_from(months), i32::try_from(days), us.checked_mul(1_000)) {
        (Ok(months), Ok(days), Some(nanoseconds)) => Ok(IntervalMonthDayNano::new(months, days, nanoseconds)),
        _ => Err(interval_out_of_range()),
    }
}

fn in_local(us: i64, zone: Option<&TimeZone>, change: impl Fn(i64) -> Option<i64>) -> Option<i64> {
    match zone {
        None => change(us),
        Some(zone) => zone.to_utc(change(zone.to_local(us)?)?),
    }
}

fn add_months(us: i64, months: i32) -> Option<i64> {
    let (civil, time_us) = Civil::from_timestamp(us);
    let total = i64::from(civil.year) * 12 + i64::from(civil.month) - 1 + i64::from(months);
    let year = i32::try_from(total.div_euclid(12)).ok()?;
    let month = total.rem_euclid(12) as u32 + 1;
    let day = civil.day.min(days_in_month(year, month));
    join(Civil { year, month, day }.to_days(), time_us)
}

fn add_days(us: i64, days: i32) -> Option<i64> {
    let (day, time_us) = split(us);
    join(day + i64::from(days), time_us)
}
