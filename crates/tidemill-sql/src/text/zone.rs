//! Time zones: names of the tz database, POSIX offsets, and what `SET TIME ZONE` and `AT TIME ZONE` take.

use std::sync::Arc;

use arrow::datatypes::IntervalMonthDayNano;
use chrono::{DateTime, NaiveDateTime, Offset, TimeZone as _};
use chrono_tz::{OffsetName, TZ_VARIANTS, Tz};

use crate::calendar::{self, Civil, SECOND_US};
use crate::error::{Result, SqlError, SqlState};

use super::abbreviation::{self, Meaning};

const DAY_S: i64 = 86_400;
/// PostgreSQL's limit for offsets, in hours.
const HOURS_MAX: i32 = 167;
const OFFSET_MAX_S: u64 = HOURS_MAX as u64 * 3_600 + 3_599;
/// The last year up to which the compiled tz database spells its rules out.
const LAST_YEAR: i32 = 2_099;

/// A zone that a session can be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeZone {
    Named(Tz),
    /// Seconds east of Greenwich, and how `SHOW` prints it.
    Fixed {
        east_s: i32,
        name: Arc<str>,
    },
}

impl TimeZone {
    pub const UTC: TimeZone = TimeZone::Named(Tz::UTC);

    /// What `SET TIME ZONE` takes: hours east (`-3.5`, also as text), `INTERVAL '-08:00'`, a name, or POSIX's
    /// `<-08>+8`, which counts west.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || {
            let message = format!("invalid value for parameter \"TimeZone\": \"{text}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        if let Some(literal) = interval_literal(text) {
            let interval = super::parse_interval(literal.as_bytes())?;
            return Self::from_interval(interval).map_err(|_| {
                let what = if interval.months != 0 { "month" } else { "day" };
                invalid().with_detail(format!("Cannot specify {what}s in time zone interval."))
            });
        }
        match fast_float2::parse_partial::<f64, _>(text) {
            Ok((hours, used)) if used == text.len() && hours.is_finite() => {
                let seconds = (hours * 3_600.0) as i64;
                let allowed = seconds.unsigned_abs() <= OFFSET_MAX_S;
                let out_of_range = || invalid().with_detail("UTC timezone offset is out of range.");
                allowed.then(|| Self::from_offset(seconds as i32)).ok_or_else(out_of_range)
            }
            _ => Self::from_name(text).ok_or_else(invalid),
        }
    }

    /// What `AT TIME ZONE` takes: an abbreviation, a name, or POSIX's form.
    pub fn named(text: &str) -> Result<Self> {
        match abbreviation::find(&text.to_ascii_lowercase()) {
            Some(Meaning::Offset(east_s)) => Some(Self::from_offset(east_s)),
            Some(Meaning::Zone(name)) => Self::from_name(name),
            None => Self::from_name(text),
        }
        .ok_or_else(|| not_recognized(text))
    }

    /// `AT TIME ZONE interval '2 hours'`. Months and days are refused.
    pub fn from_interval(interval: IntervalMonthDayNano) -> Result<Self> {
        let seconds = interval.nanoseconds / 1_000_000_000;
        if interval.months != 0 || interval.days != 0 || seconds.unsigned_abs() > OFFSET_MAX_S {
            let mut shown = Vec::new();
            super::write_interval(interval, &mut shown);
            let shown = String::from_utf8_lossy(&shown);
            let problem = if interval.months != 0 || interval.days != 0 {
                "must not include months or days"
            } else {
                "is out of range"
            };
            let message = format!("interval time zone \"{shown}\" {problem}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Ok(Self::from_offset(seconds as i32))
    }

    /// A fixed offset. Its name is in POSIX's sense, which counts west: `<+05:30>-05:30`.
    pub fn from_offset(east_s: i32) -> Self {
        let mut clock = format!("{:02}", east_s.unsigned_abs() / 3_600);
        let (minutes, seconds) = (east_s.unsigned_abs() / 60 % 60, east_s.unsigned_abs() % 60);
        if minutes != 0 || seconds != 0 {
            clock += &format!(":{minutes:02}");
        }
        if seconds != 0 {
            clock += &format!(":{seconds:02}");
        }
        let (sign, reversed) = if east_s < 0 { ('-', '+') } else { ('+', '-') };
        TimeZone::Fixed { east_s, name: format!("<{sign}{clock}>{reversed}{clock}").into() }
    }

    /// A name of the tz database in any case, or POSIX's form without rules for summer time.
    pub(super) fn from_name(text: &str) -> Option<Self> {
        let name = text.strip_prefix("posix/").unwrap_or(text);
        if let Ok(zone) = name.parse() {
            return Some(TimeZone::Named(zone));
        }
        if let Some(zone) = TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name)) {
            return Some(TimeZone::Named(*zone));
        }
        let east_s = posix_offset(text)?;
        Some(TimeZone::Fixed { east_s, name: text.to_ascii_uppercase().into() })
    }

    /// As `SHOW TimeZone` prints it.
    pub fn name(&self) -> &str {
        match self {
            TimeZone::Named(zone) => zone.name(),
            TimeZone::Fixed { name, .. } => name,
        }
    }

    /// Seconds east of Greenwich at an instant.
    pub fn offset_at(&self, utc_us: i64) -> i32 {
        match self {
            TimeZone::Fixed { east_s, .. } => *east_s,
            TimeZone::Named(Tz::UTC) => 0,
            TimeZone::Named(zone) => offset_at(*zone, utc_us.div_euclid(SECOND_US)),
        }
    }

    /// Seconds east of Greenwich when clocks show a time. In the hour that is skipped it is the offset
    /// before, in the hour that comes twice the one after.
    pub fn offset_of_local(&self, local_us: i64) -> i32 {
        match self {
            TimeZone::Fixed { east_s, .. } => *east_s,
            TimeZone::Named(Tz::UTC) => 0,
            TimeZone::Named(zone) => offset_of_local(*zone, local_us.div_euclid(SECOND_US)),
        }
    }

    /// From UTC to what clocks show; infinity stays. `None` is beyond the range.
    pub fn to_local(&self, utc_us: i64) -> Option<i64> {
        if utc_us == i64::MAX || utc_us == i64::MIN {
            return Some(utc_us);
        }
        utc_us.checked_add(i64::from(self.offset_at(utc_us)) * SECOND_US)
    }

    /// From what clocks show to UTC; infinity stays. `None` is beyond the range.
    pub fn to_utc(&self, local_us: i64) -> Option<i64> {
        if local_us == i64::MAX || local_us == i64::MIN {
            return Some(local_us);
        }
        local_us
            .checked_sub(i64::from(self.offset_of_local(local_us)) * SECOND_US)
            .filter(|us| calendar::is_finite_timestamp(*us))
    }

    /// The offset that an abbreviation had in this zone when it was last used before a local time, or else
    /// first after it.
    pub(super) fn offset_of_abbreviation(&self, abbreviation: &str, local_us: i64) -> i32 {
        let fallback = self.offset_of_local(local_us);
        let TimeZone::Named(zone) = self else { return fallback };
        let start = local_us / SECOND_US - i64::from(fallback);
        // A month is less than any summer time lasts, and no abbreviation is older than the telegraph.
        let step = 30 * DAY_S;
        let before = (0..2_500).map(|i| start - i * step);
        let after = (1..2_500).map(|i| start + i * step);
        before
            .chain(after)
            .filter_map(naive)
            .map(|time| zone.offset_from_utc_datetime(&time))
            .find(|offset| offset.abbreviation().is_some_and(|name| name.eq_ignore_ascii_case(abbreviation)))
            .map_or(fallback, |offset| offset.fix().local_minus_utc())
    }
}

