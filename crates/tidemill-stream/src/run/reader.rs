//! Reads a run: look-ups by key, scans, ranges of keys.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::SchemaRef;

use super::cache::{Block, Cached, Part};
use super::format::{Footer, HEADER, TRAILER_BYTES, Trailer, check_header};
use super::{BlockCache, KeyEncoder, Result, RunError, block, compact, filter};
use crate::disk::{Disk, ReadFile};

/// An open run. The file may be removed while it is open: what holds the run goes on reading.
#[derive(Debug)]
pub struct Run {
    /// Names this run in the cache.
    id: u64,
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    bytes: u64,
    footer: Footer,
    encoder: KeyEncoder,
    cache: Arc<BlockCache>,
}

impl Run {
    /// Reads and checks header, footer and trailer; blocks are checked when they are read.
    pub fn open(disk: &dyn Disk, path: &Path, layout: &str, cache: Arc<BlockCache>) -> Result<Self> {
        let file = disk.open_read(path)?;
        let bytes = file.size_bytes()?;
        if bytes < (HEADER.len() + TRAILER_BYTES) as u64 {
            return Err(RunError::corrupt(path, bytes, "the file is shorter than any run"));
        }
        let mut header = [0; HEADER.len()];
        file.read_at(&mut header, 0)?;
        check_header(&header, path, 0)?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_at(&mut trailer, bytes - TRAILER_BYTES as u64)?;
        let trailer = Trailer::decode(&trailer, path, bytes)?;
        let mut footer = vec![0; trailer.footer_length as usize];
        file.read_at(&mut footer, trailer.footer_offset)?;
        if crc32c::crc32c(&footer) != trailer.footer_crc {
            let reason = "the footer does not match its checksum";
            return Err(RunError::corrupt(path, trailer.footer_offset, reason));
        }
        let footer = Footer::decode(&footer, path, trailer.footer_offset, layout)?;
        let encoder = KeyEncoder::try_new(&footer.schema, footer.keys)?;
        Ok(Self { id: cache.register(), path: path.to_owned(), file, bytes, footer, encoder, cache })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.footer.schema
    }

    /// Number of key columns.
    pub fn keys(&self) -> usize {
        self.footer.keys
    }

    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory that the open run takes outside the cache.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.footer.index.memory_bytes() + self.footer.last_key.capacity()
    }

    /// Encodes keys for [`Run::get`] and [`Run::range`]; any run with the same key types takes them.
    pub fn encoder(&self) -> &KeyEncoder {
        &self.encoder
    }

    /// The encoded first key; `None` without rows.
    pub fn first_key(&self) -> Option<&[u8]> {
        (self.footer.rows > 0).then(|| self.footer.index.separator(0))
    }

    pub fn last_key(&self) -> Option<&[u8]> {
        (self.footer.rows > 0).then_some(self.footer.last_key.as_slice())
    }

    /// The batch and the row in it that have `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<(RecordBatch, usize)>> {
        let Some(number) = self.candidate(key)? else { return Ok(None) };
        let block = self.block(number)?;
        Ok(block.keys.find(key).map(|row| (block.batch.clone(), row)))
    }

    /// All rows, a block at a time, in key order.
    pub fn scan(self: &Arc<Self>) -> Scan {
        self.range(Bound::Unbounded, Bound::Unbounded)
    }

    /// The rows with keys in a range, in key order.
    pub fn range(self: &Arc<Self>, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Scan {
        let start = match from {
            Bound::Included(key) | Bound::Excluded(key) => self.footer.index.find(key).unwrap_or(0),
            Bound::Unbounded => 0,
        };
        Scan {
            run: Arc::clone(self),
            next: start,
            from: from.map(<[u8]>::to_vec),
            to: to.map(<[u8]>::to_vec),
        }
    }

    /// The block that has `key` unless its filter guesses wrong; `None`: the key is not in this run.
    pub(super) fn candidate(&self, key: &[u8]) -> Result<Option<usize>> {
        if self.last_key().is_none_or(|last| key > last) {
            return Ok(None);
        }
        match self.footer.index.find(key) {
            Some(number) if self.filter_passes(number, key)? => Ok(Some(number)),
            _ => Ok(None),
        }
    }

    fn filter_passes(&self, number: usize, key: &[u8]) -> Result<bool> {
        let entry = self.footer.index.entry(number);
        if entry.filter_length == 0 {
            return Ok(true);
        }
        let part = Part::Filter(number as u32);
        let bits = match self.cache.get(self.id, part) {
            Some(Cached::Filter(bits)) => bits,
            _ => {
                let bits =
                    self.read(entry.filter_offset(), u64::from(entry.filter_length), entry.filter_crc)?;
                let bits: Arc<[u8]> = bits.as_slice().into();
                self.cache.insert(self.id, part, Cached::Filter(Arc::clone(&bits)), bits.len());
                bits
            }
        };
        Ok(filter::may_contain(&bits, filter::hash(key)))
    }

    fn block(&self, number: usize) -> Result<Arc<Block>> {
        let part = Part::Block(number as u32);
        if let Some(Cached::Block(block)) = self.cache.get(self.id, part) {
            return Ok(block);
        }
        let batch = self.read_block(number)?;
        let keys = self.encoder.encode(&batch)?;
        let bytes = compact::resident_bytes(&batch) + keys.memory_bytes();
        let block = Arc::new(Block { batch, keys });
        self.check_keys(number, &block)?;
        self.cache.insert(self.id, part, Cached::Block(Arc::clone(&block)), bytes);
        Ok(block)
    }

    fn read_block(&self, number: usize) -> Result<RecordBatch> {
        let entry = self.footer.index.entry(number);
        let bytes = self.read(entry.offset, entry.length, entry.crc)?;
        let corrupt = |reason: &str| RunError::corrupt(&self.path, entry.offset, reason);
        let batch =
            block::decode(&bytes, &self.footer.schema).map_err(|error| corrupt(&error.to_string()))?;
        if batch.num_rows() != entry.rows as usize {
            return Err(corrupt("a block has another number of rows than the index says"));
        }
        Ok(batch)
    }

    /// That keys still encode as when the run was written: a look-up would otherwise miss them without a word.
    fn check_keys(&self, number: usize, block: &Block) -> Result<()> {
        let index = &self.footer.index;
        let last = block.keys.get(block.keys.len() - 1);
        let below_next = match number + 1 < index.len() {
            true => last < index.separator(number + 1),
            false => last == self.footer.last_key,
        };
        if below_next && block.keys.get(0) >= index.separator(number) {
            return Ok(());
        }
        let reason = "the keys of a block are not those that the index says";
        Err(RunError::corrupt(&self.path, index.entry(number).offset, reason))
    }

    fn read(&self, offset: u64, length: u64, crc: u32) -> Result<Buffer> {
        let mut bytes = MutableBuffer::from_len_zeroed(length as usize);
        self.file.read_at(bytes.as_slice_mut(), offset)?;
        if crc32c::crc32c(bytes.as_slice()) != crc {
            return Err(RunError::corrupt(
                &self.path,
                offset,
                "a block or its filter does not match its checksum",
            ));
        }
        Ok(bytes.into())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.cache.forget(self.id);
    }
}

