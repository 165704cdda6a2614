//! Inputs and what PostgreSQL 15 makes of them: zone, type, input, and the output or `!SQLSTATE message |
//! hint`.
//!
//! `golden.tsv` is the output of `COPY` from PostgreSQL, so that backslashes are doubled.

use super::*;
use crate::error::Result;

const GOLDEN: &str = include_str!("golden.tsv");

/// Where Tidemill differs on purpose.
const DIFFERENCES: [(&str, &str, &str, &str); 2] = [
    // Microseconds since 1970 end before microseconds since 2000.
    (
        "America/New_York",
        "timestamptz",
        "294247-01-10 04:00:54.775806",
        "!22008 timestamp out of range: \"294247-01-10 04:00:54.775806\"",
    ),
    // Nanoseconds end before microseconds.
    ("UTC", "interval", "2562047788:00:54", "!22008 interval out of range"),
];

#[test]
fn texts_are_read_and_written_as_postgresql_does() {
    let mut failures = Vec::new();
    for line in GOLDEN.lines() {
        let columns: Vec<String> = line.split('\t').map(unescape).collect();
        let [zone, type_name, input, expected] = &columns[..] else { panic!("four columns: {line}") };
        let known = DIFFERENCES.iter().find(|known| (known.0, known.1, known.2) == (zone, type_name, input));
        let expected = known.map_or(expected.as_str(), |known| known.3);
        let got = round_trip(zone, type_name, input);
        if got != expected {
            failures.push(format!("{zone} {type_name} {input:?}: expected {expected:?}, got {got:?}"));
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

fn unescape(column: &str) -> String {
    column.replace("\\\\", "\u{0}").replace("\\v", "\u{b}").replace("\\t", "\t").replace('\u{0}', "\\")
}

fn round_trip(zone: &str, type_name: &str, input: &str) -> String {
    let context = Context { now: 0.into(), zone: TimeZone::parse(zone).unwrap() };
    let mut out = Vec::new();
    match print(type_name, input, &context, &mut out) {
        Ok(()) => String::from_utf8(out).unwrap(),
        Err(error) => {
            let hint = error.hint.as_ref().map_or(String::new(), |hint| format!(" | {hint}"));
            format!("!{} {}{hint}", error.state.0, error.message)
        }
    }
}

fn print(type_name: &str, input: &str, context: &Context, out: &mut Vec<u8>) -> Result<()> {
    let bytes = input.as_bytes();
    match type_name {
        // A cast to text, which prints the names, made the file.
        "boolean" => out.extend_from_slice(parse_bool(bytes)?.to_string().as_bytes()),
        "smallint" => write_i64(parse_i16(bytes)?, out),
        "integer" => write_i64(parse_i32(bytes)?, out),
        "bigint" => write_i64(parse_i64(bytes)?, out),
        "oid" => write_i64(parse_oid(bytes)?, out),
        "real" => write_f32(parse_f32(bytes)?, out),
        "double precision" => write_f64(parse_f64(bytes)?, out),
        "bytea" => {
            let mut value = Vec::new();
            parse_bytea(bytes, &mut value)?;
            write_bytea(&value, out);
        }
        "uuid" => write_uuid(&parse_uuid(bytes)?, out),
        "date" => write_date(parse_date(bytes, context)?, out),
        "time" => write_time(parse_time(bytes, context)?, out),
        "timestamp" => write_timestamp(parse_timestamp(bytes, context)?, out),
        "timestamptz" => write_timestamptz(parse_timestamptz(bytes, context)?, &context.zone, out),
        "interval" => write_interval(parse_interval(bytes)?, out),
        "json" => {
            check_json(input)?;
            out.extend_from_slice(bytes);
        }
        "jsonb" => write_jsonb(input, out)?,
        other => panic!("{other}"),
    }
    Ok(())
}
