//! `interval`: PostgreSQL's words and units, the standard's `1-2` and `3 4:05:06`, and ISO 8601 (in
//! `interval_iso`).

use arrow::datatypes::IntervalMonthDayNano;

use crate::calendar::{self, DAY_US, DAYS_PER_MONTH, Field as Unit, HOUR_US, MINUTE_US, SECOND_US};
use crate::error::{Result, SqlError, SqlState};

use super::date_decode::Problem;
use super::date_field::{self, Field, Kind};
use super::{date_number, date_output, interval_iso};

/// The size of PostgreSQL's work buffer for intervals.
const BYTES_MAX: usize = 256;

pub fn parse_interval(bytes: &[u8]) -> Result<IntervalMonthDayNano> {
    parse(bytes, Unit::Second)
}

/// `interval '5' minute`: numbers without a unit are in `last_field`, and what is smaller is cut off.
pub fn parse_interval_in(bytes: &[u8], last_field: Unit) -> Result<IntervalMonthDayNano> {
    let value = parse(bytes, last_field)?;
    match last_field {
        Unit::Second => Ok(value),
        _ => calendar::truncate_interval(last_field, value).unwrap_or(Ok(value)),
    }
}

pub fn write_interval(value: IntervalMonthDayNano, out: &mut Vec<u8>) {
    let start = out.len();
    // A positive part after a negative one gets a plus.
    let mut after_negative = false;
    let parts = [(value.months / 12, "year"), (value.months % 12, "mon"), (value.days, "day")];
    for (number, unit) in parts.into_iter().filter(|(number, _)| *number != 0) {
        if out.len() > start {
            out.push(b' ');
        }
        if after_negative && number > 0 {
            out.push(b'+');
        }
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if number != 1 {
            out.push(b's');
        }
        after_negative = number < 0;
    }
    let us = value.nanoseconds / 1_000;
    if us == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(b' ');
    }
    if us < 0 {
        out.push(b'-');
    } else if after_negative {
        out.push(b'+');
    }
    date_output::write_clock(us.unsigned_abs(), out);
}

fn parse(bytes: &[u8], last_field: Unit) -> Result<IntervalMonthDayNano> {
    let classic = date_field::split(bytes, BYTES_MAX, super::date_word::is_keyword)
        .ok_or(Problem::Format)
        .and_then(|fields| decode(&fields, last_field));
    let parts = match classic {
        Err(Problem::Format) => interval_iso::decode(bytes),
        classic => classic,
    };
    let text = || String::from_utf8_lossy(bytes);
    match parts {
        Ok(parts) => parts.build().ok_or_else(calendar::interval_out_of_range),
        Err(Problem::Format) => Err(SqlError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type interval: \"{}\"", text()),
        )),
        Err(_) => Err(SqlError::new(
            SqlState::INTERVAL_FIELD_OVERFLOW,
            format!("interval field value out of range: \"{}\"", text()),
        )),
    }
}

/// The parts of an interval while it is read. Each method is `None` on overflow.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Parts {
    years: i32,
    months: i32,
    days: i32,
    us: i64,
}

impl Parts {
    /// Fractions of a unit go to smaller units, as PostgreSQL spreads them: of years to whole months, of
    /// months and weeks to days and the rest, of days and less to microseconds.
    pub(super) fn add(&mut self, unit: Unit, whole: i64, fraction: f64) -> Option<()> {
        match unit {
            Unit::Microseconds => self.add_us(whole, fraction, 1),
            Unit::Milliseconds => self.add_us(whole, fraction, 1_000),
            Unit::Second => self.add_us(whole, fraction, SECOND_US),
            Unit::Minute => self.add_us(whole, fraction, MINUTE_US),
            Unit::Hour => self.add_us(whole, fraction, HOUR_US),
            Unit::Day => {
                self.add_days(whole, 1)?;
                self.add_fraction_us(fraction, DAY_US)
            }
            Unit::Week => {
                self.add_days(whole, 7)?;
                self.add_fraction_days(fraction, 7)
            }
            Unit::Month => {
                self.months = self.months.checked_add(i32::try_from(whole).ok()?)?;
                self.add_fraction_days(fraction, DAYS_PER_MONTH)
            }
            Unit::Year => self.add_years(whole, fraction, 1),
            Unit::Decade => self.add_years(whole, fraction, 10),
            Unit::Century => self.add_years(whole, fraction, 100),
            Unit::Millennium => self.add_years(whole, fraction, 1_000),
            _ => None,
        }
    }

    fn add_us(&mut self, whole: i64, fraction: f64, scale: i64) -> Option<()> {
        self.us = self.us.checked_add(whole.checked_mul(scale)?)?;
        self.add_fraction_us(fraction, scale)
    }

    fn add_fraction_us(&mut self, fraction: f64, scale: i64) -> Option<()> {
        let scaled = fraction * scale as f64;
        let mut us = scaled as i64;
        let rest = scaled - us as f64;
        if rest > 0.5 {
            us += 1;
        } else if rest < -0.5 {
            us -= 1;
        }
        self.us = self.us.checked_add(us)?;
        Some(())
    }

    fn add_days(&mut self, whole: i64, scale: i32) -> Option<()> {
        let days = i32::try_from(whole).ok()?.checked_mul(scale)?;
        self.days = self.days.checked_add(days)?;
        Some(())
    }

    fn add_fraction_days(&mut self, fraction: f64, scale: i32) -> Option<()> {
        let scaled = fraction * f64::from(scale);
        let days = scaled as i32;
        self.days = self.days.checked_add(days)?;
        self.add_fraction_us(scaled - f64::from(days), DAY_US)
    }

