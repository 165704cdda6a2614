//! `date_trunc`: the start of the second, day, week, decade ... that a time is in.

use arrow::datatypes::IntervalMonthDayNano;

use crate::error::{Result, SqlError};
use crate::text::TimeZone;

use super::{
    Civil, Field, HOUR_US, MINUTE_US, SECOND_US, interval_out_of_range, join, split, timestamp_out_of_range,
    weekday,
};

/// The error for a unit that cannot be truncated to: PostgreSQL knows those of `extract` only, except weeks
/// of an interval.
pub fn truncate_error(field: Field, name: &str, type_name: &str) -> SqlError {
    match field {
        Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute => {
            Field::not_supported(name, type_name)
        }
        Field::Week => {
            Field::not_supported(name, type_name).with_detail("Months usually have fractional weeks.")
        }
        _ => Field::not_recognized(name, type_name),
    }
}

/// `None` is a unit that cannot be truncated to; infinity is the same in all.
pub fn truncate_timestamp(field: Field, us: i64) -> Option<Result<i64>> {
    if us == i64::MAX || us == i64::MIN {
        return Some(Ok(us));
    }
    if let Some(unit) = unit_us(field) {
        return Some(us.checked_sub(us.rem_euclid(unit)).ok_or_else(timestamp_out_of_range));
    }
    let days = start_of(field, split(us).0)?;
    Some(join(days, 0).ok_or_else(timestamp_out_of_range))
}

/// In local time. From days up the offset is that of the new time, below it stays, so that the hour that a
/// clock goes back over is truncated to itself.
pub fn truncate_timestamptz(field: Field, us: i64, zone: &TimeZone) -> Option<Result<i64>> {
    let offset_us = match us {
        i64::MAX | i64::MIN => 0,
        _ => i64::from(zone.offset_at(us)) * SECOND_US,
    };
    let Some(local) = us.checked_add(offset_us) else { return Some(Err(timestamp_out_of_range())) };
    let truncated = truncate_timestamp(field, local)?;
    Some(truncated.and_then(|local| {
        if local == i64::MAX || local == i64::MIN {
            return Ok(local);
        }
        if unit_us(field).is_some() {
            return Ok(local - offset_us);
        }
        zone.to_utc(local).ok_or_else(timestamp_out_of_range)
    }))
}

/// `None` is a unit that cannot be truncated to: months have no whole number of weeks.
pub fn truncate_interval(field: Field, value: IntervalMonthDayNano) -> Option<Result<IntervalMonthDayNano>> {
    let whole_months = |size: i32| IntervalMonthDayNano::new(value.months / size * size, 0, 0);
    Some(Ok(match field {
        Field::Millennium => whole_months(12_000),
        Field::Century => whole_months(1_200),
        Field::Decade => whole_months(120),
        Field::Year => whole_months(12),
        Field::Quarter => whole_months(3),
        Field::Month => whole_months(1),
        Field::Day => IntervalMonthDayNano { nanoseconds: 0, ..value },
        _ => {
            let unit = unit_us(field)?.checked_mul(1_000);
            let Some(unit) = unit else { return Some(Err(interval_out_of_range())) };
            IntervalMonthDayNano { nanoseconds: value.nanoseconds / unit * unit, ..value }
        }
    }))
}

fn unit_us(field: Field) -> Option<i64> {
    Some(match field {
        Field::Microseconds => 1,
        Field::Milliseconds => 1_000,
        Field::Second => SECOND_US,
        Field::Minute => MINUTE_US,
        Field::Hour => HOUR_US,
        _ => return None,
    })
}

fn start_of(field: Field, days: i64) -> Option<i64> {
    let civil = Civil::from_days(days);
    let year = civil.year;
    let first_day = |year, month| Some(Civil { year, month, day: 1 }.to_days());
    match field {
        Field::Day => Some(days),
        Field::Week => Some(days - i64::from(weekday(days) + 6) % 7),
        Field::Month => first_day(year, civil.month),
        Field::Quarter => first_day(year, (civil.month - 1) / 3 * 3 + 1),
        Field::Year => first_day(year, 1),
        Field::Decade => first_day(year.div_euclid(10) * 10, 1),
        // Centuries and millennia begin with the years 1, 101, 1001 ...
        Field::Century => first_day((year - 1).div_euclid(100) * 100 + 1, 1),
        Field::Millennium => first_day((year - 1).div_euclid(1_000) * 1_000 + 1, 1),
        _ => None,
    }
}
