//! What all fields say together, once the last of them is known.

use super::{Decoded, Decoder, HalfDay, LateZone, Problem, Result, seen};
use crate::calendar::{Civil, DAY_US, HOUR_US, MINUTE_US, SECOND_US, days_in_month};
use crate::text::TimeZone;

impl Decoder<'_> {
    pub(super) fn set_time(&mut self, time_us: i64) {
        (self.hour, self.minute) = (time_us / HOUR_US, time_us / MINUTE_US % 60);
        (self.second, self.fraction_us) = (time_us / SECOND_US % 60, time_us % SECOND_US);
    }

    /// 24:00:00 and a second of 60 are fine, what is beyond the day is not.
    pub(super) fn time_us(&self) -> Result<i64> {
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

    pub(super) fn finish(mut self) -> Result<Decoded> {
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

    pub(super) fn finish_time(mut self) -> Result<i64> {
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
