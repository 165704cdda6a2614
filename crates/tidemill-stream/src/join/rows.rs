//! Rows in memory by their join columns, and which of them meet which events.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::SortOptions;
use datafusion::common::NullEquality;
use datafusion::error::Result;
use datafusion::physical_plan::joins::utils::JoinKeyComparator;
use hashbrown::HashTable;

use crate::view::key_hashes;

/// No row follows in a chain.
const END: u32 = u32::MAX;

#[derive(Debug)]
pub struct Rows {
    batch: RecordBatch,
    keys: Vec<ArrayRef>,
    /// The first row of each hash; those that follow are chained, in their order.
    first: HashTable<(u64, u32)>,
    next: Vec<u32>,
    nulls_are_equal: bool,
    /// A row that `NOT IN` can't tell from any value.
    has_null: bool,
}

/// Pairs of an event and a row that may belong together.
#[derive(Debug, Default)]
pub struct Pairs {
    pub events: Vec<u32>,
    pub rows: Vec<u32>,
}

impl Rows {
    pub fn try_new(batch: RecordBatch, keys: Vec<ArrayRef>, nulls_are_equal: bool) -> Result<Self> {
        let hashes = if keys.is_empty() { vec![] } else { key_hashes(&keys)? };
        let has_null = keys.iter().any(|key| key.logical_null_count() > 0);
        let mut first = HashTable::<(u64, u32)>::new();
        let mut next = vec![END; hashes.len()];
        // From behind, so that each row comes before those that it is chained to.
        for (row, hash) in hashes.iter().enumerate().rev() {
            if !nulls_are_equal && has_null && is_null(&keys, row) {
                continue;
            }
            match first.find_mut(*hash, |(known, _)| known == hash) {
                Some((_, head)) => next[row] = std::mem::replace(head, row as u32),
                None => drop(first.insert_unique(*hash, (*hash, row as u32), |(known, _)| *known)),
            }
        }
        Ok(Self { batch, keys, first, next, nulls_are_equal, has_null })
    }

    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    pub fn count(&self) -> usize {
        self.batch.num_rows()
    }

    pub fn has_null(&self) -> bool {
        self.has_null
    }

    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| key.get_array_memory_size()).sum();
        self.batch.get_array_memory_size()
            + keys
            + self.first.allocation_size()
            + self.next.len() * size_of::<u32>()
    }

    /// Gives the pairs of the events whose keys are these, some at a time and in the order of the events.
    pub fn pairs(
        &self,
        keys: &[ArrayRef],
        events: usize,
        some: usize,
        mut give: impl FnMut(Pairs) -> Result<()>,
    ) -> Result<()> {
        let mut pairs = Pairs::default();
        let mut push = |event: usize, row: u32, pairs: &mut Pairs| {
            pairs.events.push(event as u32);
            pairs.rows.push(row);
            match pairs.events.len() >= some {
                true => give(std::mem::take(pairs)),
                false => Ok(()),
            }
        };
        if keys.is_empty() {
            for event in 0..events {
                for row in 0..self.count() as u32 {
                    push(event, row, &mut pairs)?;
                }
            }
        } else if self.count() > 0 {
            let nulls = match self.nulls_are_equal {
                true => NullEquality::NullEqualsNull,
                false => NullEquality::NullEqualsNothing,
            };
            let options = vec![SortOptions::default(); keys.len()];
            let same = JoinKeyComparator::new(keys, &self.keys, &options, nulls)?;
            for (event, hash) in key_hashes(keys)?.into_iter().enumerate() {
                let mut row = self.first.find(hash, |(known, _)| *known == hash).map_or(END, |(_, row)| *row);
                while row != END {
                    if same.is_equal(event, row as usize) {
                        push(event, row, &mut pairs)?;
                    }
                    row = self.next[row as usize];
                }
            }
        }
        if pairs.events.is_empty() { Ok(()) } else { give(pairs) }
    }
}

pub fn is_null(keys: &[ArrayRef], row: usize) -> bool {
    keys.iter().any(|key| key.is_null(row))
}
