//! Where in the data of a COPY an error happened, in PostgreSQL's words.

use crate::error::shown;
use crate::{SqlError, SqlState};

/// A malformed file, as opposed to a malformed value.
pub(super) fn bad_format(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

pub(super) fn row_too_long(bytes_max: usize) -> SqlError {
    let message = format!("a row of COPY data is longer than {bytes_max} bytes");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

pub(super) fn at_line(error: SqlError, relation: &str, line: u64) -> SqlError {
    error.within(format!("COPY {relation}, line {line}"))
}

pub(super) fn at_row(error: SqlError, relation: &str, line: u64, row: &[u8]) -> SqlError {
    error.within(format!("COPY {relation}, line {line}: \"{}\"", shown(row)))
}

pub(super) fn at_column(error: SqlError, relation: &str, line: u64, column: &str) -> SqlError {
    error.within(format!("COPY {relation}, line {line}, column {column}"))
}

pub(super) fn at_value(error: SqlError, relation: &str, line: u64, column: &str, value: &[u8]) -> SqlError {
    error.within(format!("COPY {relation}, line {line}, column {column}: \"{}\"", shown(value)))
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
