//! States in memory, and the index by which a look-up finds a group in them.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::Result;
use hashbrown::HashTable;

/// Fewer rows than this are compared with the key one by one, which takes some microseconds.
const INDEX_ROWS_MIN: usize = 4 << 10;
/// Look-ups hash with it what the index was made with.
const HASHER: RandomState = RandomState::with_seed(0);

/// A batch of partial states with unique keys. Clones share the index.
#[derive(Debug, Clone)]
pub struct States {
    batch: RecordBatch,
    index: Arc<OnceLock<KeyIndex>>,
}

impl States {
    /// The rows that may have one of the keys with these hashes; `None`: there is no index.
    pub fn candidates(&self, hashes: &[u64]) -> Option<Vec<u32>> {
        let KeyIndex(rows) = self.index.get()?;
        let mut candidates: Vec<u32> =
            hashes.iter().flat_map(|hash| rows.iter_hash(*hash)).copied().collect();
        // Keys whose hashes are the same have the same candidates.
        candidates.sort_unstable();
        candidates.dedup();
        Some(candidates)
    }

    pub fn wants_index(&self) -> bool {
        self.num_rows() >= INDEX_ROWS_MIN && self.index.get().is_none()
    }

    /// Makes the index of the first `keys` columns. Takes some milliseconds, so that no reader does it.
    pub fn make_index(&self, keys: usize) -> Result<()> {
        let index = KeyIndex::try_new(&self.columns()[..keys])?;
        // Another thread may have been faster.
        drop(self.index.set(index));
        Ok(())
    }

    pub fn memory_bytes(&self) -> usize {
        self.get_array_memory_size() + self.index.get().map_or(0, |KeyIndex(rows)| rows.allocation_size())
    }
}

impl From<RecordBatch> for States {
    fn from(batch: RecordBatch) -> Self {
        Self { batch, index: Arc::default() }
    }
}

impl Deref for States {
    type Target = RecordBatch;

    fn deref(&self) -> &RecordBatch {
        &self.batch
    }
}

impl Borrow<RecordBatch> for States {
    fn borrow(&self) -> &RecordBatch {
        &self.batch
    }
}

/// Row numbers by the hash of their key. What has the hash need not have the key.
#[derive(Debug)]
struct KeyIndex(HashTable<u32>);

impl KeyIndex {
    fn try_new(keys: &[ArrayRef]) -> Result<Self> {
        let hashes = key_hashes(keys)?;
        let mut rows = HashTable::with_capacity(hashes.len());
        for (row, hash) in (0u32..).zip(&hashes) {
            rows.insert_unique(*hash, row, |row| hashes[*row as usize]);
        }
        Ok(Self(rows))
    }
}

pub fn key_hashes(keys: &[ArrayRef]) -> Result<Vec<u64>> {
    let mut hashes = vec![0; keys.first().map_or(0, |column| column.len())];
    create_hashes(keys, &HASHER, &mut hashes)?;
    Ok(hashes)
}
