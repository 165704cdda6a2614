//! The log: numbered records in segment files, durable when `sync` says so, replayed in order after a crash.
//!
//! # What is promised
//!
//! Every record up to the LSN that [`Log::sync`] returned is there after any crash, whole, in order and once.
//! A record that was not synced is there whole or not at all, and none is there without all those before it.
//! A record that was damaged after it had been synced is reported and never skipped. What the payloads mean
//! is the caller's business.
//!
//! # Writing
//!
//! Records are gathered in memory and go out as one write and one fdatasync for each group commit. The caller
//! owns the `Log` in its committer thread; there is no lock in here, so the next group can be prepared while
//! this one syncs. A group never spans two segments. A new segment is begun only when everything before it is
//! durable, and it gets its first record only when its header and its name are. Hence every segment but the
//! last is complete, and a last segment without a valid header has no records.
//!
//! While groups are small the segment is filled with zeros some way ahead of its records, so that a sync need not write
//! the file's new length too: on ext4 that takes 88 instead of 122 microseconds and 38 instead of 53 of CPU. The zeros
//! are cut off when the next segment is begun, and at a start.
//!
//! # A torn tail, or damage?
//!
//! After a crash the last segment may end in rubbish: the group that was being written. It has to be cut off.
//! A record whose block was ruined on the disk looks just the same, and cutting there would silently lose
//! acknowledged data. "Is there a valid record behind the bad one?" does not separate the two: the blocks of
//! one group reach the disk in any order, so the second half of an unsynced group may be there without the
//! first, and refusing to start then would turn an ordinary power cut into an outage.
//!
//! So each record says which LSN was durable when it was written (`synced`). Let the bad record be the one
//! that should have been L. If any valid record behind it has `synced` ≥ L, then L had been made durable
//! before that record was written: no crash can explain its absence, and it is damage ([`LogError::Corrupt`];
//! the server does not start). If there is none, then no group after that of L was ever synced, L belongs to
//! the last group, and cutting from L on is right in every crash. The price is that damage within the very
//! last group is taken for a torn tail. No log can tell those apart without writing again after each sync.
//!
//! The search for such a witness looks at every byte offset, because the length in a bad record can't be
//! believed. It is not fooled by old or foreign bytes: the checksum of a record continues from a random
//! number in the header of its segment, a segment file is never reused, and whatever is cut is durably cut
//! before anything is appended there. For the same reason opening the log rewrites and syncs its last group:
//! after a kill without a power cut, or after a failed fsync, records can be read that are not durable, and
//! the `synced` of the next record would lie about them.
//!
//! # Errors
//!
//! A failed fsync poisons the log for good. The kernel may have dropped the pages and marked them clean, so
//! that a second fsync would succeed without having written them (PostgreSQL learned it in 2018). Any other
//! I/O error does the same, because what is on disk is then unknown; the way out is to start again and
//! replay. A full disk alone is survivable, as long as it shows in a write, before the sync: the unsynced
//! group is durably cut off and forgotten, its LSNs are given again, and the caller gets
//! [`LogError::DiskFull`]. Since a checkpoint needs room in order to make room, a reserve file holds some
//! back, which [`Log::release_reserve`] sets free.

mod record;
mod replay;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use record::{Lsn, RECORD_BYTES_MAX, Record};
pub use replay::Replay;

use crate::disk::{AppendFile, Disk, DiskError};
use segment::{FORMAT_VERSION, SEGMENT_HEADER_BYTES, SegmentHeader, segment_path};

/// A segment that has reached this size is followed by a new one at the next group.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Kept back for a checkpoint on a full disk.
pub const RESERVE_BYTES: u64 = 16 << 20;
/// How far the segment being written is filled with zeros ahead of its records.
pub const AHEAD_BYTES: u64 = 128 << 10;
/// A group larger than this is written in parts, though still synced once.
pub const BUFFER_BYTES_MAX: usize = 8 << 20;