/// Reads a run block by block; keeps it open. Ends after an error.
#[derive(Debug)]
pub struct Scan {
    run: Arc<Run>,
    next: usize,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

impl Scan {
    /// The rows of the next block that are in the range.
    fn step(&mut self) -> Result<Option<RecordBatch>> {
        let (run, number) = (&self.run, self.next);
        let index = &run.footer.index;
        if number >= index.len() || self.ends_below(index.separator(number)) {
            return Ok(None);
        }
        self.next += 1;
        let cut_start = !matches!(self.from, Bound::Unbounded);
        let cut_end = match (&self.to, number + 1 < index.len()) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(to) | Bound::Excluded(to), true) => to.as_slice() < index.separator(number + 1),
            (Bound::Included(to) | Bound::Excluded(to), false) => *to <= run.footer.last_key,
        };
        if !cut_start && !cut_end {
            return Ok(Some(match run.cache.peek(run.id, Part::Block(number as u32)) {
                Some(Cached::Block(block)) => block.batch.clone(),
                _ => run.read_block(number)?,
            }));
        }
        // A short range is a look-up, so its blocks are cached like those of one.
        let block = run.block(number)?;
        let keys = &block.keys;
        let start = match &self.from {
            Bound::Included(from) => keys.lower_bound(0, from),
            Bound::Excluded(from) => keys.upper_bound(from),
            Bound::Unbounded => 0,
        };
        let end = match &self.to {
            Bound::Included(to) => keys.upper_bound(to),
            Bound::Excluded(to) => keys.lower_bound(0, to),
            Bound::Unbounded => keys.len(),
        };
        // Only the first block of a range can begin below it.
        self.from = Bound::Unbounded;
        Ok(Some(block.batch.slice(start, end.saturating_sub(start))))
    }

    fn ends_below(&self, key: &[u8]) -> bool {
        match &self.to {
            Bound::Included(to) => to.as_slice() < key,
            Bound::Excluded(to) => to.as_slice() <= key,
            Bound::Unbounded => false,
        }
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step() {
                Ok(Some(batch)) if batch.num_rows() == 0 => {}
                Ok(batch) => return batch.map(Ok),
                Err(error) => {
                    self.next = usize::MAX;
                    return Some(Err(error));
                }
            }
        }
    }
}
