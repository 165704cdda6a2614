//! Are reads answered with what was written? Asked of a sample of the graph, by the statements of a run.

use super::load::{LoadPlan, Replay};
use super::settings::Settings;
use super::shard::Shards;
use super::store::{FIRST_LINK_TYPE, Link, ListQuery, NODE_TYPE, Node, SqlStore, Store};
use super::validate::counts_drift;
use crate::error::{Error, Result};
use crate::suite::Check;
use crate::target::{Dialect, Target};
use std::collections::BTreeMap;
use std::ops::Range;

/// So many places of the graph are looked at, and so many ids at each.
const PLACES: i64 = 6;
const IDS_A_PLACE: i64 = 4;
/// Links of one list that one MULTIGET asks for, and all that one list has.
const ASKED_MAX: i64 = 100;
const LIST_LIMIT: i64 = 10_000;

/// One check a shard. Right after a load of this seed the answers must be what its generators made, byte for byte. Later
/// they must agree with each other, and with what requests leave as it was: links that were loaded are hidden at most.
pub fn check_reads(
    target: &Target,
    settings: &Settings,
    shards: &Shards,
    fresh: Option<u64>,
) -> Result<Vec<Check>> {
    if target.dialect() == Dialect::Noop {
        return Ok(Vec::new());
    }
    let replay = |seed| Replay::new(settings, LoadPlan::new(settings, target.dialect(), seed)?);
    let replay = fresh.map(replay).transpose()?;
    let check = |schema: &super::schema::Schema| {
        let store = SqlStore::new(target.connect()?, &settings.properties, schema, settings.compat)?;
        let mut oracle = Oracle { store, settings, replay: replay.as_ref(), loaded_at: None, compared: 0 };
        let (passed, detail) = match oracle.compare() {
            Ok(()) => (true, format!("{} answers compared", oracle.compared)),
            Err(Error::Wrong(difference)) => (false, difference),
            Err(error) => return Err(error),
        };
        let shard = if shards.schemas().len() > 1 { format!("{}: ", schema.name()) } else { String::new() };
        Ok(Check { name: format!("{shard}reads answer what was written"), passed, detail })
    };
    shards.schemas().iter().map(check).collect()
}

struct Oracle<'a> {
    store: SqlStore,
    settings: &'a Settings,
    replay: Option<&'a Replay>,
    /// When the load was, by the first link that was compared: all others must agree.
    loaded_at: Option<i64>,
    compared: u64,
}

impl Oracle<'_> {
    /// What differs is an error of the kind `Wrong`.
    fn compare(&mut self) -> Result<()> {
        let counts = &self.settings.graph.counts;
        let (ids, types) = (counts.ids(), counts.types());
        let size = ids.end - ids.start;
        // Besides evenly spread ids some with longer lists than most have.
        let spread = (0..PLACES - 2).map(|place| ids.start + place * size / (PLACES - 2));
        let long = [size / 1_000, size / 100].map(|rank| counts.id_of_rank(rank));
        let places: Vec<i64> = spread.chain(long).collect();
        for start in places {
            let end = self.replay.map_or(ids.end, |replay| replay.unit(start).end);
            let wanted = start..(start + IDS_A_PLACE).min(end);
            let nodes = self.replay.map(|replay| replay.nodes(wanted.clone()));
            let mut lists = self.replay.map(|replay| replay.links(wanted.clone())).unwrap_or_default();
            for id in wanted {
                self.compare_node(id, nodes.as_ref().map(|nodes| nodes.get(&id)))?;
                for type_index in 0..types {
                    self.compare_links(id, type_index, lists.remove(&(id, type_index)))?;
                }
            }
        }
        Ok(())
    }

    /// `written` is none where it is not known, and none inside where there is no node.
    fn compare_node(&mut self, id: i64, written: Option<Option<&Node>>) -> Result<()> {
        self.compared += 1;
        let is_there = self.store.get_node(NODE_TYPE, id)?;
        let node = is_there.then(|| Node { time: 0, ..self.store.node() });
        let is_right = match &written {
            Some(written) => node.as_ref() == *written,
            None => node.as_ref().is_none_or(|node| node.id == id && (1..=2).contains(&node.version)),
        };
        if is_right {
            return Ok(());
        }
        let what = match (&node, written.flatten()) {
            (Some(node), Some(written)) => told(&node_fields(node, written)),
            (Some(_), None) if written.is_some() => "is there, and was not written".to_owned(),
            (Some(node), None) => format!("has id {} and version {}", node.id, node.version),
            (None, _) => "is not there".to_owned(),
        };
        Err(wrong(format!("node {id} {what}")))
    }

    fn compare_links(&mut self, id1: i64, type_index: i64, written: Option<Vec<Link>>) -> Result<()> {
        let link_type = FIRST_LINK_TYPE + type_index;
        let what = format!("of id {id1} and type {link_type}");
        let listed = self.list(id1, link_type)?;
        let is_whole = (listed.len() as i64) < LIST_LIMIT;
        let is_of_list = |link: &Link| (link.id1, link.link_type, link.is_visible) == (id1, link_type, true);
        if !listed.iter().all(is_of_list) || !listed.is_sorted_by(|a, b| a.time >= b.time) {
            return Err(wrong(format!("the list {what} has other links, hidden ones, or another order")));
        }
        let count = self.store.count_links(id1, link_type)?;
        if is_whole && !counts_drift(self.settings) && count != listed.len() as i64 {
            return Err(wrong(format!("the count {what} is {count}, the list has {}", listed.len())));
        }
        self.compare_multiget((id1, link_type), type_index, listed.iter().filter(|_| is_whole))?;
        self.compared += 3;
        written.filter(|_| is_whole).map_or(Ok(()), |written| self.compare_written(&what, listed, &written))
    }

    fn list(&mut self, id1: i64, link_type: i64) -> Result<Vec<Link>> {
        let all = ListQuery { id1, link_type, time_min: 0, time_max: i64::MAX, offset: 0, limit: LIST_LIMIT };
        let rows = self.store.list_links(&all)?;
        Ok((0..rows).map(|row| self.store.link(row)).collect())
    }

    /// Links that were loaded are there, and those that are visible are those of the whole list.
    fn compare_multiget<'b>(
        &mut self,
        (id1, link_type): (i64, i64),
        type_index: i64,
        listed: impl Iterator<Item = &'b Link>,
    ) -> Result<()> {
        let graph = &self.settings.graph;
        let asked = loaded_id2s(graph.counts.links(id1, type_index), id1 + graph.first_offset);
        if graph.random_id2_max > 0 || asked.is_empty() {
            return Ok(());
        }
        let asked: Vec<i64> = asked.collect();
        let rows = self.store.multiget(id1, link_type, &asked)?;
        let got: BTreeMap<i64, Link> =
            (0..rows).map(|row| self.store.link(row)).map(|link| (link.id2, link)).collect();
        let what = format!("MULTIGET of id {id1} and type {link_type}");
        if !got.keys().copied().eq(asked.iter().copied()) {
            return Err(wrong(format!("{what} finds {} of {} loaded links", got.len(), asked.len())));
        }
        for link in listed.filter(|link| asked.contains(&link.id2)) {
            let found = got.get(&link.id2);
            if let Some(found) = found.filter(|found| *found != link) {
                let fields = told(&link_fields(found, link));
                return Err(wrong(format!("{what} has a link to {} which {fields} of the list", link.id2)));
            }
        }
        Ok(())
    }

    fn compare_written(&mut self, what: &str, mut listed: Vec<Link>, written: &[Link]) -> Result<()> {
        listed.sort_unstable_by_key(|link| link.id2);
        if listed.len() != written.len() {
            return Err(wrong(format!(
                "the list {what} has {} links, expected {}",
                listed.len(),
                written.len()
            )));
        }
        for (mut link, written) in listed.into_iter().zip(written) {
            link.time -= *self.loaded_at.get_or_insert(link.time - written.time);
            if link != *written {
                let fields = told(&link_fields(&link, written));
                return Err(wrong(format!("the link {what} to {} {fields}", written.id2)));
            }
        }
        Ok(())
    }
}

