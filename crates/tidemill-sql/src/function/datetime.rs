//! Functions and operators over dates, times and intervals. The calendar itself is in `crate::calendar`.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::IntervalMonthDayNano;

use super::cast::each;
use super::interval;
use super::kernel::{Bool, Date, Float8, Int4, Interval, Numeric, Text, Time, Timestamp, Timestamptz};
use super::{Registry, format};
use crate::calendar::{self, Civil, DAY_US, Extracted, Field, POSTGRES_EPOCH_US};
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;
use crate::planner::vars::SessionVars;
use crate::text::{TimeZone, modifier};
use crate::types::{Scalar, Type};

const TIMESTAMP: &str = "timestamp without time zone";
const TIMESTAMPTZ: &str = "timestamp with time zone";
const NANOS_PER_MICRO: i64 = 1000;

pub(super) fn register(r: &mut Registry) {
    arithmetic(r);
    truncation(r);
    fields(r);
    making(r);
    now(r);
    zones(r);
    r.strict1::<Date, Bool>("isfinite", |_, d| Ok(calendar::is_finite_date(d)));
    r.strict1::<Timestamp, Bool>("isfinite", |_, t| Ok(calendar::is_finite_timestamp(t)));
    r.strict1::<Timestamptz, Bool>("isfinite", |_, t| Ok(calendar::is_finite_timestamp(t)));
    r.strict1::<Interval, Bool>("isfinite", |_, _| Ok(true));
    r.strict1::<Interval, Interval>("justify_days", |_, i| calendar::justify_days(i));
    r.strict1::<Interval, Interval>("justify_hours", |_, i| calendar::justify_hours(i));
    r.strict1::<Interval, Interval>("justify_interval", |_, i| calendar::justify_interval(i));
    interval::register(r);
    format::register_dates(r);
}

pub(super) fn add_interval(us: i64, step: IntervalMonthDayNano) -> Result<i64> {
    calendar::add_interval(us, step, None)
}

pub(super) fn add_interval_tz(vars: &SessionVars, us: i64, step: IntervalMonthDayNano) -> Result<i64> {
    calendar::add_interval(us, step, Some(&vars.zone))
}

fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

fn add_days(date: i32, days: i64) -> Result<i32> {
    if !calendar::is_finite_date(date) {
        return Ok(date);
    }
    let moved = i32::try_from(i64::from(date) + days).map_err(|_| date_out_of_range())?;
    if calendar::is_finite_date(moved) { Ok(moved) } else { Err(date_out_of_range()) }
}

fn days_between(a: i32, b: i32) -> Result<i32> {
    if !calendar::is_finite_date(a) || !calendar::is_finite_date(b) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite dates"));
    }
    a.checked_sub(b).ok_or_else(date_out_of_range)
}

fn midnight_plus(date: i32, time: i64) -> Result<i64> {
    let midnight = calendar::date_to_timestamp(date)?;
    if !calendar::is_finite_timestamp(midnight) {
        return Ok(midnight);
    }
    calendar::join(i64::from(date), time).ok_or_else(calendar::timestamp_out_of_range)
}

/// A time of day wraps around midnight.
fn move_time(time: i64, by: IntervalMonthDayNano, sign: i64) -> i64 {
    (time + sign * (by.nanoseconds / NANOS_PER_MICRO) % DAY_US).rem_euclid(DAY_US)
}

