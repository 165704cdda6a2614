//! Values of settings: from text as PostgreSQL reads them, to text as it shows them.

use std::sync::Arc;

use tidemill_sql::{SqlError, SqlState};

use super::check;
use super::table::{Kind, Unit};

/// A value in its setting's kind and base unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Integer(i64),
    Real(f64),
    /// Also the value of an enum, in its listed spelling.
    Text(Arc<str>),
}

impl Value {
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Value::Text(text.into())
    }
}

impl Kind {
    /// Reads `text` as a value of the setting `name`; the error is the one PostgreSQL gives.
    pub fn parse(&self, name: &str, text: &str) -> Result<Value, SqlError> {
        match self {
            Kind::Bool => parse_bool(text).map(Value::Bool).ok_or_else(|| {
                let message = format!("parameter \"{name}\" requires a Boolean value");
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            }),
            Kind::Integer { min, max, unit } => {
                let value =
                    parse_integer(text, *unit).map_err(|hint| with_hint(invalid(name, text), hint))?;
                let shown = unit.map_or(String::new(), |unit| format!(" {}", unit.base().0));
                within(name, value, *min, *max, &shown).map(Value::Integer)
            }
            Kind::Real { min, max } => {
                let value = parse_real(text).ok_or_else(|| invalid(name, text))?;
                within(name, value, *min, *max, "").map(Value::Real)
            }
            Kind::Enum { values, aliases } => {
                let listed = values.iter().find(|value| value.eq_ignore_ascii_case(text));
                let alias = aliases.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(text));
                let value = listed.or(alias.map(|(_, value)| value)).ok_or_else(|| {
                    invalid(name, text).with_hint(format!("Available values: {}.", values.join(", ")))
                })?;
                check::text(name, value).map(Value::text)
            }
            Kind::Text | Kind::Words | Kind::Names => check::text(name, text).map(Value::text),
        }
        .and_then(|value| check::value(name, value))
    }

    /// Joins the arguments of a `SET` into the text of one value.
    pub fn join(&self, name: &str, arguments: &[&str]) -> Result<String, SqlError> {
        match (self, arguments) {
            // PipelineDB takes 'v0,v1' in one string, and '' for no targets; no view is called so.
            (Kind::Names, [one]) if name == "stream_targets" && (one.contains(',') || one.is_empty()) => {
                Ok((*one).to_owned())
            }
            (Kind::Names, names) => {
                Ok(names.iter().map(|name| quote_name(name)).collect::<Vec<_>>().join(", "))
            }
            (Kind::Words, words) => Ok(words.join(", ")),
            (_, [one]) => Ok((*one).to_owned()),
            _ => Err(one_argument(name)),
        }
    }

    /// As `SHOW` prints it: integers in the largest unit that divides them.
    pub fn show(&self, value: &Value) -> String {
        match (self, value) {
            (Kind::Integer { unit: Some(unit), .. }, Value::Integer(number)) if *number > 0 => {
                let (_, base) = unit.base();
                let atoms = i128::from(*number) * i128::from(base);
                let fits = unit.ladder().iter().find(|(_, size)| atoms % i128::from(*size) == 0);
                fits.map_or(number.to_string(), |(name, size)| format!("{}{name}", atoms / i128::from(*size)))
            }
            _ => self.raw(value),
        }
    }

    /// As `pg_settings.setting` has it: integers in the base unit, without its name.
    pub fn raw(&self, value: &Value) -> String {
        match value {
            Value::Bool(value) => if *value { "on" } else { "off" }.to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => show_real(*number),
            Value::Text(text) => text.to_string(),
        }
    }

    /// As in `pg_settings.vartype`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Integer { .. } => "integer",
            Kind::Real { .. } => "real",
            Kind::Enum { .. } => "enum",
            Kind::Text | Kind::Words | Kind::Names => "string",
        }
    }
}

const BYTES: [(&str, i64); 5] =
    [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];
/// In microseconds.
const TIMES: [(&str, i64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

impl Unit {
    /// Its name, and its size in bytes or microseconds.
    pub fn base(self) -> (&'static str, i64) {
        match self {
            Unit::Kilobytes => ("kB", 1 << 10),
            Unit::Blocks => ("8kB", 8 << 10),
            Unit::Microseconds => ("us", 1),
            Unit::Milliseconds => ("ms", 1_000),
            Unit::Seconds => ("s", 1_000_000),
        }
    }

    /// The units that may be written, the largest first.
    fn ladder(self) -> &'static [(&'static str, i64)] {
        match self {
            Unit::Kilobytes | Unit::Blocks => &BYTES,
            Unit::Microseconds | Unit::Milliseconds | Unit::Seconds => &TIMES,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Unit::Kilobytes | Unit::Blocks => {
                "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\"."
            }
            Unit::Microseconds | Unit::Milliseconds | Unit::Seconds => {
                "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\"."
            }
        }
    }
}

