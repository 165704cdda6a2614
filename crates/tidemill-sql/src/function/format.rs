//! `to_char`, `to_date` and `to_timestamp(text, text)`: PostgreSQL's templates for dates. Numbers are in `format_number`.

use arrow::datatypes::IntervalMonthDayNano;
use chrono::{DateTime, TimeZone as _};
use chrono_tz::OffsetName;

use super::Registry;
use super::kernel::{Date, Interval, Text, Timestamp, Timestamptz};
use crate::calendar::{self, Civil, DAY_US, HOUR_US, MINUTE_US, SECOND_US, UNIX_EPOCH_JULIAN};
use crate::error::{Result, SqlError, SqlState};
use crate::text::TimeZone;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

pub(super) fn register(r: &mut Registry) {
    super::format_number::register(r);
}

pub(super) fn register_dates(r: &mut Registry) {
    r.maybe2::<Timestamp, Text, Text>("to_char", |_, t, template| {
        Ok(calendar::is_finite_timestamp(t).then(|| Moment::of(t, None).format(template)))
    });
    r.strict2::<Interval, Text, Text>(
        "to_char",
        |_, i, template| Ok(Moment::of_interval(i).format(template)),
    );
    r.strict2::<Text, Text, Date>("to_date", |_, text, template| Reader::read(text, template)?.date());
    r.stable(|r| {
        r.maybe2::<Timestamptz, Text, Text>("to_char", |vars, t, template| {
            Ok(calendar::is_finite_timestamp(t).then(|| Moment::of(t, Some(&vars.zone)).format(template)))
        });
        r.strict2::<Text, Text, Timestamptz>("to_timestamp", |vars, text, template| {
            let local = Reader::read(text, template)?.timestamp()?;
            vars.zone.to_utc(local).ok_or_else(calendar::timestamp_out_of_range)
        });
    });
}

/// The longest first, so that the first match is the right one.
const TOKENS: [&str; 47] = [
    "Y,YYY", "SSSSS", "A.M.", "P.M.", "B.C.", "A.D.", "MONTH", "SSSS", "YYYY", "IYYY", "HH24", "HH12",
    "IDDD", "YYY", "IYY", "DAY", "DDD", "MON", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "TZH", "TZM", "YY",
    "IY", "MM", "DD", "DY", "ID", "IW", "WW", "HH", "MI", "SS", "MS", "US", "AM", "PM", "BC", "AD", "CC",
    "RM", "TZ", "OF",
];
const SINGLES: [char; 6] = ['Y', 'I', 'D', 'W', 'Q', 'J'];

enum Piece<'a> {
    Literal(String),
    Field { token: &'a str, fill: bool, ordinal: Option<&'a str> },
}

/// A template cut into fields and what stands between them.
fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut out = vec![];
    let mut rest = template;
    let starts =
        |text: &str, word: &str| text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let inner = &rest[1..];
            let end = inner.find('"').unwrap_or(inner.len());
            out.push(Piece::Literal(inner[..end].to_string()));
            rest = inner.get(end + 1..).unwrap_or("");
            continue;
        }
        let no_fill = rest.starts_with("FM") || rest.starts_with("fm");
        let body = if no_fill { &rest[2..] } else { rest };
        let length =
            TOKENS.iter().find(|token| starts(body, token)).map(|token| token.len()).or_else(|| {
                body.chars().next().filter(|c| SINGLES.contains(&c.to_ascii_uppercase())).map(|_| 1)
            });
        match length {
            Some(length) => {
                let token = &body[..length];
                let after = &body[length..];
                let ordinal = after.get(..2).filter(|th| th.eq_ignore_ascii_case("th"));
                out.push(Piece::Field { token, fill: !no_fill, ordinal });
                rest = if ordinal.is_some() { &after[2..] } else { after };
            }
            None if no_fill => rest = body,
            None => {
                let skip = if first == '\\' { 1 } else { 0 };
                let shown: String = rest[skip..].chars().take(1).collect();
                rest = &rest[(skip + shown.len()).max(1)..];
                out.push(Piece::Literal(shown));
            }
        }
    }
    out
}