fn loaded_id2s(links: i64, first: i64) -> Range<i64> {
    first..first + links.min(ASKED_MAX)
}

/// A field as it is found and as it should be, in words.
type Field = (&'static str, String, String);

fn node_fields(found: &Node, wanted: &Node) -> Vec<Field> {
    let number = |name, found: i64, wanted: i64| (name, found.to_string(), wanted.to_string());
    vec![
        number("id", found.id, wanted.id),
        number("type", found.node_type, wanted.node_type),
        number("version", found.version, wanted.version),
        number("time", found.time, wanted.time),
        data(&found.data, &wanted.data),
    ]
}

fn link_fields(found: &Link, wanted: &Link) -> Vec<Field> {
    let number = |name, found: i64, wanted: i64| (name, found.to_string(), wanted.to_string());
    vec![
        number("id1", found.id1, wanted.id1),
        number("type", found.link_type, wanted.link_type),
        number("id2", found.id2, wanted.id2),
        ("visible", found.is_visible.to_string(), wanted.is_visible.to_string()),
        number("version", found.version, wanted.version),
        number("time", found.time, wanted.time),
        data(&found.data, &wanted.data),
    ]
}

/// Hundreds of bytes tell nobody anything: how many there are, and the first one that differs.
fn data(found: &[u8], wanted: &[u8]) -> Field {
    let same = found.iter().zip(wanted).take_while(|(found, wanted)| found == wanted).count();
    let at = |data: &[u8]| data.get(same).map_or("none".to_owned(), |byte| byte.to_string());
    let told = |data: &[u8]| format!("{} bytes (the byte at {same}: {})", data.len(), at(data));
    ("data", told(found), told(wanted))
}

/// Those that differ.
fn told(fields: &[Field]) -> String {
    let differing = fields.iter().filter(|(_, found, wanted)| found != wanted);
    let told = differing.map(|(name, found, wanted)| format!("{name} {found} instead of {wanted}"));
    format!("has {}", told.collect::<Vec<_>>().join(", "))
}

fn wrong(difference: String) -> Error {
    Error::Wrong(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_in_words() {
        let wanted = Node { id: 5, version: 1, data: vec![7; 300], ..Node::default() };
        let found = Node { version: 2, data: [vec![7; 20], vec![8; 10]].concat(), ..wanted.clone() };
        assert_eq!(
            told(&node_fields(&found, &wanted)),
            "has version 2 instead of 1, data 30 bytes (the byte at 20: 8) instead of 300 bytes (the byte at 20: 7)"
        );
        let wanted = Link { id1: 1, is_visible: true, ..Link::default() };
        let found = Link { is_visible: false, ..wanted.clone() };
        assert_eq!(told(&link_fields(&found, &wanted)), "has visible false instead of true");
    }
}
