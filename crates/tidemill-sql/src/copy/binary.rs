//! COPY's binary format: a header, then rows of a field count and fields with their lengths.

use crate::Result;

use super::batch::Batches;
use super::error::{at_column, at_line, bad_format, row_too_long};
use super::plain::PlainRows;
use super::{CopyColumn, ROW_BYTES_MAX};
use crate::value::ColumnBuilder;

pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// The bit of the header's flags that once announced a column of OIDs.
const FLAG_OIDS: u32 = 1 << 16;
/// Flags in the upper half must be known to the reader.
const FLAGS_CRITICAL: u32 = 0xffff_0000;
const HEADER_FIXED_BYTES: usize = SIGNATURE.len() + 8;
/// The field count that ends the file.
const TRAILER: i16 = -1;

pub(super) struct BinaryReader {
    relation: String,
    names: Vec<String>,
    plain: Option<PlainRows>,
    in_header: bool,
    /// Bytes of the header's extension that are still to be skipped.
    skip: usize,
    lines: u64,
    /// The row at the start of the data was not all there: its length is looked at before it is decoded
    /// again.
    straddles: bool,
    /// The trailer has come.
    pub ended: bool,
    pub row_bytes_max: usize,
}

impl BinaryReader {
    pub fn new(columns: &[CopyColumn], relation: &str, builders: &[ColumnBuilder]) -> Self {
        let names = columns.iter().map(|c| c.name.clone()).collect();
        Self {
            relation: relation.to_string(),
            names,
            plain: PlainRows::new(builders),
            in_header: true,
            skip: 0,
            lines: 0,
            straddles: false,
            ended: false,
            row_bytes_max: ROW_BYTES_MAX,
        }
    }

    /// Decodes the complete rows at the start of `data`; returns how many bytes are done with.
    pub fn decode(&mut self, data: &[u8], at_end: bool, batches: &mut Batches) -> Result<usize> {
        let mut at = 0;
        if self.in_header {
            match read_header(data, at_end)? {
                None => return Ok(0),
                Some(extension) => {
                    (self.in_header, self.skip, at) = (false, extension, HEADER_FIXED_BYTES);
                }
            }
        }
        let skipped = self.skip.min(data.len() - at);
        self.skip -= skipped;
        at += skipped;
        if self.skip > 0 && at_end {
            return Err(bad_format("invalid COPY file header (wrong length)"));
        }
        while self.skip == 0 {
            if let Some(plain) = self.plain.as_ref().filter(|_| !self.ended) {
                let (rows, bytes) = plain.read(&data[at..], batches)?;
                self.lines += rows;
                at += bytes;
            }
            match self.row(&data[at..], at_end, batches)? {
                Some(length) => at += length,
                None => break,
            }
        }
        Ok(at)
    }

    /// Decodes the usual rows at the start of messages of one row each; returns how many bytes are done with.
    pub fn decode_messages(&mut self, messages: &[u8], batches: &mut Batches) -> Result<usize> {
        let between_rows = !self.in_header && self.skip == 0 && !self.straddles && !self.ended;
        match self.plain.as_ref().filter(|_| between_rows) {
            Some(plain) => {
                let (rows, bytes) = plain.read_messages(messages, batches)?;
                self.lines += rows;
                Ok(bytes)
            }
            None => Ok(0),
        }
    }

    /// The length of the row at the start of `data`, `None` when it is not all there.
    #[inline]
    fn row(&mut self, data: &[u8], at_end: bool, batches: &mut Batches) -> Result<Option<usize>> {
        if self.ended && !data.is_empty() {
            let error = bad_format("received copy data after EOF marker");
            return Err(at_line(error, &self.relation, self.lines));
        }
        let Some(count) = data.first_chunk::<2>() else {
            // As PostgreSQL: the end of the data is the end, with a trailer or without.
            return Ok((at_end && !data.is_empty()).then_some(data.len()));
        };
        let count = i16::from_be_bytes(*count);
        if count != batches.columns.len() as i16 {
            return self.no_row(count, batches.columns.len()).map(Some);
        }
        if self.straddles && !at_end && !is_complete(data, batches.columns.len()) {
            return Ok(None);
        }
        self.straddles = false;
        let mut at = 2;
        for (i, column) in batches.columns.iter_mut().enumerate() {
            match field(&data[at..], column, self.row_bytes_max) {
                Ok(Some(length)) => at += length,
                Ok(None) if at_end => {
                    let error = bad_format("unexpected EOF in COPY data");
                    return Err(at_column(error, &self.relation, self.lines + 1, &self.names[i]));
                }
                Ok(None) => {
                    batches.undo_row();
                    self.straddles = true;
                    return Ok(None);
                }
                Err(error) => return Err(at_column(error, &self.relation, self.lines + 1, &self.names[i])),
            }
        }
        self.lines += 1;
        batches.row_done()?;
        Ok(Some(at))
    }

    #[cold]
    fn no_row(&mut self, count: i16, expected: usize) -> Result<usize> {
        self.lines += 1;
        if count != TRAILER {
            let error = bad_format(format!("row field count is {count}, expected {expected}"));
            return Err(at_line(error, &self.relation, self.lines));
        }
        self.ended = true;
        Ok(2)
    }
}

/// The length of the header's extension, `None` when more bytes are needed.
fn read_header(data: &[u8], at_end: bool) -> Result<Option<usize>> {
    let known = data.len().min(SIGNATURE.len());
    if data[..known] != SIGNATURE[..known] || (at_end && known < SIGNATURE.len()) {
        return Err(bad_format("COPY file signature not recognized"));
    }
    let word = |at: usize| data.get(at..).and_then(|d| d.first_chunk::<4>()).map(|b| u32::from_be_bytes(*b));
    match word(SIGNATURE.len()) {
        None if at_end => return Err(bad_format("invalid COPY file header (missing flags)")),
        None => return Ok(None),
        Some(flags) if flags & FLAG_OIDS != 0 => {
            return Err(bad_format("invalid COPY file header (WITH OIDS)"));
        }
        Some(flags) if flags & FLAGS_CRITICAL != 0 => {
            return Err(bad_format("unrecognized critical flags in COPY file header"));
        }
        Some(_) => {}
    }
    match word(SIGNATURE.len() + 4) {
        None if at_end => Err(bad_format("invalid COPY file header (missing length)")),
        None => Ok(None),
        Some(length) if length > i32::MAX as u32 => {
            Err(bad_format("invalid COPY file header (missing length)"))
        }
        Some(length) => Ok(Some(length as usize)),
    }
}

/// Whether the row at the start of `data` is all there, or wrong, which `field` will tell.
fn is_complete(data: &[u8], columns: usize) -> bool {
    let mut at = 2;
    for _ in 0..columns {
        let Some(length) = data.get(at..).and_then(|d| d.first_chunk::<4>()) else { return false };
        at += 4 + usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
    }
    at <= data.len()
}

/// Appends the field at the start of `data` and returns its length, `None` when it is not all there and may be long enough.
#[inline]
fn field(data: &[u8], column: &mut ColumnBuilder, bytes_max: usize) -> Result<Option<usize>> {
    let Some((length, rest)) = data.split_first_chunk::<4>() else { return Ok(None) };
    let length = i32::from_be_bytes(*length);
    if length < 0 {
        if length != -1 {
            return Err(bad_format("invalid field size"));
        }
        column.append_null();
        return Ok(Some(4));
    }
    let Some(value) = rest.get(..length as usize) else {
        return if length as usize > bytes_max { Err(row_too_long(bytes_max)) } else { Ok(None) };
    };
    column.append_binary(value)?;
    Ok(Some(4 + length as usize))
}