/// What a template can show of an instant or an interval.
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    days: i64,
    time_us: i64,
    is_interval: bool,
    east_s: i32,
    zone: String,
    infinite: Option<&'static str>,
}

impl Moment {
    fn of(us: i64, zone: Option<&TimeZone>) -> Self {
        let infinite = match us {
            i64::MAX => Some("infinity"),
            i64::MIN => Some("-infinity"),
            _ => None,
        };
        let finite = if infinite.is_some() { 0 } else { us };
        let east_s = zone.map_or(0, |zone| zone.offset_at(finite));
        let (days, time_us) = calendar::split(finite.saturating_add(i64::from(east_s) * SECOND_US));
        let civil = Civil::from_days(days);
        let zone = zone.map(|zone| abbreviation(zone, finite)).unwrap_or_default();
        Self {
            year: civil.year.into(),
            month: civil.month.into(),
            day: civil.day.into(),
            days,
            time_us,
            is_interval: false,
            east_s,
            zone,
            infinite,
        }
    }

    fn of_interval(i: IntervalMonthDayNano) -> Self {
        Self {
            year: (i.months / 12).into(),
            month: (i.months % 12).into(),
            day: i.days.into(),
            days: 0,
            time_us: i.nanoseconds / 1000,
            is_interval: true,
            east_s: 0,
            zone: String::new(),
            infinite: None,
        }
    }

    fn format(&self, template: &str) -> String {
        if let Some(word) = self.infinite {
            return word.to_string();
        }
        let mut out = String::new();
        for piece in pieces(template) {
            match piece {
                Piece::Literal(text) => out.push_str(&text),
                Piece::Field { token, fill, ordinal } => {
                    let shown = self.field(token, fill);
                    out.push_str(&shown);
                    if let Some(th) = ordinal {
                        let suffix = ordinal_suffix(&shown);
                        out.push_str(&if th == "TH" { suffix.to_uppercase() } else { suffix.to_string() });
                    }
                }
            }
        }
        out
    }