fn arithmetic(r: &mut Registry) {
    r.strict2::<Date, Int4, Date>("+", |_, d, n| add_days(d, n.into()));
    r.strict2::<Int4, Date, Date>("+", |_, n, d| add_days(d, n.into()));
    r.strict2::<Date, Int4, Date>("-", |_, d, n| add_days(d, -i64::from(n)));
    r.strict2::<Date, Date, Int4>("-", |_, a, b| days_between(a, b));
    r.strict2::<Date, Interval, Timestamp>("+", |_, d, i| add_interval(calendar::date_to_timestamp(d)?, i));
    r.strict2::<Interval, Date, Timestamp>("+", |_, i, d| add_interval(calendar::date_to_timestamp(d)?, i));
    r.strict2::<Date, Interval, Timestamp>("-", |_, d, i| {
        add_interval(calendar::date_to_timestamp(d)?, interval::negate(i)?)
    });
    r.strict2::<Date, Time, Timestamp>("+", |_, d, t| midnight_plus(d, t));
    r.strict2::<Time, Date, Timestamp>("+", |_, t, d| midnight_plus(d, t));
    r.strict2::<Timestamp, Interval, Timestamp>("+", |_, t, i| add_interval(t, i));
    r.strict2::<Interval, Timestamp, Timestamp>("+", |_, i, t| add_interval(t, i));
    r.strict2::<Timestamp, Interval, Timestamp>("-", |_, t, i| add_interval(t, interval::negate(i)?));
    r.strict2::<Timestamp, Timestamp, Interval>("-", |_, a, b| calendar::subtract_timestamps(a, b));
    r.strict2::<Timestamptz, Timestamptz, Interval>("-", |_, a, b| calendar::subtract_timestamps(a, b));
    r.stable(|r| {
        r.strict2::<Timestamptz, Interval, Timestamptz>("+", add_interval_tz);
        r.strict2::<Interval, Timestamptz, Timestamptz>("+", |vars, i, t| add_interval_tz(vars, t, i));
        r.strict2::<Timestamptz, Interval, Timestamptz>("-", |vars, t, i| {
            add_interval_tz(vars, t, interval::negate(i)?)
        });
    });
    r.strict2::<Time, Interval, Time>("+", |_, t, i| Ok(move_time(t, i, 1)));
    r.strict2::<Interval, Time, Time>("+", |_, i, t| Ok(move_time(t, i, 1)));
    r.strict2::<Time, Interval, Time>("-", |_, t, i| Ok(move_time(t, i, -1)));
    r.strict2::<Time, Time, Interval>("-", |_, a, b| {
        Ok(IntervalMonthDayNano::new(0, 0, (a - b) * NANOS_PER_MICRO))
    });
}

/// A field by its name, and what to do when the type has no such field (`None` of the calculation).
fn with_field<T>(name: &str, type_name: &str, f: impl Fn(Field) -> Option<T>) -> Result<T> {
    let field = Field::parse(name).ok_or_else(|| Field::not_recognized(name, type_name))?;
    f(field).ok_or_else(|| Field::not_supported(name, type_name))
}

fn truncate_tz(unit: &str, us: i64, zone: &TimeZone) -> Result<i64> {
    with_field(unit, TIMESTAMPTZ, |field| calendar::truncate_timestamptz(field, us, zone))?
}

fn truncation(r: &mut Registry) {
    r.strict2::<Text, Timestamp, Timestamp>("date_trunc", |_, unit, t| {
        with_field(unit, TIMESTAMP, |field| calendar::truncate_timestamp(field, t))?
    });
    r.strict2::<Text, Interval, Interval>("date_trunc", |_, unit, i| {
        with_field(unit, "interval", |field| calendar::truncate_interval(field, i))?
    });
    r.strict3::<Text, Timestamptz, Text, Timestamptz>("date_trunc", |_, unit, t, zone| {
        truncate_tz(unit, t, &TimeZone::named(zone)?)
    });
    r.stable(|r| {
        r.strict2::<Text, Timestamptz, Timestamptz>("date_trunc", |vars, unit, t| {
            truncate_tz(unit, t, &vars.zone)
        });
        // PipelineDB's buckets.
        for unit in ["year", "month", "day", "hour", "minute", "second"] {
            r.strict1::<Timestamptz, Timestamptz>(unit, move |vars, t| truncate_tz(unit, t, &vars.zone));
        }
    });
    for unit in ["year", "month", "day", "hour", "minute", "second"] {
        r.strict1::<Timestamp, Timestamp>(unit, move |_, t| {
            with_field(unit, TIMESTAMP, |field| calendar::truncate_timestamp(field, t))?
        });
    }
    r.strict3::<Interval, Timestamp, Timestamp, Timestamp>("date_bin", |_, stride, t, origin| {
        calendar::date_bin(stride, t, origin)
    });
    r.strict3::<Interval, Timestamptz, Timestamptz, Timestamptz>("date_bin", |_, stride, t, origin| {
        calendar::date_bin(stride, t, origin)
    });
    r.strict2::<Timestamp, Interval, Timestamp>("date_round", |_, t, width| date_round(t, width));
    r.strict2::<Timestamptz, Interval, Timestamptz>("date_round", |_, t, width| date_round(t, width));
}