/// PostgreSQL's `invalid value for parameter "x": "y"`.
pub(super) fn invalid(name: &str, text: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{name}\": \"{text}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

pub(super) fn one_argument(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("SET {name} takes only one argument"))
}

fn with_hint(error: SqlError, hint: Option<&str>) -> SqlError {
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

fn within<T: PartialOrd + Shown>(name: &str, value: T, min: T, max: T, unit: &str) -> Result<T, SqlError> {
    if value >= min && value <= max {
        return Ok(value);
    }
    let (value, min, max) = (value.shown(), min.shown(), max.shown());
    let message =
        format!("{value}{unit} is outside the valid range for parameter \"{name}\" ({min} .. {max})");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

trait Shown {
    fn shown(&self) -> String;
}

impl Shown for i64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for f64 {
    fn shown(&self) -> String {
        show_real(*self)
    }
}

/// C's `%g`, near enough for what settings hold.
fn show_real(number: f64) -> String {
    if number.abs() >= 1e6 {
        let (mantissa, exponent) =
            (number / 10f64.powi(number.abs().log10() as i32), number.abs().log10() as i32);
        let mantissa = (mantissa * 1e5).round() / 1e5;
        return format!("{mantissa}e+{exponent:02}");
    }
    format!("{number}")
}

/// `on`, `off` and unambiguous beginnings of `true`, `false`, `yes`, `no`, in any case.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        "" | "o" => None,
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        _ if "true".starts_with(&text) || "yes".starts_with(&text) => Some(true),
        _ if "false".starts_with(&text) || "no".starts_with(&text) => Some(false),
        _ => None,
    }
}

/// A whole number in the base unit, rounded from what was written; the error is a hint, if there is one.
fn parse_integer(text: &str, unit: Option<Unit>) -> Result<i64, Option<&'static str>> {
    let (number, rest) = scan_number(text).ok_or(None)?;
    let name = rest.trim();
    let number = match (name, unit) {
        ("", _) => number,
        (_, None) => return Err(None),
        (name, Some(unit)) => convert(number, name, unit).ok_or(Some(unit.hint()))?,
    };
    let rounded = number.round_ties_even();
    if rounded.abs() > f64::from(i32::MAX) {
        return Err(Some("Value exceeds integer range."));
    }
    Ok(rounded as i64)
}

/// From the named unit to the base unit, rounded to a multiple of the next smaller unit, so that 30.1GB is a
/// number of MB.
fn convert(number: f64, name: &str, unit: Unit) -> Option<f64> {
    let ladder = unit.ladder();
    let at = ladder.iter().position(|(known, _)| *known == name)?;
    let (_, base) = unit.base();
    let mut atoms = number * ladder[at].1 as f64;
    if let Some((_, smaller)) = ladder.get(at + 1) {
        atoms = (atoms / *smaller as f64).round_ties_even() * *smaller as f64;
    }
    Some(atoms / base as f64)
}

fn parse_real(text: &str) -> Option<f64> {
    let (number, rest) = scan_number(text)?;
    (rest.trim().is_empty() && number.is_finite()).then_some(number)
}

/// The number at the start as C's `strtol` with base 0 or `strtod` read it, and the rest: `0x10` and `010`
/// are not decimal.
fn scan_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let (number, rest) = if let Some(hex) = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        scan_digits(hex, 16)?
    } else {
        let octal = unsigned.starts_with('0');
        match scan_digits(unsigned, if octal { 8 } else { 10 }) {
            Some((number, rest)) if !rest.starts_with(['.', 'e', 'E']) => (number, rest),
            _ => scan_decimal(unsigned)?,
        }
    };
    Some((sign * number, rest))
}

fn scan_digits(text: &str, radix: u32) -> Option<(f64, &str)> {
    let end = text.find(|digit: char| !digit.is_digit(radix)).unwrap_or(text.len());
    let digits = text[..end].chars().filter_map(|digit| digit.to_digit(radix));
    let number = digits.fold(0.0, |number, digit| number * f64::from(radix) + f64::from(digit));
    (end > 0).then_some((number, &text[end..]))
}

fn scan_decimal(text: &str) -> Option<(f64, &str)> {
    let digits = |at: usize| at + text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    if text[end..].starts_with('.') {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent_end = digits(end + 1 + sign);
        if exponent_end > end + 1 + sign {
            end = exponent_end;
        }
    }
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// A name as SQL would need it written.
pub fn quote_name(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Takes a list of SQL names apart: folded to lower case unless quoted. `None` if it is not such a list.
pub fn split_names(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let name;
        (name, rest) =
            if let Some(quoted) = rest.strip_prefix('"') { quoted_name(quoted)? } else { plain_name(rest)? };
        names.push(name);
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(names);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

fn plain_name(text: &str) -> Option<(String, &str)> {
    let end = text.find(|end: char| end == ',' || end.is_whitespace()).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_lowercase(), &text[end..]))
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