    fn field(&self, token: &str, fill: bool) -> String {
        let number = |value: i64, width: usize| {
            let digits = value.unsigned_abs().to_string();
            let padding = if fill { width.saturating_sub(digits.len()) } else { 0 };
            format!("{}{}{digits}", if value < 0 { "-" } else { "" }, "0".repeat(padding))
        };
        let name = |full: &str, width: usize| {
            let styled = styled(full, token);
            if fill && styled.chars().count() < width { format!("{styled:<width$}") } else { styled }
        };
        // There is no year 0: it is 1 BC.
        let year = if self.is_interval || self.year > 0 { self.year } else { 1 - self.year };
        let (hour, minute) = (self.time_us / HOUR_US, self.time_us / MINUTE_US % 60);
        let (second, micros) = (self.time_us / SECOND_US % 60, self.time_us % SECOND_US);
        let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
        let weekday = calendar::weekday(self.days) as usize;
        let civil = Civil::from_days(self.days);
        let (iso_year, iso_week) = civil.iso_week();
        let month_name = || MONTHS.get((self.month - 1) as usize).copied().unwrap_or("");
        match token.to_ascii_uppercase().as_str() {
            "Y,YYY" => format!("{},{:03}", year / 1000, year % 1000),
            "YYYY" => number(year, 4),
            "YYY" => number(year % 1000, 3),
            "YY" => number(year % 100, 2),
            "Y" => number(year % 10, 1),
            "IYYY" => number(iso_year.into(), 4),
            "IYY" => number(i64::from(iso_year) % 1000, 3),
            "IY" => number(i64::from(iso_year) % 100, 2),
            "I" => number(i64::from(iso_year) % 10, 1),
            "CC" => number(if year > 0 { (year + 99) / 100 } else { year / 100 }, 2),
            "MONTH" => name(month_name(), 9),
            "MON" => styled(&month_name().chars().take(3).collect::<String>(), token),
            "MM" => number(self.month, 2),
            "RM" => name(ROMAN_MONTHS.get((self.month - 1) as usize).copied().unwrap_or(""), 4),
            "DAY" => name(DAYS[weekday], 9),
            "DY" => styled(&DAYS[weekday][..3], token),
            "DDD" => number(civil.day_of_year(), 3),
            "IDDD" => number((iso_week - 1) * 7 + iso_weekday(weekday), 3),
            "DD" => number(self.day, 2),
            "D" => number(weekday as i64 + 1, 1),
            "ID" => number(iso_weekday(weekday), 1),
            "WW" => number((civil.day_of_year() - 1) / 7 + 1, 2),
            "W" => number((self.day - 1) / 7 + 1, 1),
            "IW" => number(iso_week, 2),
            "Q" => number((self.month - 1) / 3 + 1, 1),
            "J" => number(self.days + i64::from(UNIX_EPOCH_JULIAN), 1),
            "HH24" => number(hour, 2),
            "HH12" | "HH" => number(twelve, 2),
            "MI" => number(minute, 2),
            "SS" => number(second, 2),
            "SSSS" | "SSSSS" => number(self.time_us / SECOND_US, 1),
            "MS" | "FF3" => number(micros / 1000, 3),
            "US" | "FF6" => number(micros, 6),
            "FF1" => number(micros / 100_000, 1),
            "FF2" => number(micros / 10_000, 2),
            "FF4" => number(micros / 100, 4),
            "FF5" => number(micros / 10, 5),
            "AM" | "PM" => meridiem(token, if hour % 24 >= 12 { "pm" } else { "am" }),
            "A.M." | "P.M." => meridiem(token, if hour % 24 >= 12 { "p.m." } else { "a.m." }),
            "BC" | "AD" => meridiem(token, if self.year <= 0 && !self.is_interval { "bc" } else { "ad" }),
            "B.C." | "A.D." => {
                meridiem(token, if self.year <= 0 && !self.is_interval { "b.c." } else { "a.d." })
            }
            "TZ" => {
                if token == "tz" {
                    self.zone.to_lowercase()
                } else {
                    self.zone.clone()
                }
            }
            "TZH" => format!("{}{:02}", self.sign(), self.east_s.abs() / 3600),
            "TZM" => format!("{:02}", self.east_s.abs() / 60 % 60),
            "OF" => {
                let minutes = self.east_s.abs() / 60 % 60;
                let hours = format!("{}{:02}", self.sign(), self.east_s.abs() / 3600);
                if minutes == 0 { hours } else { format!("{hours}:{minutes:02}") }
            }
            other => other.to_string(),
        }
    }

    fn sign(&self) -> char {
        if self.east_s < 0 { '-' } else { '+' }
    }
}

const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

fn iso_weekday(weekday: usize) -> i64 {
    if weekday == 0 { 7 } else { weekday as i64 }
}

fn abbreviation(zone: &TimeZone, us: i64) -> String {
    match zone {
        TimeZone::Named(tz) => DateTime::from_timestamp_micros(us)
            .and_then(|utc| {
                let offset = tz.offset_from_utc_datetime(&utc.naive_utc());
                offset.abbreviation().map(str::to_string)
            })
            .unwrap_or_default(),
        TimeZone::Fixed { name, .. } => name.to_string(),
    }
}

/// In the letter case of the token: `MONTH`, `Month` or `month`.
fn styled(word: &str, token: &str) -> String {
    let mut letters = token.chars();
    match (letters.next(), letters.next()) {
        (Some(a), Some(b)) if a.is_uppercase() && b.is_uppercase() => word.to_uppercase(),
        (Some(a), _) if a.is_uppercase() => word.to_string(),
        _ => word.to_lowercase(),
    }
}

