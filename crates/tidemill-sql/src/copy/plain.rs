//! The usual rows of the binary format, read by columns: all values there, and each of its type's one width.
//!
//! Such rows are all of one length, with the same bytes between the values. Once these have been compared, the values of
//! a column are at equal distances, and to read them takes no branch. A server sends each row in a message, whose head is
//! the same as well. A row that is not plain is read by `binary.rs`.

use super::batch::Batches;
use super::message;
use crate::Result;
use crate::value::ColumnBuilder;

/// Of the length before a value.
const LENGTH_BYTES: usize = 4;
/// So many rows are compared, then read, while they are in the nearest cache.
const ROWS_AT_ONCE: usize = 256;

pub(super) struct PlainRows {
    row_bytes: usize,
    /// Of a message that holds one row.
    message_head: [u8; message::HEAD_BYTES],
    /// The number of fields, as a row begins.
    count: [u8; 2],
    fields: Vec<Field>,
}

struct Field {
    /// Where in a row the length of the value is.
    at: usize,
    length: [u8; LENGTH_BYTES],
}

impl PlainRows {
    /// `None` when a column's values differ in width, or have to be looked at one by one.
    pub fn new(columns: &[ColumnBuilder]) -> Option<Self> {
        let count = i16::try_from(columns.len()).ok().filter(|count| *count > 0)?;
        let count = count.to_be_bytes();
        let mut row_bytes = count.len();
        let mut fields = Vec::with_capacity(columns.len());
        for column in columns {
            let width = column.plain_width()?;
            fields.push(Field { at: row_bytes, length: (width as u32).to_be_bytes() });
            row_bytes += LENGTH_BYTES + width;
        }
        // The length counts itself.
        let [a, b, c, d] = u32::try_from(row_bytes + LENGTH_BYTES).ok()?.to_be_bytes();
        Some(Self { row_bytes, message_head: [message::COPY_DATA, a, b, c, d], count, fields })
    }

    /// Reads rows from the start of `data`: how many, and the bytes they took.
    pub fn read(&self, data: &[u8], batches: &mut Batches) -> Result<(u64, usize)> {
        self.read_behind([], data, batches)
    }

    /// As [`PlainRows::read`], from messages of one row each.
    pub fn read_messages(&self, messages: &[u8], batches: &mut Batches) -> Result<(u64, usize)> {
        self.read_behind(self.message_head, messages, batches)
    }

    /// Reads rows that have all the same before them.
    fn read_behind<const HEAD: usize>(
        &self,
        head: [u8; HEAD],
        data: &[u8],
        batches: &mut Batches,
    ) -> Result<(u64, usize)> {
        let stride = HEAD + self.row_bytes;
        let (mut rows, mut at) = (0, 0);
        loop {
            let wanted = batches.rows_left().min(ROWS_AT_ONCE);
            let found = data[at..].chunks_exact(stride).take(wanted);
            let is_plain = |row: &&[u8]| row.first_chunk() == Some(&head) && self.is_plain(&row[HEAD..]);
            let found = found.take_while(is_plain).count();
            if found == 0 {
                return Ok((rows, at));
            }
            let end = at + found * stride;
            for (column, field) in batches.columns.iter_mut().zip(&self.fields) {
                column.append_plain(data[at..end].chunks_exact(stride), HEAD + field.at + LENGTH_BYTES);
            }
            batches.rows_done(found)?;
            rows += found as u64;
            at = end;
        }
    }

    /// As numbers: `starts_with` would be a call of memcmp for each.
    #[inline]
    fn is_plain(&self, row: &[u8]) -> bool {
        row.first_chunk() == Some(&self.count)
            && self.fields.iter().all(|f| row[f.at..].first_chunk() == Some(&f.length))
    }
}