/// PipelineDB's `date_round`: the start of the bucket, counted from 2000-01-01; a month is 30 days.
fn date_round(us: i64, width: IntervalMonthDayNano) -> Result<i64> {
    if !calendar::is_finite_timestamp(us) {
        return Ok(us);
    }
    let width = i64::try_from(calendar::interval_order_key(width))
        .ok()
        .filter(|width| *width > 0)
        .ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "the interval of date_round must be greater than zero",
            )
        })?;
    let since = us.checked_sub(POSTGRES_EPOCH_US).ok_or_else(calendar::timestamp_out_of_range)?;
    Ok(us - since.rem_euclid(width))
}

fn numeric(value: Extracted) -> Result<Option<Number>> {
    Ok(Some(match value {
        Extracted::Decimal { unscaled, scale } => Number::from_decimal(unscaled.into(), scale as i8),
        Extracted::Julian { day, time_us: 0 } => Number::from(day),
        Extracted::Julian { day, time_us } => {
            Number::from(day).add(&Number::from(time_us).div(&Number::from(DAY_US))?)?
        }
        Extracted::Infinity => Number::INFINITY,
        Extracted::MinusInfinity => Number::NEG_INFINITY,
        Extracted::Null => return Ok(None),
    }))
}

fn fields(r: &mut Registry) {
    macro_rules! field_of {
        ($marker:ty, |$vars:ident, $name:ident, $value:ident| $extract:expr) => {
            r.maybe2::<Text, $marker, Numeric>("extract", |$vars, $name, $value| numeric($extract?));
            r.maybe2::<Text, $marker, Float8>("date_part", |$vars, $name, $value| Ok($extract?.to_f64()));
        };
    }
    field_of!(Timestamp, |_vars, name, t| with_field(name, TIMESTAMP, |f| calendar::extract_timestamp(
        f, t, None
    )));
    field_of!(Time, |_vars, name, t| with_field(name, "time without time zone", |f| calendar::extract_time(
        f, t
    )));
    field_of!(Interval, |_vars, name, i| with_field(name, "interval", |f| calendar::extract_interval(f, i)));
    r.maybe2::<Text, Date, Numeric>("extract", |_, name, d| {
        numeric(with_field(name, "date", |f| calendar::extract_date(f, d))?)
    });
    // As in PostgreSQL: of the timestamp at midnight, so that `hour` is 0 and no error.
    r.maybe2::<Text, Date, Float8>("date_part", |_, name, d| {
        let t = calendar::date_to_timestamp(d)?;
        Ok(with_field(name, TIMESTAMP, |f| calendar::extract_timestamp(f, t, None))?.to_f64())
    });
    r.stable(|r| {
        r.maybe2::<Text, Timestamptz, Numeric>("extract", |vars, name, t| {
            numeric(with_field(name, TIMESTAMPTZ, |f| calendar::extract_timestamp(f, t, Some(&vars.zone)))?)
        });
        r.maybe2::<Text, Timestamptz, Float8>("date_part", |vars, name, t| {
            Ok(with_field(name, TIMESTAMPTZ, |f| calendar::extract_timestamp(f, t, Some(&vars.zone)))?
                .to_f64())
        });
    });
}

fn local(vars: &SessionVars, us: i64) -> Result<i64> {
    if !calendar::is_finite_timestamp(us) {
        return Ok(us);
    }
    vars.zone.to_local(us).ok_or_else(calendar::timestamp_out_of_range)
}

fn utc(zone: &TimeZone, us: i64) -> Result<i64> {
    if !calendar::is_finite_timestamp(us) {
        return Ok(us);
    }
    zone.to_utc(us).ok_or_else(calendar::timestamp_out_of_range)
}

fn today(vars: &SessionVars) -> Result<i32> {
    Ok(calendar::timestamp_to_date(local(vars, vars.transaction_now.us())?))
}

