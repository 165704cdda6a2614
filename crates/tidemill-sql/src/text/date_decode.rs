//! Gives the fields of a date and time their meaning, in the order and with the guesses of PostgreSQL's
//! `DecodeDateTime`.

mod finish;
mod number;
mod word;

use crate::calendar::Civil;

use super::date_field::{Field, Kind};
use super::date_number::{clock, leading_i32, offset};
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
}
