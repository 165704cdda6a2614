//! Rows in memory by their join columns, and which of them meet which events.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::kernels::cmp::{eq, not_distinct};
use arrow::compute::{SortOptions, and, take};
use datafusion::common::NullEquality;
use datafusion::error::Result;
use datafusion::physical_plan::joins::utils::JoinKeyComparator;
use hashbrown::HashTable;

use crate::view::key_hashes;

#[derive(Debug)]
pub struct Rows {
    batch: RecordBatch,
    keys: Vec<ArrayRef>,
    buckets: HashTable<Bucket>,
    /// Rows that share a hash, together and in their order.
    shared: Vec<u32>,
    nulls_are_equal: bool,
    /// A row that `NOT IN` can't tell from any value.
    has_null: bool,
}

/// The rows of a hash.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    hash: u64,
    count: u32,
    /// The row, if it is one; otherwise where the shared ones begin.
    at: u32,
}

const NOBODY: Bucket = Bucket { hash: 0, count: 0, at: 0 };

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
        let mut buckets = HashTable::<Bucket>::with_capacity(hashes.len());
        let is_kept = |row: usize| nulls_are_equal || !has_null || !is_null(&keys, row);
        let kept = || hashes.iter().enumerate().filter(|(row, _)| is_kept(*row));
        for (row, hash) in kept() {
            match buckets.find_mut(*hash, |known| known.hash == *hash) {
                Some(bucket) => bucket.count += 1,
                None => {
                    let bucket = Bucket { hash: *hash, count: 1, at: row as u32 };
                    buckets.insert_unique(*hash, bucket, |known| known.hash);
                }
            }
        }
        let mut shared_rows = 0;
        for bucket in buckets.iter_mut().filter(|bucket| bucket.count > 1) {
            bucket.at = shared_rows;
            shared_rows += bucket.count;
        }
        let mut shared = vec![0; shared_rows as usize];
        if shared_rows > 0 {
            for (row, hash) in kept() {
                let bucket = buckets.find_mut(*hash, |known| known.hash == *hash);
                if let Some(bucket) = bucket.filter(|bucket| bucket.count > 1) {
                    shared[bucket.at as usize] = row as u32;
                    bucket.at += 1;
                }
            }
            buckets.iter_mut().filter(|bucket| bucket.count > 1).for_each(|bucket| bucket.at -= bucket.count);
        }
        buckets.shrink_to_fit(|bucket| bucket.hash);
        Ok(Self { batch, keys, buckets, shared, nulls_are_equal, has_null })
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
        let index = self.buckets.allocation_size() + self.shared.len() * size_of::<u32>();
        self.batch.get_array_memory_size() + keys + index
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
        if keys.is_empty() {
            for event in 0..events as u32 {
                for row in 0..self.count() as u32 {
                    pairs.push(event, row);
                    if pairs.events.len() >= some {
                        give(std::mem::take(&mut pairs))?;
                    }
                }
            }
            return if pairs.events.is_empty() { Ok(()) } else { give(pairs) };
        }
        if self.buckets.is_empty() {
            return Ok(());
        }
        let same = Same::new(keys, &self.keys, self.nulls_are_equal)?;
        // All look-ups before anything else: none of them waits for the memory of the one before it.
        let find = |hash: u64| self.buckets.find(hash, |known| known.hash == hash).copied().unwrap_or(NOBODY);
        let found: Vec<Bucket> = key_hashes(keys)?.into_iter().map(find).collect();
        for (event, bucket) in (0..).zip(found) {
            let at = bucket.at as usize;
            match bucket.count {
                0 => {}
                1 => pairs.push(event, bucket.at),
                count => self.shared[at..at + count as usize].iter().for_each(|row| pairs.push(event, *row)),
            }
            if pairs.events.len() >= some {
                same.give(std::mem::take(&mut pairs), &mut give)?;
            }
        }
        same.give(pairs, &mut give)
    }
}

impl Pairs {
    fn push(&mut self, event: u32, row: u32) {
        self.events.push(event);
        self.rows.push(row);
    }

    /// Those of which this is true.
    pub fn only(self, is_true: &BooleanArray) -> Pairs {
        if is_true.true_count() == self.events.len() {
            return self;
        }
        let kept = |at: Vec<u32>| {
            let pairs = at.into_iter().enumerate();
            pairs.filter(|(i, _)| is_true.is_valid(*i) && is_true.value(*i)).map(|(_, at)| at).collect()
        };
        Pairs { events: kept(self.events), rows: kept(self.rows) }
    }
}

/// Whether keys of events and of rows, which have the same hash, are the same.
enum Same<'k> {
    /// Of numbers and the like, many at once.
    Plain {
        events: &'k [ArrayRef],
        rows: &'k [ArrayRef],
        nulls_are_equal: bool,
    },
    Compared(JoinKeyComparator),
}

impl<'k> Same<'k> {
    fn new(events: &'k [ArrayRef], rows: &'k [ArrayRef], nulls_are_equal: bool) -> Result<Self> {
        let is_plain = |key: &ArrayRef| key.data_type().is_primitive() && !key.data_type().is_floating();
        if rows.iter().all(is_plain) {
            return Ok(Same::Plain { events, rows, nulls_are_equal });
        }
        let nulls = match nulls_are_equal {
            true => NullEquality::NullEqualsNull,
            false => NullEquality::NullEqualsNothing,
        };
        let options = vec![SortOptions::default(); rows.len()];
        Ok(Same::Compared(JoinKeyComparator::new(events, rows, &options, nulls)?))
    }

    fn give(&self, pairs: Pairs, give: &mut impl FnMut(Pairs) -> Result<()>) -> Result<()> {
        if pairs.events.is_empty() {
            return Ok(());
        }
        let same = match self {
            Same::Compared(keys) => {
                let pairs = pairs.events.iter().zip(&pairs.rows);
                pairs.map(|(event, row)| Some(keys.is_equal(*event as usize, *row as usize))).collect()
            }
            Same::Plain { events, rows, nulls_are_equal } => {
                let (events_at, rows_at) =
                    (UInt32Array::from(pairs.events.clone()), UInt32Array::from(pairs.rows.clone()));
                let mut all: Option<BooleanArray> = None;
                for (event, row) in events.iter().zip(*rows) {
                    let (event, row) = (take(event, &events_at, None)?, take(row, &rows_at, None)?);
                    let same = if *nulls_are_equal { not_distinct(&event, &row)? } else { eq(&event, &row)? };
                    all = Some(match all {
                        Some(before) => and(&before, &same)?,
                        None => same,
                    });
                }
                all.unwrap_or_else(|| BooleanArray::from(vec![true; pairs.events.len()]))
            }
        };
        let pairs = pairs.only(&same);
        if pairs.events.is_empty() { Ok(()) } else { give(pairs) }
    }
}

pub fn is_null(keys: &[ArrayRef], row: usize) -> bool {
    keys.iter().any(|key| key.is_null(row))
}
