//! Opening the log: checks what is there, cuts a torn tail, and reads the records back in order.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::record::{Lsn, Record};
use super::segment::{
    SEGMENT_HEADER_BYTES, SegmentHeader, SegmentReader, Step, parse_segment_name, segment_path,
};
use super::{Active, Log, LogError, LogOptions, RESERVE_FILE, Sealed};
use crate::disk::Disk;

/// The records of the log as it was when it was opened, in order, each checked. After an error there is
/// nothing more.
#[derive(Debug)]
pub struct Replay {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Segments not begun yet, with their length.
    segments: VecDeque<Sealed>,
    reader: Option<SegmentReader>,
    /// First LSN that the next segment must have; `None` before the first segment.
    expected: Option<Lsn>,
    /// Records up to here are left out.
    after: Lsn,
    last: Lsn,
}

impl Replay {
    /// Leaves out the records up to `lsn`, which a checkpoint already holds. It is an error if the log ends
    /// before that or if records directly after it are gone.
    pub fn after(mut self, lsn: Lsn) -> Result<Self, LogError> {
        if lsn > self.last {
            return Err(LogError::Behind { last: self.last, known: lsn });
        }
        while self.segments.get(1).is_some_and(|segment| segment.first <= lsn.next()) {
            self.segments.pop_front();
        }
        match self.segments.front() {
            Some(oldest) if oldest.first > lsn.next() => Err(LogError::Missing {
                segment: segment_path(&self.dir, oldest.first),
                expected: lsn.next(),
                found: oldest.first,
            }),
            _ => {
                self.after = lsn;
                Ok(self)
            }
        }
    }

    /// LSN of the last record of the log.
    pub fn last_lsn(&self) -> Lsn {
        self.last
    }

    fn next_record(&mut self) -> Result<Option<Record>, LogError> {
        loop {
            let Some(reader) = &mut self.reader else {
                match self.segments.pop_front() {
                    None => return Ok(None),
                    Some(segment) => self.reader = Some(self.enter(segment)?),
                }
                continue;
            };
            match reader.step()? {
                Step::Record(record) if record.lsn <= self.after => {}
                Step::Record(record) => return Ok(Some(record)),
                Step::End => {
                    self.expected = Some(reader.expected());
                    self.reader = None;
                }
                Step::Bad { offset, reason } => return Err(corrupt(reader.path(), offset, reason)),
            }
        }
    }

    fn enter(&self, segment: Sealed) -> Result<SegmentReader, LogError> {
        match self.expected {
            Some(expected) if expected < segment.first => Err(LogError::Missing {
                segment: segment_path(&self.dir, segment.first),
                expected,
                found: segment.first,
            }),
            Some(expected) if expected > segment.first => Err(corrupt(
                &segment_path(&self.dir, segment.first),
                0,
                "it begins with a record that the segment before it has too",
            )),
            _ => SegmentReader::open(&*self.disk, &self.dir, segment.first, Some(segment.bytes)),
        }
    }
}

impl Iterator for Replay {
    type Item = Result<Record, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.next_record().transpose();
        if matches!(item, Some(Err(_))) {
            self.segments.clear();
            self.reader = None;
        }
        item
    }
}

fn corrupt(segment: &Path, offset: u64, reason: &'static str) -> LogError {
    LogError::Corrupt { segment: segment.to_owned(), offset, reason }
}

