//! Writes a run from batches that are sorted by key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;

use super::block::BlockEncoder;
use super::format::{BlockEntry, Footer, HEADER, Index, Trailer, separator};
use super::key::conform;
use super::{BLOCK_BYTES, BLOCK_ROWS, KeyEncoder, Keys, Result, RunError, compact, filter};
use crate::disk::{AppendFile, Disk};

/// A block that takes fewer bytes on disk is cheaper to read than to have a filter for.
const FILTER_BLOCK_BYTES_MIN: usize = 8 * 1024;

/// A finished run: what the manifest keeps of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInfo {
    pub path: PathBuf,
    pub rows: u64,
    /// Of the file.
    pub bytes: u64,
    /// Encoded keys; both are empty if there are no rows.
    pub first_key: Vec<u8>,
    pub last_key: Vec<u8>,
}

/// Takes sorted batches of any size. Unless it is finished, dropping it removes the file.
pub struct RunWriter {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn AppendFile>,
    progress: Progress,
    layout: String,
    encoder: KeyEncoder,
    blocks: BlockEncoder,
    /// What has been written, and the last key that was appended.
    footer: Footer,
    offset: u64,
    pending: Pending,
}

#[derive(PartialEq)]
enum Progress {
    Writing,
    /// An append or a write went wrong halfway: nobody knows what the file holds.
    Failed,
    Finished,
}

/// The rows of the block to come.
#[derive(Default)]
struct Pending {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    hashes: Vec<u64>,
    separator: Vec<u8>,
}

impl RunWriter {
    /// Makes a new file. Its first `keys` columns are the key. `layout` names what the state columns mean; only a
    /// reader that asks for the same opens the run.
    pub fn create(
        disk: Arc<dyn Disk>,
        path: &Path,
        schema: SchemaRef,
        keys: usize,
        layout: &str,
    ) -> Result<Self> {
        let encoder = KeyEncoder::try_new(&schema, keys)?;
        let blocks = BlockEncoder::try_new(Arc::clone(&schema))?;
        let file = disk.create(path)?;
        let mut writer = Self {
            disk,
            path: path.to_owned(),
            file,
            progress: Progress::Writing,
            layout: layout.to_owned(),
            encoder,
            blocks,
            footer: Footer { schema, keys, rows: 0, index: Index::default(), last_key: Vec::new() },
            offset: 0,
            pending: Pending::default(),
        };
        writer.write(&HEADER)?;
        Ok(writer)
    }

    /// Appends rows whose keys are unique, sorted, and above all keys so far; if not, nothing is appended.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = conform(&self.footer.schema, batch)?;
        let keys = self.encoder.encode(&batch)?;
        let previous = (self.rows() > 0).then_some(self.footer.last_key.as_slice());
        keys.check_ascending(previous)?;
        self.append_checked(&batch, &keys).inspect_err(|_| self.progress = Progress::Failed)
    }

    fn append_checked(&mut self, batch: &RecordBatch, keys: &Keys) -> Result<()> {
        let rows = batch.num_rows();
        let mut start = 0;
        while start < rows {
            let rest = batch.slice(start, rows - start);
            let (window, row_bytes) = compact::window(&rest, BLOCK_ROWS, BLOCK_BYTES);
            if self.pending.room(row_bytes) == 0 {
                self.write_block()?;
            }
            let count = self.pending.room(row_bytes).min(window.num_rows());
            self.push(window.slice(0, count), keys, start, row_bytes);
            start += count;
        }
        Ok(())
    }

    pub fn rows(&self) -> u64 {
        self.footer.rows + self.pending.rows as u64
    }

    /// Makes file and name durable.
    pub fn finish(mut self) -> Result<RunInfo> {
        if self.pending.rows > 0 {
            self.write_block()?;
        }
        let footer = self.footer.encode(&self.layout, &self.blocks.schema_message());
        let trailer = Trailer {
            footer_offset: self.offset,
            footer_length: footer.len() as u64,
            footer_crc: crc32c::crc32c(&footer),
        };
        self.write(&footer)?;
        self.write(&trailer.encode())?;
        self.file.sync()?;
        self.disk.sync_dir(self.path.parent().unwrap_or(Path::new("")))?;
        self.progress = Progress::Finished;
        let index = &self.footer.index;
        Ok(RunInfo {
            path: self.path.clone(),
            rows: self.footer.rows,
            bytes: self.offset,
            first_key: if index.len() == 0 { Vec::new() } else { index.separator(0).to_vec() },
            last_key: self.footer.last_key.clone(),
        })
    }

    fn push(&mut self, slice: RecordBatch, keys: &Keys, start: usize, row_bytes: usize) {
        let pending = &mut self.pending;
        let end = start + slice.num_rows();
        if pending.rows == 0 {
            let first = keys.get(start);
            let index = &self.footer.index;
            let separator = if index.len() == 0 { first } else { separator(&self.footer.last_key, first) };
            pending.separator.clear();
            pending.separator.extend_from_slice(separator);
        }
        pending.hashes.extend((start..end).map(|row| filter::hash(keys.get(row))));
        pending.rows += slice.num_rows();
        pending.bytes += slice.num_rows() * row_bytes;
        pending.batches.push(slice);
        self.footer.last_key.clear();
        self.footer.last_key.extend_from_slice(keys.get(end - 1));
    }

    fn write_block(&mut self) -> Result<()> {
        let schema = &self.footer.schema;
        let batch = match self.pending.batches.as_slice() {
            [batch] => batch.clone(),
            batches => concat_batches(schema, batches)?,
        };
        let mut bytes = self.blocks.encode(&compact::compact(batch)?)?;
        let length = bytes.len();
        let crc = crc32c::crc32c(&bytes);
        if length >= FILTER_BLOCK_BYTES_MIN {
            bytes.extend_from_slice(&filter::build(&self.pending.hashes));
        }
        let entry = BlockEntry {
            offset: self.offset,
            length: length as u64,
            filter_length: (bytes.len() - length) as u32,
            rows: self.pending.rows as u32,
            crc,
            filter_crc: crc32c::crc32c(&bytes[length..]),
        };
        self.write(&bytes)?;
        self.footer.index.push(entry, &self.pending.separator);
        self.footer.rows += self.pending.rows as u64;
        self.pending.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.progress != Progress::Writing {
            return Err(RunError::Failed { path: self.path.clone() });
        }
        self.progress = Progress::Failed;
        self.file.append(bytes)?;
        self.progress = Progress::Writing;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

impl Pending {
    /// Rows of `row_bytes` each that the block can still take; an empty block takes any row.
    fn room(&self, row_bytes: usize) -> usize {
        let by_bytes = BLOCK_BYTES.saturating_sub(self.bytes) / row_bytes;
        let least = usize::from(self.rows == 0);
        BLOCK_ROWS.saturating_sub(self.rows).min(by_bytes).max(least)
    }

    fn clear(&mut self) {
        self.batches.clear();
        self.hashes.clear();
        self.rows = 0;
        self.bytes = 0;
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        if self.progress != Progress::Finished
            && let Err(error) = self.disk.remove(&self.path)
        {
            tracing::warn!(%error, "an unfinished run stays behind");
        }
    }
}
