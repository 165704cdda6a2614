//! The proleptic Gregorian calendar over Arrow's values: days since 1970-01-01, and microseconds since then.
//!
//! Years are astronomical inside (0 is 1 BC). Infinity is the largest value of the type and -infinity the
//! smallest.

mod arithmetic;
mod field;
#[cfg(test)]
mod golden;
mod truncate;

pub use arithmetic::{
    add_interval, age, date_bin, interval_order_key, justify_days, justify_hours, justify_interval,
    subtract_timestamps,
};
pub use field::{Extracted, Field, extract_date, extract_interval, extract_time, extract_timestamp};
pub use truncate::{truncate_error, truncate_interval, truncate_timestamp, truncate_timestamptz};

use crate::error::{SqlError, SqlState};

pub const DAY_US: i64 = 86_400_000_000;
pub const HOUR_US: i64 = 3_600_000_000;
pub const MINUTE_US: i64 = 60_000_000;
pub const SECOND_US: i64 = 1_000_000;
pub const MONTHS_PER_YEAR: i32 = 12;
/// What PostgreSQL takes a month for where it has to be a number of days.
pub const DAYS_PER_MONTH: i32 = 30;

/// 2000-01-01, PostgreSQL's zero, in microseconds since 1970.
pub const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;
/// The Julian day number of 1970-01-01.
pub const UNIX_EPOCH_JULIAN: i32 = 2_440_588;

/// 4714-11-24 BC, the first day that PostgreSQL has.
pub const DATE_MIN: i32 = -UNIX_EPOCH_JULIAN;
/// 5874897-12-31, the last one.
pub const DATE_MAX: i32 = 2_145_042_905;
pub const TIMESTAMP_MIN: i64 = DATE_MIN as i64 * DAY_US;
/// PostgreSQL goes on to the end of the year 294276; microseconds since 1970 end on 294247-01-10.
pub const TIMESTAMP_MAX: i64 = i64::MAX - 1;

pub const DATE_INFINITY: i32 = i32::MAX;
pub const DATE_MINUS_INFINITY: i32 = i32::MIN;
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
pub const TIMESTAMP_MINUS_INFINITY: i64 = i64::MIN;

/// A day of the calendar. `month` and `day` count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
    pub year: i32,
    pub month: u32,
    pub day: u32,
}

impl Civil {
    /// Hinnant's `civil_from_days`: years begin in March, so that the leap day is the last of them.
    pub fn from_days(days: i64) -> Self {
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self { year: year as i32, month: month as u32, day: day as u32 }
    }

    /// The inverse. Any month and day are taken, so a day of 0 is the last one of the month before.
    pub fn to_days(self) -> i64 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted_month = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(self.day) - 1;
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
    }

    /// Local midnight's day and the microseconds since it.
    pub fn from_timestamp(us: i64) -> (Self, i64) {
        let (days, time) = split(us);
        (Self::from_days(days), time)
    }

    /// From 1.
    pub fn day_of_year(self) -> i64 {
        self.to_days() - Civil { month: 1, day: 1, ..self }.to_days() + 1
    }

    /// The year and week of ISO 8601: weeks begin on Monday and belong to the year of their Thursday.
    pub fn iso_week(self) -> (i32, i64) {
        let days = self.to_days();
        let thursday = days - i64::from(weekday(days) + 6) % 7 + 3;
        let owner = Civil::from_days(thursday);
        (owner.year, (owner.day_of_year() - 1) / 7 + 1)
    }
}

pub fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// `month` counts from 1.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 0 is Sunday.
pub fn weekday(days: i64) -> u32 {
    (days + 4).rem_euclid(7) as u32
}

/// Days, and microseconds since midnight, which are never negative.
pub fn split(us: i64) -> (i64, i64) {
    (us.div_euclid(DAY_US), us.rem_euclid(DAY_US))
}

/// The timestamp of a day and a time of it, if PostgreSQL has it and Arrow can hold it.
pub fn join(days: i64, time_us: i64) -> Option<i64> {
    days.checked_mul(DAY_US)?.checked_add(time_us).filter(|us| is_finite_timestamp(*us))
}

pub fn is_finite_timestamp(us: i64) -> bool {
    (TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&us)
}

pub fn is_finite_date(days: i32) -> bool {
    (DATE_MIN..=DATE_MAX).contains(&days)
}

/// A date as the timestamp of its midnight.
pub fn date_to_timestamp(days: i32) -> Result<i64, SqlError> {
    match days {
        DATE_INFINITY => Ok(TIMESTAMP_INFINITY),
        DATE_MINUS_INFINITY => Ok(TIMESTAMP_MINUS_INFINITY),
        _ => join(i64::from(days), 0).ok_or_else(|| {
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")
        }),
    }
}

/// The day of a timestamp.
pub fn timestamp_to_date(us: i64) -> i32 {
    match us {
        TIMESTAMP_INFINITY => DATE_INFINITY,
        TIMESTAMP_MINUS_INFINITY => DATE_MINUS_INFINITY,
        _ => split(us).0 as i32,
    }
}

#[cold]
pub fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

#[cold]
pub fn interval_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_civil_days_are_inverse() {
        for days in (DATE_MIN..=DATE_MAX).step_by(9_973) {
            let civil = Civil::from_days(i64::from(days));
            assert_eq!(civil.to_days(), i64::from(days), "{civil:?}");
        }
        assert_eq!(Civil::from_days(0), Civil { year: 1970, month: 1, day: 1 });
        assert_eq!(Civil::from_days(i64::from(DATE_MIN)), Civil { year: -4713, month: 11, day: 24 });
        assert_eq!(Civil::from_days(i64::from(DATE_MAX)), Civil { year: 5_874_897, month: 12, day: 31 });
    }

    #[test]
    fn weeks_belong_to_the_year_of_their_thursday() {
        let week = |year, month, day| Civil { year, month, day }.iso_week();
        assert_eq!(week(2005, 1, 1), (2004, 53));
        assert_eq!(week(2006, 1, 1), (2005, 52));
        assert_eq!(week(2012, 12, 31), (2013, 1));
        assert_eq!(weekday(0), 4);
    }
}
