//! The other end of a link: mostly one that was loaded, for some operations mostly one that was not.

use super::link_count::{LinkCounts, Split};
use super::random::Random;
use std::sync::Arc;

/// How likely the link should be there already, by operation.
pub const EXISTS_FOR_GET: f64 = 0.5;
pub const EXISTS_FOR_UPDATE: f64 = 0.9;
pub const EXISTS_FOR_DELETE: f64 = 0.9;
pub const EXISTS_FOR_ADD: f64 = 0.05;

/// Draws before a repeated id of one MULTIGET is let through.
const DISTINCT_TRIES: usize = 101;

/// Chooses second ids for one requester.
#[derive(Debug, Clone)]
pub struct Id2 {
    pub counts: Arc<LinkCounts>,
    pub split: Split,
    /// Above 0: second ids are uniform below it, for loading as well.
    pub random_max: i64,
    /// How far from an id its first link leads.
    pub first: i64,
    /// Requesters and the number of this one, when each keeps to second ids of its own.
    pub own: Option<(i64, i64)>,
}

impl Id2 {
    /// One second id of a link of `id1` and the type (from 0), loaded with this probability.
    pub fn choose(&self, random: &mut Random, id1: i64, type_index: i64, exists: f64) -> i64 {
        let id2 = if self.random_max > 0 {
            random.below(self.random_max)
        } else {
            self.near_or_anywhere(random, id1, type_index, exists)
        };
        match self.own {
            Some((requesters, requester)) => id2 - id2 % requesters + requester,
            None => id2,
        }
    }

    fn near_or_anywhere(&self, random: &mut Random, id1: i64, type_index: i64, exists: f64) -> i64 {
        let (links, first) = (self.counts.links(id1, type_index), id1 + self.first);
        match self.split {
            Split::Even if random.chance(exists) => first + random.below(links.max(1)),
            Split::Even => random.below(self.counts.ids().end),
            // The range is wider than what is there, so that this share of it hits.
            Split::Published => first + random.below(((links as f64 / exists).ceil() as i64).max(1)),
        }
    }

    /// The second ids of one MULTIGET; repeated ones are left out under the old rule only.
    pub fn choose_many(
        &self,
        random: &mut Random,
        id1: i64,
        type_index: i64,
        ids: usize,
        into: &mut Vec<i64>,
    ) {
        into.clear();
        let is_distinct = self.split == Split::Published && self.random_max <= 0;
        let links = self.counts.links(id1, type_index);
        let range = ((links as f64 / EXISTS_FOR_GET).ceil() as i64).max(1);
        if is_distinct && range <= ids as i64 {
            into.extend((0..ids as i64).map(|offset| id1 + self.first + offset));
            return;
        }
        for _ in 0..ids {
            let mut id2 = self.choose(random, id1, type_index, EXISTS_FOR_GET);
            let mut tries = 1;
            while is_distinct && tries < DISTINCT_TRIES && into.contains(&id2) {
                id2 = self.choose(random, id1, type_index, EXISTS_FOR_GET);
                tries += 1;
            }
            into.push(id2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::builtin_fit::Year;
    use crate::linkbench::data_file::Distributions;
    use crate::linkbench::link_count::Source;

    fn chooser(split: Split) -> Id2 {
        let data = Arc::new(Distributions::builtin(Year::Y2017));
        let counts = Arc::new(LinkCounts::new(1..999_501, 2, Source::Real(data), split));
        Id2 { counts, split, random_max: 0, first: 1, own: None }
    }

    #[test]
    fn hits_loaded_links_as_often_as_asked() {
        for split in [Split::Even, Split::Published] {
            let id2 = chooser(split);
            let mut random = Random::new(4);
            let mut share = |exists: f64, least: i64| {
                let mut hits = 0;
                for _ in 0..10_000 {
                    // Under the old rule a share of a few links rounds up: ids with many are asked.
                    let id1 = id2.counts.id_of_rank(random.below(least));
                    let chosen = id2.choose(&mut random, id1, 0, exists);
                    hits += i32::from((1..=id2.counts.links(id1, 0)).contains(&(chosen - id1)));
                }
                f64::from(hits) / 10_000.0
            };
            assert_eq!(share(1.0, 10_000), 1.0, "{split:?}");
            assert!((share(0.5, 10_000) - 0.5).abs() < 0.05, "{split:?}");
        }
    }

    #[test]
    fn many_are_distinct_under_the_old_rule() {
        let id2 = chooser(Split::Published);
        let (mut random, mut ids) = (Random::new(5), Vec::new());
        for rank in [0, 100, 999_000] {
            id2.choose_many(&mut random, id2.counts.id_of_rank(rank), 0, 20, &mut ids);
            let mut distinct = ids.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!((ids.len(), distinct.len()), (20, 20), "{rank}");
        }
    }

    #[test]
    fn requesters_keep_to_their_own() {
        let id2 = Id2 { own: Some((8, 3)), ..chooser(Split::Even) };
        let mut random = Random::new(6);
        assert!((0..1_000).all(|id1| id2.choose(&mut random, 1 + id1, 1, 0.5) % 8 == 3));
    }
}
