//! No input may make a parser panic, and what a parser takes must survive being written and read again.

use super::*;
use crate::calendar;

/// Pieces that the parsers know, so that inputs get past the first check.
const PIECES: [&str; 96] = [
    "1",
    "12",
    "123",
    "1999",
    "2024",
    "19990108",
    "040506",
    "99999999999",
    "00",
    "0",
    "-",
    "+",
    ":",
    ".",
    "/",
    " ",
    "T",
    "Z",
    "J",
    "e",
    "E",
    "e400",
    "jan",
    "January",
    "feb",
    "bc",
    "ad",
    "am",
    "pm",
    "now",
    "today",
    "tomorrow",
    "epoch",
    "infinity",
    "NaN",
    "inf",
    "UTC",
    "EST",
    "MSK",
    "Europe/Paris",
    "America/New_York",
    "GMT+3",
    "dst",
    "P",
    "Y",
    "M",
    "D",
    "W",
    "H",
    "S",
    "PT",
    "day",
    "days",
    "mon",
    "month",
    "year",
    "hour",
    "min",
    "sec",
    "ms",
    "us",
    "week",
    "decade",
    "century",
    "ago",
    "@",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\x",
    "\\u00",
    "\\ud800",
    "\\n",
    ",",
    "null",
    "true",
    "false",
    "t",
    "yes",
    "on",
    "a0eebc99",
    "9c0b",
    "<",
    ">",
    "=",
    "-08",
    "+05:30",
    "ä",
    "\u{0}",
    "\t",
    "2147483647",
    "9223372036854775807",
    ".000001",
];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit) as usize
    }

    fn input(&mut self) -> Vec<u8> {
        let mut input = Vec::new();
        for _ in 0..self.below(12) {
            input.extend_from_slice(PIECES[self.below(PIECES.len() as u64)].as_bytes());
        }
        for _ in 0..self.below(3) {
            let at = self.below(input.len() as u64 + 1);
            input.insert(at, self.below(256) as u8);
        }
        input
    }
}

/// Reads, writes, reads again and compares.
fn check<T: PartialEq + std::fmt::Debug>(
    input: &[u8],
    parse: impl Fn(&[u8]) -> crate::error::Result<T>,
    write: impl Fn(&T, &mut Vec<u8>),
) {
    if let Ok(value) = parse(input) {
        let mut written = Vec::new();
        write(&value, &mut written);
        let shown = (String::from_utf8_lossy(input), String::from_utf8_lossy(&written));
        assert_eq!(parse(&written).as_ref(), Ok(&value), "{shown:?}");
    }
}

#[test]
fn no_input_panics_and_every_value_survives_its_text() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let mut random = Random(seed);
    let zones =
        ["UTC", "Europe/Paris", "America/New_York", "-03:30"].map(|zone| TimeZone::parse(zone).unwrap());
    for round in 0..20_000 {
        let input = random.input();
        let now_us = 1_700_000_000_123_456 + round;
        let context = Context { now: now_us.into(), zone: zones[random.below(4)].clone() };
        check_scalars(&input);
        check_times(&input, &context);
        let text = String::from_utf8_lossy(&input);
        check_texts(&text);
    }
}

fn check_scalars(input: &[u8]) {
    check(input, parse_bool, |value, out| write_bool(*value, out));
    check(input, parse_i16, |value, out| write_i64(*value, out));
    check(input, parse_i32, |value, out| write_i64(*value, out));
    check(input, parse_i64, |value, out| write_i64(*value, out));
    check(input, parse_oid, |value, out| write_i64(*value, out));
    check(
        input,
        |bytes| parse_f32(bytes).map(f32::to_bits),
        |bits, out| write_f32(f32::from_bits(*bits), out),
    );
    check(
        input,
        |bytes| parse_f64(bytes).map(f64::to_bits),
        |bits, out| write_f64(f64::from_bits(*bits), out),
    );
    check(input, parse_uuid, |value, out| write_uuid(value, out));
    let parse_bytes = |bytes: &[u8]| {
        let mut value = Vec::new();
        parse_bytea(bytes, &mut value).map(|()| value)
    };
    check(input, parse_bytes, |value, out| write_bytea(value, out));
}

fn check_times(input: &[u8], context: &Context) {
    check(input, |bytes| parse_date(bytes, context), |value, out| write_date(*value, out));
    check(input, |bytes| parse_time(bytes, context), |value, out| write_time(*value, out));
    check(input, |bytes| parse_timestamp(bytes, context), |value, out| write_timestamp(*value, out));
    let write_zoned = |value: &i64, out: &mut Vec<u8>| write_timestamptz(*value, &context.zone, out);
    check(input, |bytes| parse_timestamptz(bytes, context), write_zoned);
    check(input, parse_interval, |value, out| write_interval(*value, out));
    let (Ok(us), Ok(interval)) =
        (parse_timestamp(input, context), parse_interval(b"1 mon -40 days 30:00:00"))
    else {
        return;
    };
    for field in calendar::Field::ALL {
        calendar::extract_timestamp(field, us, Some(&context.zone));
        calendar::extract_date(field, calendar::timestamp_to_date(us));
        let _ = calendar::truncate_timestamp(field, us);
        let _ = calendar::truncate_timestamptz(field, us, &context.zone);
    }
    let _ = calendar::add_interval(us, interval, Some(&context.zone));
    let _ = calendar::age(us, context.now.us());
    let _ = calendar::date_bin(interval, us, context.now.us());
    for precision in 0..7 {
        let _ = modifier::round_timestamp(us, precision);
    }
}

fn check_texts(text: &str) {
    let _ = TimeZone::parse(text);
    let _ = TimeZone::named(text);
    let _ = check_json(text);
    for last_field in calendar::Field::ALL {
        let _ = parse_interval_in(text.as_bytes(), last_field);
    }
    let normal = |text: &str| {
        let mut out = Vec::new();
        write_jsonb(text, &mut out).map(|()| String::from_utf8(out).unwrap())
    };
    if let Ok(first) = normal(text) {
        assert_eq!(normal(&first).as_deref(), Ok(first.as_str()), "{text:?}");
        assert_eq!(check_json(text), Ok(()), "{text:?}");
    }
    if let Ok(elements) = array::parse_array(text) {
        let mut out = Vec::new();
        array::write_array(elements.iter().map(|element| element.as_deref()), &mut out);
        assert_eq!(array::parse_array(std::str::from_utf8(&out).unwrap()), Ok(elements), "{text:?}");
    }
}
