//! How many values are in each bucket.

/// A run has few fine histograms, that are written to all the time; and many coarse ones, one for each operation of each
/// second, where only the buckets that have something are kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Counts {
    /// Up to the highest bucket that was used.
    Dense(Vec<u64>),
    /// By bucket.
    Sparse(Vec<(u32, u32)>),
}

impl Counts {
    pub fn add(&mut self, index: usize, count: u64) {
        match self {
            Counts::Dense(counts) => {
                if index >= counts.len() {
                    counts.resize(index + 1, 0);
                }
                counts[index] += count;
            }
            Counts::Sparse(counts) => {
                let (index, count) = (index as u32, u32::try_from(count).unwrap_or(u32::MAX));
                match counts.binary_search_by_key(&index, |(index, _)| *index) {
                    Ok(at) => counts[at].1 = counts[at].1.saturating_add(count),
                    Err(at) => counts.insert(at, (index, count)),
                }
            }
        }
    }

    /// Those that have something, in order.
    pub fn entries(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let (dense, sparse) = match self {
            Counts::Dense(counts) => (&counts[..], &[][..]),
            Counts::Sparse(counts) => (&[][..], &counts[..]),
        };
        let dense = dense.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        dense.chain(sparse.iter().map(|(index, count)| (*index as usize, u64::from(*count))))
    }
}
