//! What a word means.

use super::{Decoded, Decoder, HalfDay, LateZone, Prefix, Problem, Result, seen};
use crate::calendar::Civil;
use crate::text::TimeZone;
use crate::text::abbreviation::Meaning;
use crate::text::date_word::{self, Word};

impl Decoder<'_> {
    pub(super) fn word(&mut self, text: &str) -> Result<u32> {
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
                self.east_s = self.context.zone.offset_at(self.context.now.us());
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

    pub(super) fn word_of_time(&mut self, text: &str) -> Result<u32> {
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
        let now_us = self.context.now.us();
        Civil::from_timestamp(self.context.zone.to_local(now_us).unwrap_or(now_us))
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
}
