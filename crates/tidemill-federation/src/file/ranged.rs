//! A Parquet file, wherever it is. Of a file that is elsewhere come the ranges of bytes that are wanted, in blocks: what waits in
//! memory is a block of each column, however large the columns are.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::{GetOptions, GetRange, coalesce_ranges};
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use tidemill_sql::{Result, SqlError, SqlState};

use super::access::Access;
use super::input::strong;
use super::place::Place;
use super::url::Url;
use super::{failure, file_error};
use crate::regular;

/// What comes of columns before it is decoded, of all of them together, and of each at least and at most.
const AHEAD_BYTES: u64 = 64 << 20;
const BLOCK_BYTES_MIN: u64 = 64 << 10;
const BLOCK_BYTES_MAX: u64 = 8 << 20;
/// What comes of a file's end: most often all that tells what is in it.
const TAIL_BYTES: u64 = 64 << 10;
/// Columns that are nearer to each other come with what is between them.
const GAP_BYTES: u64 = 64 << 10;
/// A page of a column, or what tells what is in the file, is in memory as a whole.
const PIECE_BYTES_MAX: u64 = 512 << 20;

/// It is cheap to clone.
#[derive(Clone)]
pub enum Ranged {
    Local(Arc<File>),
    Remote(Arc<Remote>),
}

impl Ranged {
    pub fn open(place: &Place, access: &Access) -> Result<Self> {
        match place {
            Place::Local(path) => {
                let file = regular::open(path).map_err(|error| file_error("open", place, &error))?;
                Ok(Ranged::Local(Arc::new(file)))
            }
            Place::Remote(url) => Ok(Ranged::Remote(Arc::new(Remote::open(url, access)?))),
        }
    }

    /// These are read next, each from its beginning to its end, and nothing else.
    pub fn prepare(&self, columns: &[Range<u64>]) -> Result<()> {
        match self {
            Ranged::Local(_) => Ok(()),
            Ranged::Remote(remote) => remote.prepare(columns),
        }
    }

    pub fn is_remote(&self) -> bool {
        matches!(self, Ranged::Remote(_))
    }

    /// Why something did not come, if it did not: what decodes the file says so in its own words only.
    pub fn failure(&self) -> Option<SqlError> {
        match self {
            Ranged::Local(_) => None,
            Ranged::Remote(remote) => remote.failure.lock().take(),
        }
    }
}

impl Length for Ranged {
    fn len(&self) -> u64 {
        match self {
            Ranged::Local(file) => file.len(),
            Ranged::Remote(remote) => remote.size,
        }
    }
}

impl ChunkReader for Ranged {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(match self {
            Ranged::Local(file) => Box::new(file.get_read(start)?),
            Ranged::Remote(remote) => Box::new(Reading { remote: Arc::clone(remote), position: start }),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        match self {
            Ranged::Local(file) => file.get_bytes(start, length),
            Ranged::Remote(_) if length == 0 => Ok(Bytes::new()),
            Ranged::Remote(remote) => {
                let there = remote.there(start..start.saturating_add(length as u64));
                there
                    .map(|there| there.slice(..length))
                    .map_err(|error| ParquetError::External(Box::new(error)))
            }
        }
    }
}

/// A file that is elsewhere.
pub struct Remote {
    url: Url,
    access: Access,
    size: u64,
    e_tag: Option<String>,
    blocks: Mutex<Vec<Block>>,
    failure: Mutex<Option<SqlError>>,
}

/// A range that is read from its beginning to its end, of which a part is there.
struct Block {
    range: Range<u64>,
    /// Where what is there begins.
    start: u64,
    bytes: Bytes,
    /// As much comes at once.
    bytes_ahead: u64,
}

impl Block {
    /// What is there from a place on.
    fn at(&self, position: u64) -> Option<Bytes> {
        let skipped = usize::try_from(position.checked_sub(self.start)?).ok()?;
        (skipped < self.bytes.len()).then(|| self.bytes.slice(skipped..))
    }

