//! One segment file: its name, its header, and reading it with every byte checked.
//!
//! ```text
//! magic   8 bytes
//! version u32
//! first   u64   the LSN of the first record; also the file's name, in hexadecimal
//! epoch   u64   drawn anew for every segment
//! crc     u32   CRC32C of the above; the checksum of every record continues from it
//! records
//! ```
//! All little endian. This header keeps its layout in all versions, so that an old server can tell a newer
//! segment from a damaged one. The epoch makes records of one segment meaningless in any other place: neither
//! the blocks of a deleted file nor bytes that a client chose to store can pass for a record.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LogError;
use super::record::{HEADER_BYTES, Lsn, RECORD_BYTES_MAX, Record, RecordHeader};
use crate::disk::{Disk, ReadFile};

pub(super) const FORMAT_VERSION: u32 = 1;
pub(super) const SEGMENT_HEADER_BYTES: usize = 32;

const MAGIC: [u8; 8] = *b"TIDEMLOG";
const SUFFIX: &str = ".seg";
/// How much is read at once; a larger record is read at its own size.
const READ_BYTES: usize = 1 << 20;

pub(super) fn segment_path(dir: &Path, first: Lsn) -> PathBuf {
    dir.join(format!("{:016x}{SUFFIX}", first.0))
}

