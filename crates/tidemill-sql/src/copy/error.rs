//! Where in the data of a COPY an error happened, in PostgreSQL's words.

use crate::{SqlError, SqlState};

/// Bytes of a line or value that a context shows, PostgreSQL's `MAX_COPY_DATA_DISPLAY`.
const SHOWN_BYTES_MAX: usize = 100;

/// A malformed file, as opposed to a malformed value.
pub(super) fn bad_format(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

pub(super) fn at_line(error: SqlError, relation: &str, line: u64) -> SqlError {
    extend(error, format!("COPY {relation}, line {line}"))
}

pub(super) fn at_row(error: SqlError, relation: &str, line: u64, row: &[u8]) -> SqlError {
    extend(error, format!("COPY {relation}, line {line}: \"{}\"", shown(row)))
}

pub(super) fn at_column(error: SqlError, relation: &str, line: u64, column: &str) -> SqlError {
    extend(error, format!("COPY {relation}, line {line}, column {column}"))
}

pub(super) fn at_value(error: SqlError, relation: &str, line: u64, column: &str, value: &[u8]) -> SqlError {
    extend(error, format!("COPY {relation}, line {line}, column {column}: \"{}\"", shown(value)))
}

/// The callers' context comes after what the type itself said.
fn extend(mut error: SqlError, outer: String) -> SqlError {
    error.context = Some(match error.context.take() {
        Some(inner) => format!("{inner}\n{outer}"),
        None => outer,
    });
    error
}

fn shown(bytes: &[u8]) -> String {
    if bytes.len() <= SHOWN_BYTES_MAX {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    // Back to the start of a character: continuation bytes are 0b10xx_xxxx.
    let mut end = SHOWN_BYTES_MAX;
    while end > SHOWN_BYTES_MAX - 4 && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    format!("{}...", String::from_utf8_lossy(&bytes[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_between_characters() {
        let long = "a".repeat(99) + "\u{e4}aaa";
        let error = at_value(SqlError::internal("x"), "s", 1, "x", long.as_bytes());
        assert_eq!(error.context, Some(format!("COPY s, line 1, column x: \"{}...\"", "a".repeat(99))));
        assert_eq!(shown("b".repeat(100).as_bytes()), "b".repeat(100));
    }

    #[test]
    fn an_inner_context_stays_in_front() {
        let error = SqlError::internal("x").with_context("JSON data, line 1: {");
        assert_eq!(
            at_row(error, "s", 2, b"{").into_report().context.unwrap(),
            "JSON data, line 1: {\nCOPY s, line 2: \"{\""
        );
    }
}
