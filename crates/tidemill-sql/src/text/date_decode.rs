//! Gives the fields of a date and time their meaning, in the order and with the guesses of PostgreSQL's
//! `DecodeDateTime`.

use crate::calendar::{Civil, DAY_US, HOUR_US, MINUTE_US, SECOND_US, UNIX_EPOCH_JULIAN, days_in_month};

use super::abbreviation::Meaning;
use super::date_field::{Field, Kind};
use super::date_number::{clock, date_parts, fraction, fraction_us, leading_i32, offset};
use super::date_word::{self, Word};
use super::{Context, TimeZone};

/// What a text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// A day, a time of it (up to and including 24:00), and seconds east of Greenwich.
    At {
        civil: Civil,
        time_us: i64,
        east_s: i32,
    },
    Epoch,
    Infinity,
    MinusInfinity,
}

/// Why a text says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    Format,
    FieldOverflow,
    /// The month or the day: another order of the fields might have been meant.
    MonthDayOverflow,
    ZoneOverflow,
    UnknownZone(String),
}

type Result<T, E = Problem> = std::result::Result<T, E>;

/// Sets of what has been seen.
mod seen {
    pub const YEAR: u32 = 1;
    pub const MONTH: u32 = 2;
    pub const DAY: u32 = 4;
    pub const DATE: u32 = YEAR | MONTH | DAY;
    pub const DAY_OF_YEAR: u32 = 8;
    pub const TIME: u32 = 16;
    pub const ZONE: u32 = 32;
    pub const SUMMER_TIME: u32 = 64;
    pub const SUMMER_ZONE: u32 = 128;
    pub const AM_PM: u32 = 256;
    pub const ERA: u32 = 512;
    pub const WEEKDAY: u32 = 1024;
}

/// A word that says what the next field is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Time,
    Julian,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HalfDay {
    Am,
    Pm,
}

/// A zone whose offset needs the date, and for an abbreviation the abbreviation.
struct LateZone {
    zone: TimeZone,
    abbreviation: Option<String>,
}

struct Decoder<'a> {
    context: &'a Context,
    seen: u32,
    prefix: Option<Prefix>,
    year: i32,
    month: i32,
    day: i32,
    day_of_year: i32,
    hour: i64,
    minute: i64,
    second: i64,
    fraction_us: i64,
    has_text_month: bool,
    is_julian: bool,
    has_short_year: bool,
    is_bc: bool,
    half_day: Option<HalfDay>,
    east_s: i32,
    late_zone: Option<LateZone>,
    special: Option<Decoded>,
}

/// A date, with or without a time.
pub fn decode(fields: &[Field], context: &Context) -> Result<Decoded> {
    let mut decoder = Decoder::new(context);
    for field in fields {
        let found = match field.kind {
            Kind::Date => decoder.date_or_zone(&field.text)?,
            Kind::Time => decoder.time(&field.text, true)?,
            Kind::Signed => decoder.offset(&field.text)?,
            Kind::Number => decoder.number(&field.text)?,
            Kind::Word | Kind::SignedWord => decoder.word(&field.text)?,
        };
        decoder.add(found)?;
    }
    decoder.finish()
}

/// A time of day; a date or a zone may be there but changes nothing. Microseconds since midnight.
pub fn decode_time(fields: &[Field], context: &Context) -> Result<i64> {
    let mut decoder = Decoder::new(context);
    let may_be_date = |i: usize| {
        i == 0
            && fields.len() >= 2
            && (fields[fields.len() - 1].kind == Kind::Date || fields[1].kind == Kind::Time)
    };
    let ends_in_date = fields.len() >= 2 && fields[fields.len() - 1].kind == Kind::Date;
    for (i, field) in fields.iter().enumerate() {
        let text = &field.text;
        let found = match field.kind {
            Kind::Date if may_be_date(i) => decoder.date(text)?,
            Kind::Date if text.starts_with(|c: char| c.is_ascii_digit()) => {
                decoder.time_with_offset(text, true)?
            }
            Kind::Date => decoder.zone_name(text)?,
            Kind::Time => decoder.time(text, false)?,
            Kind::Signed => decoder.offset(text)?,
            Kind::Number => decoder.number_of_time(text, i == 0 && ends_in_date)?,
            Kind::Word | Kind::SignedWord => decoder.word_of_time(text)?,
        };
        decoder.add(found)?;
    }
    decoder.finish_time()
}

