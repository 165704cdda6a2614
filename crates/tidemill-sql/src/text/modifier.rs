//! What type modifiers do to values: `varchar(n)`, `char(n)`, `timestamp(p)`, `time(p)` and `interval(p)`.

use arrow::datatypes::IntervalMonthDayNano;

use crate::error::{Result, SqlError, SqlState};

/// Microseconds in one unit of the last digit kept, by the number of digits after the point.
const UNITS: [i64; 7] = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// `varchar(n)` on assignment: only spaces may be beyond the limit, and they are cut off.
pub fn fit_varchar(value: &str, chars_max: usize) -> Result<&str> {
    fit(value, chars_max, "character varying")
}

/// `char(n)` on assignment: like `varchar(n)`, and filled up with spaces.
pub fn fit_char(value: &str, chars_max: usize) -> Result<String> {
    fit(value, chars_max, "character").map(|fitted| pad_char(fitted, chars_max))
}

/// An explicit cast to `varchar(n)` cuts without a word.
pub fn truncate_chars(value: &str, chars_max: usize) -> &str {
    match value.char_indices().nth(chars_max) {
        Some((end, _)) => &value[..end],
        None => value,
    }
}

/// Fills up to `char(n)`.
pub fn pad_char(value: &str, chars: usize) -> String {
    // Not `format!`'s width, which panics above 65,535.
    let missing = chars.saturating_sub(value.chars().count());
    let mut padded = String::with_capacity(value.len() + missing);
    padded.push_str(value);
    padded.extend(std::iter::repeat_n(' ', missing));
    padded
}

/// `timestamp(p)` and `timestamptz(p)`: halves go away from zero, and zero is the year 2000 as in PostgreSQL.
/// `precision` is 0 to 6.
pub fn round_timestamp(us: i64, precision: usize) -> Result<i64> {
    if us == i64::MAX || us == i64::MIN {
        return Ok(us);
    }
    let epoch = crate::calendar::POSTGRES_EPOCH_US;
    us.checked_sub(epoch)
        .and_then(|since| round(since, precision))
        .and_then(|since| since.checked_add(epoch))
        .ok_or_else(crate::calendar::timestamp_out_of_range)
}

/// `time(p)`; 23:59:59.9 becomes 24:00:00.
pub fn round_time(us: i64, precision: usize) -> i64 {
    round(us, precision).unwrap_or(us)
}

/// `interval(p)`: the time part is rounded, months and days stay.
pub fn round_interval(value: IntervalMonthDayNano, precision: usize) -> Result<IntervalMonthDayNano> {
    let nanoseconds = round(value.nanoseconds / 1_000, precision)
        .and_then(|us| us.checked_mul(1_000))
        .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range"))?;
    Ok(IntervalMonthDayNano { nanoseconds, ..value })
}

fn round(us: i64, precision: usize) -> Option<i64> {
    let unit = UNITS[precision.min(6)];
    let half = if us < 0 { -(unit / 2) } else { unit / 2 };
    us.checked_add(half).map(|us| us - us % unit)
}

fn fit<'a>(value: &'a str, chars_max: usize, type_name: &str) -> Result<&'a str> {
    if value.len() <= chars_max {
        return Ok(value);
    }
    let fitted = truncate_chars(value, chars_max);
    if value[fitted.len()..].bytes().all(|byte| byte == b' ') {
        return Ok(fitted);
    }
    let message = format!("value too long for type {type_name}({chars_max})");
    Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_are_padded() {
        assert_eq!(pad_char("é", 70_000).chars().count(), 70_000);
        assert_eq!(pad_char("abc", 2), "abc");
    }

    #[test]
    fn only_spaces_may_be_cut() {
        assert_eq!(fit_varchar("abc   ", 3), Ok("abc"));
        assert_eq!(fit_varchar("äöü", 3), Ok("äöü"));
        let error = fit_varchar("abcd", 3).unwrap_err();
        assert_eq!(
            (error.state.0, &*error.message),
            ("22001", "value too long for type character varying(3)")
        );
        assert_eq!(truncate_chars("äöüß", 3), "äöü");
        assert_eq!(fit_char("ab", 4), Ok("ab  ".to_string()));
        assert_eq!(fit_char("äöü  ", 4), Ok("äöü ".to_string()));
        assert_eq!(fit_char("abcde", 4).unwrap_err().message, "value too long for type character(4)");
    }

    #[test]
    fn halves_are_rounded_away_from_the_year_2000() {
        let epoch = crate::calendar::POSTGRES_EPOCH_US;
        assert_eq!(round_timestamp(epoch + 1_500_000, 0), Ok(epoch + 2_000_000));
        assert_eq!(round_timestamp(epoch - 1_500_000, 0), Ok(epoch - 2_000_000));
        assert_eq!(round_timestamp(epoch + 1_234_567, 3), Ok(epoch + 1_235_000));
        assert_eq!(round_timestamp(i64::MAX, 0), Ok(i64::MAX));
        assert_eq!(round_time(86_399_999_999, 3), 86_400_000_000);
        let interval = IntervalMonthDayNano::new(1, 2, -1_500_000_000);
        assert_eq!(round_interval(interval, 0), Ok(IntervalMonthDayNano::new(1, 2, -2_000_000_000)));
    }
}