const RESERVE_FILE: &str = "reserve";
/// The reserve is filled in pieces of this size.
const RESERVE_CHUNK_BYTES: usize = 1 << 20;

#[derive(Debug, Clone)]
pub struct LogOptions {
    pub segment_bytes: u64,
    /// Size of the reserve file; 0 for none.
    pub reserve_bytes: u64,
    /// Length of the zeros ahead of the records; 0 for none.
    pub ahead_bytes: u64,
    /// The segments' epochs are drawn from it. Clients must not be able to guess it.
    pub seed: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        LogOptions {
            segment_bytes: SEGMENT_BYTES,
            reserve_bytes: RESERVE_BYTES,
            ahead_bytes: AHEAD_BYTES,
            seed,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log is poisoned if this came while writing.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Everything after [`Log::synced_lsn`] has been dropped; the log can be used on.
    #[error("no space left for the log: {0}")]
    DiskFull(#[source] DiskError),
    #[error("the log can't be written any more after an earlier error: {cause}")]
    Poisoned { cause: String },
    #[error("log segment \"{}\" is damaged at byte {offset}: {reason}", segment.display())]
    Corrupt { segment: PathBuf, offset: u64, reason: &'static str },
    #[error(
        "log records from {expected} to {} are missing before segment \"{}\"",
        found.previous(), segment.display()
    )]
    Missing { segment: PathBuf, expected: Lsn, found: Lsn },
    #[error("the log ends at {last}, but everything up to {known} is known to have been in it")]
    Behind { last: Lsn, known: Lsn },
    #[error(
        "log segment \"{}\" has format version {version}, this server reads up to {supported}",
        segment.display()
    )]
    NewerVersion { segment: PathBuf, version: u32, supported: u32 },
    #[error("log record of {bytes} bytes exceeds the limit of {RECORD_BYTES_MAX} bytes")]
    TooLarge { bytes: usize },
}

/// The writing end. Not shared: the committer owns it.
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: LogOptions,
    /// Complete segments, oldest first.
    sealed: VecDeque<Sealed>,
    active: Active,
    /// Encoded records that are not written yet.
    buffer: Vec<u8>,
    next: Lsn,
    synced: Lsn,
    has_reserve: bool,
    poison: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Sealed {
    first: Lsn,
    bytes: u64,
}

/// The segment that is being written.
#[derive(Debug)]
struct Active {
    file: Box<dyn AppendFile>,
    first: Lsn,
    crc: u32,
    bytes: u64,
    /// The length up to which the file is durable; the place to cut back to.
    synced_bytes: u64,
    /// The length of the file with the zeros ahead of the records.
    allocated_bytes: u64,
}

impl Active {
    /// Makes a segment that is durable with its header and its name before anything refers to it.
    fn create(disk: &dyn Disk, dir: &Path, first: Lsn, seed: u64) -> Result<Self, DiskError> {
        let mut hasher = DefaultHasher::new();
        (seed, first).hash(&mut hasher);
        let header = SegmentHeader { version: FORMAT_VERSION, first, epoch: hasher.finish() };
        let mut file = disk.create(&segment_path(dir, first))?;
        file.append(&header.encode())?;
        file.sync()?;
        disk.sync_dir(dir)?;
        let bytes = SEGMENT_HEADER_BYTES as u64;
        Ok(Active { file, first, crc: header.crc(), bytes, synced_bytes: bytes, allocated_bytes: bytes })
    }

    /// Fills the file with zeros ahead of the records if a group like the one at hand would not fit into those that are
    /// left. Large groups are spared: writing everything twice would cost more than a length.
    fn extend(&mut self, ahead_bytes: u64) -> Result<(), DiskError> {
        let group = self.bytes - self.synced_bytes;
        if self.bytes + group <= self.allocated_bytes || group > ahead_bytes / 4 {
            return Ok(());
        }
        self.allocated_bytes = self.bytes + ahead_bytes;
        match self.file.extend(self.allocated_bytes) {
            // No record is missing yet; the next group tells whether there is room for it.
            Err(error) if error.is_full() => Ok(()),
            outcome => outcome,
        }
    }

