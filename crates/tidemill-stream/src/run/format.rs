//! Header, footer and trailer of a run, and the block index that the footer holds. All numbers are little-endian.
//!
//! ```text
//! header   magic "TIDERUN", version
//! footer   layout · schema message · key columns u32 · rows u64 · blocks u32
//!          per block: length u64 · filter length u32 · rows u32 · block crc u32 · filter crc u32 · separator
//!          last key
//! trailer  footer offset u64 · footer length u64 · footer crc u32 · crc of the trailer so far u32 · header again
//! ```
//!
//! Texts and keys are preceded by their length as u32. Blocks lie one behind the other, each followed by its filter.

use std::path::Path;

use arrow::datatypes::SchemaRef;
use arrow::ipc::convert::try_schema_from_flatbuffer_bytes;

use super::{Result, RunError};

/// Grows with every change of this format, of the key encoding (arrow-row), or of [`super::filter::hash`].
pub const VERSION: u8 = 1;
pub const HEADER: [u8; 8] = [b'T', b'I', b'D', b'E', b'R', b'U', b'N', VERSION];
pub const TRAILER_BYTES: usize = 32;
/// What a block takes in the footer besides its separator.
const BLOCK_ENTRY_BYTES: usize = 28;

/// Where a block is and how to check it. Its filter follows it.
#[derive(Debug, Clone, Copy)]
pub struct BlockEntry {
    pub offset: u64,
    pub length: u64,
    /// 0 for a block without a filter.
    pub filter_length: u32,
    pub rows: u32,
    pub crc: u32,
    pub filter_crc: u32,
}

impl BlockEntry {
    pub fn filter_offset(&self) -> u64 {
        self.offset + self.length
    }

    pub fn end(&self) -> u64 {
        self.filter_offset() + u64::from(self.filter_length)
    }
}

/// The blocks of a run in key order. A block's *separator* is above all keys of the block before it and not above its
/// own first key; it is the shortest such prefix of that key, so that long keys don't make a large index.
#[derive(Debug, Default)]
pub struct Index {
    entries: Vec<BlockEntry>,
    /// All separators, one behind the other, and where each ends.
    separators: Vec<u8>,
    ends: Vec<usize>,
}

impl Index {
    pub fn push(&mut self, entry: BlockEntry, separator: &[u8]) {
        self.entries.push(entry);
        self.separators.extend_from_slice(separator);
        self.ends.push(self.separators.len());
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entry(&self, block: usize) -> &BlockEntry {
        &self.entries[block]
    }

    pub fn separator(&self, block: usize) -> &[u8] {
        let start = if block == 0 { 0 } else { self.ends[block - 1] };
        &self.separators[start..self.ends[block]]
    }

    /// The one block that can hold `key`; `None` if it is below the first key of the run.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.separator(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }

    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<BlockEntry>()
            + self.separators.capacity()
            + self.ends.capacity() * size_of::<usize>()
    }
}

/// The shortest prefix of `first` that is above `previous`, the last key of the block before.
pub fn separator<'a>(previous: &[u8], first: &'a [u8]) -> &'a [u8] {
    let common = previous.iter().zip(first).take_while(|(a, b)| a == b).count();
    &first[..(common + 1).min(first.len())]
}

#[derive(Debug)]
pub struct Footer {
    pub schema: SchemaRef,
    /// The first `keys` columns are the key.
    pub keys: usize,
    pub rows: u64,
    pub index: Index,
    /// Empty in a run without rows. The first key is the separator of the first block.
    pub last_key: Vec<u8>,
}