impl<'a> Decoder<'a> {
    fn new(context: &'a Context) -> Self {
        Self {
            context,
            seen: 0,
            prefix: None,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: 0,
            hour: 0,
            minute: 0,
            second: 0,
            fraction_us: 0,
            has_text_month: false,
            is_julian: false,
            has_short_year: false,
            is_bc: false,
            half_day: None,
            east_s: 0,
            late_zone: None,
            special: None,
        }
    }

    fn has(&self, all: u32) -> bool {
        self.seen & all == all
    }

    fn add(&mut self, found: u32) -> Result<()> {
        if self.seen & found != 0 {
            return Err(Problem::Format);
        }
        self.seen |= found;
        Ok(())
    }

    fn date_or_zone(&mut self, text: &str) -> Result<u32> {
        if self.prefix == Some(Prefix::Julian) {
            self.prefix = None;
            let (days, rest) = leading_i32(text).ok_or(Problem::FieldOverflow)?;
            self.set_julian(days);
            self.east_s = offset(rest)?;
            return Ok(seen::DATE | seen::TIME | seen::ZONE);
        }
        if self.prefix.is_none() && !self.has(seen::MONTH | seen::DAY) {
            return self.date(text);
        }
        if self.prefix.take().is_some() || text.starts_with(|c: char| c.is_ascii_digit()) {
            if self.has(seen::TIME) {
                return Err(Problem::Format);
            }
            return self.time_with_offset(text, false);
        }
        self.zone_name(text)
    }

    /// `hhmmss-zz`.
    fn time_with_offset(&mut self, text: &str, has_date: bool) -> Result<u32> {
        let dash = text.find('-').ok_or(Problem::Format)?;
        if self.has(seen::TIME) {
            return Err(Problem::Format);
        }
        self.east_s = offset(&text[dash..])?;
        let seen_so_far = if has_date { self.seen | seen::DATE } else { self.seen };
        Ok(self.run_together(&text[..dash], seen_so_far)? | seen::ZONE)
    }

    fn zone_name(&mut self, text: &str) -> Result<u32> {
        let zone = TimeZone::from_name(text).ok_or_else(|| Problem::UnknownZone(text.to_string()))?;
        self.late_zone = Some(LateZone { zone, abbreviation: None });
        Ok(seen::ZONE)
    }

    fn time(&mut self, text: &str, checked: bool) -> Result<u32> {
        if self.prefix.take().is_some_and(|prefix| prefix != Prefix::Time) {
            return Err(Problem::Format);
        }
        (self.hour, self.minute, self.second, self.fraction_us) = clock(text)?;
        if self.hour > i64::from(i32::MAX) {
            return Err(Problem::FieldOverflow);
        }
        if checked {
            self.time_us()?;
        }
        Ok(seen::TIME)
    }

    fn offset(&mut self, text: &str) -> Result<u32> {
        self.east_s = offset(text)?;
        Ok(seen::ZONE)
    }

    fn number(&mut self, text: &str) -> Result<u32> {
        if let Some(prefix) = self.prefix.take() {
            return self.prefixed_number(prefix, text);
        }
        let point = text.find('.');
        if point.is_some() && self.seen & seen::DATE == 0 {
            return self.date(text);
        }
        // More than two digits before a point, or six in all, are several fields at once.
        let is_run = match point {
            Some(at) => at > 2,
            None => false,
        };
        if is_run || (text.len() >= 6 && (self.seen & seen::DATE == 0 || self.seen & seen::TIME == 0)) {
            return self.run_together(text, self.seen);
        }
        self.single_number(text, self.has_text_month, self.seen)
    }

