//! The fields of dates, times and intervals: what `extract` and `date_part` return.

use arrow::datatypes::IntervalMonthDayNano;

use crate::error::{SqlError, SqlState};
use crate::text::TimeZone;

use super::{Civil, DAY_US, HOUR_US, MINUTE_US, SECOND_US, UNIX_EPOCH_JULIAN, split, weekday};

/// A field's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Dow,
    IsoDow,
    Doy,
    IsoYear,
    Julian,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

/// The spellings; the first of a field is its name. PostgreSQL compares ten letters.
const NAMES: [(&str, Field); 68] = {
    use Field::*;
    [
        ("microsecond", Microseconds),
        ("us", Microseconds),
        ("usec", Microseconds),
        ("usecond", Microseconds),
        ("useconds", Microseconds),
        ("usecs", Microseconds),
        ("millisecond", Milliseconds),
        ("ms", Milliseconds),
        ("msec", Milliseconds),
        ("msecond", Milliseconds),
        ("mseconds", Milliseconds),
        ("msecs", Milliseconds),
        ("second", Second),
        ("s", Second),
        ("sec", Second),
        ("seconds", Second),
        ("secs", Second),
        ("minute", Minute),
        ("m", Minute),
        ("min", Minute),
        ("mins", Minute),
        ("minutes", Minute),
        ("mm", Minute),
        ("hour", Hour),
        ("h", Hour),
        ("hours", Hour),
        ("hr", Hour),
        ("hrs", Hour),
        ("day", Day),
        ("d", Day),
        ("days", Day),
        ("week", Week),
        ("w", Week),
        ("weeks", Week),
        ("month", Month),
        ("mon", Month),
        ("mons", Month),
        ("months", Month),
        ("quarter", Quarter),
        ("qtr", Quarter),
        ("year", Year),
        ("y", Year),
        ("years", Year),
        ("yr", Year),
        ("yrs", Year),
        ("decade", Decade),
        ("dec", Decade),
        ("decades", Decade),
        ("decs", Decade),
        ("century", Century),
        ("c", Century),
        ("cent", Century),
        ("centuries", Century),
        ("millennium", Millennium),
        ("mil", Millennium),
        ("millennia", Millennium),
        ("mils", Millennium),
        ("dow", Dow),
        ("isodow", IsoDow),
        ("doy", Doy),
        ("isoyear", IsoYear),
        ("julian", Julian),
        ("j", Julian),
        ("jd", Julian),
        ("epoch", Epoch),
        ("timezone", Timezone),
        ("timezone_h", TimezoneHour),
        ("timezone_m", TimezoneMinute),
    ]
};

impl Field {
    pub const ALL: [Field; 22] = {
        use Field::*;
        [
            Microseconds,
            Milliseconds,
            Second,
            Minute,
            Hour,
            Day,
            Week,
            Month,
            Quarter,
            Year,
            Decade,
            Century,
            Millennium,
            Dow,
            IsoDow,
            Doy,
            IsoYear,
            Julian,
            Epoch,
            Timezone,
            TimezoneHour,
            TimezoneMinute,
        ]
    };

    pub fn parse(name: &str) -> Option<Self> {
        let prefix = |word: &'static str| &word.as_bytes()[..word.len().min(10)];
        let wanted = &name.as_bytes()[..name.len().min(10)];
        let found = NAMES.iter().find(|(spelling, _)| prefix(spelling).eq_ignore_ascii_case(wanted));
        found.map(|(_, field)| *field)
    }

    /// The error for a name that `parse` does not know.
    pub fn not_recognized(name: &str, type_name: &str) -> SqlError {
        let message = format!("unit \"{}\" not recognized for type {type_name}", name.to_lowercase());
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    }

    /// The error for a field that the type does not have. `name` is as the user wrote it.
    pub fn not_supported(name: &str, type_name: &str) -> SqlError {
        SqlError::unsupported(format!("unit \"{}\" not supported for type {type_name}", name.to_lowercase()))
    }

    /// Fields that only grow: those of infinity are infinity, all others are NULL.
    fn is_monotonic(self) -> bool {
        use Field::*;
        matches!(self, Year | Decade | Century | Millennium | Julian | IsoYear | Epoch)
    }
}

/// The value of a field. `extract` shows it as numeric with all digits of the scale, `date_part` as double
/// precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extracted {
    /// `unscaled` divided by ten to the power of `scale`.
    Decimal {
        unscaled: i64,
        scale: u8,
    },
    /// Julian days: `day` plus the part of it that is over, which numeric shows with its division's digits.
    Julian {
        day: i64,
        time_us: i64,
    },
    Infinity,
    MinusInfinity,
    Null,
}

impl Extracted {
    fn whole(value: impl Into<i64>) -> Self {
        Extracted::Decimal { unscaled: value.into(), scale: 0 }
    }

    pub fn to_f64(self) -> Option<f64> {
        Some(match self {
            Extracted::Decimal { unscaled, scale } => unscaled as f64 / 10f64.powi(i32::from(scale)),
            Extracted::Julian { day, time_us } => day as f64 + time_us as f64 / DAY_US as f64,
            Extracted::Infinity => f64::INFINITY,
            Extracted::MinusInfinity => f64::NEG_INFINITY,
            Extracted::Null => return None,
        })
    }
}

