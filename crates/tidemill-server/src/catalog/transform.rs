//! Continuous transforms, and which way they carry events.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use tidemill_sql::Result;
use tidemill_sql::name::{quote_ident, quote_literal};
use tidemill_stream::stream::StreamId;
use tidemill_stream::transform::Transform;
use tidemill_stream::view::ViewId;

use super::{Catalog, Relation, Table, TransformObject};
use crate::delivery::Delivery;
use crate::insert::Target;

#[derive(Debug)]
pub struct ContinuousTransform {
    pub oid: u32,
    pub object: TransformObject,
    pub transform: Arc<Transform>,
    /// The columns of its query.
    pub schema: SchemaRef,
    pub outputs: Vec<Target>,
    /// Of those that are foreign tables.
    pub deliveries: Vec<Arc<Delivery>>,
}

impl ContinuousTransform {
    pub fn id(&self) -> ViewId {
        ViewId(self.oid)
    }

    pub fn streams(&self) -> Vec<StreamId> {
        self.transform.plan.streams()
    }

    /// The names of what it writes to.
    pub fn arguments(&self) -> Vec<String> {
        self.outputs.iter().map(|output| output.stream().object.name.clone()).collect()
    }

    /// The function that takes its rows, as it can be written.
    pub fn call(&self) -> String {
        let arguments: Vec<_> =
            self.arguments().iter().map(|name| quote_literal(&quote_ident(name))).collect();
        format!("{}({})", self.object.function, arguments.join(", "))
    }

    /// Whether it writes to the stream, or the table, of this number.
    pub fn writes_to(&self, oid: u32) -> bool {
        self.object.outputs.contains(&oid)
    }
}

impl Catalog {
    pub fn transforms(&self) -> Vec<Arc<ContinuousTransform>> {
        self.relations()
            .into_iter()
            .filter_map(|r| if let Relation::Transform(t) = r { Some(t) } else { None })
            .collect()
    }

    /// What can be a target of this name: a view or a transform.
    pub fn target(&self, name: &str) -> Result<ViewId> {
        match self.get(name) {
            Some(Relation::Transform(transform)) => Ok(transform.id()),
            _ => Ok(self.view(name)?.id()),
        }
    }

    /// The tables that what is written to a stream goes into, in the order of their numbers.
    pub fn tables_behind(&self, stream: StreamId) -> Option<Arc<[Arc<Table>]>> {
        self.behind.read().get(&stream).cloned()
    }

    /// The tables among streams that transforms have written to, in the order of their numbers.
    pub fn tables_of(&self, streams: &[StreamId]) -> Vec<Arc<Table>> {
        if streams.is_empty() {
            return Vec::new();
        }
        let is_one = |table: &Arc<Table>| streams.contains(&table.stream.id());
        let tables = self.relations.read();
        let tables = tables.values().filter_map(|r| if let Relation::Table(t) = r { Some(t) } else { None });
        let mut found: Vec<_> = tables.filter(|table| is_one(table)).cloned().collect();
        found.sort_by_key(|table| table.oid);
        found
    }

    /// What is to be delivered of what is written to a stream.
    pub fn deliveries_behind(&self, stream: StreamId) -> Option<Arc<[Arc<Delivery>]>> {
        self.deliveries.read().get(&stream).cloned()
    }

    /// Looks anew which tables are behind which streams.
    pub(super) fn find_ways(&self) {
        let table = |relation| match relation {
            Relation::Table(table) => Some((table.oid, table)),
            _ => None,
        };
        let tables = self.relations().into_iter().filter_map(table).collect();
        let transforms = self.transforms();
        let ways = Ways::of(&transforms);
        *self.behind.write() = ways.tables(&tables);
        *self.deliveries.write() = ways.deliveries();
    }
}

/// Events of one stream become events of another. A table is the end of a way.
#[derive(Debug)]
struct Edge {
    to: StreamId,
    by: Arc<ContinuousTransform>,
    /// An event becomes so many at most.
    times: usize,
}

/// All ways that transforms carry events, by the stream that they begin at.
#[derive(Debug, Default)]
pub struct Ways(BTreeMap<StreamId, Vec<Edge>>);

