//! Figures as people write and read them: durations, counts.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::run::RATE_MAX;

const UNITS: [(&str, f64); 6] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0)];

/// `500ms`, `1.5s`, `2m`, `1h`; a number alone is seconds, as for pgbench's `-T`.
pub fn duration(text: &str) -> Result<Duration> {
    parsed(text, Some(1.0))
}

/// The same, but a number alone is milliseconds, as for pgbench's `-L`.
pub fn duration_or_ms(text: &str) -> Result<Duration> {
    parsed(text, Some(1e-3))
}

/// The same, where a number alone could be meant either way.
pub fn duration_with_unit(text: &str) -> Result<Duration> {
    parsed(text, None)
}

/// `alone`: the unit of a number alone, s.
fn parsed(text: &str, alone: Option<f64>) -> Result<Duration> {
    let at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..at].trim(), text[at..].trim());
    let seconds = match unit {
        "" => alone,
        "m" => Some(60.0),
        "h" => Some(3600.0),
        unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| *seconds),
    };
    let number: Option<f64> = number.parse().ok().filter(|n| *n >= 0.0 && *n < 1e9);
    match (number, seconds) {
        (Some(number), Some(seconds)) => Ok(Duration::from_secs_f64(number * seconds)),
        (Some(_), None) if unit.is_empty() => {
            Err(Error::usage(format!("\"{text}\" has no unit: say {text}ms or {text}s")))
        }
        _ => Err(Error::usage(format!("\"{text}\" is no duration (for example 250us, 500ms, 60s, 5m, 1h)"))),
    }
}

/// Operations a second of all clients together: `100`, `0.5`, or `1/client`.
pub fn rate(text: &str, clients: usize) -> Result<f64> {
    let (number, each) = match text.strip_suffix("/client") {
        Some(number) => (number, clients as f64),
        None => (text, 1.0),
    };
    let rate =
        number.parse::<f64>().ok().filter(|rate| *rate > 0.0 && rate.is_finite()).map(|rate| rate * each);
    let rate = rate
        .ok_or_else(|| Error::usage(format!("\"{text}\" is no rate (for example 100, 0.5 or 1/client)")))?;
    match rate > RATE_MAX {
        true => Err(Error::usage(format!("the rate \"{text}\" is above {RATE_MAX} a second"))),
        false => Ok(rate),
    }
}

/// Nanoseconds in milliseconds, with three significant digits at least; `-` for what is no number.
pub fn ms(nanoseconds: f64) -> String {
    let ms = nanoseconds / 1e6;
    match ms {
        ms if ms.is_nan() => "-".to_owned(),
        ms if ms >= 100.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}

pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// The known name that was probably meant, if one is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().map(|word| (distance(name, word), word)).min()?;
    (near.0 <= 1 + name.chars().count() / 3).then_some(near.1)
}

/// Levenshtein's.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let change = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in
            [("500ms", 500.0), ("1.5s", 1500.0), ("2m", 120_000.0), ("3", 3000.0), ("250us", 0.25)]
        {
            assert_eq!(duration(text).unwrap().as_secs_f64() * 1e3, ms, "{text}");
        }
        assert_eq!(duration_or_ms("100").unwrap(), Duration::from_millis(100));
        assert_eq!(duration_or_ms("0.5s").unwrap(), Duration::from_millis(500));
        let error = duration_with_unit("5").unwrap_err().to_string();
        assert_eq!(error, "\"5\" has no unit: say 5ms or 5s");
        assert_eq!(duration_with_unit("5us").unwrap(), Duration::from_micros(5));
        for text in ["", "x", "-1s", "5 parsecs", "1e99s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_near_name_is_suggested() {
        assert_eq!(nearest("summery", ["summary", "name"]), Some("summary"));
        assert_eq!(nearest("zzz", ["summary", "name"]), None);
    }
}