impl Footer {
    pub fn encode(&self, layout: &str, schema_message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.index.memory_bytes() + schema_message.len() + 1024);
        put_bytes(&mut bytes, layout.as_bytes());
        put_bytes(&mut bytes, schema_message);
        bytes.extend_from_slice(&(self.keys as u32).to_le_bytes());
        bytes.extend_from_slice(&self.rows.to_le_bytes());
        bytes.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        for (block, entry) in self.index.entries.iter().enumerate() {
            bytes.extend_from_slice(&entry.length.to_le_bytes());
            for number in [entry.filter_length, entry.rows, entry.crc, entry.filter_crc] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            put_bytes(&mut bytes, self.index.separator(block));
        }
        put_bytes(&mut bytes, &self.last_key);
        bytes
    }

    /// `bytes` start at `offset` of the file at `path` and have passed their checksum.
    pub fn decode(bytes: &[u8], path: &Path, offset: u64, layout: &str) -> Result<Self> {
        let mut parser = Parser { bytes, at: 0 };
        let corrupt = |at: usize, reason: &str| RunError::corrupt(path, offset + at as u64, reason);
        let cut = || corrupt(bytes.len(), "the footer ends too early");
        // The layout comes first: in another one, nothing that follows needs to make sense.
        let found = parser.bytes().ok_or_else(cut)?;
        if found != layout.as_bytes() {
            let found = String::from_utf8_lossy(found).into_owned();
            return Err(RunError::Layout { path: path.to_owned(), found, expected: layout.to_owned() });
        }
        let schema_at = parser.at;
        let schema = try_schema_from_flatbuffer_bytes(parser.bytes().ok_or_else(cut)?)
            .map_err(|error| corrupt(schema_at, &error.to_string()))?;
        let keys = parser.u32().ok_or_else(cut)? as usize;
        let rows = parser.u64().ok_or_else(cut)?;
        let index_at = parser.at;
        let index = parser.index().ok_or_else(cut)?;
        let last_key = parser.bytes().ok_or_else(cut)?.to_vec();
        let footer = Footer { schema: SchemaRef::new(schema), keys, rows, index, last_key };
        if parser.at != bytes.len() {
            return Err(corrupt(parser.at, "the footer is longer than its content"));
        }
        if footer.index_end() != offset || !footer.is_consistent() {
            return Err(corrupt(index_at, "the block index contradicts itself"));
        }
        Ok(footer)
    }

    fn index_end(&self) -> u64 {
        match self.index.entries.last() {
            Some(entry) => entry.end(),
            None => HEADER.len() as u64,
        }
    }

    fn is_consistent(&self) -> bool {
        let rows: u64 = self.index.entries.iter().map(|entry| u64::from(entry.rows)).sum();
        let ascending = (1..self.index.len()).all(|i| self.index.separator(i - 1) < self.index.separator(i));
        let last = self.index.len().checked_sub(1);
        rows == self.rows
            && ascending
            && self.keys <= self.schema.fields().len()
            && self.index.entries.iter().all(|entry| entry.rows > 0)
            && last.is_none_or(|last| self.index.separator(last) <= self.last_key.as_slice())
    }
}

pub struct Trailer {
    pub footer_offset: u64,
    pub footer_length: u64,
    pub footer_crc: u32,
}

impl Trailer {
    pub fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&self.footer_offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.footer_length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.footer_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..20]);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        bytes[24..].copy_from_slice(&HEADER);
        bytes
    }

    /// `file_bytes` is the size of the whole file.
    pub fn decode(bytes: &[u8; TRAILER_BYTES], path: &Path, file_bytes: u64) -> Result<Self> {
        let offset = file_bytes - TRAILER_BYTES as u64;
        check_header(&bytes[24..], path, offset + 24)?;
        let mut parser = Parser { bytes, at: 0 };
        let mut parse = || {
            let (footer_offset, footer_length) = (parser.u64()?, parser.u64()?);
            let (footer_crc, crc) = (parser.u32()?, parser.u32()?);
            (crc == crc32c::crc32c(&bytes[..20])).then_some(Trailer {
                footer_offset,
                footer_length,
                footer_crc,
            })
        };
        parse()
            .filter(|trailer| trailer.footer_offset.checked_add(trailer.footer_length) == Some(offset))
            .ok_or_else(|| RunError::corrupt(path, offset, "the trailer does not match its checksum"))
    }
}

