//! The cache of decoded blocks and of filters, shared by all runs and bounded in bytes.
//!
//! CLOCK: a hit only sets a mark; the hand takes away the mark of what it passes and evicts what has none. Scans look
//! but don't insert, so that one large read does not wash out what look-ups need.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::Keys;

/// The cache is cut into shards with a lock each, none smaller than this.
const SHARD_BYTES_MIN: usize = 16 * 1024 * 1024;
const SHARDS_MAX: usize = 16;
/// Map entry, queue entry and allocations of something cached, roughly.
const ENTRY_OVERHEAD_BYTES: usize = 160;

/// A decoded block, with its keys encoded for searching.
#[derive(Debug)]
pub struct Block {
    pub batch: RecordBatch,
    pub keys: Keys,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    Block(u32),
    Filter(u32),
}

#[derive(Debug, Clone)]
pub enum Cached {
    Block(Arc<Block>),
    Filter(Arc<[u8]>),
}

type Id = (u64, Part);

pub struct BlockCache {
    shards: Vec<Mutex<Shard>>,
    shard_bytes_max: usize,
    next_run: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Id, Entry>,
    /// The clock face; may still name what has been removed.
    queue: VecDeque<Id>,
    bytes: usize,
}

struct Entry {
    value: Cached,
    bytes: usize,
    used: bool,
}

impl BlockCache {
    /// `bytes_max` bounds the memory of everything cached; what a reader holds on to is the reader's.
    pub fn new(bytes_max: usize) -> Self {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            shard_bytes_max: bytes_max / shards,
            next_run: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    /// Look-ups that found their block or filter here, and those that had to read it.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// A number for a run, never given twice: a path may be reused.
    pub(super) fn register(&self) -> u64 {
        self.next_run.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn get(&self, run: u64, part: Part) -> Option<Cached> {
        let id = (run, part);
        let value = self.shard(id).lock().entries.get_mut(&id).map(|entry| {
            entry.used = true;
            entry.value.clone()
        });
        let counter = if value.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        value
    }

    /// Leaves no mark and is not counted.
    pub(super) fn peek(&self, run: u64, part: Part) -> Option<Cached> {
        let id = (run, part);
        self.shard(id).lock().entries.get(&id).map(|entry| entry.value.clone())
    }

    pub(super) fn insert(&self, run: u64, part: Part, value: Cached, bytes: usize) {
        let id = (run, part);
        let bytes = bytes + ENTRY_OVERHEAD_BYTES;
        if bytes > self.shard_bytes_max {
            return;
        }
        let mut evicted = Vec::new();
        let mut shard = self.shard(id).lock();
        if shard.entries.contains_key(&id) {
            return;
        }
        shard.make_room(self.shard_bytes_max - bytes, &mut evicted);
        shard.entries.insert(id, Entry { value, bytes, used: false });
        shard.queue.push_back(id);
        shard.bytes += bytes;
        drop(shard);
        // Megabytes of buffers are freed here, outside the lock.
        drop(evicted);
    }

    /// Forgets a run that is closed.
    pub(super) fn forget(&self, run: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let removed: Vec<_> = shard.entries.extract_if(|id, _| id.0 == run).collect();
            if !removed.is_empty() {
                shard.bytes -= removed.iter().map(|(_, entry)| entry.bytes).sum::<usize>();
                shard.queue.retain(|id| id.0 != run);
            }
            drop(shard);
            drop(removed);
        }
    }

    fn shard(&self, (run, part): Id) -> &Mutex<Shard> {
        // Neighbouring blocks go to different shards; a filter goes elsewhere than its block.
        let number = match part {
            Part::Block(block) => u64::from(block),
            Part::Filter(block) => u64::from(block) + 7,
        };
        &self.shards[((run.wrapping_mul(5) + number) % self.shards.len() as u64) as usize]
    }
}

impl Shard {
    fn make_room(&mut self, bytes_max: usize, evicted: &mut Vec<Entry>) {
        while self.bytes > bytes_max {
            let Some(id) = self.queue.pop_front() else { return };
            match self.entries.get_mut(&id) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    self.queue.push_back(id);
                }
                Some(_) => {
                    evicted.extend(self.entries.remove(&id).inspect(|entry| self.bytes -= entry.bytes))
                }
                None => {}
            }
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("shards", &self.shards.len())
            .field("shard_bytes_max", &self.shard_bytes_max)
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(bytes: usize) -> Cached {
        Cached::Filter(vec![0; bytes].into())
    }

    #[test]
    fn what_is_used_stays_and_the_bound_holds() {
        let cache = BlockCache::new(100_000);
        let run = cache.register();
        for block in 0..1000 {
            cache.insert(run, Part::Filter(block), filter(1000), 1000);
            assert!(cache.get(run, Part::Filter(0)).is_some(), "used all the time, at {block}");
            assert!(cache.memory_bytes() <= 100_000);
        }
        assert!(cache.memory_bytes() > 90_000);
        assert!(cache.peek(run, Part::Filter(1)).is_none());
        assert!(cache.peek(run, Part::Block(999)).is_none(), "a block is not its filter");
        cache.insert(run, Part::Filter(5000), filter(200_000), 200_000);
        assert!(cache.peek(run, Part::Filter(5000)).is_none(), "larger than the cache");
        cache.forget(run);
        assert_eq!(cache.memory_bytes(), 0);
    }

    #[test]
    fn many_threads() {
        let cache = BlockCache::new(64 * 1024 * 1024);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let run = cache.register();
                    for i in 0..5000_u32 {
                        let part = Part::Filter(i * 7 % 1000);
                        if cache.get(run, part).is_none() {
                            cache.insert(run, part, filter(50_000), 50_000);
                        }
                    }
                });
            }
        });
        let bytes = cache.memory_bytes();
        assert!(bytes <= 64 * 1024 * 1024 && bytes > 48 * 1024 * 1024, "{bytes}");
    }
}
