//! Java properties files, as the original benchmark is configured with, and `-D key=value`.

use super::known_keys::{SWITCHES, WHOLE_NUMBERS};
use super::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

/// How the origin of a definition begins.
const DEFINED: &str = "-D ";

/// Settings by name; each remembers where it was set, so that an error can point at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    value: String,
    origin: String,
}

impl Properties {
    pub fn read(path: &Path) -> Result<Self> {
        let origin = path.display().to_string();
        let text = std::fs::read(path)
            .map_err(|error| Error::File { path: origin.clone(), message: error.to_string() })?;
        // Java reads these files as Latin-1: every byte is the character with its number.
        let text: String = text.into_iter().map(char::from).collect();
        Self::parse(&text, &origin)
    }

    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let mut properties = Properties::default();
        for (line, text) in logical_lines(text) {
            let (key, value) = split(&text);
            let wrong = |message| Error::Line { path: origin.to_owned(), line, message };
            let unescape = |text: &str| unescape(text).map_err(wrong);
            let origin = format!("{origin}:{line}");
            // The original keeps blanks at the end of a value and then stumbles over them.
            properties.set(&unescape(key)?, unescape(value)?.trim_end(), &origin);
        }
        Ok(properties)
    }

    /// From `key=value` of a command line.
    pub fn define(&mut self, definition: &str) -> Result<()> {
        let origin = format!("{DEFINED}{definition}");
        match definition.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                self.set(key.trim(), value.trim(), &origin);
                Ok(())
            }
            _ => Err(Error::at(&origin, "expected KEY=VALUE".to_owned())),
        }
    }

    /// By the command line, and not by a file or a preset.
    pub fn is_defined(&self, key: &str) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.origin.starts_with(DEFINED))
    }

    /// Sets or replaces.
    pub fn set(&mut self, key: &str, value: &str, origin: &str) {
        self.entries.insert(key.to_owned(), Entry { value: value.to_owned(), origin: origin.to_owned() });
    }

    /// Takes over what is not set yet.
    pub fn fill(&mut self, defaults: &Properties) {
        for (key, entry) in &defaults.entries {
            self.entries.entry(key.clone()).or_insert_with(|| entry.clone());
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, entry)| (key.as_str(), entry.value.as_str()))
    }

    pub fn contains(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The text of a property; an empty one counts as not set.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|entry| entry.value.as_str()).filter(|value| !value.is_empty())
    }

    /// The value, when it is set.
    pub fn optional<T: FromStr>(&self, key: &str) -> Result<Option<T>> {
        let parse = |text: &str| {
            text.parse().map_err(|_| self.wrong(key, format!("\"{text}\" is not {}", expected::<T>())))
        };
        self.text(key).map(parse).transpose()
    }

    pub fn or<T: FromStr>(&self, key: &str, default: T) -> Result<T> {
        Ok(self.optional(key)?.unwrap_or(default))
    }

    pub fn required<T: FromStr>(&self, key: &str) -> Result<T> {
        self.optional(key)?.ok_or_else(|| self.wrong(key, "is required".to_owned()))
    }

    /// An error about a property, with the place that set it.
    pub fn wrong(&self, key: &str, message: String) -> Error {
        let origin = self.entries.get(key).map_or("not set", |entry| entry.origin.as_str());
        Error::Property { key: key.to_owned(), origin: origin.to_owned(), message }
    }

    /// What is not as a preset has it.
    pub fn beyond_preset(&self) -> impl Iterator<Item = (String, String)> {
        let own = self.entries.iter().filter(|(_, entry)| !entry.origin.starts_with(super::preset::ORIGIN));
        own.map(|(key, entry)| (key.clone(), entry.value.clone()))
    }

    /// Properties that files of the original set, and that change nothing here.
    pub fn without_effect(&self) -> Vec<&str> {
        self.iter().map(|(key, _)| key).filter(|key| super::known_keys::is_without_effect(key)).collect()
    }

    /// An error for the first key that neither the original nor this suite knows.
    pub fn check_known(&self) -> Result<()> {
        match self.entries.keys().find(|key| !super::known_keys::is_known(key)) {
            Some(key) => {
                let hint = super::known_keys::nearest(key);
                let hint = hint.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
                Err(self.wrong(key, format!("is not a known property{hint}")))
            }
            None => Ok(()),
        }
    }

    /// An error for the first switch that is neither on nor off, and number that is none, whoever asks for it later.
    pub fn check_values(&self) -> Result<()> {
        SWITCHES.iter().try_for_each(|key| self.optional::<bool>(key).map(|_| ()))?;
        self.optional::<u16>("port")?;
        WHOLE_NUMBERS.iter().try_for_each(|key| self.optional::<i64>(key).map(|_| ()))
    }
}