    fn end(&self, start: u64) -> u64 {
        self.range.end.min(start.saturating_add(self.bytes_ahead))
    }
}

impl Remote {
    fn open(url: &Url, access: &Access) -> Result<Self> {
        let head = GetOptions { head: true, ..GetOptions::default() };
        let found = access.wait(access.stores.get(url, head))?.meta;
        (access.counted)(0);
        let remote = Self {
            url: url.clone(),
            access: access.clone(),
            size: found.size,
            e_tag: strong(found.e_tag),
            blocks: Mutex::default(),
            failure: Mutex::default(),
        };
        let tail = remote.size.saturating_sub(TAIL_BYTES)..remote.size;
        remote.prepare(&[tail])?;
        Ok(remote)
    }

    /// The beginning of each comes at once.
    fn prepare(&self, columns: &[Range<u64>]) -> Result<()> {
        let bytes_ahead = AHEAD_BYTES / (columns.len() as u64).max(1);
        let bytes_ahead = bytes_ahead.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        let block = |range: &Range<u64>| Block {
            range: range.clone(),
            start: range.start,
            bytes: Bytes::new(),
            bytes_ahead,
        };
        let mut blocks: Vec<_> = columns.iter().filter(|range| !range.is_empty()).map(block).collect();
        let ranges: Vec<_> = blocks.iter().map(|block| block.start..block.end(block.start)).collect();
        let bytes = self.access.wait(coalesce_ranges(&ranges, |range| self.fetch(range), GAP_BYTES))?;
        blocks.iter_mut().zip(bytes).for_each(|(block, bytes)| block.bytes = bytes);
        *self.blocks.lock() = blocks;
        Ok(())
    }

    /// What is there from the beginning of the range on: all of it, and perhaps more.
    fn there(&self, wanted: Range<u64>) -> Result<Bytes> {
        let length = wanted.end - wanted.start;
        let there = self.blocks.lock().iter().find_map(|block| block.at(wanted.start));
        match there.filter(|there| there.len() as u64 >= length) {
            Some(there) => Ok(there),
            None => self.come(wanted).inspect_err(|error| *self.failure.lock() = Some(error.clone())),
        }
    }

    /// What was there of the same column is read.
    fn come(&self, wanted: Range<u64>) -> Result<Bytes> {
        if wanted.end > self.size {
            let message = format!("could not read file \"{}\"", self.url);
            return Err(SqlError::new(SqlState::FDW_ERROR, message)
                .with_detail(format!("It has {} bytes, and {} are wanted.", self.size, wanted.end)));
        }
        if wanted.end - wanted.start > PIECE_BYTES_MAX {
            let message = format!("a part of file \"{}\" is too large", self.url);
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .with_detail(format!("It has more than {PIECE_BYTES_MAX} bytes that are read at once.")));
        }
        let place = self.blocks.lock().iter().position(|block| block.range.contains(&wanted.start));
        let end =
            place.map_or(wanted.end, |place| self.blocks.lock()[place].end(wanted.start).max(wanted.end));
        let bytes = self.access.wait(self.fetch(wanted.start..end))?;
        if let Some(place) = place {
            let block = &mut self.blocks.lock()[place];
            (block.start, block.bytes) = (wanted.start, bytes.clone());
        }
        Ok(bytes)
    }

    async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let length = range.end - range.start;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: self.e_tag.clone(),
            ..GetOptions::default()
        };
        let stores = &self.access.stores;
        let answer = stores.get(&self.url, options).await?.bytes().await;
        let bytes = answer.map_err(|error| failure::lost(stores, &self.url, &error))?;
        (self.access.counted)(bytes.len());
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(failure::cut(stores, &self.url)),
        }
    }
}

/// From a place to the end of the file.
struct Reading {
    remote: Arc<Remote>,
    position: u64,
}

impl Read for Reading {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.remote.size || to.is_empty() {
            return Ok(0);
        }
        let there = self.remote.there(self.position..self.position + 1).map_err(io::Error::other)?;
        let count = to.len().min(there.len());
        to[..count].copy_from_slice(&there[..count]);
        self.position += count as u64;
        Ok(count)
    }
}
