//! The configuration file: TOML of `name = value`, and errors that tell file, line and what was probably meant.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::table::{Kind, SETTINGS, find};

/// The commented default file: every setting with its meaning and default.
pub const DEFAULT_FILE: &str = include_str!("default.toml");

/// Why the configuration can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// `None` for what was given on the command line.
    pub path: Option<PathBuf>,
    /// From 1.
    pub line: Option<usize>,
    pub message: String,
    pub hint: Option<String>,
}

/// `name = text` as the file has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: String,
    pub text: String,
    pub line: usize,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.line) {
            (Some(path), Some(line)) => write!(f, "{}:{line}: ", path.display())?,
            (Some(path), None) => write!(f, "{}: ", path.display())?,
            (None, _) => f.write_str("command line: ")?,
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Reads the file's entries in the order of their lines.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, ConfigError> {
    let error =
        |message: String| ConfigError { path: Some(path.to_owned()), line: None, message, hint: None };
    let text = std::fs::read_to_string(path)
        .map_err(|problem| error(format!("could not read the configuration file: {problem}")))?;
    parse(&text).map_err(|(line, message)| ConfigError { line: Some(line), ..error(message) })
}

/// The entries of `text`, or the line and message of the first error.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let line_of = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_of(error.span().map_or(0, |span| span.start));
        (line, error.message().to_owned())
    })?;
    let mut entries = Vec::new();
    flatten(table.get_ref(), "", &line_of, &mut entries)?;
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn flatten(
    table: &DeTable<'_>,
    prefix: &str,
    line_of: &impl Fn(usize) -> usize,
    entries: &mut Vec<Entry>,
) -> Result<(), (usize, String)> {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        let line = line_of(key.span().start);
        if let DeValue::Table(inner) = value.get_ref() {
            flatten(inner, &format!("{name}."), line_of, entries)?;
            continue;
        }
        let text = text_of(&name, value.get_ref()).ok_or_else(|| {
            let message =
                format!("\"{name}\" can't be a TOML {}; write it as a string", value.get_ref().type_str());
            (line, message)
        })?;
        entries.push(Entry { name, text, line });
    }
    Ok(())
}

/// A TOML value as the text that `SET` would take; an array is for settings that are lists.
fn text_of(name: &str, value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(on) => Some(if *on { "on" } else { "off" }.to_owned()),
        DeValue::Array(items) => {
            let kind = find(name).map(|place| &SETTINGS[place].kind);
            let items: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            match kind {
                Some(kind @ (Kind::Names | Kind::Words)) => kind.join(name, &items?).ok(),
                _ => None,
            }
        }
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