fn now(r: &mut Registry) {
    use datafusion::logical_expr::Volatility::Stable;
    r.nullary::<Date>("current_date", Stable, today);
    r.nullary::<Timestamp>("localtimestamp", Stable, |vars| local(vars, vars.transaction_now.us()));
    for name in ["localtime", "current_time"] {
        r.nullary::<Time>(
            name,
            Stable,
            |vars| Ok(calendar::split(local(vars, vars.transaction_now.us())?).1),
        );
    }
    r.strict2::<Timestamp, Timestamp, Interval>("age", |_, a, b| calendar::age(a, b));
    r.stable(|r| {
        r.strict1::<Timestamp, Interval>("age", |vars, t| {
            calendar::age(calendar::date_to_timestamp(today(vars)?)?, t)
        });
        r.strict2::<Timestamptz, Timestamptz, Interval>("age", |vars, a, b| {
            calendar::age(local(vars, a)?, local(vars, b)?)
        });
        r.strict1::<Timestamptz, Interval>("age", |vars, t| {
            calendar::age(calendar::date_to_timestamp(today(vars)?)?, local(vars, t)?)
        });
    });
}

fn making(r: &mut Registry) {
    r.strict3::<Int4, Int4, Int4, Date>("make_date", |_, y, m, d| make_date(y, m, d));
    r.strict3::<Int4, Int4, Float8, Time>("make_time", |_, h, m, s| make_time(h, m, s));
    r.strict1::<Float8, Timestamptz>("to_timestamp", |_, seconds| from_epoch(seconds));
    r.custom("make_timestamp", &[Scalar::Int4; 5], Scalar::Float8, Scalar::Timestamp, |call| {
        make_timestamps::<Timestamp>(call, |_, us| Ok(us))
    });
    r.custom("make_timestamptz", &[Scalar::Int4; 5], Scalar::Float8, Scalar::Timestamptz, |call| {
        make_timestamps::<Timestamptz>(call, |vars, us| utc(&vars.zone, us))
    });
}

fn make_date(year: i32, month: i32, day: i32) -> Result<i32> {
    let error = || {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
    };
    // A negative year is BC; there is no year 0.
    let astronomical = if year < 0 { year.checked_add(1).ok_or_else(error)? } else { year };
    let month_number = u32::try_from(month).ok().filter(|m| (1..=12).contains(m)).ok_or_else(error)?;
    let day_number = u32::try_from(day).ok().filter(|d| *d >= 1).ok_or_else(error)?;
    if year == 0
        || !(-4713..=5_874_897).contains(&astronomical)
        || day_number > calendar::days_in_month(astronomical, month_number)
    {
        return Err(error());
    }
    let days = Civil { year: astronomical, month: month_number, day: day_number }.to_days();
    i32::try_from(days).ok().filter(|days| calendar::is_finite_date(*days)).ok_or_else(error)
}

fn make_time(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let valid = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second);
    let us = valid.then(|| {
        let whole = i64::from(hour) * 3_600_000_000 + i64::from(minute) * 60_000_000;
        whole + (second * 1e6).round_ties_even() as i64
    });
    us.filter(|us| *us <= DAY_US).ok_or_else(|| {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("time field value out of range: {hour}:{minute:02}:{second:02}"),
        )
    })
}

fn make_timestamps<R>(call: &super::Call, finish: fn(&SessionVars, i64) -> Result<i64>) -> Result<ArrayRef>
where
    R: super::kernel::Sql<Out = i64>,
{
    let ints = (0..5).map(|i| call.column::<Int4>(i)).collect::<Result<Vec<_>>>()?;
    let seconds = call.column::<Float8>(5)?;
    call.rows::<R>(|row| {
        let mut parts = [0; 5];
        for (part, column) in parts.iter_mut().zip(&ints) {
            *part = super::kernel::row!(column, row);
        }
        let [year, month, day, hour, minute] = parts;
        let date = make_date(year, month, day)?;
        let time = make_time(hour, minute, super::kernel::row!(seconds, row))?;
        let us = i64::from(date).checked_mul(DAY_US).and_then(|us| us.checked_add(time));
        finish(call.vars, us.ok_or_else(calendar::timestamp_out_of_range)?).map(Some)
    })
}

fn from_epoch(seconds: f64) -> Result<i64> {
    if seconds.is_infinite() {
        return Ok(if seconds > 0.0 { i64::MAX } else { i64::MIN });
    }
    let us = (seconds * 1e6).round_ties_even();
    if seconds.is_nan() {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp cannot be NaN"));
    }
    if us < calendar::TIMESTAMP_MIN as f64 || us >= calendar::TIMESTAMP_MAX as f64 {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{seconds}\""),
        ));
    }
    Ok(us as i64)
}

