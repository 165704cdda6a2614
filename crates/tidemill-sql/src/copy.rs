//! COPY's formats: bytes to Arrow batches and back.

mod batch;
mod binary;
mod encode;
mod error;
mod fast;
mod field;
mod line;
pub mod message;
mod options;
mod plain;
#[cfg(test)]
mod tests;
mod text;

use crate::Result;
use crate::text::Context;
use crate::types::Type;
use arrow::record_batch::RecordBatch;

pub use encode::CopyEncoder;
pub use options::{CopyFormat, CsvOptions, TextOptions};

use batch::Batches;
use binary::BinaryReader;
use text::TextReader;

/// Rows of a batch, unless the caller asks for another number.
pub const BATCH_ROWS_TARGET: usize = 8192;
/// A batch is also cut at this many bytes of values, so that long values neither fill the memory nor an Arrow
/// offset. What makes batches of rows of other databases keeps to it, too.
pub const BATCH_BYTES_MAX: usize = 8 << 20;
/// A row, as it comes, may not be longer; PostgreSQL's own limit is the same.
pub const ROW_BYTES_MAX: usize = 1 << 30;
/// After a row that straddles two chunks is complete, the rest of the second chunk is read in place.
const STRADDLE_BYTES: usize = 4096;

/// A column that is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyColumn {
    pub name: String,
    pub ty: Type,
}

/// Decodes the data of COPY FROM, which comes in chunks that may be split anywhere.
///
/// After an error the decoder is of no further use.
pub struct CopyDecoder {
    reader: Reader,
    batches: Batches,
    /// The start of a row whose end has not come yet.
    carry: Vec<u8>,
    row_bytes_max: usize,
}

enum Reader {
    Text(Box<TextReader>),
    Binary(BinaryReader),
}

impl CopyDecoder {
    /// `relation` is the name that errors show.
    pub fn new(format: &CopyFormat, columns: &[CopyColumn], relation: &str, context: &Context) -> Self {
        Self::with_batch_rows(format, columns, relation, context, BATCH_ROWS_TARGET)
    }

    pub fn with_batch_rows(
        format: &CopyFormat,
        columns: &[CopyColumn],
        relation: &str,
        context: &Context,
        rows: usize,
    ) -> Self {
        let batches = Batches::new(columns, context, rows);
        let reader = match format {
            CopyFormat::Text(options) => {
                Reader::Text(Box::new(TextReader::new(options.clone(), columns, relation)))
            }
            CopyFormat::Binary => Reader::Binary(BinaryReader::new(columns, relation, &batches.columns)),
        };
        Self { reader, batches, carry: Vec::new(), row_bytes_max: ROW_BYTES_MAX }
    }

    /// Refuses rows that are longer, as soon as that is known.
    pub fn with_row_bytes_max(mut self, bytes: usize) -> Self {
        self.row_bytes_max = bytes.min(ROW_BYTES_MAX);
        if let Reader::Binary(reader) = &mut self.reader {
            reader.row_bytes_max = self.row_bytes_max;
        }
        self
    }

    /// Decodes the rows that are complete with this chunk.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<()> {
        while !chunk.is_empty() {
            if self.carry.is_empty() {
                let done = self.reader.decode(chunk, false, &mut self.batches)?;
                self.carry.extend_from_slice(&chunk[done..]);
                break;
            }
            let (head, tail) = chunk.split_at(chunk.len().min(STRADDLE_BYTES));
            let before = self.carry.len();
            let mut carry = std::mem::take(&mut self.carry);
            carry.extend_from_slice(head);
            let done = self.reader.decode(&carry, false, &mut self.batches)?;
            if done >= before {
                // The straddling row is done: go on in the chunk itself.
                chunk = &chunk[done - before..];
                carry.clear();
            } else {
                carry.drain(..done);
                chunk = tail;
            }
            self.carry = carry;
        }
        self.check_row_length()
    }

    /// As [`CopyDecoder::push`], for CopyData messages of the protocol as they come: whole, one after the other.
    pub fn push_messages(&mut self, mut messages: &[u8]) -> Result<()> {
        loop {
            if self.carry.is_empty()
                && let Reader::Binary(reader) = &mut self.reader
            {
                let done = reader.decode_messages(messages, &mut self.batches)?;
                messages = &messages[done..];
            }
            let Some((_, length)) = message::head(messages) else { return Ok(()) };
            let (message, next) = messages.split_at(length.min(messages.len()));
            self.push(&message[message::HEAD_BYTES..])?;
            messages = next;
        }
    }

    fn check_row_length(&self) -> Result<()> {
        if self.carry.len() <= self.row_bytes_max {
            Ok(())
        } else {
            Err(error::row_too_long(self.row_bytes_max))
        }
    }

    /// Whether the data has said that it ends, which only some that is binary does. After `finish`.
    pub fn has_trailer(&self) -> bool {
        matches!(&self.reader, Reader::Binary(reader) if reader.ended)
    }

    /// Rows decoded so far, those in batches that were taken included.
    pub fn rows(&self) -> u64 {
        self.batches.rows_total()
    }

    /// A full batch, when there is one.
    pub fn take_batch(&mut self) -> Option<RecordBatch> {
        self.batches.take_full()
    }

    /// A batch of whatever rows there are, full or not.
    pub fn take_any(&mut self) -> Result<Option<RecordBatch>> {
        self.batches.take_any()
    }

    /// The data is complete. Call until it returns `None`: full batches that were not taken come first.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        let carry = std::mem::take(&mut self.carry);
        self.reader.finish(&carry, &mut self.batches)?;
        self.batches.take_any()
    }
}

impl Reader {
    fn decode(&mut self, data: &[u8], at_end: bool, batches: &mut Batches) -> Result<usize> {
        match self {
            Reader::Text(reader) => reader.decode(data, at_end, batches),
            Reader::Binary(reader) => reader.decode(data, at_end, batches),
        }
    }

    fn finish(&mut self, data: &[u8], batches: &mut Batches) -> Result<()> {
        self.decode(data, true, batches).map(|_| ())
    }
}
