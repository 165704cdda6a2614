//! The usual row of text or CSV, read in one pass from the bytes into the builders.
//!
//! A row is tried here first. As soon as anything is not plain (an escape, a quote within quotes, an odd
//! newline, a value that the quick parsers leave alone, an error, the end of the data) the row is taken back
//! and read again by the rules, in `text.rs`.

use super::batch::Batches;
use super::line::Newline;
use super::options::{TextOptions, is_null};
use crate::value::ColumnBuilder;

pub(super) struct FastRows {
    delimiter: u8,
    quote: Option<(u8, u8)>,
    null: Vec<u8>,
    /// Bytes that may not be in a plain field.
    special: [bool; 256],
}

impl FastRows {
    /// `None` when a number could be mistaken for a delimiter, quote or NULL of these options, or when
    /// `force` options decide by more than a field's bytes.
    pub fn new(options: &TextOptions, columns: usize) -> Option<FastRows> {
        let in_number = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
        let quote = options.csv.as_ref().map(|csv| (csv.quote, csv.escape));
        let null_as_number =
            options.null.first().is_some_and(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'));
        let ambiguous = in_number(options.delimiter) || quote.is_some_and(|(quote, _)| in_number(quote));
        if columns == 0 || null_as_number || ambiguous {
            return None;
        }
        let mut special = [false; 256];
        for byte in [options.delimiter, b'\n', b'\r', quote.map_or(b'\\', |(quote, _)| quote)] {
            special[usize::from(byte)] = true;
        }
        let forced = options
            .csv
            .as_ref()
            .is_some_and(|csv| csv.force_null.iter().chain(&csv.force_not_null).any(|&flag| flag));
        (!forced).then(|| FastRows {
            delimiter: options.delimiter,
            quote,
            null: options.null.clone(),
            special,
        })
    }

    /// Reads rows from the start of `data`: how many, and the bytes they took. Line feeds must be the file's
    /// newline.
    pub fn read(&self, data: &[u8], newline: Newline, batches: &mut Batches) -> crate::Result<(u64, usize)> {
        let (mut rows, mut at) = (0, 0);
        while let Some(end) = self.row(data, at, newline, &mut batches.columns) {
            batches.row_done()?;
            rows += 1;
            at = end;
        }
        batches.undo_row();
        Ok((rows, at))
    }

    /// Where the row ends, when it was plain.
    #[inline]
    fn row(
        &self,
        data: &[u8],
        start: usize,
        newline: Newline,
        columns: &mut [ColumnBuilder],
    ) -> Option<usize> {
        // An end marker of CSV; in text the backslash is special anyway.
        if self.quote.is_some() && data.get(start) == Some(&b'\\') {
            return None;
        }
        let row_end = if newline == Newline::CrNl { b'\r' } else { b'\n' };
        let last = columns.len() - 1;
        let mut at = start;
        for (i, column) in columns.iter_mut().enumerate() {
            let stop = if i == last { row_end } else { self.delimiter };
            at = match column.append_number(data, at, stop) {
                Some(end) => end,
                None => self.field(data, at, stop, column)?,
            };
            at += 1;
        }
        match newline {
            Newline::CrNl => (data.get(at) == Some(&b'\n')).then_some(at + 1),
            _ => Some(at),
        }
    }

    /// A field that is not a plain number; `None` also for a value with an error, which is then met again
    /// with its context.
    fn field(&self, data: &[u8], at: usize, stop: u8, column: &mut ColumnBuilder) -> Option<usize> {
        let rest = data.get(at..)?;
        let length = self.null.len();
        if rest.get(length) == Some(&stop) && is_null(&rest[..length], &self.null) {
            column.append_null();
            return Some(at + length);
        }
        if let Some((quote, escape)) = self.quote
            && rest.first() == Some(&quote)
        {
            return quoted_field(&rest[1..], quote, escape, stop, column).map(|end| at + 1 + end);
        }
        let end = rest.iter().position(|b| self.special[usize::from(*b)])?;
        if rest[end] != stop {
            return None;
        }
        column.append_text(&rest[..end]).ok()?;
        Some(at + end)
    }
}

/// A quoted field without escapes, quotes and newlines in it; `rest` starts after the opening quote.
fn quoted_field(rest: &[u8], quote: u8, escape: u8, stop: u8, column: &mut ColumnBuilder) -> Option<usize> {
    let end = memchr::memchr2(quote, escape, rest)?;
    let field = &rest[..end];
    if rest[end] != quote
        || rest.get(end + 1) != Some(&stop)
        || memchr::memchr2(b'\n', b'\r', field).is_some()
    {
        return None;
    }
    column.append_text(field).ok()?;
    Some(end + 1)
}
