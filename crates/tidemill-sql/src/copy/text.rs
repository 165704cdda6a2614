//! Rows of COPY's text and CSV formats by PostgreSQL's rules.

use crate::Result;
use crate::statement::CopyHeader;

use super::CopyColumn;
use super::batch::Batches;
use super::error::{at_line, at_row, at_value, bad_format};
use super::fast::FastRows;
use super::field::Fields;
use super::line::{Line, LineScanner, Newline};
use super::options::{TextOptions, flag, is_null};
use crate::value::check_utf8;

pub(super) struct TextReader {
    options: TextOptions,
    relation: String,
    names: Vec<String>,
    scanner: LineScanner,
    fast: Option<FastRows>,
    fields: Fields,
    header_pending: bool,
    ended: bool,
}

impl TextReader {
    pub fn new(options: TextOptions, columns: &[CopyColumn], relation: &str) -> Self {
        Self {
            scanner: LineScanner::new(options.csv.as_ref().map(|csv| (csv.quote, csv.escape))),
            fast: FastRows::new(&options, columns.len()),
            header_pending: options.header != CopyHeader::Off,
            names: columns.iter().map(|c| c.name.clone()).collect(),
            relation: relation.to_string(),
            fields: Fields::default(),
            ended: false,
            options,
        }
    }

    /// Decodes the complete rows at the start of `data`; returns how many bytes are done with.
    pub fn decode(&mut self, data: &[u8], at_end: bool, batches: &mut Batches) -> Result<usize> {
        let mut at = 0;
        while at < data.len() && !self.ended {
            at += self.fast_rows(&data[at..], batches)?;
            let rest = &data[at..];
            if rest.is_empty() {
                break;
            }
            let Some(line) = self.scan(rest, at_end)? else { break };
            self.line(rest, line, batches)?;
            self.ended = line.last;
            at += line.next;
        }
        // What follows an end marker is ignored.
        Ok(if self.ended { data.len() } else { at })
    }

    fn fast_rows(&mut self, data: &[u8], batches: &mut Batches) -> Result<usize> {
        let newline = self.scanner.newline;
        let Some(fast) = &self.fast else { return Ok(0) };
        if self.scanner.is_in_line() || !matches!(newline, Newline::Nl | Newline::CrNl) {
            return Ok(0);
        }
        let (rows, bytes) = fast.read(data, newline, batches)?;
        self.scanner.skip_lines(rows);
        Ok(bytes)
    }

    fn scan(&mut self, data: &[u8], at_end: bool) -> Result<Option<Line>> {
        self.scanner.scan(data, at_end).map_err(|e| at_line(e, &self.relation, self.scanner.line_number()))
    }

    fn line(&mut self, data: &[u8], line: Line, batches: &mut Batches) -> Result<()> {
        let text = &data[..line.end];
        let number = self.scanner.line_number();
        // As in PostgreSQL, the encoding of a line is looked at before anything in it.
        check_utf8(text).map_err(|e| at_line(e, &self.relation, number))?;
        if self.header_pending {
            self.header_pending = false;
            self.header(text).map_err(|e| at_row(e, &self.relation, number, text))?;
        } else if !(line.last && text.is_empty()) {
            self.row(text, number, batches)?;
        }
        self.scanner.next_line();
        Ok(())
    }

    fn header(&mut self, text: &[u8]) -> Result<()> {
        if self.options.header != CopyHeader::Match {
            return Ok(());
        }
        self.fields.split(text, &self.options)?;
        if self.fields.len() != self.names.len() {
            let (got, expected) = (self.fields.len(), self.names.len());
            return Err(bad_format(format!(
                "wrong number of fields in header line: got {got}, expected {expected}"
            )));
        }
        for (i, name) in self.names.iter().enumerate() {
            let got = match self.fields.get(i).flatten() {
                Some(field) if field == name.as_bytes() => continue,
                Some(field) => format!("\"{}\"", String::from_utf8_lossy(field)),
                None => format!("null value (\"{}\")", String::from_utf8_lossy(&self.options.null)),
            };
            let field = i + 1;
            return Err(bad_format(format!(
                "column name mismatch in header line field {field}: got {got}, expected \"{name}\""
            )));
        }
        Ok(())
    }

    fn row(&mut self, text: &[u8], number: u64, batches: &mut Batches) -> Result<()> {
        let in_row = |e| at_row(e, &self.relation, number, text);
        self.fields.split(text, &self.options).map_err(in_row)?;
        if self.options.csv.is_none() {
            for i in 0..self.fields.len() {
                // Escapes can make what the line itself did not have.
                check_utf8(self.fields.get(i).flatten().unwrap_or_default()).map_err(in_row)?;
            }
        }
        let extra =
            if self.names.is_empty() { !text.is_empty() } else { self.fields.len() > self.names.len() };
        if extra {
            return Err(in_row(bad_format("extra data after last expected column")));
        }
        for (i, (name, column)) in self.names.iter().zip(&mut batches.columns).enumerate() {
            let Some(field) = self.fields.get(i) else {
                return Err(in_row(bad_format(format!("missing data for column \"{name}\""))));
            };
            match forced(field, i, &self.options) {
                None => column.append_null(),
                Some(value) => {
                    column
                        .append_text(value)
                        .map_err(|e| at_value(e, &self.relation, number, name, value))?;
                }
            }
        }
        batches.row_done()
    }
}

/// Applies CSV's `FORCE_NOT_NULL` and `FORCE_NULL`.
fn forced<'a>(field: Option<&'a [u8]>, column: usize, options: &'a TextOptions) -> Option<&'a [u8]> {
    let Some(csv) = &options.csv else { return field };
    match field {
        None if flag(&csv.force_not_null, column) => Some(&options.null),
        Some(value) if flag(&csv.force_null, column) && is_null(value, &options.null) => None,
        other => other,
    }
}
