//! Input of `date`, `time`, `timestamp` and `timestamptz`.

use crate::calendar::{self, Civil, DAY_US, SECOND_US, days_in_month};
use crate::error::{Result, SqlError, SqlState};

use super::date_decode::{self, Decoded, Problem};
use super::date_field::{self, Field};
use super::{Context, date_word, trim, zone};

/// PostgreSQL's `invalid_time_zone_displacement_value`.
const ZONE_DISPLACEMENT: SqlState = SqlState("22009");
/// PostgreSQL's `MAXDATELEN` and `MAXDATEFIELDS` together.
const BYTES_MAX: usize = 128 + 25;

pub fn parse_date(bytes: &[u8], context: &Context) -> Result<i32> {
    if let Some(iso) = Iso::parse(bytes)
        && iso.time_us.is_none()
    {
        return Ok(iso.days as i32);
    }
    let days = match decode(bytes, "date", context)? {
        Decoded::At { civil, .. } => civil.to_days(),
        Decoded::Epoch => 0,
        Decoded::Infinity => return Ok(calendar::DATE_INFINITY),
        Decoded::MinusInfinity => return Ok(calendar::DATE_MINUS_INFINITY),
    };
    match i32::try_from(days) {
        Ok(days) if calendar::is_finite_date(days) => Ok(days),
        _ => Err(overflow("date out of range", bytes)),
    }
}

/// Microseconds since midnight, up to and including 24:00.
pub fn parse_time(bytes: &[u8], context: &Context) -> Result<i64> {
    if let Some((time_us, [])) = iso_time(bytes) {
        return Ok(time_us);
    }
    const TYPE: &str = "time";
    let fields = split(bytes, TYPE)?;
    date_decode::decode_time(&fields, context).map_err(|problem| error(problem, bytes, TYPE))
}

/// A zone in the text is ignored.
pub fn parse_timestamp(bytes: &[u8], context: &Context) -> Result<i64> {
    if let Some(iso) = Iso::parse(bytes) {
        return Ok(iso.days * DAY_US + iso.time_us.unwrap_or(0));
    }
    match decode(bytes, "timestamp", context)? {
        Decoded::At { civil, time_us, .. } => {
            calendar::join(civil.to_days(), time_us).ok_or_else(|| overflow("timestamp out of range", bytes))
        }
        special => Ok(special_timestamp(special)),
    }
}

/// Without a zone in the text it is in the session's.
pub fn parse_timestamptz(bytes: &[u8], context: &Context) -> Result<i64> {
    if let Some(iso) = Iso::parse(bytes) {
        let local = iso.days * DAY_US + iso.time_us.unwrap_or(0);
        let east_s = iso.east_s.unwrap_or_else(|| context.zone.offset_of_local(local));
        return Ok(local - i64::from(east_s) * SECOND_US);
    }
    match decode(bytes, "timestamp with time zone", context)? {
        Decoded::At { civil, time_us, east_s } => civil
            .to_days()
            .checked_mul(DAY_US)
            .and_then(|day_us| day_us.checked_add(time_us - i64::from(east_s) * SECOND_US))
            .filter(|us| calendar::is_finite_timestamp(*us))
            .ok_or_else(|| overflow("timestamp out of range", bytes)),
        special => Ok(special_timestamp(special)),
    }
}

fn special_timestamp(special: Decoded) -> i64 {
    match special {
        Decoded::Infinity => calendar::TIMESTAMP_INFINITY,
        Decoded::MinusInfinity => calendar::TIMESTAMP_MINUS_INFINITY,
        Decoded::Epoch | Decoded::At { .. } => 0,
    }
}

fn decode(bytes: &[u8], type_name: &str, context: &Context) -> Result<Decoded> {
    let fields = split(bytes, type_name)?;
    date_decode::decode(&fields, context).map_err(|problem| error(problem, bytes, type_name))
}

fn split(bytes: &[u8], type_name: &str) -> Result<Vec<Field>> {
    date_field::split(bytes, BYTES_MAX, date_word::is_keyword)
        .ok_or_else(|| error(Problem::Format, bytes, type_name))
}

#[cold]
fn error(problem: Problem, bytes: &[u8], type_name: &str) -> SqlError {
    match problem {
        Problem::Format => {
            let text = String::from_utf8_lossy(bytes);
            let message = format!("invalid input syntax for type {type_name}: \"{text}\"");
            SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
        }
        Problem::FieldOverflow => overflow("date/time field value out of range", bytes),
        Problem::MonthDayOverflow => overflow("date/time field value out of range", bytes)
            .with_hint("Perhaps you need a different \"datestyle\" setting."),
        Problem::ZoneOverflow => {
            let mut error = overflow("time zone displacement out of range", bytes);
            error.state = ZONE_DISPLACEMENT;
            error
        }
        Problem::UnknownZone(name) => zone::not_recognized(&name),
    }
}

#[cold]
fn overflow(what: &str, bytes: &[u8]) -> SqlError {
    let text = String::from_utf8_lossy(bytes);
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what}: \"{text}\""))
}