/// PostgreSQL's `time zone "x" not recognized`.
pub(super) fn not_recognized(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{text}\" not recognized"))
}

fn offset_at(zone: Tz, utc_s: i64) -> i32 {
    naive(in_known_years(utc_s))
        .map_or(0, |time| zone.offset_from_utc_datetime(&time).fix().local_minus_utc())
}

fn offset_of_local(zone: Tz, local_s: i64) -> i32 {
    let known = in_known_years(local_s);
    let Some(local) = naive(known) else { return 0 };
    let found = zone.offset_from_local_datetime(&local);
    match found.latest() {
        Some(offset) => offset.fix().local_minus_utc(),
        None => offset_at(zone, known - DAY_S),
    }
}

/// Rules go on for ever but the tables end: a later year is taken for the last known one with the same
/// calendar. Before the tables there is only local mean time.
fn in_known_years(seconds: i64) -> i64 {
    let (days, time) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    let civil = Civil::from_days(days);
    if civil.year < 1 {
        return -62_135_596_800;
    }
    if civil.year <= LAST_YEAR {
        return seconds;
    }
    let new_year = |year| Civil { year, month: 1, day: 1 }.to_days();
    let first_day = new_year(civil.year);
    let is_twin = |year: &i32| {
        calendar::is_leap(*year) == calendar::is_leap(civil.year)
            && calendar::weekday(new_year(*year)) == calendar::weekday(first_day)
    };
    let twin = (LAST_YEAR - 28..=LAST_YEAR).rev().find(is_twin).unwrap_or(LAST_YEAR);
    (days - first_day + new_year(twin)) * DAY_S + time
}