impl Ways {
    pub fn of(transforms: &[Arc<ContinuousTransform>]) -> Ways {
        let mut ways = Ways::default();
        for by in transforms {
            for from in by.streams() {
                let times = by.transform.plan.rows_per_event(from);
                let edge = |oid: &u32| Edge { to: StreamId(*oid), by: Arc::clone(by), times };
                ways.0.entry(from).or_default().extend(by.object.outputs.iter().map(edge));
            }
        }
        ways
    }

    fn from(&self, stream: StreamId) -> &[Edge] {
        self.0.get(&stream).map_or(&[], Vec::as_slice)
    }

    /// Everything that events of `stream` lead to.
    fn behind(&self, stream: StreamId) -> BTreeSet<StreamId> {
        let mut found = BTreeSet::new();
        let mut next = vec![stream];
        while let Some(stream) = next.pop() {
            next.extend(self.from(stream).iter().map(|edge| edge.to).filter(|to| found.insert(*to)));
        }
        found
    }

    /// The tables behind each stream, in the order of their numbers.
    pub fn tables(&self, tables: &HashMap<u32, Arc<Table>>) -> HashMap<StreamId, Arc<[Arc<Table>]>> {
        let behind = |stream: &StreamId| {
            let found = self.behind(*stream).into_iter().filter_map(|to| tables.get(&to.0).cloned());
            (*stream, found.collect::<Arc<[_]>>())
        };
        self.0.keys().map(behind).filter(|(_, tables)| !tables.is_empty()).collect()
    }

    /// What is to be delivered behind each stream.
    pub fn deliveries(&self) -> HashMap<StreamId, Arc<[Arc<Delivery>]>> {
        let behind = |stream: &StreamId| {
            let on_the_way = self.behind(*stream).into_iter().chain([*stream]);
            let edges: Vec<_> = on_the_way.flat_map(|stream| self.from(stream)).collect();
            let mut found: Vec<Arc<Delivery>> = Vec::new();
            for delivery in edges.into_iter().flat_map(|edge| &edge.by.deliveries) {
                if !found.iter().any(|known| Arc::ptr_eq(known, delivery)) {
                    found.push(Arc::clone(delivery));
                }
            }
            (*stream, found.into())
        };
        let behind = self.0.keys().map(behind);
        behind.filter(|(_, found): &(_, Arc<[Arc<Delivery>]>)| !found.is_empty()).collect()
    }

    /// The shortest way on which an event of a stream becomes one of the same stream: streams, each but the first with the
    /// name of the transform that leads there.
    pub fn circle(&self, stream: StreamId) -> Option<Vec<(&str, StreamId)>> {
        let mut came: HashMap<StreamId, (StreamId, &Edge)> = HashMap::new();
        let mut reached = VecDeque::from([stream]);
        while let Some(here) = reached.pop_front() {
            for edge in self.from(here) {
                if came.contains_key(&edge.to) {
                    continue;
                }
                came.insert(edge.to, (here, edge));
                reached.push_back(edge.to);
            }
            if came.contains_key(&stream) {
                break;
            }
        }
        let mut way = Vec::new();
        let mut here = stream;
        loop {
            let (from, edge) = came.get(&here)?;
            way.push((edge.by.object.name.as_str(), edge.to));
            here = *from;
            if here == stream {
                way.reverse();
                return Some(way);
            }
        }
    }

    /// The stream of whose events one leads to the most, and to how many. There must be no circle.
    pub fn most_events(&self) -> Option<(StreamId, usize)> {
        let mut known = HashMap::new();
        let count = |stream: &StreamId| (*stream, self.events(*stream, &mut known));
        self.0.keys().map(count).max_by_key(|(_, events)| *events)
    }

    fn events(&self, stream: StreamId, known: &mut HashMap<StreamId, usize>) -> usize {
        if let Some(events) = known.get(&stream) {
            return *events;
        }
        let mut events = 0usize;
        for edge in self.from(stream) {
            let each = self.events(edge.to, known).saturating_add(1);
            events = events.saturating_add(each.saturating_mul(edge.times));
        }
        known.insert(stream, events);
        events
    }
}
