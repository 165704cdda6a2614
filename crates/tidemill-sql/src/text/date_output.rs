//! Output of `date`, `time`, `timestamp` and `timestamptz` in ISO style.

use crate::calendar::{self, Civil, HOUR_US, MINUTE_US, SECOND_US};

use super::TimeZone;

/// `00` to `99`, so that two digits are one copy.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut i = 0;
    while i < 100 {
        pairs[2 * i] = b'0' + (i / 10) as u8;
        pairs[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    pairs
};

pub fn write_date(days: i32, out: &mut Vec<u8>) {
    match days {
        calendar::DATE_INFINITY => out.extend_from_slice(b"infinity"),
        calendar::DATE_MINUS_INFINITY => out.extend_from_slice(b"-infinity"),
        _ => {
            let civil = Civil::from_days(i64::from(days));
            write_civil(civil, out);
            write_era(civil, out);
        }
    }
}

/// Values outside of a day, which no parser makes, are shown with the hours they have.
pub fn write_time(us: i64, out: &mut Vec<u8>) {
    if us < 0 {
        out.push(b'-');
    }
    write_clock(us.unsigned_abs(), out);
}

pub fn write_timestamp(us: i64, out: &mut Vec<u8>) {
    write_at(us, None, out);
}

pub fn write_timestamptz(us: i64, zone: &TimeZone, out: &mut Vec<u8>) {
    write_at(us, Some(zone), out);
}

fn write_at(us: i64, zone: Option<&TimeZone>, out: &mut Vec<u8>) {
    match us {
        calendar::TIMESTAMP_INFINITY => return out.extend_from_slice(b"infinity"),
        calendar::TIMESTAMP_MINUS_INFINITY => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let east_s = zone.map_or(0, |zone| zone.offset_at(us));
    // Seconds first: the local time of the last instants is beyond an i64 of microseconds.
    let seconds = us.div_euclid(SECOND_US) + i64::from(east_s);
    let civil = Civil::from_days(seconds.div_euclid(86_400));
    let time_us = seconds.rem_euclid(86_400) * SECOND_US + us.rem_euclid(SECOND_US);
    write_civil(civil, out);
    out.push(b' ');
    write_clock(time_us as u64, out);
    if zone.is_some() {
        write_offset(east_s, out);
    }
    write_era(civil, out);
}

fn write_civil(civil: Civil, out: &mut Vec<u8>) {
    let year = if civil.year > 0 { civil.year } else { 1 - civil.year };
    if year < 10_000 {
        write_pair((year / 100) as u64, out);
        write_pair((year % 100) as u64, out);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(year).as_bytes());
    }
    out.push(b'-');
    write_pair(u64::from(civil.month), out);
    out.push(b'-');
    write_pair(u64::from(civil.day), out);
}

fn write_era(civil: Civil, out: &mut Vec<u8>) {
    if civil.year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

/// `hh:mm:ss.ffffff` without trailing zeros; hours may have more than two digits.
pub(super) fn write_clock(us: u64, out: &mut Vec<u8>) {
    let hours = us / HOUR_US as u64;
    if hours < 100 {
        write_pair(hours, out);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(hours).as_bytes());
    }
    out.push(b':');
    write_pair(us / MINUTE_US as u64 % 60, out);
    out.push(b':');
    write_pair(us / SECOND_US as u64 % 60, out);
    let fraction = us % SECOND_US as u64;
    if fraction != 0 {
        out.push(b'.');
        write_pair(fraction / 10_000, out);
        write_pair(fraction / 100 % 100, out);
        write_pair(fraction % 100, out);
        let zeros = out.iter().rev().take_while(|byte| **byte == b'0').count();
        out.truncate(out.len() - zeros);
    }
}

fn write_offset(east_s: i32, out: &mut Vec<u8>) {
    out.push(if east_s < 0 { b'-' } else { b'+' });
    let (hours, minutes, seconds) =
        (east_s.unsigned_abs() / 3_600, east_s.unsigned_abs() / 60 % 60, east_s.unsigned_abs() % 60);
    if hours < 100 {
        write_pair(u64::from(hours), out);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(hours).as_bytes());
    }
    if minutes != 0 || seconds != 0 {
        out.push(b':');
        write_pair(u64::from(minutes), out);
    }
    if seconds != 0 {
        out.push(b':');
        write_pair(u64::from(seconds), out);
    }
}

/// `value` is below 100.
fn write_pair(value: u64, out: &mut Vec<u8>) {
    let at = 2 * value as usize;
    out.extend_from_slice(&PAIRS[at..at + 2]);
}
