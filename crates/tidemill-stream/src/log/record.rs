//! One record of the log: its bytes, and what its checksum covers.
//!
//! ```text
//! length u32   bytes of the payload
//! crc    u32   CRC32C of everything below, continuing the CRC of the segment's header
//! lsn    u64
//! synced u64   the last LSN known to be durable when this record was written
//! kind   u8    means something to the caller only
//! payload
//! ```
//! All little endian. The length needs no cover of its own: with another length the checksum is taken over
//! other bytes.

use std::fmt;

/// The largest payload. More than that in one group commit is a mistake elsewhere.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

pub(super) const HEADER_BYTES: usize = 25;
const CHECKED_FROM: usize = 8;

/// Log sequence number: the first record has 1, each next one more. 0 stands for "before any record".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    pub const ZERO: Lsn = Lsn(0);

    /// At a million records a second the numbers last for half a million years, so saturation is never seen.
    pub fn next(self) -> Lsn {
        Lsn(self.0.saturating_add(1))
    }

    pub fn previous(self) -> Lsn {
        Lsn(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub lsn: Lsn,
    pub kind: u8,
    pub payload: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub length: u32,
    pub crc: u32,
    pub lsn: Lsn,
    pub synced: Lsn,
    pub kind: u8,
}

impl RecordHeader {
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let u32_at = |at: usize| bytes[at..].first_chunk().map_or(0, |part| u32::from_le_bytes(*part));
        let u64_at = |at: usize| bytes[at..].first_chunk().map_or(0, |part| u64::from_le_bytes(*part));
        RecordHeader {
            length: u32_at(0),
            crc: u32_at(4),
            lsn: Lsn(u64_at(8)),
            synced: Lsn(u64_at(16)),
            kind: bytes[24],
        }
    }

    /// Bytes of the whole record in the segment.
    pub fn record_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.length)
    }

    /// Whether `record`, header and payload, is what was written into the segment whose header has this CRC.
    pub fn matches(&self, segment_crc: u32, record: &[u8]) -> bool {
        crc32c::crc32c_append(segment_crc, &record[CHECKED_FROM..]) == self.crc
    }
}

/// Appends one record to `buffer`. The caller has checked that the parts are within [`RECORD_BYTES_MAX`].
pub(super) fn encode(
    buffer: &mut Vec<u8>,
    segment_crc: u32,
    lsn: Lsn,
    synced: Lsn,
    kind: u8,
    payload: &[&[u8]],
) {
    let length: usize = payload.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).expect("RECORD_BYTES_MAX is below 4 GiB");
    let start = buffer.len();
    buffer.reserve(HEADER_BYTES + length as usize);
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&lsn.0.to_le_bytes());
    buffer.extend_from_slice(&synced.0.to_le_bytes());
    buffer.push(kind);
    for part in payload {
        buffer.extend_from_slice(part);
    }
    let crc = crc32c::crc32c_append(segment_crc, &buffer[start + CHECKED_FROM..]);
    buffer[start + 4..start + CHECKED_FROM].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_every_flip_shows() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 77, Lsn(5), Lsn(3), 9, &[b"hello ", b"", b"world"]);
        let header = RecordHeader::decode(bytes.first_chunk().unwrap());
        assert_eq!((header.length, header.lsn, header.synced, header.kind), (11, Lsn(5), Lsn(3), 9));
        assert_eq!(header.record_bytes(), bytes.len() as u64);
        assert!(header.matches(77, &bytes));
        assert!(!header.matches(78, &bytes), "a record of another segment");
        for bit in 32..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let header = RecordHeader::decode(flipped.first_chunk().unwrap());
            assert!(!header.matches(77, &flipped), "bit {bit}");
        }
    }
}