fn meridiem(token: &str, shown: &str) -> String {
    if token.starts_with(|c: char| c.is_uppercase()) { shown.to_uppercase() } else { shown.to_string() }
}

fn ordinal_suffix(number: &str) -> &'static str {
    let bytes = number.as_bytes();
    let teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    match bytes.last() {
        Some(b'1') if !teen => "st",
        Some(b'2') if !teen => "nd",
        Some(b'3') if !teen => "rd",
        _ => "th",
    }
}

/// What `to_date` and `to_timestamp` have read.
#[derive(Default)]
struct Reader {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
    before_christ: bool,
}

impl Reader {
    fn read(text: &str, template: &str) -> Result<Self> {
        let mut reader = Self::default();
        let mut rest = text;
        let parts = pieces(template);
        for (i, piece) in parts.iter().enumerate() {
            match piece {
                // A separator of the template matches any one separator of the text, and blanks around it.
                Piece::Literal(literal) => {
                    rest = rest.trim_start();
                    if !literal.trim().is_empty()
                        && let Some(c) =
                            rest.chars().next().filter(|c| !c.is_alphanumeric() || literal.starts_with(*c))
                    {
                        rest = &rest[c.len_utf8()..];
                    }
                }
                Piece::Field { token, ordinal, .. } => {
                    let next_is_field = matches!(parts.get(i + 1), Some(Piece::Field { .. }));
                    rest = reader.field(token, rest.trim_start(), next_is_field)?;
                    if ordinal.is_some() {
                        rest = rest.get(2..).unwrap_or("");
                    }
                }
            }
        }
        Ok(reader)
    }

