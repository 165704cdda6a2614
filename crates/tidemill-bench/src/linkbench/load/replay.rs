//! What a load has written, generated once more: so that answers can be compared with it.

use super::LoadPlan;
use super::unit::is_split;
use crate::linkbench::graph::Graph;
use crate::linkbench::payload::{Payload, Purpose};
use crate::linkbench::random::Random;
use crate::linkbench::settings::Settings;
use crate::linkbench::store::{FIRST_LINK_TYPE, Link, NODE_TYPE, Node};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a unit's numbers are for; of parts the type is added.
pub const OF_NODES: u64 = 1;
pub const OF_LINKS: u64 = 2;
pub const OF_PARTS: u64 = 3;

/// The numbers of a unit: they depend on nothing but the seed and what is in it.
pub fn unit_random(seed: u64, purpose: u64, first: i64, offset: i64) -> Random {
    let family = seed ^ purpose.rotate_left(40) ^ (offset as u64).rotate_left(20);
    Random::part(family, first as u64)
}

/// Links by id and index of the type.
pub type Lists = BTreeMap<(i64, i64), Vec<Link>>;

pub struct Replay {
    graph: Graph,
    plan: LoadPlan,
    can_split: bool,
    link_data: Payload,
    node_data: Payload,
}

impl Replay {
    pub fn new(settings: &Settings, plan: LoadPlan) -> crate::linkbench::Result<Self> {
        let payload = |purpose| Payload::new(&settings.properties, purpose, settings.compat, plan.seed);
        Ok(Replay {
            graph: settings.graph.clone(),
            can_split: super::unit::can_split(&settings.graph, settings.compat),
            link_data: payload(Purpose::LinkAdd)?,
            node_data: payload(Purpose::NodeAdd)?,
            plan,
        })
    }

    /// The ids that were loaded together with this one.
    pub fn unit(&self, id: i64) -> Range<i64> {
        let ids = self.graph.counts.ids();
        let start = id - (id - ids.start) % self.plan.chunk;
        start..(start + self.plan.chunk).min(ids.end)
    }

    /// The nodes of the wanted ids, which are of one unit; none when the load made none. The time is not told.
    pub fn nodes(&self, wanted: Range<i64>) -> BTreeMap<i64, Node> {
        let unit = if self.plan.has_nodes { self.unit(wanted.start) } else { 0..0 };
        let mut random = unit_random(self.plan.seed, OF_NODES, unit.start, 0);
        let mut nodes = BTreeMap::new();
        let mut data = Vec::new();
        for id in unit.take_while(|id| *id < wanted.end) {
            self.node_data.generate(&mut random, &mut data);
            if wanted.contains(&id) {
                nodes.insert(id, Node { id, node_type: NODE_TYPE, version: 1, time: 0, data: data.clone() });
            }
        }
        nodes
    }

    /// The links of the wanted ids, which are of one unit, with times before that of the load. Lists that were loaded in
    /// parts are left out, and all where second ids are random.
    pub fn links(&self, wanted: Range<i64>) -> Lists {
        let mut lists = Lists::new();
        if self.graph.random_id2_max > 0 {
            return lists;
        }
        let unit = self.unit(wanted.start);
        let mut random = unit_random(self.plan.seed, OF_LINKS, unit.start, 0);
        let mut data = Vec::new();
        // From the last id down, as they were loaded.
        for id1 in (wanted.start..unit.end).rev() {
            for type_index in 0..self.graph.counts.types() {
                let links = self.graph.counts.links(id1, type_index);
                if self.can_split && is_split(links) {
                    continue;
                }
                let mut list = Vec::new();
                for id2 in (0..links).map(|index| id1 + self.graph.first_offset + index) {
                    let time = -random.below(1 << 32);
                    self.link_data.generate(&mut random, &mut data);
                    if wanted.contains(&id1) {
                        let link_type = FIRST_LINK_TYPE + type_index;
                        let data = data.clone();
                        list.push(Link { id1, link_type, id2, is_visible: true, data, version: 0, time });
                    }
                }
                if wanted.contains(&id1) {
                    lists.insert((id1, type_index), list);
                }
            }
        }
        lists
    }
}