    fn number_of_time(&mut self, text: &str, may_be_date: bool) -> Result<u32> {
        if let Some(prefix) = self.prefix.take() {
            return self.prefixed_number(prefix, text);
        }
        let with_date = self.seen | seen::DATE;
        match text.find('.') {
            Some(_) if may_be_date => self.date(text),
            Some(point) if point > 2 => self.run_together(text, with_date),
            Some(_) => Err(Problem::Format),
            None if text.len() > 4 => self.run_together(text, with_date),
            None => self.single_number(text, false, with_date),
        }
    }

    fn prefixed_number(&mut self, prefix: Prefix, text: &str) -> Result<u32> {
        let (value, rest) = leading_i32(text).ok_or(Problem::FieldOverflow)?;
        match prefix {
            Prefix::Julian => {
                self.set_julian(value);
                if rest.is_empty() {
                    return Ok(seen::DATE);
                }
                let time_us = (fraction(rest)? * DAY_US as f64) as i64;
                (self.hour, self.minute) = (time_us / HOUR_US, time_us / MINUTE_US % 60);
                (self.second, self.fraction_us) = (time_us / SECOND_US % 60, time_us % SECOND_US);
                Ok(seen::DATE | seen::TIME)
            }
            Prefix::Time => match self.run_together(text, self.seen | seen::DATE)? {
                seen::TIME => Ok(seen::TIME),
                _ => Err(Problem::Format),
            },
        }
    }

    fn set_julian(&mut self, julian: i32) {
        let civil = Civil::from_days(i64::from(julian) - i64::from(UNIX_EPOCH_JULIAN));
        self.set_civil(civil);
        self.is_julian = true;
    }

    fn set_civil(&mut self, civil: Civil) {
        (self.year, self.month, self.day) = (civil.year, civil.month as i32, civil.day as i32);
    }

    /// A date with delimiters: a month in letters is unambiguous, so it is looked for first.
    fn date(&mut self, text: &str) -> Result<u32> {
        let parts = date_parts(text)?;
        let before = self.seen;
        let mut has_text_month = false;
        for part in parts.iter().filter(|part| part.starts_with(|c: char| c.is_ascii_alphabetic())) {
            match date_word::find_keyword(part) {
                Some(Word::Filler) => {}
                Some(Word::Month(month)) => {
                    self.add(seen::MONTH)?;
                    self.month = month;
                    has_text_month = true;
                }
                _ => return Err(Problem::Format),
            }
        }
        for part in parts.iter().filter(|part| part.starts_with(|c: char| c.is_ascii_digit())) {
            let found = self.single_number(part, has_text_month, self.seen)?;
            self.add(found)?;
        }
        if self.seen & !(seen::DAY_OF_YEAR | seen::ZONE) != seen::DATE {
            return Err(Problem::Format);
        }
        // The caller adds what is new.
        let found = self.seen & !before;
        self.seen = before;
        Ok(found)
    }

