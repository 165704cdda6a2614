//! The session's time zone: a name of the tz database, a number of hours, or a POSIX offset.

use chrono::FixedOffset;
use chrono_tz::{TZ_VARIANTS, Tz};
use tidemill_sql::SqlError;

use super::value::invalid;

/// A zone as `SET TimeZone` takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    Named(Tz),
    /// An offset east of Greenwich, and how `SHOW` prints it.
    Fixed(FixedOffset, String),
}

impl Zone {
    pub fn parse(text: &str) -> Result<Self, SqlError> {
        if let Ok(hours) = text.parse::<f64>()
            && !text.starts_with(['i', 'I', 'n', 'N'])
            && !text.contains(':')
        {
            let out_of_range =
                || invalid("TimeZone", text).with_detail("UTC timezone offset is out of range.");
            return Self::from_hours(hours).ok_or_else(out_of_range);
        }
        let named = TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(text));
        if let Some(zone) = named {
            return Ok(Zone::Named(*zone));
        }
        Self::from_posix(text).ok_or_else(|| invalid("TimeZone", text))
    }

    /// As `SHOW TimeZone` prints it.
    pub fn name(&self) -> &str {
        match self {
            Zone::Named(zone) => zone.name(),
            Zone::Fixed(_, name) => name,
        }
    }

    /// `5` is five hours east, shown in POSIX's reversed sense: `<+05>-05`.
    fn from_hours(hours: f64) -> Option<Self> {
        let seconds = (hours * 3600.0).trunc();
        let offset = FixedOffset::east_opt(seconds as i32).filter(|_| seconds.is_finite())?;
        let east = offset.local_minus_utc();
        let (sign, reversed) = if east < 0 { ('-', '+') } else { ('+', '-') };
        let clock = clock(east.unsigned_abs());
        Some(Zone::Fixed(offset, format!("<{sign}{clock}>{reversed}{clock}")))
    }

    /// `ABC+3`, `<x>-5:30`, `+05:30`: an abbreviation, then the hours to add to get to UTC, so positive is
    /// west.
    fn from_posix(text: &str) -> Option<Self> {
        let offset = if let Some(rest) = text.strip_prefix('<') {
            let (abbreviation, offset) = rest.split_once('>')?;
            abbreviation
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b':'))
                .then_some(offset)?
        } else {
            text.trim_start_matches(|letter: char| letter.is_ascii_alphabetic())
        };
        let west = if offset.starts_with('-') { -1 } else { 1 };
        let mut seconds = 0;
        let mut parts = offset.strip_prefix(['+', '-']).unwrap_or(offset).split(':');
        for (size, limit) in [(3600, 24), (60, 60), (1, 60)] {
            let Some(part) = parts.next() else { break };
            let digits = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
            let number = part.parse::<i32>().ok().filter(|number| digits && *number < limit)?;
            seconds += number * size;
        }
        if parts.next().is_some() {
            return None;
        }
        Some(Zone::Fixed(FixedOffset::west_opt(west * seconds)?, text.to_ascii_uppercase()))
    }
}

/// `hh`, `hh:mm` or `hh:mm:ss`, as short as it can be.
fn clock(seconds: u32) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{hours:02}"),
        (_, 0) => format!("{hours:02}:{minutes:02}"),
        _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_shown_as_postgresql_shows_them() {
        let cases = [
            ("europe/berlin", "Europe/Berlin"),
            ("utc", "UTC"),
            ("gmt", "GMT"),
            ("etc/gmt+3", "Etc/GMT+3"),
            ("EST5EDT", "EST5EDT"),
            ("5", "<+05>-05"),
            ("-5.5", "<-05:30>+05:30"),
            ("5.25", "<+05:15>-05:15"),
            ("1e1", "<+10>-10"),
            ("5.3333333", "<+05:19:59>-05:19:59"),
            ("+05:30", "+05:30"),
            ("UTC+3", "UTC+3"),
            ("foo3", "FOO3"),
            ("GMT-02:00", "GMT-02:00"),
            ("<+02>-02", "<+02>-02"),
        ];
        for (text, shown) in cases {
            assert_eq!(Zone::parse(text).unwrap().name(), shown, "{text}");
        }
        for text in [
            "", "x", "z", "PST", " utc", "nix/nix", "200", "UTC+200", "UTC+3foo", "nan", "1:2:3:4", "<+02-02",
        ] {
            assert!(Zone::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn offsets_are_east_for_hours_and_west_for_posix() {
        let east = |text: &str| match Zone::parse(text).unwrap() {
            Zone::Fixed(offset, _) => offset.local_minus_utc(),
            Zone::Named(zone) => panic!("{zone}"),
        };
        assert_eq!(east("5"), 5 * 3600);
        assert_eq!(east("-5.5"), -(5 * 3600 + 1800));
        assert_eq!(east("+05:30"), -(5 * 3600 + 1800));
        assert_eq!(east("GMT-02:00"), 2 * 3600);
        assert_eq!(east("<+02>-02"), 2 * 3600);
    }
}