    /// Cuts the zeros off.
    fn trim(&mut self) -> Result<(), DiskError> {
        if self.allocated_bytes > self.bytes {
            self.file.truncate(self.bytes)?;
            self.allocated_bytes = self.bytes;
        }
        Ok(())
    }
}

impl Log {
    /// Opens the log in `dir`, making it if it is missing, and cuts a torn tail. The caller must go through
    /// the whole [`Replay`], which checks what is in the earlier segments, before it appends.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<(Log, Replay), LogError> {
        replay::open(disk, dir, options)
    }

    /// Takes a record of the given kind, its payload in parts, into the group that the next [`Log::sync`]
    /// makes durable. On [`LogError::DiskFull`] the whole group is gone.
    pub fn append(&mut self, kind: u8, payload: &[&[u8]]) -> Result<Lsn, LogError> {
        self.check_usable()?;
        let bytes = payload.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        if bytes > RECORD_BYTES_MAX {
            return Err(LogError::TooLarge { bytes });
        }
        if self.is_synced() && self.active.bytes >= self.options.segment_bytes {
            self.rotate()?;
        }
        let lsn = self.next;
        record::encode(&mut self.buffer, self.active.crc, lsn, self.synced, kind, payload);
        self.next = lsn.next();
        if self.buffer.len() >= BUFFER_BYTES_MAX {
            self.write_buffer()?;
        }
        Ok(lsn)
    }

    /// Makes all appended records durable and returns the last one's LSN.
    pub fn sync(&mut self) -> Result<Lsn, LogError> {
        self.check_usable()?;
        self.write_buffer()?;
        if self.active.bytes > self.active.synced_bytes {
            self.active.extend(self.options.ahead_bytes).map_err(|error| self.poisoned_by(error))?;
            self.active.file.sync().map_err(|error| self.poisoned_by(error))?;
            self.active.synced_bytes = self.active.bytes;
            self.synced = self.last_lsn();
        }
        Ok(self.synced)
    }

    /// Syncs, and begins a new segment unless the current one is still empty.
    pub fn rotate(&mut self) -> Result<(), LogError> {
        self.sync()?;
        if self.active.first == self.next {
            return Ok(());
        }
        self.active.trim().map_err(|error| self.poisoned_by(error))?;
        let created = Active::create(&*self.disk, &self.dir, self.next, self.options.seed);
        let active = match created {
            Ok(active) => active,
            Err(error) if error.is_full() => {
                self.remove_durably(&segment_path(&self.dir, self.next))?;
                return Err(LogError::DiskFull(error));
            }
            Err(error) => return Err(self.poisoned_by(error)),
        };
        self.sealed.push_back(Sealed { first: self.active.first, bytes: self.active.bytes });
        self.active = active;
        Ok(())
    }

    /// Removes the segments whose records all come before `lsn` and returns how many bytes that freed. The
    /// segment being written stays; rotate first to get rid of as much as possible.
    pub fn drop_before(&mut self, lsn: Lsn) -> Result<u64, LogError> {
        self.check_usable()?;
        let mut freed = 0;
        while let Some(oldest) = self.sealed.front().copied() {
            let next_first = self.sealed.get(1).map_or(self.active.first, |segment| segment.first);
            if next_first > lsn {
                break;
            }
            // One at a time and oldest first: a crash in between leaves no gap.
            self.remove_durably(&segment_path(&self.dir, oldest.first))?;
            self.sealed.pop_front();
            freed += oldest.bytes;
        }
        Ok(freed)
    }

    /// Gives the reserve file's space back to the file system, for a checkpoint on a full disk. Returns
    /// whether there was any.
    pub fn release_reserve(&mut self) -> Result<bool, LogError> {
        self.check_usable()?;
        let released = std::mem::take(&mut self.has_reserve);
        if released {
            self.remove_durably(&self.dir.join(RESERVE_FILE))?;
        }
        Ok(released)
    }

    /// Makes the reserve file again if it is missing; [`LogError::DiskFull`] if there is still no room.
    pub fn restore_reserve(&mut self) -> Result<(), LogError> {
        self.check_usable()?;
        if self.has_reserve || self.options.reserve_bytes == 0 {
            return Ok(());
        }
        match self.write_reserve() {
            Ok(()) => self.has_reserve = true,
            Err(error) if error.is_full() => {
                self.remove_durably(&self.dir.join(RESERVE_FILE))?;
                return Err(LogError::DiskFull(error));
            }
            Err(error) => return Err(self.poisoned_by(error)),
        }
        Ok(())
    }

    /// LSN of the last record appended, durable or not.
    pub fn last_lsn(&self) -> Lsn {
        self.next.previous()
    }

    pub fn synced_lsn(&self) -> Lsn {
        self.synced
    }

    /// LSN of the oldest record that is kept, or of the next one if none is.
    pub fn first_lsn(&self) -> Lsn {
        self.sealed.front().map_or(self.active.first, |segment| segment.first)
    }

    /// Bytes of all segments, with what is not written yet and without the reserve.
    pub fn size_bytes(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|segment| segment.bytes).sum();
        sealed + self.active.bytes + self.buffer.len() as u64
    }

    pub fn has_reserve(&self) -> bool {
        self.has_reserve
    }

    fn is_synced(&self) -> bool {
        self.synced == self.last_lsn()
    }

    fn check_usable(&self) -> Result<(), LogError> {
        match &self.poison {
            None => Ok(()),
            Some(cause) => Err(LogError::Poisoned { cause: cause.clone() }),
        }
    }

    fn poisoned_by(&mut self, error: DiskError) -> LogError {
        self.poison = Some(error.to_string());
        LogError::Disk(error)
    }

    fn write_buffer(&mut self) -> Result<(), LogError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        match self.active.file.append(&self.buffer) {
            Ok(()) => {
                self.active.bytes += self.buffer.len() as u64;
                self.clear_buffer();
                Ok(())
            }
            Err(error) if error.is_full() => {
                self.drop_unsynced()?;
                Err(LogError::DiskFull(error))
            }
            Err(error) => Err(self.poisoned_by(error)),
        }
    }

    /// Forgets everything that is not durable, in memory and in the file. The cut is durable before the same
    /// LSNs are given again, or else a crash could bring back a record that its client was told had failed.
    fn drop_unsynced(&mut self) -> Result<(), LogError> {
        self.clear_buffer();
        self.next = self.synced.next();
        let keep = self.active.synced_bytes;
        self.active.file.truncate(keep).map_err(|error| self.poisoned_by(error))?;
        self.active.bytes = keep;
        self.active.allocated_bytes = keep;
        Ok(())
    }

    /// One huge record does not keep its memory for ever.
    fn clear_buffer(&mut self) {
        self.buffer.clear();
        self.buffer.shrink_to(2 * BUFFER_BYTES_MAX);
    }

    /// Removes a file that may not be there. An error leaves the directory in an unknown state.
    fn remove_durably(&mut self, path: &Path) -> Result<(), LogError> {
        match self.disk.remove(path) {
            Err(error) if !error.is_not_found() => return Err(self.poisoned_by(error)),
            _ => {}
        }
        self.disk.sync_dir(&self.dir).map_err(|error| self.poisoned_by(error))
    }

    /// Real zeros rather than a sparse or preallocated file: that holds space on every file system that does
    /// not compress.
    fn write_reserve(&self) -> Result<(), DiskError> {
        let mut file = self.disk.create(&self.dir.join(RESERVE_FILE))?;
        let mut left = self.options.reserve_bytes;
        while left > 0 {
            let part = left.min(RESERVE_CHUNK_BYTES as u64);
            file.append(&vec![0; part as usize])?;
            left -= part;
        }
        file.sync()?;
        self.disk.sync_dir(&self.dir)
    }
}