    /// One number, whose meaning depends on what has been seen: month, day and year come in this order, and
    /// three or more digits are a year.
    fn single_number(&mut self, text: &str, has_text_month: bool, so_far: u32) -> Result<u32> {
        let (value, rest) = leading_i32(text).ok_or(Problem::FieldOverflow)?;
        let digits = text.len() - rest.len();
        if digits == 0 {
            return Err(Problem::Format);
        }
        if rest.starts_with('.') {
            if digits > 2 {
                return self.run_together(text, so_far | seen::DATE);
            }
            self.fraction_us = fraction_us(rest)?;
        } else if !rest.is_empty() {
            return Err(Problem::Format);
        }
        let is_long = text.len() >= 3;
        if text.len() == 3 && so_far & seen::DATE == seen::YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(seen::DAY_OF_YEAR | seen::MONTH | seen::DAY);
        }
        const YEAR_MONTH: u32 = seen::YEAR | seen::MONTH;
        const MONTH_DAY: u32 = seen::MONTH | seen::DAY;
        let found = match so_far & seen::DATE {
            0 if is_long => seen::YEAR,
            0 | seen::YEAR | seen::DAY => seen::MONTH,
            seen::MONTH if has_text_month && is_long => seen::YEAR,
            YEAR_MONTH if has_text_month && is_long && self.has_short_year => {
                // `08-Jan-1999`: the first number was the day after all.
                (self.day, self.year) = (self.year, value);
                self.has_short_year = false;
                return Ok(seen::DAY);
            }
            seen::MONTH | YEAR_MONTH => seen::DAY,
            MONTH_DAY => seen::YEAR,
            seen::DATE => return self.run_together(text, so_far),
            _ => return Err(Problem::Format),
        };
        match found {
            seen::YEAR => (self.year, self.has_short_year) = (value, text.len() <= 2),
            seen::MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(found)
    }