/// The LSN in a segment's name; `None` for any other file.
pub(super) fn parse_segment_name(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(SUFFIX)?;
    let is_ours = digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_ours.then(|| u64::from_str_radix(digits, 16).ok().map(Lsn)).flatten()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub version: u32,
    pub first: Lsn,
    pub epoch: u64,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.epoch.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` when the bytes are not a header that was written whole.
    pub fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Option<Self> {
        let u32_at = |at: usize| bytes[at..].first_chunk().map(|part| u32::from_le_bytes(*part));
        let u64_at = |at: usize| bytes[at..].first_chunk().map(|part| u64::from_le_bytes(*part));
        let intact = bytes.starts_with(&MAGIC) && u32_at(28)? == crc32c::crc32c(&bytes[..28]);
        intact.then_some(SegmentHeader { version: u32_at(8)?, first: Lsn(u64_at(12)?), epoch: u64_at(20)? })
    }

    /// Where the checksums of the segment's records start.
    pub fn crc(&self) -> u32 {
        crc32c::crc32c(&self.encode()[..28])
    }
}

/// The next thing in a segment.
#[derive(Debug)]
pub(super) enum Step {
    Record(Record),
    End,
    /// No record can be read at this offset; what follows it is unknown.
    Bad {
        offset: u64,
        reason: &'static str,
    },
}

/// Reads the records of a segment from front to back.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    /// Nothing is read from here on.
    end: u64,
    crc: u32,
    /// The record that must come next.
    expected: Lsn,
    offset: u64,
    /// Where the records begin that have the same `synced` as the last one read; 0 before the first record.
    group: (Lsn, u64),
    window: Window,
}

impl SegmentReader {
    /// Opens a segment and checks its header, which must be that of the segment that starts with `first`.
    /// `end` limits what is read; without it everything is.
    pub fn open(disk: &dyn Disk, dir: &Path, first: Lsn, end: Option<u64>) -> Result<Self, LogError> {
        let path = segment_path(dir, first);
        let file = disk.open_read(&path)?;
        let end = match end {
            Some(end) => end,
            None => file.size_bytes()?,
        };
        let header = match end < SEGMENT_HEADER_BYTES as u64 {
            true => None,
            false => {
                let mut bytes = [0; SEGMENT_HEADER_BYTES];
                file.read_at(&mut bytes, 0)?;
                SegmentHeader::decode(&bytes)
            }
        };
        match header {
            Some(header) if header.version > FORMAT_VERSION => Err(LogError::NewerVersion {
                segment: path,
                version: header.version,
                supported: FORMAT_VERSION,
            }),
            Some(header) if header.first == first && header.version == FORMAT_VERSION => Ok(SegmentReader {
                file,
                path,
                end,
                crc: header.crc(),
                expected: first,
                offset: SEGMENT_HEADER_BYTES as u64,
                group: (Lsn::ZERO, 0),
                window: Window::default(),
            }),
            Some(_) => Err(LogError::Corrupt {
                segment: path,
                offset: 0,
                reason: "the header is of another segment",
            }),
            None => Err(LogError::Corrupt { segment: path, offset: 0, reason: "the header is damaged" }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// The LSN that the next record has, or would have.
    pub fn expected(&self) -> Lsn {
        self.expected
    }

    /// Where the next record starts, or would start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    /// Where the group of the last record read begins. Everything before it was durable when that record was
    /// written; of a segment without records not even the header is known to be.
    pub fn group_offset(&self) -> u64 {
        self.group.1
    }

    /// The part of the file from `offset` up to `to`, or as much of it as is read at once.
    pub fn bytes_at(&mut self, offset: u64, to: u64) -> Result<&[u8], LogError> {
        let length = usize::try_from(to - offset).unwrap_or(usize::MAX).min(READ_BYTES);
        self.window.get(&*self.file, offset, length, self.end)
    }

    /// Whether there is nothing but zeros from where reading stopped.
    pub fn rest_is_zero(&mut self) -> Result<bool, LogError> {
        let mut offset = self.offset;
        while offset < self.end {
            let part = self.bytes_at(offset, self.end)?;
            if part.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            offset += part.len() as u64;
        }
        Ok(true)
    }

    pub fn step(&mut self) -> Result<Step, LogError> {
        let offset = self.offset;
        if offset == self.end {
            return Ok(Step::End);
        }
        let bad = |reason| Ok(Step::Bad { offset, reason });
        let Some(header) = self.header_at(offset)? else {
            return bad("the record's header is cut short");
        };
        if header.length as usize > RECORD_BYTES_MAX {
            return bad("the record's length is out of bounds");
        }
        if offset + header.record_bytes() > self.end {
            return bad("the record is cut short");
        }
        let expected = self.expected;
        let record = self.window.get(&*self.file, offset, header.record_bytes() as usize, self.end)?;
        if !header.matches(self.crc, record) {
            return bad("the record's checksum does not match");
        }
        if header.lsn != expected {
            // An intact record in a wrong place is no crash's work, wherever it is.
            let reason = "the record is out of sequence";
            return Err(LogError::Corrupt { segment: self.path.clone(), offset, reason });
        }
        let payload = record[HEADER_BYTES..].to_vec();
        if self.group.1 == 0 || self.group.0 != header.synced {
            self.group = (header.synced, offset);
        }
        self.offset += header.record_bytes();
        self.expected = expected.next();
        Ok(Step::Record(Record { lsn: header.lsn, kind: header.kind, payload }))
    }

    /// The offset of an intact record behind the bad one at which reading stopped, which was written after
    /// the bad one had been synced. The module `log` tells what it proves.
    pub fn find_witness(&mut self) -> Result<Option<u64>, LogError> {
        let lost = self.expected;
        let possible = self.end.saturating_sub(self.offset) / HEADER_BYTES as u64;
        for offset in self.offset + 1..self.end {
            let Some(header) = self.header_at(offset)? else {
                break;
            };
            // Cheap tests first; nearly nothing passes them by chance.
            let plausible = header.synced >= lost
                && header.lsn > header.synced
                && header.lsn.0 - lost.0 <= possible
                && header.length as usize <= RECORD_BYTES_MAX
                && offset + header.record_bytes() <= self.end;
            if !plausible {
                continue;
            }
            let record = self.window.get(&*self.file, offset, header.record_bytes() as usize, self.end)?;
            if header.matches(self.crc, record) {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }

    fn header_at(&mut self, offset: u64) -> Result<Option<RecordHeader>, LogError> {
        if self.end - offset < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let bytes = self.window.get(&*self.file, offset, HEADER_BYTES, self.end)?;
        Ok(bytes.first_chunk().map(RecordHeader::decode))
    }
}

/// The part of the file that is in memory.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// `length` bytes from `offset`, which the caller knows to end by `end`; reads ahead as far as that.
    fn get(&mut self, file: &dyn ReadFile, offset: u64, length: usize, end: u64) -> Result<&[u8], LogError> {
        let held = self.start..=self.start + self.bytes.len() as u64;
        if !held.contains(&offset) || !held.contains(&(offset + length as u64)) {
            let ahead = usize::try_from(end - offset).unwrap_or(usize::MAX).min(READ_BYTES);
            self.bytes.resize(length.max(ahead), 0);
            self.bytes.shrink_to(2 * READ_BYTES);
            self.start = offset;
            if let Err(error) = file.read_at(&mut self.bytes, offset) {
                self.bytes.clear();
                return Err(error.into());
            }
        }
        let from = (offset - self.start) as usize;
        Ok(&self.bytes[from..from + length])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_their_numbers() {
        for lsn in [1, 10, 255, 1 << 40, u64::MAX] {
            let path = segment_path(Path::new("log"), Lsn(lsn));
            assert_eq!(parse_segment_name(path.file_name().unwrap().to_str().unwrap()), Some(Lsn(lsn)));
        }
        assert_eq!(segment_path(Path::new("log"), Lsn(1)), Path::new("log/0000000000000001.seg"));
        for name in
            ["1.seg", "reserve", "000000000000000G.seg", "+00000000000000a.seg", "0000000000000001.seg.tmp"]
        {
            assert_eq!(parse_segment_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_header_reads_back_and_every_flip_shows() {
        let header = SegmentHeader { version: 3, first: Lsn(17), epoch: 0xdead_beef };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Some(header));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&flipped), None, "bit {bit}");
        }
    }
}