    fn add_years(&mut self, whole: i64, fraction: f64, scale: i32) -> Option<()> {
        let years = i32::try_from(whole).ok()?.checked_mul(scale)?;
        self.years = self.years.checked_add(years)?;
        let months = (fraction * f64::from(scale) * 12.0).round_ties_even() as i32;
        self.months = self.months.checked_add(months)?;
        Some(())
    }

    /// A time of day replaces what smaller units have given so far.
    fn set_time(&mut self, (hour, minute, second, fraction_us): (i64, i64, i64, i64)) -> Option<()> {
        let below_hour = minute * MINUTE_US + second * SECOND_US + fraction_us;
        self.us = hour.checked_mul(HOUR_US)?.checked_add(below_hour)?;
        Some(())
    }

    fn negate(&mut self) -> Option<()> {
        let Self { years, months, days, us } = *self;
        *self = Self {
            years: years.checked_neg()?,
            months: months.checked_neg()?,
            days: days.checked_neg()?,
            us: us.checked_neg()?,
        };
        Some(())
    }

    fn build(self) -> Option<IntervalMonthDayNano> {
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        let nanoseconds = self.us.checked_mul(1_000)?;
        Some(IntervalMonthDayNano::new(i32::try_from(months).ok()?, self.days, nanoseconds))
    }
}

/// Sets of units, so that none comes twice.
fn seen(unit: Unit) -> u32 {
    1 << unit as u32
}

/// What a time of day stands for.
fn seen_time() -> u32 {
    seen(Unit::Hour) | seen(Unit::Minute) | seen_seconds()
}

fn seen_seconds() -> u32 {
    seen(Unit::Second) | seen(Unit::Milliseconds) | seen(Unit::Microseconds)
}

/// Fields are read from the right, so that a unit comes before its number.
fn decode(fields: &[Field], last_field: Unit) -> Result<Parts, Problem> {
    let mut parts = Parts::default();
    let mut all_seen = 0;
    // What a number without a unit counts; `None` after `ago`, where there must be one.
    let mut unit = Some(last_field);
    let mut is_ago = false;
    for field in fields.iter().rev() {
        let text = &field.text;
        let new = match field.kind {
            Kind::Time => {
                parts.set_time(date_number::clock(text)?).ok_or(Problem::FieldOverflow)?;
                unit = Some(Unit::Day);
                seen_time()
            }
            Kind::Signed if text.contains(':') && add_signed_time(text, &mut parts)? => {
                unit = Some(Unit::Day);
                seen_time()
            }
            Kind::Signed | Kind::Date | Kind::Number => {
                let (used, new) = add_number(text, unit.ok_or(Problem::Format)?, &mut parts)?;
                unit = Some(if used == Unit::Hour { Unit::Day } else { used });
                new
            }
            Kind::Word | Kind::SignedWord if text == "ago" => {
                (is_ago, unit) = (true, None);
                0
            }
            Kind::Word | Kind::SignedWord => {
                unit = Some(find_unit(text).ok_or(Problem::Format)?);
                0
            }
        };
        if all_seen & new != 0 {
            return Err(Problem::Format);
        }
        all_seen |= new;
    }
    if all_seen == 0 {
        return Err(Problem::Format);
    }
    if is_ago {
        parts.negate().ok_or(Problem::FieldOverflow)?;
    }
    Ok(parts)
}

/// Whether it was a time.
fn add_signed_time(text: &str, parts: &mut Parts) -> Result<bool, Problem> {
    let Ok(clock) = date_number::clock(&text[1..]) else { return Ok(false) };
    if parts.set_time(clock).is_none() {
        return Ok(false);
    }
    if text.starts_with('-') {
        parts.us = parts.us.checked_neg().ok_or(Problem::FieldOverflow)?;
    }
    Ok(true)
}

/// `5`, `-5.25`, or years and months `1-2`. Returns the unit that it was in and what has been seen by it.
fn add_number(text: &str, unit: Unit, parts: &mut Parts) -> Result<(Unit, u32), Problem> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (whole, rest) = date_number::leading_i64(unsigned).ok_or(Problem::FieldOverflow)?;
    let (unit, whole, fraction) = match rest.as_bytes().first() {
        Some(b'.') | None if unit == Unit::Quarter => return Err(Problem::Format),
        None => (unit, whole, 0.0),
        Some(b'.') => (unit, whole, date_number::fraction(rest)?),
        Some(b'-') => {
            let (months, after) = date_number::leading_i64(&rest[1..]).ok_or(Problem::FieldOverflow)?;
            if months >= 12 {
                return Err(Problem::FieldOverflow);
            }
            if !after.is_empty() {
                return Err(Problem::Format);
            }
            let total = whole.checked_mul(12).and_then(|whole| whole.checked_add(months));
            (Unit::Month, total.ok_or(Problem::FieldOverflow)?, 0.0)
        }
        Some(_) => return Err(Problem::Format),
    };
    parts.add(unit, sign * whole, f64::from(sign as i32) * fraction).ok_or(Problem::FieldOverflow)?;
    let new = if unit == Unit::Second && fraction != 0.0 { seen_seconds() } else { seen(unit) };
    Ok((unit, new))
}

/// A quarter is a word that may be there, but nothing can be counted in it.
fn find_unit(text: &str) -> Option<Unit> {
    use Unit::*;
    Unit::parse(text).filter(|unit| {
        text != "mm"
            && matches!(
                unit,
                Microseconds
                    | Milliseconds
                    | Second
                    | Minute
                    | Hour
                    | Day
                    | Week
                    | Month
                    | Quarter
                    | Year
                    | Decade
                    | Century
                    | Millennium
            )
    })
}