pub(super) fn open(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<(Log, Replay), LogError> {
    disk.create_dir(dir)?;
    disk.sync_dir(dir.parent().unwrap_or(Path::new("")))?;
    let names = disk.list(dir)?;
    let mut firsts: Vec<Lsn> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    firsts.sort_unstable();
    let newest = firsts.pop();
    let sealed = firsts.into_iter().map(|first| inspect(&*disk, dir, first)).collect::<Result<_, _>>()?;
    let (active, next) = match newest {
        None => (Active::create(&*disk, dir, Lsn::ZERO.next(), options.seed)?, Lsn::ZERO.next()),
        Some(first) if is_unfinished(&*disk, dir, first)? => {
            (remake(&*disk, dir, first, options.seed)?, first)
        }
        Some(first) => open_tail(&*disk, dir, first)?,
    };
    let mut log = Log {
        disk,
        dir: dir.to_owned(),
        options,
        sealed,
        active,
        buffer: Vec::new(),
        next,
        synced: next.previous(),
        has_reserve: false,
        poison: None,
    };
    find_reserve(&mut log, &names)?;
    let replay = replay(&log);
    Ok((log, replay))
}

fn replay(log: &Log) -> Replay {
    let mut segments = log.sealed.clone();
    segments.push_back(Sealed { first: log.active.first, bytes: log.active.bytes });
    Replay {
        disk: Arc::clone(&log.disk),
        dir: log.dir.clone(),
        segments,
        reader: None,
        expected: None,
        after: Lsn::ZERO,
        last: log.last_lsn(),
    }
}

/// Looks at the header of a complete segment; its records are checked by the replay.
fn inspect(disk: &dyn Disk, dir: &Path, first: Lsn) -> Result<Sealed, LogError> {
    let reader = SegmentReader::open(disk, dir, first, None)?;
    Ok(Sealed { first, bytes: reader.end() })
}

/// Whether the newest segment is one whose making a crash interrupted. Its header is durable before the first
/// record is written, so that behind an unfinished header there is nothing.
fn is_unfinished(disk: &dyn Disk, dir: &Path, first: Lsn) -> Result<bool, LogError> {
    let file = disk.open_read(&segment_path(dir, first))?;
    let size = file.size_bytes()?;
    if size != SEGMENT_HEADER_BYTES as u64 {
        return Ok(size < SEGMENT_HEADER_BYTES as u64);
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    file.read_at(&mut bytes, 0)?;
    Ok(SegmentHeader::decode(&bytes).is_none())
}

fn remake(disk: &dyn Disk, dir: &Path, first: Lsn, seed: u64) -> Result<Active, LogError> {
    let path = segment_path(dir, first);
    tracing::warn!(segment = %path.display(), "removed a log segment that a crash left without a header");
    disk.remove(&path)?;
    disk.sync_dir(dir)?;
    Ok(Active::create(disk, dir, first, seed)?)
}

/// What is behind the last record of the newest segment.
enum Tail {
    Complete,
    /// Room that was made for records to come.
    Zeros,
    /// What a crash left of the last group.
    Torn(&'static str),
}

/// Finds the end of the newest segment, cuts what is torn, and makes the rest durable.
fn open_tail(disk: &dyn Disk, dir: &Path, first: Lsn) -> Result<(Active, Lsn), LogError> {
    let mut reader = SegmentReader::open(disk, dir, first, None)?;
    let tail = loop {
        match reader.step()? {
            Step::Record(_) => {}
            Step::End => break Tail::Complete,
            Step::Bad { .. } if reader.rest_is_zero()? => break Tail::Zeros,
            Step::Bad { offset, reason } if reader.find_witness()?.is_some() => {
                return Err(corrupt(reader.path(), offset, reason));
            }
            Step::Bad { reason, .. } => break Tail::Torn(reason),
        }
    };
    let mut file = disk.open_append(reader.path())?;
    let (bytes, next) = (reader.offset(), reader.expected());
    // That the last group can be read does not mean that it is durable; see the module `log`.
    let mut rewritten = reader.group_offset();
    while rewritten < bytes {
        let part = reader.bytes_at(rewritten, bytes)?;
        file.rewrite(part, rewritten)?;
        rewritten += part.len() as u64;
    }
    match tail {
        Tail::Complete => file.sync()?,
        Tail::Zeros => file.truncate(bytes)?,
        Tail::Torn(reason) => {
            let (segment, cut_bytes) = (reader.path().display(), reader.end() - bytes);
            tracing::warn!(
                %segment,
                offset = bytes,
                cut_bytes,
                first_lsn_cut = %next,
                reason,
                "cut the torn tail of the log"
            );
            file.truncate(bytes)?;
        }
    }
    // The crash may have come between the making of the segment and the sync of its name.
    disk.sync_dir(dir)?;
    let active =
        Active { file, first, crc: reader.crc(), bytes, synced_bytes: bytes, allocated_bytes: bytes };
    Ok((active, next))
}

/// Adopts the reserve file, or makes it. A disk without room for it does not keep the server from starting.
fn find_reserve(log: &mut Log, names: &[String]) -> Result<(), LogError> {
    if names.iter().any(|name| name == RESERVE_FILE) {
        let size = log.disk.open_read(&log.dir.join(RESERVE_FILE))?.size_bytes()?;
        log.has_reserve = true;
        if size == log.options.reserve_bytes {
            return Ok(());
        }
        log.release_reserve()?;
    }
    match log.restore_reserve() {
        Err(LogError::DiskFull(error)) => {
            tracing::warn!(%error, "no room for the log's reserve file: a checkpoint on a full disk may fail");
            Ok(())
        }
        outcome => outcome,
    }
}