fn zones(r: &mut Registry) {
    r.strict2::<Text, Timestamp, Timestamptz>("timezone", |_, zone, t| utc(&TimeZone::named(zone)?, t));
    r.strict2::<Text, Timestamptz, Timestamp>("timezone", |_, zone, t| to_zone(&TimeZone::named(zone)?, t));
    r.strict2::<Interval, Timestamp, Timestamptz>("timezone", |_, zone, t| {
        utc(&TimeZone::from_interval(zone)?, t)
    });
    r.strict2::<Interval, Timestamptz, Timestamp>("timezone", |_, zone, t| {
        to_zone(&TimeZone::from_interval(zone)?, t)
    });
}

fn to_zone(zone: &TimeZone, us: i64) -> Result<i64> {
    if !calendar::is_finite_timestamp(us) {
        return Ok(us);
    }
    zone.to_local(us).ok_or_else(calendar::timestamp_out_of_range)
}

/// Casts between the types of this file.
pub(super) fn cast(array: &ArrayRef, from: Scalar, to: Scalar, vars: &SessionVars) -> Result<ArrayRef> {
    match (from, to) {
        (Scalar::Date, Scalar::Timestamp) => each::<Date, Timestamp>(array, calendar::date_to_timestamp),
        (Scalar::Date, Scalar::Timestamptz) => {
            each::<Date, Timestamptz>(array, |d| utc(&vars.zone, calendar::date_to_timestamp(d)?))
        }
        (Scalar::Timestamp, Scalar::Date) => {
            each::<Timestamp, Date>(array, |t| Ok(calendar::timestamp_to_date(t)))
        }
        (Scalar::Timestamp, Scalar::Time) => each_finite(array, |t| Ok(calendar::split(t).1)),
        (Scalar::Timestamp, Scalar::Timestamptz) => {
            each::<Timestamp, Timestamptz>(array, |t| utc(&vars.zone, t))
        }
        (Scalar::Timestamptz, Scalar::Date) => {
            each::<Timestamptz, Date>(array, |t| Ok(calendar::timestamp_to_date(local(vars, t)?)))
        }
        (Scalar::Timestamptz, Scalar::Time) => each_finite(array, |t| Ok(calendar::split(local(vars, t)?).1)),
        (Scalar::Timestamptz, Scalar::Timestamp) => each::<Timestamptz, Timestamp>(array, |t| local(vars, t)),
        (Scalar::Time, Scalar::Interval) => {
            each::<Time, Interval>(array, |t| Ok(IntervalMonthDayNano::new(0, 0, t * NANOS_PER_MICRO)))
        }
        (Scalar::Interval, Scalar::Time) => {
            each::<Interval, Time>(array, |i| Ok((i.nanoseconds / NANOS_PER_MICRO).rem_euclid(DAY_US)))
        }
        _ => Err(SqlError::internal(format!("no cast from {} to {}", from.display(), to.display()))),
    }
}

/// The time of day of an instant; of infinity there is none.
fn each_finite(array: &ArrayRef, f: impl Fn(i64) -> Result<i64>) -> Result<ArrayRef> {
    use super::kernel::Sql;
    let typed = array.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
    let mut builder = Time::builder(typed.len());
    for value in typed {
        let value = value.filter(|t| calendar::is_finite_timestamp(*t)).map(&f).transpose()?;
        Time::append(&mut builder, value)?;
    }
    Ok(Time::finish(builder))
}

/// Rounds to the decimals of a second that the type has.
pub(super) fn restrict(array: ArrayRef, to: Type) -> Result<ArrayRef> {
    let precision = to.typmod as usize;
    match to.scalar {
        Scalar::Time => each::<Time, Time>(&array, |t| Ok(modifier::round_time(t, precision))),
        Scalar::Timestamp => {
            each::<Timestamp, Timestamp>(&array, |t| modifier::round_timestamp(t, precision))
        }
        Scalar::Timestamptz => {
            each::<Timestamptz, Timestamptz>(&array, |t| modifier::round_timestamp(t, precision))
        }
        Scalar::Interval => each::<Interval, Interval>(&array, |i| modifier::round_interval(i, precision)),
        _ => Ok(array),
    }
}