/// A header that names another version is refused as such, and not as damage.
pub fn check_header(bytes: &[u8], path: &Path, offset: u64) -> Result<()> {
    match bytes.split_last() {
        Some((&found, magic)) if magic == &HEADER[..7] && found != VERSION => {
            Err(RunError::Version { path: path.to_owned(), found })
        }
        Some((_, magic)) if magic == &HEADER[..7] => Ok(()),
        _ => Err(RunError::corrupt(path, offset, "this is no run of view state")),
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Reads what may end too early: `None`.
struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    fn index(&mut self) -> Option<Index> {
        let blocks = self.u32()? as usize;
        // A damaged count must not become a huge allocation.
        let possible = (self.bytes.len() - self.at) / BLOCK_ENTRY_BYTES;
        if blocks > possible {
            return None;
        }
        let mut index = Index {
            entries: Vec::with_capacity(blocks),
            separators: Vec::new(),
            ends: Vec::with_capacity(blocks),
        };
        let mut offset = HEADER.len() as u64;
        for _ in 0..blocks {
            let length = self.u64()?;
            let (filter_length, rows) = (self.u32()?, self.u32()?);
            let (crc, filter_crc) = (self.u32()?, self.u32()?);
            let entry = BlockEntry { offset, length, filter_length, rows, crc, filter_crc };
            offset = offset.checked_add(length)?.checked_add(u64::from(filter_length))?;
            index.push(entry, self.bytes()?);
        }
        index.separators.shrink_to_fit();
        Some(index)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};

    use super::super::block::BlockEncoder;
    use super::*;

    #[test]
    fn separators_are_short_and_separate() {
        for (previous, first, expected) in [
            (&b""[..], &b"abc"[..], &b"a"[..]),
            (b"abc", b"abd", b"abd"),
            (b"ab", b"abc", b"abc"),
            (b"a-long-key", b"b-long-key", b"b"),
        ] {
            assert_eq!(separator(previous, first), expected);
            assert!(previous < expected && expected <= first);
        }
    }

    #[test]
    fn find_gives_the_only_candidate() {
        let mut index = Index::default();
        assert_eq!(index.find(b"a"), None);
        let entry = BlockEntry { offset: 8, length: 1, filter_length: 0, rows: 1, crc: 0, filter_crc: 0 };
        for separator in [&b"b"[..], b"d", b"f"] {
            index.push(entry, separator);
        }
        for (key, block) in
            [(&b"a"[..], None), (b"b", Some(0)), (b"c", Some(0)), (b"d", Some(1)), (b"z", Some(2))]
        {
            assert_eq!(index.find(key), block, "{key:?}");
        }
    }
    #[test]
    fn the_index_of_fifty_million_rows_is_small() {
        let schema = SchemaRef::new(Schema::new(vec![Field::new("k0", DataType::Utf8, true)]));
        let message = BlockEncoder::try_new(SchemaRef::clone(&schema)).unwrap().schema_message();
        let mut footer = Footer { schema, keys: 1, rows: 0, index: Index::default(), last_key: vec![255] };
        let mut offset = HEADER.len() as u64;
        while footer.rows < 50_000_000 {
            let entry = BlockEntry {
                offset,
                length: 100_000,
                filter_length: 5120,
                rows: 4096,
                crc: 1,
                filter_crc: 2,
            };
            footer.index.push(entry, format!("a key of thirty bytes {:08}", footer.rows).as_bytes());
            footer.rows += u64::from(entry.rows);
            offset = entry.end();
        }
        let bytes = footer.encode("layout", &message);
        let read = Footer::decode(&bytes, Path::new("run"), offset, "layout").unwrap();
        assert_eq!(
            (read.rows, read.index.len(), &read.schema),
            (footer.rows, footer.index.len(), &footer.schema)
        );
        assert!(read.index.memory_bytes() < 1_200_000, "{}", read.index.memory_bytes());
    }
}
