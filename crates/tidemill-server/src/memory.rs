//! The memory of queries: each has its own limit, and all of them together have one.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// What one query may use: a fair share for each of its operators that can spill, within what is left for all queries.
#[derive(Debug)]
pub struct QueryMemory {
    own: FairSpillPool,
    all: Arc<dyn MemoryPool>,
    limit_bytes: usize,
}

impl QueryMemory {
    pub fn new(all: Arc<dyn MemoryPool>, limit_bytes: usize) -> Self {
        Self { own: FairSpillPool::new(limit_bytes), all, limit_bytes }
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query_memory_limit ({} bytes)", self.limit_bytes)
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.own.try_grow(reservation, additional)?;
        self.all.try_grow(reservation, additional).inspect_err(|_| self.own.shrink(reservation, additional))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn both_limits_hold_and_what_was_taken_comes_back() {
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let pool = |limit| Arc::new(QueryMemory::new(Arc::clone(&all), limit)) as Arc<dyn MemoryPool>;
        let (one, two) = (pool(600), pool(600));
        let first = MemoryConsumer::new("first").register(&one);
        let second = MemoryConsumer::new("second").register(&two);
        assert!(first.try_grow(700).is_err());
        first.try_grow(600).unwrap();
        assert!(second.try_grow(500).is_err());
        assert_eq!((all.reserved(), two.reserved()), (600, 0));
        second.try_grow(400).unwrap();
        drop((first, second));
        assert_eq!(all.reserved(), 0);
    }
}
