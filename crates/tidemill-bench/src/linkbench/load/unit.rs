//! The pieces of a load that loaders take, large ones first, so that none is left with a long tail.

use crate::linkbench::compat::Compat;
use crate::linkbench::graph::Graph;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What one loader writes in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// Some links of one id and type with very many.
    Part {
        id: i64,
        type_index: i64,
        links: Range<i64>,
    },
    /// All other links of some ids.
    Links(Range<i64>),
    Nodes(Range<i64>),
}

/// All pieces; those of ordinary ids are computed when they are asked for.
pub struct Units {
    ids: Range<i64>,
    chunk: i64,
    parts: Vec<Unit>,
    can_split: bool,
    has_nodes: bool,
    /// Of each list in parts: parts that are not written yet, and the time of its newest link so far.
    open: Mutex<BTreeMap<(i64, i64), (usize, i64)>>,
}

/// Lists longer than this are loaded in parts of this size.
const PART_LINKS: i64 = 65_536;

/// May lists be loaded in parts? Random second ids are distinct within a list, so that its parts must know each other.
pub fn can_split(graph: &Graph, compat: Compat) -> bool {
    graph.is_ranked && graph.random_id2_max <= 0 && !compat.super_node
}

/// Where lists may be.
pub fn is_split(links: i64) -> bool {
    links > PART_LINKS
}

impl Units {
    pub fn new(graph: &Graph, chunk: i64, has_nodes: bool, compat: Compat) -> Self {
        let can_split = can_split(graph, compat);
        let mut units = Units {
            ids: graph.counts.ids(),
            chunk,
            parts: Vec::new(),
            can_split,
            has_nodes,
            open: Mutex::new(BTreeMap::new()),
        };
        if can_split {
            units.split_lists(graph);
        }
        units
    }

    fn split_lists(&mut self, graph: &Graph) {
        let counts = &graph.counts;
        for rank in 0..self.ids.end - self.ids.start {
            let id = counts.id_of_rank(rank);
            let long = |&type_index: &i64| self.is_split(counts.links(id, type_index));
            let lists: Vec<i64> = (0..counts.types()).filter(long).collect();
            if lists.is_empty() {
                return;
            }
            for type_index in lists {
                let links = counts.links(id, type_index);
                let starts = (0..links).step_by(PART_LINKS as usize);
                let parts = starts.map(|from| Unit::Part {
                    id,
                    type_index,
                    links: from..(from + PART_LINKS).min(links),
                });
                let before = self.parts.len();
                self.parts.extend(parts);
                let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
                open.insert((id, type_index), (self.parts.len() - before, i64::MIN));
            }
        }
    }

    pub fn is_split(&self, links: i64) -> bool {
        self.can_split && is_split(links)
    }

    /// Parts, then links from the highest ids down, then nodes; none after the last.
    pub fn get(&self, index: usize) -> Option<Unit> {
        if let Some(part) = self.parts.get(index) {
            return Some(part.clone());
        }
        let index = i64::try_from(index - self.parts.len()).ok()?;
        let chunks = (self.ids.end - self.ids.start + self.chunk - 1) / self.chunk;
        let ids = |index: i64| {
            let start = self.ids.start + index * self.chunk;
            start..(start + self.chunk).min(self.ids.end)
        };
        match index {
            index if index < chunks => Some(Unit::Links(ids(chunks - 1 - index))),
            index if self.has_nodes && index < 2 * chunks => Some(Unit::Nodes(ids(index - chunks))),
            _ => None,
        }
    }

    /// The time of the newest link of the list, when this was its last part.
    pub fn part_done(&self, id: i64, type_index: i64, time: i64) -> Option<i64> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, newest) = open.get_mut(&(id, type_index))?;
        *left = left.saturating_sub(1);
        *newest = (*newest).max(time);
        (*left == 0).then_some(*newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::settings::Sources;

    #[test]
    fn units_cover_every_link_and_node_once() {
        let settings = Sources { nodes: Some(10_000), ..Sources::default() }.settings().unwrap();
        let units = Units::new(&settings.graph, 2_048, true, Compat::none());
        let counts = &settings.graph.counts;
        let (mut links, mut nodes, mut parts) = (0, 0, 0);
        for unit in (0..).map_while(|index| units.get(index)) {
            match unit {
                Unit::Part { links: range, .. } => {
                    parts += 1;
                    links += range.end - range.start;
                }
                Unit::Nodes(ids) => nodes += ids.end - ids.start,
                Unit::Links(ids) => {
                    let lists = ids.flat_map(|id| (0..2).map(move |index| counts.links(id, index)));
                    links += lists.filter(|&list| !units.is_split(list)).sum::<i64>();
                }
            }
        }
        let plan = settings.graph.plan();
        assert_eq!((links, nodes), (plan.links, plan.nodes));
        assert_eq!(parts, 2 * 32);
    }

    #[test]
    fn one_loader_has_all_of_a_super_node_as_the_original() {
        let settings = Sources { nodes: Some(10_000), ..Sources::default() }.settings().unwrap();
        let units = Units::new(&settings.graph, 2_048, true, Compat::all());
        assert!((0..).map_while(|index| units.get(index)).all(|unit| !matches!(unit, Unit::Part { .. })));
        assert!(!units.is_split(4_000_000));
    }

    #[test]
    fn the_last_part_has_the_newest_time() {
        let settings = Sources { nodes: Some(10_000), ..Sources::default() }.settings().unwrap();
        let units = Units::new(&settings.graph, 2_048, true, Compat::none());
        let id = settings.graph.counts.id_of_rank(0);
        let done: Vec<_> = (0..32).map(|part| units.part_done(id, 0, 100 - part)).collect();
        assert_eq!(done.iter().flatten().collect::<Vec<_>>(), [&100]);
        assert_eq!(done[31], Some(100));
    }
}
