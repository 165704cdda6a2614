//! Where things are in a text: the parser counts lines and columns, PostgreSQL counts characters.

use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, TokenizerError};

use crate::error::{SqlError, SqlState};

/// Maps lines and columns to characters, and characters to bytes.
pub struct Positions<'a> {
    sql: &'a str,
    /// Character offset of each line's first character.
    lines: Vec<usize>,
    is_ascii: bool,
}

impl<'a> Positions<'a> {
    pub fn new(sql: &'a str) -> Self {
        let is_ascii = sql.is_ascii();
        let mut lines = vec![0];
        if is_ascii {
            lines.extend(memchr::memchr_iter(b'\n', sql.as_bytes()).map(|i| i + 1));
        } else {
            lines.extend(sql.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(i, _)| i + 1));
        }
        Self { sql, lines, is_ascii }
    }

    /// Of a text whose places are counted as if it were one line.
    pub fn of_line(sql: &'a str) -> Self {
        Self { sql, lines: vec![0], is_ascii: sql.is_ascii() }
    }

    /// Character offset of a location, from 0.
    pub fn char_at(&self, location: Location) -> usize {
        let line = (location.line as usize).saturating_sub(1).min(self.lines.len() - 1);
        self.lines[line] + (location.column as usize).saturating_sub(1)
    }

    /// The text between two character offsets.
    pub fn slice(&self, start: usize, end: usize) -> &'a str {
        let (start, end) = (self.byte_at(start), self.byte_at(end));
        self.sql.get(start..end.max(start)).unwrap_or_default()
    }

    fn byte_at(&self, char: usize) -> usize {
        if self.is_ascii {
            return char.min(self.sql.len());
        }
        self.sql.char_indices().nth(char).map_or(self.sql.len(), |(i, _)| i)
    }

    pub fn tokenizer_error(&self, error: &TokenizerError) -> SqlError {
        let at = self.char_at(error.location);
        let rest = self.slice(at, usize::MAX);
        let shown: String = rest.chars().take(40).collect();
        let message = match error.message.as_str() {
            m if m.contains("nterminated string") => {
                format!("unterminated quoted string at or near \"{rest}\"")
            }
            m if m.contains("dollar-quoted") => {
                format!("unterminated dollar-quoted string at or near \"{rest}\"")
            }
            m if m.contains("multi-line comment") || m.contains("end of comment") => {
                format!("unterminated /* comment at or near \"{shown}\"")
            }
            m if m.contains("delimiter") => format!("unterminated quoted identifier at or near \"{rest}\""),
            _ => format!("syntax error at or near \"{shown}\""),
        };
        SqlError::syntax(message).with_position(at + 1)
    }

    /// The parser tells what it expected and what it found, and where: `Expected: x, found: y at Line: 1, Column: 5`.
    pub fn parser_error(&self, error: &ParserError, end: usize) -> SqlError {
        let text = match error {
            ParserError::RecursionLimitExceeded => {
                return SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                    .with_hint("The statement nests expressions or subqueries too deeply.");
            }
            ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
        };
        if text.contains("found: EOF") {
            return SqlError::syntax("syntax error at end of input").with_position(end + 1);
        }
        let Some((before, location)) = text.rsplit_once(" at Line: ") else {
            return SqlError::syntax(text.trim_end_matches('.').to_lowercase());
        };
        let mut numbers = location.split(|c: char| !c.is_ascii_digit()).filter(|t| !t.is_empty());
        let mut number = || numbers.next().and_then(|t| t.parse().ok()).unwrap_or(1);
        let at = self.char_at(Location { line: number(), column: number() });
        let found = before.rsplit_once("found: ").map(|(_, found)| found);
        match found {
            Some(found) => {
                SqlError::syntax(format!("syntax error at or near \"{found}\"")).with_position(at + 1)
            }
            None => SqlError::syntax(before.to_lowercase()).with_position(at + 1),
        }
    }
}
