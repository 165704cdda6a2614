//! Splits a line of COPY's text or CSV format into fields and takes escapes and quotes out.

use std::ops::Range;

use crate::Result;

use super::error::bad_format;
use super::options::{TextOptions, is_null};

/// The fields of the current line; buffers are kept from line to line.
#[derive(Default)]
pub(super) struct Fields {
    bytes: Vec<u8>,
    fields: Vec<Field>,
}

struct Field {
    range: Range<usize>,
    null: bool,
}

impl Fields {
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// `None` is NULL. CSV's `FORCE_NULL` and `FORCE_NOT_NULL` are not applied yet.
    pub fn get(&self, index: usize) -> Option<Option<&[u8]>> {
        let field = self.fields.get(index)?;
        Some((!field.null).then(|| &self.bytes[field.range.clone()]))
    }

    pub fn split(&mut self, line: &[u8], options: &TextOptions) -> Result<()> {
        self.bytes.clear();
        self.fields.clear();
        match &options.csv {
            Some(csv) => self.split_csv(line, options, csv.quote, csv.escape),
            None => {
                self.split_text(line, options);
                Ok(())
            }
        }
    }

    fn split_text(&mut self, line: &[u8], options: &TextOptions) {
        let mut at = 0;
        loop {
            let (raw_start, start) = (at, self.bytes.len());
            let mut raw_end = line.len();
            let mut more = false;
            while let Some(&byte) = line.get(at) {
                at += 1;
                if byte == options.delimiter {
                    (raw_end, more) = (at - 1, true);
                    break;
                }
                if byte == b'\\' {
                    at = self.unescape(line, at);
                } else {
                    self.bytes.push(byte);
                }
            }
            // NULL is recognised before escapes are taken out.
            let null = is_null(&line[raw_start..raw_end], &options.null);
            self.fields.push(Field { range: start..self.bytes.len(), null });
            if !more {
                return;
            }
        }
    }

    /// What follows a backslash; returns where the rest starts. A backslash at the end of the line is
    /// dropped.
    fn unescape(&mut self, line: &[u8], at: usize) -> usize {
        let Some(&byte) = line.get(at) else { return at };
        let rest = &line[at + 1..];
        let (value, taken) = match byte {
            b'0'..=b'7' => {
                let more = rest.iter().take(2).take_while(|b| (b'0'..=b'7').contains(*b)).count();
                (number(&line[at..at + 1 + more], 8), more)
            }
            b'x' => match rest.iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count() {
                0 => (b'x', 0),
                digits => (number(&rest[..digits], 16), digits),
            },
            b'b' => (0x08, 0),
            b'f' => (0x0c, 0),
            b'n' => (b'\n', 0),
            b'r' => (b'\r', 0),
            b't' => (b'\t', 0),
            b'v' => (0x0b, 0),
            other => (other, 0),
        };
        self.bytes.push(value);
        at + 1 + taken
    }

    fn split_csv(&mut self, line: &[u8], options: &TextOptions, quote: u8, escape: u8) -> Result<()> {
        let mut at = 0;
        loop {
            let (raw_start, start) = (at, self.bytes.len());
            let mut raw_end = line.len();
            let (mut quoted, mut more) = (false, false);
            while let Some(&byte) = line.get(at) {
                at += 1;
                if byte == options.delimiter {
                    (raw_end, more) = (at - 1, true);
                    break;
                }
                if byte == quote {
                    quoted = true;
                    at = self.unquote(line, at, quote, escape)?;
                } else {
                    self.bytes.push(byte);
                }
            }
            let null = !quoted && is_null(&line[raw_start..raw_end], &options.null);
            self.fields.push(Field { range: start..self.bytes.len(), null });
            if !more {
                return Ok(());
            }
        }
    }

    /// What follows an opening quote; returns where the rest starts.
    fn unquote(&mut self, line: &[u8], mut at: usize, quote: u8, escape: u8) -> Result<usize> {
        while let Some(&byte) = line.get(at) {
            at += 1;
            // The escape first: it may be the same byte as the quote.
            if byte == escape
                && let Some(&next) = line.get(at)
                && (next == escape || next == quote)
            {
                self.bytes.push(next);
                at += 1;
            } else if byte == quote {
                return Ok(at);
            } else {
                self.bytes.push(byte);
            }
        }
        Err(bad_format("unterminated CSV quoted field"))
    }
}

/// At most three octal or two hexadecimal digits, of which the low eight bits count.
fn number(digits: &[u8], radix: u32) -> u8 {
    digits.iter().fold(0_u32, |n, d| n * radix + (*d as char).to_digit(radix).unwrap_or(0)) as u8
}