/// What a value should have been, for messages.
fn expected<T>() -> &'static str {
    match std::any::type_name::<T>() {
        "bool" => "true or false",
        "f64" => "a number",
        "i64" | "i32" | "u64" | "u32" | "usize" | "u16" | "u8" => "a whole number in range",
        _ => "a known value",
    }
}

/// Lines without comments and blank ones, continued lines joined, each with the number of its first line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continued = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start_matches([' ', '\t', '\x0c']);
        if !continued && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        let ends_open = backslashes % 2 == 1;
        let part = if ends_open { &line[..line.len() - 1] } else { line };
        match lines.last_mut() {
            Some((_, whole)) if continued => whole.push_str(part),
            _ => lines.push((index + 1, part.to_owned())),
        }
        continued = ends_open;
    }
    lines
}

/// The key ends at the first `=`, `:` or blank that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && matches!(c, '=' | ':' | ' ' | '\t' | '\x0c');
        escaped = c == '\\' && !escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches([' ', '\t', '\x0c']);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches([' ', '\t', '\x0c']))
}

fn unescape(text: &str) -> std::result::Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            result.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => result.push('\t'),
            Some('n') => result.push('\n'),
            Some('r') => result.push('\r'),
            Some('f') => result.push('\x0c'),
            Some('u') => {
                let code: String = chars.by_ref().take(4).collect();
                let parsed =
                    u32::from_str_radix(&code, 16).ok().filter(|_| code.len() == 4).and_then(char::from_u32);
                result.push(parsed.ok_or_else(|| format!("\"\\u{code}\" is not a character"))?);
            }
            Some(other) => result.push(other),
            None => {}
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_java_syntax() {
        let text = "# comment\n! too\n\nhost = localhost  \nport:5432\n  user  me\nlong = a,\\\n   b\nk\\=ey=\\u0041\\tx\nempty=\nlone";
        let properties = Properties::parse(text, "f").unwrap();
        let pairs: Vec<_> = properties.iter().collect();
        let expected = [
            ("empty", ""),
            ("host", "localhost"),
            ("k=ey", "A\tx"),
            ("lone", ""),
            ("long", "a,b"),
            ("port", "5432"),
            ("user", "me"),
        ];
        assert_eq!(pairs, expected);
        assert_eq!(properties.required::<u32>("port").unwrap(), 5432);
    }

    #[test]
    fn first_wins_when_filled_and_last_when_set() {
        let mut properties = Properties::parse("a=1", "config").unwrap();
        properties.fill(&Properties::parse("a=2\nb=3", "workload").unwrap());
        properties.define("b = 4").unwrap();
        assert_eq!(properties.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "4")]);
    }

    #[test]
    fn errors_point_at_the_line() {
        let properties = Properties::parse("\nport = 54x2\nrequestors = 3", "f.properties").unwrap();
        let message = |error: Error| error.to_string();
        assert_eq!(
            message(properties.required::<u32>("port").unwrap_err()),
            "property \"port\" (f.properties:2): \"54x2\" is not a whole number in range"
        );
        assert_eq!(
            message(properties.check_known().unwrap_err()),
            "property \"requestors\" (f.properties:3): is not a known property; did you mean \"requesters\"?"
        );
        assert_eq!(
            message(properties.required::<u32>("user").unwrap_err()),
            "property \"user\" (not set): is required"
        );
        assert!(Properties::default().define("x").is_err());
        assert!(Properties::parse("a=\\u00g1", "f").is_err());
    }
}