/// Of a `timestamp`, or with a zone of a `timestamptz`. `None` is a field that the type does not have.
pub fn extract_timestamp(field: Field, us: i64, zone: Option<&TimeZone>) -> Option<Extracted> {
    if us == i64::MAX || us == i64::MIN {
        return Some(infinite(field, us > 0));
    }
    if matches!(field, Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute) && zone.is_none() {
        return None;
    }
    if field == Field::Epoch {
        return Some(Extracted::Decimal { unscaled: us, scale: 6 });
    }
    let east_s = zone.map_or(0, |zone| zone.offset_at(us));
    let (days, time_us) = split(us.saturating_add(i64::from(east_s) * SECOND_US));
    Some(match field {
        Field::Timezone => Extracted::whole(east_s),
        Field::TimezoneHour => Extracted::whole(east_s / 3_600),
        Field::TimezoneMinute => Extracted::whole(east_s / 60 % 60),
        Field::Julian => Extracted::Julian { day: days + i64::from(UNIX_EPOCH_JULIAN), time_us },
        _ => of_day(field, days).or_else(|| of_time(field, time_us))?,
    })
}

pub fn extract_date(field: Field, days: i32) -> Option<Extracted> {
    if days == i32::MAX || days == i32::MIN {
        // A field that dates do not have is an error for infinity too.
        extract_date(field, 0)?;
        return Some(infinite(field, days > 0));
    }
    let days = i64::from(days);
    match field {
        Field::Epoch => Some(Extracted::whole(days * 86_400)),
        Field::Julian => Some(Extracted::whole(days + i64::from(UNIX_EPOCH_JULIAN))),
        _ => of_day(field, days),
    }
}

pub fn extract_time(field: Field, time_us: i64) -> Option<Extracted> {
    match field {
        Field::Epoch => Some(Extracted::Decimal { unscaled: time_us, scale: 6 }),
        _ => of_time(field, time_us),
    }
}

pub fn extract_interval(field: Field, interval: IntervalMonthDayNano) -> Option<Extracted> {
    let us = interval.nanoseconds / 1_000;
    let (years, months) = (interval.months / 12, interval.months % 12);
    Some(match field {
        Field::Microseconds => Extracted::whole(us % MINUTE_US),
        Field::Milliseconds => Extracted::Decimal { unscaled: us % MINUTE_US, scale: 3 },
        Field::Second => Extracted::Decimal { unscaled: us % MINUTE_US, scale: 6 },
        Field::Minute => Extracted::whole(us / MINUTE_US % 60),
        Field::Hour => Extracted::whole(us / HOUR_US),
        Field::Day => Extracted::whole(interval.days),
        Field::Month => Extracted::whole(months),
        Field::Quarter => Extracted::whole(months / 3 + 1),
        Field::Year => Extracted::whole(years),
        Field::Decade => Extracted::whole(years / 10),
        Field::Century => Extracted::whole(years / 100),
        Field::Millennium => Extracted::whole(years / 1_000),
        Field::Epoch => interval_epoch(interval, us),
        _ => return None,
    })
}

/// A year is 365.25 days and a month 30 here.
fn interval_epoch(interval: IntervalMonthDayNano, us: i64) -> Extracted {
    let (years, months) = (i128::from(interval.months / 12), i128::from(interval.months % 12));
    let quarter_days = years * 1_461 + (months * 30 + i128::from(interval.days)) * 4;
    let total = quarter_days * i128::from(DAY_US / 4) + i128::from(us);
    match i64::try_from(total) {
        Ok(unscaled) => Extracted::Decimal { unscaled, scale: 6 },
        // Beyond 292,000 years the microseconds do not fit any more.
        Err(_) => Extracted::Decimal { unscaled: (total / 1_000_000) as i64, scale: 0 },
    }
}

fn infinite(field: Field, positive: bool) -> Extracted {
    match (field.is_monotonic(), positive) {
        (false, _) => Extracted::Null,
        (true, true) => Extracted::Infinity,
        (true, false) => Extracted::MinusInfinity,
    }
}

fn of_time(field: Field, time_us: i64) -> Option<Extracted> {
    Some(match field {
        Field::Microseconds => Extracted::whole(time_us % MINUTE_US),
        Field::Milliseconds => Extracted::Decimal { unscaled: time_us % MINUTE_US, scale: 3 },
        Field::Second => Extracted::Decimal { unscaled: time_us % MINUTE_US, scale: 6 },
        Field::Minute => Extracted::whole(time_us / MINUTE_US % 60),
        Field::Hour => Extracted::whole(time_us / HOUR_US),
        _ => return None,
    })
}

fn of_day(field: Field, days: i64) -> Option<Extracted> {
    let civil = Civil::from_days(days);
    let year = i64::from(civil.year);
    Some(Extracted::whole(match field {
        Field::Day => i64::from(civil.day),
        Field::Month => i64::from(civil.month),
        Field::Quarter => i64::from((civil.month - 1) / 3 + 1),
        Field::Week => civil.iso_week().1,
        Field::Year => without_year_zero(year),
        Field::IsoYear => without_year_zero(i64::from(civil.iso_week().0)),
        Field::Decade => year.div_euclid(10),
        Field::Century => count_from_one(year, 100),
        Field::Millennium => count_from_one(year, 1_000),
        Field::Dow => i64::from(weekday(days)),
        Field::IsoDow => i64::from((weekday(days) + 6) % 7 + 1),
        Field::Doy => civil.day_of_year(),
        _ => return None,
    }))
}

/// 1 BC is shown as -1.
fn without_year_zero(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

/// Century 1 begins with the year 1, century -1 ends with the year 1 BC.
fn count_from_one(year: i64, size: i64) -> i64 {
    if year > 0 { (year + size - 1) / size } else { -((size - 1 - (year - 1)) / size) }
}