    fn field<'a>(&mut self, token: &str, text: &'a str, fixed: bool) -> Result<&'a str> {
        let token = token.to_ascii_uppercase();
        let width = match token.as_str() {
            "YYYY" | "IYYY" => 4,
            "YYY" | "DDD" | "MS" | "FF3" => 3,
            "US" | "FF6" => 6,
            "Y" | "D" | "Q" | "W" => 1,
            "J" | "SSSS" | "SSSSS" => 7,
            _ => 2,
        };
        match token.as_str() {
            "MONTH" | "MON" => {
                let found = MONTHS.iter().position(|name| {
                    text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(&name[..3]))
                });
                let month = found.ok_or_else(|| {
                    invalid(
                        text,
                        &token,
                        "The given value did not match any of the allowed values for this field.",
                    )
                })?;
                self.month = Some(month as i64 + 1);
                let full = MONTHS[month].len();
                let is_full = token == "MONTH"
                    && text.get(..full).is_some_and(|t| t.eq_ignore_ascii_case(MONTHS[month]));
                Ok(&text[if is_full { full } else { 3 }..])
            }
            "DAY" | "DY" => Ok(text.trim_start_matches(|c: char| c.is_alphabetic())),
            "AM" | "PM" | "A.M." | "P.M." => {
                self.afternoon = Some(text.starts_with(['p', 'P']));
                Ok(text.trim_start_matches(|c: char| c.is_alphabetic() || c == '.'))
            }
            "BC" | "AD" | "B.C." | "A.D." => {
                self.before_christ = text.starts_with(['b', 'B']);
                Ok(text.trim_start_matches(|c: char| c.is_alphabetic() || c == '.'))
            }
            _ => {
                let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                let length = if fixed || matches!(token.as_str(), "MS" | "US" | "FF3" | "FF6") {
                    digits.min(width)
                } else {
                    digits
                };
                if text.is_empty() {
                    return Ok(text);
                }
                let value: i64 =
                    text[..length].parse().map_err(|_| invalid(text, &token, "Value must be an integer."))?;
                self.number(&token, value, length)?;
                Ok(&text[length..])
            }
        }
    }

    fn number(&mut self, token: &str, value: i64, digits: usize) -> Result<()> {
        match token {
            "YYYY" | "IYYY" => self.year = Some(value),
            "YYY" | "YY" | "Y" => {
                self.year = Some(match digits {
                    4.. => value,
                    _ if value < 70 => 2000 + value,
                    _ if value < 100 => 1900 + value,
                    _ => 1000 + value + if value < 520 { 1000 } else { 0 },
                })
            }
            "MM" => self.month = Some(value),
            "DD" => self.day = Some(value),
            "DDD" => self.day_of_year = Some(value),
            "J" => self.julian = Some(value),
            "HH24" => self.hour = value,
            "HH12" | "HH" => {
                if !(1..=12).contains(&value) {
                    let message = format!("hour \"{value}\" is invalid for the 12-hour clock");
                    let error = SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message);
                    return Err(error.with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
                }
                self.hour = value;
                self.afternoon = self.afternoon.or(Some(false));
            }
            "MI" => self.minute = value,
            "SS" => self.second = value,
            "SSSS" | "SSSSS" => {
                (self.hour, self.minute, self.second) = (value / 3600, value / 60 % 60, value % 60)
            }
            "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                self.micros = value * 10i64.pow(6u32.saturating_sub(digits as u32));
            }
            "D" | "ID" | "Q" | "W" | "CC" => {}
            other => {
                return Err(SqlError::unsupported(format!(
                    "formatting field \"{other}\" is only supported in to_char"
                )));
            }
        }
        Ok(())
    }

    fn date(&self) -> Result<i32> {
        let out_of_range = || {
            let shown = format!(
                "{}-{:02}-{:02}",
                self.year.unwrap_or(0),
                self.month.unwrap_or(1),
                self.day.unwrap_or(1)
            );
            let message = format!("date/time field value out of range: \"{shown}\"");
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        };
        if let Some(julian) = self.julian {
            return i32::try_from(julian - i64::from(UNIX_EPOCH_JULIAN)).map_err(|_| out_of_range());
        }
        // Without a year it is 1 BC, PostgreSQL's year 0.
        let year = match self.year {
            Some(year) if self.before_christ => 1 - year,
            Some(year) => year,
            None => 0,
        };
        let year =
            i32::try_from(year).ok().filter(|y| (-4713..=5_874_897).contains(y)).ok_or_else(out_of_range)?;
        let month = self.month.unwrap_or(1);
        let month = u32::try_from(month).ok().filter(|m| (1..=12).contains(m)).ok_or_else(out_of_range)?;
        let day = u32::try_from(self.day.unwrap_or(1)).ok().filter(|d| *d >= 1).ok_or_else(out_of_range)?;
        if day > calendar::days_in_month(year, month) {
            return Err(out_of_range());
        }
        let mut days = Civil { year, month, day }.to_days();
        if let Some(day_of_year) = self.day_of_year {
            days = Civil { year, month: 1, day: 1 }.to_days() + day_of_year - 1;
        }
        i32::try_from(days).ok().filter(|days| calendar::is_finite_date(*days)).ok_or_else(out_of_range)
    }

    fn timestamp(&self) -> Result<i64> {
        let hour = match self.afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let valid =
            (0..=24).contains(&hour) && (0..60).contains(&self.minute) && (0..=60).contains(&self.second);
        let time = hour * HOUR_US + self.minute * MINUTE_US + self.second * SECOND_US + self.micros;
        if !valid || time > DAY_US {
            return Err(SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                "date/time field value out of range",
            ));
        }
        calendar::date_to_timestamp(self.date()?)?
            .checked_add(time)
            .ok_or_else(calendar::timestamp_out_of_range)
    }
}

fn invalid(text: &str, token: &str, detail: &str) -> SqlError {
    let shown: String = text.chars().take(token.len()).collect();
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid value \"{shown}\" for \"{token}\""))
        .with_detail(detail)
}
