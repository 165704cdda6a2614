//! What PostgreSQL 15 answers for date functions: zone, function, two arguments, and the output or `!SQLSTATE
//! message`.

use super::*;
use crate::error::Result;
use crate::text::{
    Context, TimeZone, parse_interval, parse_time, parse_timestamp, parse_timestamptz, write_interval,
    write_timestamp, write_timestamptz,
};

const GOLDEN: &str = include_str!("golden.tsv");

#[test]
fn date_functions_answer_as_postgresql_does() {
    let mut failures = Vec::new();
    for line in GOLDEN.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [zone, function, a, b, expected] = columns[..] else { panic!("five columns: {line}") };
        let context = Context { now: 0.into(), zone: TimeZone::parse(zone).unwrap() };
        let got = match answer(function, a, b, &context) {
            Ok(answer) => answer,
            Err(error) => format!("!{} {}", error.state.0, error.message),
        };
        if got != expected {
            failures.push(format!("{zone} {function} {a:?} {b:?}: expected {expected:?}, got {got:?}"));
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

fn answer(function: &str, a: &str, b: &str, context: &Context) -> Result<String> {
    let zone = &context.zone;
    let timestamp = |text: &str| parse_timestamp(text.as_bytes(), context);
    let timestamptz = |text: &str| parse_timestamptz(text.as_bytes(), context);
    let interval = |text: &str| parse_interval(text.as_bytes());
    match function.split_once(' ') {
        Some(("extract", ty)) => return extract(ty, a, b, context),
        Some(("trunc", ty)) => return truncate(ty, a, b, context),
        _ => {}
    }
    Ok(match function {
        "add timestamp" => show_timestamp(add_interval(timestamp(b)?, interval(a)?, None)?),
        "add timestamptz" => show_timestamptz(add_interval(timestamptz(b)?, interval(a)?, Some(zone))?, zone),
        "age" => show_interval(age(timestamp(a)?, timestamp(b)?)?),
        "subtract" => show_interval(subtract_timestamps(timestamp(a)?, timestamp(b)?)?),
        "justify_hours" => show_interval(justify_hours(interval(a)?)?),
        "justify_days" => show_interval(justify_days(interval(a)?)?),
        "justify_interval" => show_interval(justify_interval(interval(a)?)?),
        "date_bin" => show_timestamp(date_bin(interval(a)?, timestamp(b)?, timestamp("2001-01-01")?)?),
        other => panic!("{other}"),
    })
}

fn extract(ty: &str, name: &str, value: &str, context: &Context) -> Result<String> {
    let long = long_name(ty);
    let field = Field::parse(name).ok_or_else(|| Field::not_recognized(name, long))?;
    let bytes = value.as_bytes();
    let extracted = match ty {
        "timestamp" => extract_timestamp(field, parse_timestamp(bytes, context)?, None),
        "timestamptz" => extract_timestamp(field, parse_timestamptz(bytes, context)?, Some(&context.zone)),
        "date" => extract_date(field, timestamp_to_date(parse_timestamp(bytes, context)?)),
        "time" => extract_time(field, parse_time(bytes, context)?),
        _ => extract_interval(field, parse_interval(bytes)?),
    };
    Ok(show_extracted(extracted.ok_or_else(|| Field::not_supported(name, long))?))
}

fn truncate(ty: &str, name: &str, value: &str, context: &Context) -> Result<String> {
    let long = long_name(ty);
    let field = Field::parse(name).ok_or_else(|| Field::not_recognized(name, long))?;
    let bytes = value.as_bytes();
    let unsupported = || truncate_error(field, name, long);
    Ok(match ty {
        "timestamp" => {
            let truncated = truncate_timestamp(field, parse_timestamp(bytes, context)?);
            show_timestamp(truncated.ok_or_else(unsupported)??)
        }
        "timestamptz" => {
            let truncated = truncate_timestamptz(field, parse_timestamptz(bytes, context)?, &context.zone);
            show_timestamptz(truncated.ok_or_else(unsupported)??, &context.zone)
        }
        _ => show_interval(truncate_interval(field, parse_interval(bytes)?).ok_or_else(unsupported)??),
    })
}

fn long_name(ty: &str) -> &str {
    match ty {
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        "time" => "time without time zone",
        _ => ty,
    }
}

/// As `extract` shows a numeric.
fn show_extracted(value: Extracted) -> String {
    match value {
        Extracted::Decimal { unscaled, scale: 0 } => unscaled.to_string(),
        Extracted::Decimal { unscaled, scale } => {
            let sign = if unscaled < 0 { "-" } else { "" };
            let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = usize::from(scale) + 1);
            let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
            format!("{sign}{whole}.{fraction}")
        }
        Extracted::Julian { day, time_us } => {
            // As numeric divides: to 20 digits, rounded; zero has the 28 of its own scale.
            let unit = 10u128.pow(20);
            let digits = (time_us as u128 * unit * 2 + DAY_US as u128) / (DAY_US as u128 * 2);
            let width = if time_us == 0 { 28 } else { 20 };
            format!("{day}.{digits:0width$}")
        }
        Extracted::Infinity => "Infinity".to_string(),
        Extracted::MinusInfinity => "-Infinity".to_string(),
        Extracted::Null => "NULL".to_string(),
    }
}

fn shown(write: impl Fn(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn show_timestamp(us: i64) -> String {
    shown(|out| write_timestamp(us, out))
}

fn show_timestamptz(us: i64, zone: &TimeZone) -> String {
    shown(|out| write_timestamptz(us, zone, out))
}

fn show_interval(value: arrow::datatypes::IntervalMonthDayNano) -> String {
    shown(|out| write_interval(value, out))
}