    /// `yymmdd`, `yyyymmdd`, `hhmm`, `hhmmss` or `hhmmss.fff`.
    fn run_together(&mut self, text: &str, so_far: u32) -> Result<u32> {
        let digits = match text.split_once('.') {
            Some((digits, _)) => {
                self.fraction_us = fraction_us(&text[digits.len()..])?;
                digits
            }
            None => text,
        };
        let length = digits.len();
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Problem::Format);
        }
        // A year of too many digits is out of range later.
        let number = |from: usize, to: usize| digits[from..to].parse::<i32>().unwrap_or(i32::MAX);
        if length == text.len() && so_far & seen::DATE != seen::DATE && length >= 6 {
            self.day = number(length - 2, length);
            self.month = number(length - 4, length - 2);
            self.year = number(0, length - 4);
            self.has_short_year |= length == 6;
            return Ok(seen::DATE);
        }
        if so_far & seen::TIME != 0 || (length != 6 && length != 4) {
            return Err(Problem::Format);
        }
        (self.hour, self.minute) = (i64::from(number(0, 2)), i64::from(number(2, 4)));
        self.second = if length == 6 { i64::from(number(4, 6)) } else { 0 };
        Ok(seen::TIME)
    }

    fn word(&mut self, text: &str) -> Result<u32> {
        let Some(word) = date_word::find(text) else {
            let zone = TimeZone::from_name(text).ok_or(Problem::Format)?;
            self.late_zone = Some(LateZone { zone, abbreviation: None });
            return Ok(seen::ZONE);
        };
        match word {
            Word::Now => {
                let local = self.now();
                self.set_civil(local.0);
                self.set_time(local.1);
                self.east_s = self.context.zone.offset_at(self.context.now_us);
                Ok(seen::DATE | seen::TIME | seen::ZONE)
            }
            Word::Yesterday => Ok(self.relative_day(-1)),
            Word::Today => Ok(self.relative_day(0)),
            Word::Tomorrow => Ok(self.relative_day(1)),
            Word::Epoch => Ok(self.set_special(Decoded::Epoch)),
            Word::Infinity => Ok(self.set_special(Decoded::Infinity)),
            Word::MinusInfinity => Ok(self.set_special(Decoded::MinusInfinity)),
            Word::Month(month) => Ok(self.text_month(month)),
            Word::Weekday => Ok(seen::WEEKDAY),
            Word::IsoTime if !self.has(seen::DATE) => Err(Problem::Format),
            _ => self.word_of_both(word, text),
        }
    }

    fn word_of_time(&mut self, text: &str) -> Result<u32> {
        match date_word::find(text) {
            None => {
                let zone = TimeZone::from_name(text).ok_or(Problem::Format)?;
                self.late_zone = Some(LateZone { zone, abbreviation: None });
                Ok(seen::ZONE)
            }
            Some(Word::Now) => {
                let (_, time_us) = self.now();
                self.set_time(time_us);
                Ok(seen::TIME)
            }
            Some(word) => self.word_of_both(word, text),
        }
    }

    /// The words that mean the same with and without a date.
    fn word_of_both(&mut self, word: Word, text: &str) -> Result<u32> {
        match word {
            Word::Filler => Ok(0),
            Word::Zulu => {
                self.set_time(0);
                self.east_s = 0;
                Ok(seen::TIME | seen::ZONE)
            }
            Word::SummerTime => {
                self.east_s += 3_600;
                Ok(seen::SUMMER_TIME | seen::SUMMER_ZONE)
            }
            Word::Zone(Meaning::Offset(east_s)) => {
                self.east_s = east_s;
                Ok(seen::ZONE)
            }
            Word::Zone(Meaning::Zone(name)) => {
                let zone = TimeZone::from_name(name).ok_or(Problem::Format)?;
                self.late_zone = Some(LateZone { zone, abbreviation: Some(text.to_string()) });
                Ok(seen::ZONE)
            }
            Word::Am | Word::Pm => {
                self.half_day = Some(if word == Word::Am { HalfDay::Am } else { HalfDay::Pm });
                Ok(seen::AM_PM)
            }
            Word::Ad | Word::Bc => {
                self.is_bc = word == Word::Bc;
                Ok(seen::ERA)
            }
            Word::IsoTime | Word::Julian if self.prefix.is_some() => Err(Problem::Format),
            Word::IsoTime => {
                self.prefix = Some(Prefix::Time);
                Ok(0)
            }
            Word::Julian => {
                self.prefix = Some(Prefix::Julian);
                Ok(0)
            }
            _ => Err(Problem::Format),
        }
    }

    fn now(&self) -> (Civil, i64) {
        Civil::from_timestamp(self.context.zone.to_local(self.context.now_us).unwrap_or(self.context.now_us))
    }

    fn relative_day(&mut self, days: i64) -> u32 {
        let today = self.now().0;
        self.set_civil(Civil::from_days(today.to_days() + days));
        seen::DATE
    }

    fn set_special(&mut self, special: Decoded) -> u32 {
        self.special = Some(special);
        seen::DATE | seen::TIME | seen::ZONE
    }

    /// A number that was taken for the month is the day when the month comes in letters.
    fn text_month(&mut self, month: i32) -> u32 {
        let has_number = self.has(seen::MONTH)
            && !self.has_text_month
            && !self.has(seen::DAY)
            && (1..=31).contains(&self.month);
        let found = if has_number {
            self.day = self.month;
            seen::DAY
        } else {
            seen::MONTH
        };
        self.has_text_month = true;
        self.month = month;
        found
    }

    fn set_time(&mut self, time_us: i64) {
        (self.hour, self.minute) = (time_us / HOUR_US, time_us / MINUTE_US % 60);
        (self.second, self.fraction_us) = (time_us / SECOND_US % 60, time_us % SECOND_US);
    }

    /// 24:00:00 and a second of 60 are fine, what is beyond the day is not.
    fn time_us(&self) -> Result<i64> {
        let time_us =
            self.hour * HOUR_US + self.minute * MINUTE_US + self.second * SECOND_US + self.fraction_us;
        let is_clock = (0..=24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..=60).contains(&self.second)
            && (0..=SECOND_US).contains(&self.fraction_us)
            && time_us <= DAY_US;
        if is_clock { Ok(time_us) } else { Err(Problem::FieldOverflow) }
    }

    fn apply_half_day(&mut self) -> Result<()> {
        match self.half_day {
            Some(_) if self.hour > 12 => return Err(Problem::FieldOverflow),
            Some(HalfDay::Am) if self.hour == 12 => self.hour = 0,
            Some(HalfDay::Pm) if self.hour != 12 => self.hour += 12,
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Decoded> {
        if self.prefix.is_some() {
            return Err(Problem::Format);
        }
        if let Some(special) = self.special {
            return Ok(special);
        }
        let civil = self.validate_date()?;
        self.apply_half_day()?;
        let Some(civil) = civil else { return Err(Problem::Format) };
        let time_us = self.time_us()?;
        if self.has(seen::SUMMER_TIME) && (self.late_zone.is_some() || !self.has(seen::ZONE)) {
            return Err(Problem::Format);
        }
        // Beyond the range of timestamps there is an error later, whatever the offset.
        let local =
            || civil.to_days().checked_mul(DAY_US).and_then(|us| us.checked_add(time_us)).unwrap_or(0);
        let east_s = match &self.late_zone {
            Some(LateZone { zone, abbreviation: Some(name) }) => zone.offset_of_abbreviation(name, local()),
            Some(LateZone { zone, abbreviation: None }) => zone.offset_of_local(local()),
            None if self.has(seen::ZONE) => self.east_s,
            None => self.context.zone.offset_of_local(local()),
        };
        Ok(Decoded::At { civil, time_us, east_s })
    }

    fn finish_time(mut self) -> Result<i64> {
        if self.prefix.is_some() {
            return Err(Problem::Format);
        }
        let civil = self.validate_date()?;
        self.apply_half_day()?;
        let time_us = self.time_us()?;
        let is_half_date = civil.is_none() && self.seen & seen::DATE != 0;
        // A zone whose offset changes is of no use without the day.
        let changing = match &self.late_zone {
            Some(LateZone { zone: TimeZone::Named(zone), abbreviation: None }) => !is_utc(zone.name()),
            _ => false,
        };
        let lacks_zone = self.late_zone.is_some() || !self.has(seen::ZONE);
        if !self.has(seen::TIME)
            || is_half_date
            || (changing && civil.is_none())
            || (self.has(seen::SUMMER_TIME) && lacks_zone)
        {
            return Err(Problem::Format);
        }
        Ok(time_us)
    }

    /// The date, if it is whole.
    fn validate_date(&mut self) -> Result<Option<Civil>> {
        if self.has(seen::YEAR) && !self.is_julian {
            self.adjust_year()?;
        }
        if self.has(seen::DAY_OF_YEAR) {
            let new_year = Civil { year: self.year, month: 1, day: 1 }.to_days();
            self.set_civil(Civil::from_days(new_year + i64::from(self.day_of_year) - 1));
        }
        if (self.has(seen::MONTH) && !(1..=12).contains(&self.month))
            || (self.has(seen::DAY) && !(1..=31).contains(&self.day))
        {
            return Err(Problem::MonthDayOverflow);
        }
        if !self.has(seen::DATE) {
            return Ok(None);
        }
        let civil = Civil { year: self.year, month: self.month as u32, day: self.day as u32 };
        if civil.day > days_in_month(civil.year, civil.month) {
            return Err(Problem::FieldOverflow);
        }
        Ok(Some(civil))
    }

    /// Years of two digits are those from 1970 to 2069; there is no year 0, so 1 BC is the year 0 inside.
    fn adjust_year(&mut self) -> Result<()> {
        match self.year {
            year if self.is_bc && year > 0 => self.year = 1 - year,
            year if self.is_bc || (year <= 0 && !self.has_short_year) => return Err(Problem::FieldOverflow),
            year @ 0..70 if self.has_short_year => self.year = year + 2_000,
            year @ 70..100 if self.has_short_year => self.year = year + 1_900,
            _ => {}
        }
        Ok(())
    }
}

fn is_utc(name: &str) -> bool {
    let name = name.strip_prefix("Etc/").unwrap_or(name);
    matches!(name, "UTC" | "GMT" | "UCT" | "Universal" | "Zulu" | "Greenwich") || name.starts_with("GMT")
}
