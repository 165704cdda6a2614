//! PostgreSQL's text forms: what its input functions take and its output functions print, type by type.
//!
//! Output is that of `DateStyle = ISO`, `IntervalStyle = postgres`, `bytea_output = hex` and
//! `extra_float_digits = 1`; dates are read in the order month, day, year. Parsers take bytes, as COPY and
//! Bind have them, and need no valid UTF-8.

mod abbreviation;
pub mod array;
mod bool;
mod bytea;
mod date_decode;
mod date_field;
mod date_input;
mod date_number;
mod date_output;
mod date_word;
mod float;
mod integer;
mod interval;
mod interval_iso;
mod json;
mod json_member;
mod jsonb;
pub mod modifier;
mod uuid;
mod zone;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;

pub use self::bool::{parse_bool, write_bool};
pub use self::bytea::{parse_bytea, write_bytea};
pub use self::date_input::{parse_date, parse_time, parse_timestamp, parse_timestamptz};
pub use self::date_output::{write_date, write_time, write_timestamp, write_timestamptz};
pub use self::float::{parse_f32, parse_f64, write_f32, write_f64};
pub use self::integer::{parse_i16, parse_i32, parse_i64, parse_oid, write_i64};
pub use self::interval::{parse_interval, parse_interval_in, write_interval};
pub use self::json::check_json;
pub(crate) use self::json::{Sink as JsonSink, read as read_json};
pub use self::json_member::{JsonValue, json_elements, json_members, json_string};
pub(crate) use self::jsonb::unescape as unescape_json;
pub use self::jsonb::write_jsonb;
pub use self::uuid::{parse_uuid, write_uuid};
pub use self::zone::TimeZone;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{SqlError, SqlState};

/// What the text forms of dates and times depend on besides the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// `now` and `today` count from it.
    pub now: Now,
    /// The session's time zone.
    pub zone: TimeZone,
}

/// When the transaction started.
#[derive(Debug, Clone, Default)]
pub struct Now {
    us: i64,
    is_read: Option<Arc<AtomicBool>>,
}

impl Now {
    /// One that notes whether it is read: what is made with it is not the same in the next transaction.
    pub fn noting(us: i64) -> Self {
        Self { us, is_read: Some(Arc::default()) }
    }

    /// Microseconds since 1970 in UTC.
    pub fn us(&self) -> i64 {
        if let Some(is_read) = &self.is_read {
            is_read.store(true, Ordering::Relaxed);
        }
        self.us
    }

    /// Also by a copy; `None` if that is not noted.
    pub fn was_read(&self) -> Option<bool> {
        self.is_read.as_ref().map(|is_read| is_read.load(Ordering::Relaxed))
    }
}

impl From<i64> for Now {
    fn from(us: i64) -> Self {
        Self { us, is_read: None }
    }
}

impl PartialEq for Now {
    fn eq(&self, other: &Self) -> bool {
        self.us == other.us
    }
}

impl Eq for Now {}

/// What `"char"` keeps of a text: its first byte, written in octal if it is not ASCII.
pub fn letter(text: &str) -> String {
    match text.as_bytes().first() {
        None => String::new(),
        Some(byte) if byte.is_ascii() => char::from(*byte).to_string(),
        Some(byte) => format!("\\{byte:03o}"),
    }
}

/// C's `isspace` in PostgreSQL's input functions.
#[inline]
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn trim(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|b| !is_space(*b)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|b| !is_space(*b)).map_or(start, |last| last + 1);
    &bytes[start..end]
}

#[cold]
fn invalid(type_name: &str, bytes: &[u8]) -> SqlError {
    SqlError::invalid_text(type_name, &String::from_utf8_lossy(bytes))
}

/// PostgreSQL's `value "99999999999" is out of range for type integer`.
#[cold]
fn value_out_of_range(type_name: &str, bytes: &[u8]) -> SqlError {
    let text = String::from_utf8_lossy(bytes);
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {type_name}"),
    )
}
