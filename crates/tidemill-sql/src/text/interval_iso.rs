//! ISO 8601 intervals: with designators (`P1Y2M3DT4H5M6S`) and the alternative form (`P0001-02-03T04:05:06`,
//! `P00010203T040506`).

use crate::calendar::Field as Unit;

use super::date_decode::Problem;
use super::interval::Parts;

type Result<T, E = Problem> = std::result::Result<T, E>;

pub fn decode(bytes: &[u8]) -> Result<Parts> {
    let (b"P", rest @ [_, ..]) = bytes.split_at_checked(1).ok_or(Problem::Format)? else {
        return Err(Problem::Format);
    };
    let mut reader = Reader { rest, parts: Parts::default(), in_date: true, has_field: false };
    while !reader.rest.is_empty() {
        if let [b'T', rest @ ..] = reader.rest {
            (reader.rest, reader.in_date, reader.has_field) = (rest, false, false);
            continue;
        }
        let is_over = if reader.in_date { reader.date_field()? } else { reader.time_field()? };
        if is_over {
            break;
        }
    }
    Ok(reader.parts)
}

/// A number: its whole part, its fraction, and how many digits the whole part was written with.
struct Number {
    whole: i64,
    fraction: f64,
    width: usize,
}

struct Reader<'a> {
    rest: &'a [u8],
    parts: Parts,
    in_date: bool,
    /// Whether this part has had a field with a designator: then the alternative form cannot follow.
    has_field: bool,
}

impl Reader<'_> {
    /// Whether the interval is over.
    fn date_field(&mut self) -> Result<bool> {
        let number = self.number()?;
        let unit = match self.rest.first() {
            Some(b'Y') => Unit::Year,
            Some(b'M') => Unit::Month,
            Some(b'W') => Unit::Week,
            Some(b'D') => Unit::Day,
            None | Some(b'T' | b'-') => return self.alternative_date(&number),
            Some(_) => return Err(Problem::Format),
        };
        self.rest = &self.rest[1..];
        self.has_field = true;
        self.add(unit, &number)?;
        Ok(false)
    }

    fn time_field(&mut self) -> Result<bool> {
        let number = self.number()?;
        let unit = match self.rest.first() {
            Some(b'H') => Unit::Hour,
            Some(b'M') => Unit::Minute,
            Some(b'S') => Unit::Second,
            None | Some(b':') => return self.alternative_time(&number),
            Some(_) => return Err(Problem::Format),
        };
        self.rest = &self.rest[1..];
        self.has_field = true;
        self.add(unit, &number)?;
        Ok(false)
    }

    /// `yyyymmdd` or `yyyy-mm-dd`; the latter may end early.
    fn alternative_date(&mut self, first: &Number) -> Result<bool> {
        if self.has_field {
            return Err(Problem::Format);
        }
        if first.width == 8 && !self.rest.starts_with(b"-") {
            self.add_whole(Unit::Year, first.whole / 10_000)?;
            self.add_whole(Unit::Month, first.whole / 100 % 100)?;
            self.parts.add(Unit::Day, first.whole % 100, first.fraction).ok_or(Problem::FieldOverflow)?;
            return Ok(self.rest.is_empty());
        }
        self.add(Unit::Year, first)?;
        for unit in [Unit::Month, Unit::Day] {
            match self.rest {
                [] => return Ok(true),
                [b'T', ..] => return Ok(false),
                [b'-', rest @ ..] => self.rest = rest,
                _ => return Err(Problem::Format),
            }
            let number = self.number()?;
            self.add(unit, &number)?;
        }
        match self.rest {
            [] => Ok(true),
            [b'T', ..] => Ok(false),
            _ => Err(Problem::Format),
        }
    }

    /// `hhmmss` or `hh:mm:ss`; the latter may end early.
    fn alternative_time(&mut self, first: &Number) -> Result<bool> {
        if self.has_field {
            return Err(Problem::Format);
        }
        if first.width == 6 && self.rest.is_empty() {
            self.add_whole(Unit::Hour, first.whole / 10_000)?;
            self.add_whole(Unit::Minute, first.whole / 100 % 100)?;
            self.add_whole(Unit::Second, first.whole % 100)?;
            // PostgreSQL counts this fraction in microseconds.
            self.parts.add(Unit::Microseconds, 0, first.fraction).ok_or(Problem::FieldOverflow)?;
            return Ok(true);
        }
        self.add(Unit::Hour, first)?;
        for unit in [Unit::Minute, Unit::Second] {
            match self.rest {
                [] => return Ok(true),
                [b':', rest @ ..] => self.rest = rest,
                _ => return Err(Problem::Format),
            }
            let number = self.number()?;
            self.add(unit, &number)?;
        }
        if self.rest.is_empty() { Ok(true) } else { Err(Problem::Format) }
    }

    fn add(&mut self, unit: Unit, number: &Number) -> Result<()> {
        self.parts.add(unit, number.whole, number.fraction).ok_or(Problem::FieldOverflow)
    }

    fn add_whole(&mut self, unit: Unit, whole: i64) -> Result<()> {
        self.parts.add(unit, whole, 0.0).ok_or(Problem::FieldOverflow)
    }

    /// Whatever C's `strtod` reads, exponents included.
    fn number(&mut self) -> Result<Number> {
        if !matches!(self.rest, [b'0'..=b'9' | b'-' | b'.', ..]) {
            return Err(Problem::Format);
        }
        let (value, used) = fast_float2::parse_partial::<f64, _>(self.rest).map_err(|_| Problem::Format)?;
        // Beyond this the fraction would not be exact: PostgreSQL's limit.
        if value.is_nan() || value.abs() > 1e15 {
            return Err(Problem::FieldOverflow);
        }
        let unsigned = self.rest.strip_prefix(b"-").unwrap_or(self.rest);
        let width = unsigned.iter().take_while(|b| b.is_ascii_digit()).count();
        self.rest = &self.rest[used..];
        Ok(Number { whole: value as i64, fraction: value - value.trunc(), width })
    }
}
