//! How many links an id has: no chance in it, so that totals are known before the first row is written.

use super::data_file::Distributions;
use super::distribution::Distribution;
use super::permutation::{LINKS, Permutation};
use std::ops::Range;
use std::sync::Arc;

/// The number of links of every id of the graph.
#[derive(Debug, Clone)]
pub struct LinkCounts {
    ids: Range<i64>,
    source: Source,
    split: Split,
    types: i64,
    permutation: Permutation,
}

/// Where the number of links of an id comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The empirical curve, by the rank of the id.
    Real(Arc<Distributions>),
    /// Probability times `scale`, rounded; the first id of the law is spread over the graph like a rank.
    Law { law: Arc<dyn Distribution>, scale: f64 },
    /// A rule over the id itself, not spread.
    Arithmetic { rule: Arithmetic, parameter: i64, default: i64 },
}

/// The original's rules with an extra number of links for some ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    Constant,
    Reciprocal,
    Multiples,
    PerfectSquares,
    Exponential,
}

/// How the links of an id are divided among link types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Every type alike, at least one link a type; what is left over is dropped.
    Even,
    /// As published: the left-over is reckoned too large, so that an id gets about two links more than it should.
    Published,
}

impl Split {
    /// The links of one type (from 0) of an id with `links` links in `types` types.
    pub fn links_of_type(self, links: i64, types: i64, index: i64) -> i64 {
        let share = links / types;
        match self {
            Split::Even => share.max(1),
            Split::Published => share + i64::from(index < links - share),
        }
    }
}

impl LinkCounts {
    pub fn new(ids: Range<i64>, types: i64, source: Source, split: Split) -> Self {
        let permutation = Permutation::new(LINKS, ids.end - ids.start);
        LinkCounts { ids, source, split, types: types.max(1), permutation }
    }

    pub fn ids(&self) -> Range<i64> {
        self.ids.clone()
    }

    pub fn types(&self) -> i64 {
        self.types
    }

    /// The links of one type (from 0) of an id; none for an id that was not loaded.
    pub fn links(&self, id: i64, type_index: i64) -> i64 {
        if !self.ids.contains(&id) {
            return 0;
        }
        self.split.links_of_type(self.links_before_split(id), self.types, type_index)
    }

    /// The id that has this rank: 0 has the most links.
    pub fn id_of_rank(&self, rank: i64) -> i64 {
        self.ids.start + self.permutation.permute(rank)
    }

    fn size(&self) -> i64 {
        self.ids.end - self.ids.start
    }

    fn links_before_split(&self, id: i64) -> i64 {
        match &self.source {
            Source::Real(data) => {
                let rank = self.permutation.invert(id - self.ids.start);
                data.nlinks.value_of_rank(rank, self.size())
            }
            Source::Law { law, scale } => {
                let rank = self.permutation.invert(id - self.ids.start);
                (law.pdf(self.ids.start + rank) * scale).round() as i64
            }
            Source::Arithmetic { rule, parameter, default } => {
                default + rule.extra_links(id, *parameter, &self.ids)
            }
        }
    }

    /// Numbers of links (before the split) with how many ids have them, smallest first. Quick for `Real`; the other
    /// sources are asked id by id.
    pub fn census(&self) -> Vec<(i64, i64)> {
        if let Source::Real(data) = &self.source {
            return data.nlinks.census(self.size()).collect();
        }
        let mut counts = std::collections::BTreeMap::new();
        for id in self.ids() {
            *counts.entry(self.links_before_split(id)).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    /// Links, and pairs of id and type with at least one, of an id with this number before the split.
    pub fn after_split(&self, links: i64) -> (i64, i64) {
        let by_type = (0..self.types).map(|index| self.split.links_of_type(links, self.types, index));
        by_type.fold((0, 0), |(links, pairs), n| (links + n, pairs + i64::from(n > 0)))
    }
}

impl Arithmetic {
    fn extra_links(self, id: i64, parameter: i64, ids: &Range<i64>) -> i64 {
        match self {
            Arithmetic::Constant => 0,
            // The original divides by zero at the first id; there the second's number stands in.
            Arithmetic::Reciprocal => {
                let size = ids.end - ids.start;
                (size as f64 / (id - ids.start).max(1) as f64).ceil() as i64
            }
            Arithmetic::Multiples => {
                if parameter != 0 && id % parameter == 0 {
                    parameter
                } else {
                    0
                }
            }
            Arithmetic::PerfectSquares => {
                let power = parameter.max(1) as u32;
                let root = (id as f64).powf(1.0 / f64::from(power)).round() as i64;
                if root.checked_pow(power) == Some(id) { id - (root - 1).pow(power) } else { 0 }
            }
            Arithmetic::Exponential => {
                let base = parameter.max(2);
                let exponent = ((id as f64).ln() / (base as f64).ln()).round() as u32;
                let below = exponent.checked_sub(1).map_or(0, |exponent| base.pow(exponent));
                if base.checked_pow(exponent) == Some(id) { id - below } else { 0 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_split_gives_more_than_there_is() {
        let two = |n| [0, 1].map(|index| Split::Published.links_of_type(n, 2, index));
        assert_eq!([1, 2, 3, 4].map(two), [[1, 0], [2, 1], [2, 2], [3, 3]]);
        let even = |n| [0, 1].map(|index| Split::Even.links_of_type(n, 2, index));
        assert_eq!([0, 1, 2, 5].map(even), [[1, 1], [1, 1], [1, 1], [2, 2]]);
    }

    #[test]
    fn arithmetic_rules() {
        let counts = |rule, parameter, default| {
            let source = Source::Arithmetic { rule, parameter, default };
            let counts = LinkCounts::new(1..17, 1, source, Split::Published);
            (1..17).map(|id| counts.links(id, 0)).collect::<Vec<_>>()
        };
        // With one type the published split adds nothing: the share is everything.
        assert_eq!(counts(Arithmetic::Constant, 0, 3), [3; 16]);
        assert_eq!(counts(Arithmetic::Multiples, 8, 1), [1, 1, 1, 1, 1, 1, 1, 9, 1, 1, 1, 1, 1, 1, 1, 9]);
        let squares = counts(Arithmetic::PerfectSquares, 2, 0);
        assert_eq!(squares, [1, 0, 0, 3, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(counts(Arithmetic::Exponential, 4, 0), [1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12]);
        assert_eq!(counts(Arithmetic::Reciprocal, 0, 0)[..4], [16, 16, 8, 6]);
    }

    #[test]
    fn a_law_is_spread_over_the_ids() {
        let law = Arc::new(crate::linkbench::distribution::Zipf::new(1..1001, 0.8));
        let counts = LinkCounts::new(1..1001, 1, Source::Law { law, scale: 10_000.0 }, Split::Published);
        let first = counts.id_of_rank(0);
        let most = (1..1001).max_by_key(|&id| counts.links(id, 0)).unwrap();
        assert_eq!((most, counts.links(0, 0), counts.links(1001, 0)), (first, 0, 0));
    }
}
