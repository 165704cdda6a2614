//! The numbers in dates and times: clocks, offsets, fractions, and the parts of a date with delimiters.

use super::date_decode::Problem;

type Result<T, E = Problem> = std::result::Result<T, E>;

/// The runs of digits and of letters. One character after each is skipped whatever it is, and then all
/// others.
pub fn date_parts(text: &str) -> Result<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_digit = rest.starts_with(|c: char| c.is_ascii_digit());
        let same = |c: char| if is_digit { c.is_ascii_digit() } else { c.is_ascii_alphabetic() };
        let end = rest.find(|c: char| !same(c)).unwrap_or(rest.len());
        if end == 0 {
            return Err(Problem::Format);
        }
        parts.push(&rest[..end]);
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    Ok(parts)
}

/// `hh:mm`, `hh:mm:ss`, `hh:mm:ss.fff`, and `mm:ss.fff`. Missing digits are zero.
pub fn clock(text: &str) -> Result<(i64, i64, i64, i64)> {
    let (hour, rest) = leading_i64(text).ok_or(Problem::FieldOverflow)?;
    let rest = rest.strip_prefix(':').ok_or(Problem::Format)?;
    let (minute, rest) = leading_i32(rest).ok_or(Problem::FieldOverflow)?;
    let minute = i64::from(minute);
    let clock = match rest.as_bytes().first() {
        None => (hour, minute, 0, 0),
        Some(b'.') => (0, hour, minute, fraction_us(rest)?),
        Some(b':') => {
            let (second, rest) = leading_i32(&rest[1..]).ok_or(Problem::FieldOverflow)?;
            let fraction_us = match rest.as_bytes().first() {
                None => 0,
                Some(b'.') => fraction_us(rest)?,
                Some(_) => return Err(Problem::Format),
            };
            (hour, minute, i64::from(second), fraction_us)
        }
        Some(_) => return Err(Problem::Format),
    };
    if clock.0 < 0 || !(0..60).contains(&clock.1) || !(0..=60).contains(&clock.2) {
        return Err(Problem::FieldOverflow);
    }
    Ok(clock)
}

/// `+hh`, `-hhmm`, `+hh:mm` or `+hh:mm:ss`. Seconds east.
pub fn offset(text: &str) -> Result<i32> {
    let unsigned = text.strip_prefix(['+', '-']).ok_or(Problem::Format)?;
    let number = |text| leading_i32(text).ok_or(Problem::ZoneOverflow);
    let (mut hour, mut rest) = number(unsigned)?;
    let (mut minute, mut second) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        (minute, rest) = number(after)?;
        if let Some(after) = rest.strip_prefix(':') {
            (second, rest) = number(after)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hour, minute) = (hour / 100, hour % 100);
    }
    // PostgreSQL's `MAX_TZDISP_HOUR`.
    if !(0..=15).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
        return Err(Problem::ZoneOverflow);
    }
    if !rest.is_empty() {
        return Err(Problem::Format);
    }
    let seconds = hour * 3_600 + minute * 60 + second;
    Ok(if text.starts_with('-') { -seconds } else { seconds })
}

/// `.25`, or just a point.
pub fn fraction(text: &str) -> Result<f64> {
    match text {
        "." => Ok(0.0),
        _ if text[1..].bytes().all(|b| b.is_ascii_digit()) => text.parse().map_err(|_| Problem::Format),
        _ => Err(Problem::Format),
    }
}

/// Halves to even, as C's `rint` does.
pub fn fraction_us(text: &str) -> Result<i64> {
    Ok((fraction(text)? * 1_000_000.0).round_ties_even() as i64)
}

/// The digits at the start, which may be none, and what follows. `None` is out of range.
pub fn leading_i64(text: &str) -> Option<(i64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let value = if end == 0 { 0 } else { text[..end].parse().ok()? };
    Some((value, &text[end..]))
}

pub fn leading_i32(text: &str) -> Option<(i32, &str)> {
    let (value, rest) = leading_i64(text)?;
    Some((i32::try_from(value).ok()?, rest))
}
