//! The values of script variables, as pgbench has them: typed when they come from expressions, text otherwise.

use std::collections::HashMap;

use super::number::double;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
}

/// A variable's value; text becomes a value when an expression asks for it.
#[derive(Debug, Clone, PartialEq)]
enum Slot {
    Typed(Value),
    Text(String),
}

#[derive(Debug, Clone, Default)]
pub struct Variables(HashMap<String, Slot>);

impl Value {
    pub fn int(&self) -> Result<i64, String> {
        match self {
            Value::Int(value) => Ok(*value),
            Value::Double(value) => {
                let rounded = value.round_ties_even();
                // The bounds as doubles: 2^63 itself is out.
                if rounded.is_nan()
                    || !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded)
                {
                    return Err(format!("double to int overflow for {value}"));
                }
                Ok(rounded as i64)
            }
            Value::Bool(_) | Value::Null => Err(format!("cannot coerce {} to int", self.kind())),
        }
    }

    pub fn double(&self) -> Result<f64, String> {
        match self {
            Value::Int(value) => Ok(*value as f64),
            Value::Double(value) => Ok(*value),
            Value::Bool(_) | Value::Null => Err(format!("cannot coerce {} to double", self.kind())),
        }
    }

    pub fn bool(&self) -> Result<bool, String> {
        match self {
            Value::Bool(value) => Ok(*value),
            _ => Err(format!("cannot coerce {} to boolean", self.kind())),
        }
    }

    /// As a condition of `\if`.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::Int(value) => *value != 0,
            Value::Double(value) => *value != 0.0,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "int",
            Value::Double(_) => "double",
        }
    }

    /// As it goes into SQL.
    pub fn text(&self) -> String {
        match self {
            Value::Null => "NULL".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Double(value) => general(*value, 15),
        }
    }

    fn of_text(name: &str, text: &str) -> Result<Value, String> {
        let malformed = || format!("malformed variable \"{name}\" value: \"{text}\"");
        let lower = text.to_ascii_lowercase();
        let abbreviates = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
        if lower == "null" {
            return Ok(Value::Null);
        }
        if abbreviates("true", 1) || abbreviates("yes", 1) || lower == "on" {
            return Ok(Value::Bool(true));
        }
        if abbreviates("false", 1) || abbreviates("no", 1) || abbreviates("off", 2) {
            return Ok(Value::Bool(false));
        }
        let digits = text.trim_start().trim_start_matches(['-', '+']);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return text.trim_start().parse().map(Value::Int).map_err(|_| malformed());
        }
        double(text).map(Value::Double).ok_or_else(malformed)
    }
}

/// Letters, digits and `_`, and no digit first: `:1x` is no variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    name.starts_with(|c: char| is_part(c) && !c.is_ascii_digit()) && name.chars().all(is_part)
}

impl Variables {
    pub fn set(&mut self, name: &str, value: Value) {
        self.put(name, Slot::Typed(value));
    }

    pub fn set_text(&mut self, name: &str, text: &str) {
        self.put(name, Slot::Text(text.to_owned()));
    }

    fn put(&mut self, name: &str, slot: Slot) {
        match self.0.get_mut(name) {
            Some(old) => *old = slot,
            None => drop(self.0.insert(name.to_owned(), slot)),
        }
    }

    pub fn value(&self, name: &str) -> Result<Value, String> {
        match self.0.get(name) {
            Some(Slot::Typed(value)) => Ok(value.clone()),
            Some(Slot::Text(text)) => Value::of_text(name, text),
            None => Err(format!("undefined variable \"{name}\"")),
        }
    }

    /// None when there is no such variable.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Slot::Typed(value) => Some(value.text()),
            Slot::Text(text) => Some(text.clone()),
        }
    }
}

/// PostgreSQL's `%.*g`: that many digits, no zeros at the end, an exponent where it is shorter.
pub fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return match value {
            v if v.is_nan() => "NaN".to_owned(),
            v if v.is_infinite() => if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
            v => if v.is_sign_negative() { "-0" } else { "0" }.to_owned(),
        };
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", short(mantissa), exponent.abs());
    }
    short(&format!("{value:.*}", (digits as i32 - 1 - exponent).max(0) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_c_does() {
        for (value, text) in [
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333333333333"),
            (1e15, "1e+15"),
            (123456789012345.0, "123456789012345"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (-2.5, "-2.5"),
            (100.0, "100"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(general(value, 15), text);
        }
    }

    #[test]
    fn text_is_typed_when_it_is_used() {
        let mut variables = Variables::default();
        for (text, value) in [
            ("12", Value::Int(12)),
            ("-3", Value::Int(-3)),
            ("1.5", Value::Double(1.5)),
            ("tr", Value::Bool(true)),
            ("OFF", Value::Bool(false)),
            ("null", Value::Null),
            ("0x10", Value::Double(16.0)),
        ] {
            variables.set_text("x", text);
            assert_eq!(variables.value("x"), Ok(value));
        }
        variables.set_text("x", "abc");
        assert_eq!(variables.value("x"), Err("malformed variable \"x\" value: \"abc\"".to_owned()));
        assert_eq!(variables.value("y"), Err("undefined variable \"y\"".to_owned()));
    }
}
