//! Runs: the part of a view's state that is on disk.
//!
//! A run is an immutable file with the partial aggregate states of many groups. Its columns are the group key, then
//! the state columns; its rows are sorted by the key in arrow-row encoding, in which comparing keys of any types is
//! comparing bytes, and every key is there once. [`RunWriter`] makes one from sorted batches, [`Run`] answers
//! look-ups and scans from it, [`Merge`] brings several of them together group by group, oldest part first.
//!
//! ```text
//! header │ block, filter │ block, filter │ … │ footer │ trailer
//! ```
//!
//! A block is an Arrow record batch of some thousand rows, an IPC message without its schema. Its filter tells almost
//! every absent key without reading the block. The footer is all that an open run keeps in memory: schema, layout and
//! an index with a few dozen bytes a block; blocks and filters live in a [`BlockCache`] that all runs share. Every
//! byte of the file is covered by a checksum or by a magic number, so damage is an error and never a wrong answer.
//!
//! All of this blocks: callers in async code run it on a blocking thread.

mod block;
mod cache;
mod compact;
mod filter;
mod format;
mod key;
mod merge;
mod reader;
mod sort;
mod writer;

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use arrow::error::ArrowError;

use crate::disk::DiskError;

pub use cache::BlockCache;
pub use key::{KeyEncoder, Keys};
pub use merge::{Chunk, Merge};
pub use reader::{Run, Scan};
pub use sort::Sorted;
pub use writer::{RunInfo, RunWriter};

/// A block ends at this many rows.
pub const BLOCK_ROWS: usize = 4096;
/// A block ends at about this many bytes, before compression; one huge row makes a block of its own.
pub const BLOCK_BYTES: usize = 256 * 1024;

pub type Result<T, E = RunError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// The caller's batches or types, never the content of a file.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    #[error("run \"{}\" is damaged at byte {offset}: {reason}", path.display())]
    Corrupt { path: PathBuf, offset: u64, reason: String },
    #[error("run \"{}\" has format version {found}, and this server reads version {}", path.display(), format::VERSION)]
    Version { path: PathBuf, found: u8 },
    #[error("run \"{}\" has states of layout \"{found}\", and this server reads \"{expected}\"", path.display())]
    Layout { path: PathBuf, found: String, expected: String },
    #[error("column {column} of a batch of states is {found} instead of {expected}")]
    Schema { column: usize, found: String, expected: String },
    #[error("batches of states are not sorted by unique keys")]
    Unsorted,
    /// Part of it may be on disk or not: only a new run can tell.
    #[error("run \"{}\" could not be written before and can't be finished", path.display())]
    Failed { path: PathBuf },
}

impl RunError {
    fn corrupt(path: &Path, offset: u64, reason: impl ToString) -> Self {
        RunError::Corrupt { path: path.to_owned(), offset, reason: reason.to_string() }
    }
}