/// What nearly every date and time looks like: `2014-01-01`, `2014-01-01 02:03:04.567`, with `T`, `Z` or
/// `+02:00`. Read without looking at words or guessing; whatever is different or out of range is left to the
/// decoder.
struct Iso {
    days: i64,
    time_us: Option<i64>,
    east_s: Option<i32>,
}

impl Iso {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (date, rest) = trim(bytes).split_first_chunk::<10>()?;
        let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *date else { return None };
        let year = two_digits(y0, y1)? * 100 + two_digits(y2, y3)?;
        let (month, day) = (two_digits(m0, m1)?, two_digits(d0, d1)?);
        if year == 0 || !(1..=12).contains(&month) || day == 0 || day > days_in_month(year as i32, month) {
            return None;
        }
        let days = Civil { year: year as i32, month, day }.to_days();
        match rest {
            [] => Some(Self { days, time_us: None, east_s: None }),
            [b' ' | b'T' | b't', time @ ..] => {
                let (time_us, zone) = iso_time(time)?;
                Some(Self { days, time_us: Some(time_us), east_s: iso_zone(zone)? })
            }
            _ => None,
        }
    }
}

/// `hh:mm:ss` with up to six digits after the point, and what follows.
fn iso_time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (clock, mut rest) = bytes.split_first_chunk::<8>()?;
    let [h0, h1, b':', m0, m1, b':', s0, s1] = *clock else { return None };
    let (hour, minute, second) = (two_digits(h0, h1)?, two_digits(m0, m1)?, two_digits(s0, s1)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut fraction_us = 0;
    if let [b'.', after @ ..] = rest {
        let digits = after.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 || digits > 6 {
            return None;
        }
        for byte in &after[..digits] {
            fraction_us = fraction_us * 10 + i64::from(byte - b'0');
        }
        fraction_us *= 10i64.pow(6 - digits as u32);
        rest = &after[digits..];
    }
    let seconds = i64::from(hour * 3_600 + minute * 60 + second);
    Some((seconds * SECOND_US + fraction_us, rest))
}

/// Nothing, `Z`, `+hh`, `+hhmm` or `+hh:mm`. The outer `None` is anything else.
fn iso_zone(bytes: &[u8]) -> Option<Option<i32>> {
    let (sign, hour, minute) = match *bytes {
        [] => return Some(None),
        [b'Z' | b'z'] => return Some(Some(0)),
        [sign, h0, h1] => (sign, two_digits(h0, h1)?, 0),
        [sign, h0, h1, m0, m1] | [sign, h0, h1, b':', m0, m1] => {
            (sign, two_digits(h0, h1)?, two_digits(m0, m1)?)
        }
        _ => return None,
    };
    if hour > 15 || minute > 59 {
        return None;
    }
    let seconds = (hour * 3_600 + minute * 60) as i32;
    match sign {
        b'+' => Some(Some(seconds)),
        b'-' => Some(Some(-seconds)),
        _ => None,
    }
}

#[inline]
fn two_digits(tens: u8, ones: u8) -> Option<u32> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| u32::from(tens) * 10 + u32::from(ones))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{TimeZone, write_date, write_time, write_timestamp, write_timestamptz};

    #[test]
    fn words_relative_to_now_are_in_the_zone_of_the_session() {
        // 2023-11-14 22:13:20.123456 in UTC, already the next day in Tokyo.
        let zone = TimeZone::parse("Asia/Tokyo").unwrap();
        let context = Context { now: 1_700_000_000_123_456.into(), zone };
        let shown = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).unwrap()
        };
        for (text, date, timestamp, timestamptz) in [
            ("now", "2023-11-15", "2023-11-15 07:13:20.123456", "2023-11-15 07:13:20.123456+09"),
            ("today", "2023-11-15", "2023-11-15 00:00:00", "2023-11-15 00:00:00+09"),
            ("yesterday 10:00", "2023-11-14", "2023-11-14 10:00:00", "2023-11-14 10:00:00+09"),
            (" TOMORROW allballs", "2023-11-16", "2023-11-16 00:00:00", "2023-11-16 09:00:00+09"),
        ] {
            let bytes = text.as_bytes();
            let got_date = parse_date(bytes, &context).unwrap();
            let got_timestamp = parse_timestamp(bytes, &context).unwrap();
            let got_timestamptz = parse_timestamptz(bytes, &context).unwrap();
            assert_eq!(shown(&|out| write_date(got_date, out)), date, "{text}");
            assert_eq!(shown(&|out| write_timestamp(got_timestamp, out)), timestamp, "{text}");
            assert_eq!(
                shown(&|out| write_timestamptz(got_timestamptz, &context.zone, out)),
                timestamptz,
                "{text}"
            );
        }
        let time = parse_time(b"now", &context).unwrap();
        assert_eq!(shown(&|out| write_time(time, out)), "07:13:20.123456");
    }
}