fn naive(seconds: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp(seconds, 0).map(|time| time.naive_utc())
}

/// The quoted part of `INTERVAL '-08:00' HOUR TO MINUTE`.
fn interval_literal(text: &str) -> Option<&str> {
    let prefix = text.get(..8).filter(|prefix| prefix.eq_ignore_ascii_case("interval"))?;
    let rest = text[prefix.len()..].trim_start().strip_prefix('\'')?;
    rest.split_once('\'').map(|(literal, _)| literal)
}

/// `ABC+3`, `<x>-5:30`, `-03:30`: an abbreviation, then what to add to local time to get UTC. Seconds east.
fn posix_offset(text: &str) -> Option<i32> {
    let offset = match text.strip_prefix('<') {
        Some(rest) => rest.split_once('>')?.1,
        None => text.trim_start_matches(|c: char| !c.is_ascii_digit() && !matches!(c, '+' | '-' | ',')),
    };
    let (east, clock) = match offset.strip_prefix('-') {
        Some(clock) => (1, clock),
        None => (-1, offset.strip_prefix('+').unwrap_or(offset)),
    };
    let mut seconds = 0;
    let mut parts = clock.split(':');
    for (size, max) in [(3_600, HOURS_MAX), (60, 59), (1, 60)] {
        let Some(part) = parts.next() else { break };
        let is_number = (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let number: i32 = part.parse().ok().filter(|number| is_number && *number <= max)?;
        seconds += number * size;
    }
    parts.next().is_none().then_some(east * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs, names and offsets on 2020-07-01 as PostgreSQL 15 shows them.
    #[test]
    fn zones_are_read_as_postgresql_reads_them() {
        for (text, name, east_s) in [
            ("+02", "<+02>-02", 7_200),
            ("-03:30", "-03:30", 12_600),
            ("+5.5", "<+05:30>-05:30", 19_800),
            ("EST5EDT", "EST5EDT", -14_400),
            ("utc", "UTC", 0),
            ("europe/paris", "Europe/Paris", 7_200),
            ("<-08>+08", "<-08>+08", -28_800),
            ("FOO3", "FOO3", -10_800),
            ("FOO+3:30", "FOO+3:30", -12_600),
            ("1e1", "<+10>-10", 36_000),
            ("167", "<+167>-167", 601_200),
            ("24:00", "24:00", -86_400),
            ("UTC+3", "UTC+3", -10_800),
            ("abc123", "ABC123", -442_800),
            ("America/New_York5", "AMERICA/NEW_YORK5", -18_000),
            ("interval '-08:30'", "<-08:30>+08:30", -30_600),
            ("-5.5", "<-05:30>+05:30", -19_800),
            ("5.3333333", "<+05:19:59>-05:19:59", 19_199),
            ("GMT-02:00", "GMT-02:00", 7_200),
        ] {
            let zone = TimeZone::parse(text).unwrap();
            assert_eq!((zone.name(), zone.offset_at(1_593_561_600_000_000)), (name, east_s), "{text}");
        }
        for text in
            ["Z", "foo", "", "PST", "interval", "168", "<a", "FOO3:60", "1:2:3:4", " utc", "nan", "UTC+3foo"]
        {
            assert_eq!(TimeZone::parse(text).unwrap_err().state.0, "22023", "{text}");
        }
        assert_eq!(TimeZone::named("PST").map(|zone| zone.offset_at(0)), Ok(-28_800));
        assert_eq!(TimeZone::named("nowhere").unwrap_err().message, "time zone \"nowhere\" not recognized");
    }
}
