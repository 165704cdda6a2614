//! What a number means, which depends on what has been seen before it.

use super::{Decoder, Prefix, Problem, Result, seen};
use crate::calendar::{Civil, DAY_US, HOUR_US, MINUTE_US, SECOND_US, UNIX_EPOCH_JULIAN};
use crate::text::date_number::{date_parts, fraction, fraction_us, leading_i32};
use crate::text::date_word::{self, Word};

impl Decoder<'_> {
    pub(super) fn number(&mut self, text: &str) -> Result<u32> {
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

    pub(super) fn number_of_time(&mut self, text: &str, may_be_date: bool) -> Result<u32> {
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

    pub(super) fn set_julian(&mut self, julian: i32) {
        let civil = Civil::from_days(i64::from(julian) - i64::from(UNIX_EPOCH_JULIAN));
        self.set_civil(civil);
        self.is_julian = true;
    }

    pub(super) fn set_civil(&mut self, civil: Civil) {
        (self.year, self.month, self.day) = (civil.year, civil.month as i32, civil.day as i32);
    }

    /// A date with delimiters: a month in letters is unambiguous, so it is looked for first.
    pub(super) fn date(&mut self, text: &str) -> Result<u32> {
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
    pub(super) fn run_together(&mut self, text: &str, so_far: u32) -> Result<u32> {
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
}
