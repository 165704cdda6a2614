//! One requester: chooses an operation with its data, and does it.

use super::shard::Shard;
use super::{LINKS_DELETED_MAX, Requests};
use crate::error::{Error, Result};
use crate::fiber;
use crate::linkbench::access::Access;
use crate::linkbench::history::Entry;
use crate::linkbench::id2::{EXISTS_FOR_ADD, EXISTS_FOR_DELETE, EXISTS_FOR_UPDATE, Id2};
use crate::linkbench::mix::Operation;
use crate::linkbench::payload::{Payload, Purpose};
use crate::linkbench::random::Random;
use crate::linkbench::store::{
    Detours, FIRST_LINK_TYPE, Link, ListQuery, NODE_TYPE, Node, Removal, SqlStore, Store,
};
use crate::linkbench::{compat::Compat, now_ms};
use crate::run::{Client, Seat};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What is told of a requester when it has ended, the warm-up included.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequesterEnd {
    pub found: u64,
    pub not_found: u64,
    pub lists: u64,
    pub lists_from_history: u64,
    /// By operation: all, and the most of one request.
    pub retries: [(u64, u32); Operation::NAMES.len()],
}

/// The state of one client. Buffers are used again from operation to operation.
pub struct Requester<'a> {
    shared: &'a Requests,
    index: usize,
    shards: Vec<Shard>,
    /// The one that `next` has chosen.
    shard: usize,
    random: Random,
    id2: Id2,
    link_add: Payload,
    link_update: Payload,
    node_add: Payload,
    node_update: Payload,
    /// What `next` has chosen.
    operation: Operation,
    link: Link,
    node: Node,
    id2s: Vec<i64>,
    list: ListQuery,
    is_from_history: bool,
    before: Before,
    tally: Tally,
    retries: [(u64, u32); Operation::NAMES.len()],
    /// Why there is no session for what `next` has chosen.
    refused: Option<Error>,
}

/// The ids of the last operations, for the modes that go on from them.
#[derive(Debug, Default)]
struct Before {
    read: i64,
    write: i64,
    node: i64,
}

#[derive(Debug, Default)]
struct Tally {
    found: u64,
    not_found: u64,
    lists: u64,
    lists_from_history: u64,
    list_rows: u64,
    /// By the code of the error that led to them.
    retries: BTreeMap<String, u64>,
    failures: i64,
}

const RETRIES_MAX: u32 = 999;
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Between attempts to open sessions again that the server has ended.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);

impl<'a> Requester<'a> {
    pub fn new(shared: &'a Requests, seat: &Seat) -> Result<Self> {
        let settings = &shared.settings;
        let mut random = Random::part(seat.seed, seat.index as u64);
        let motif_seed = random.below(i64::MAX) as u64;
        let payload = |purpose| Payload::new(&settings.properties, purpose, settings.compat, motif_seed);
        let shards = shared.shards.schemas().iter().enumerate();
        let shards = shards.map(|(index, schema)| Shard::open(shared, index, schema));
        Ok(Requester {
            shards: shards.collect::<Result<_>>()?,
            index: seat.index,
            shard: 0,
            random,
            id2: shared.id2(seat),
            link_add: payload(Purpose::LinkAdd)?,
            link_update: payload(Purpose::LinkUpdate)?,
            node_add: payload(Purpose::NodeAdd)?,
            node_update: payload(Purpose::NodeUpdate)?,
            operation: Operation::GetNode,
            link: Link { is_visible: true, ..Link::default() },
            node: Node { node_type: NODE_TYPE, ..Node::default() },
            id2s: Vec::new(),
            list: ListQuery { id1: 0, link_type: 0, time_min: 0, time_max: 0, offset: 0, limit: 0 },
            is_from_history: false,
            before: Before::default(),
            tally: Tally::default(),
            retries: Default::default(),
            refused: None,
            shared,
        })
    }

    fn read_id1(&mut self) -> i64 {
        let before = self.before_link(self.before.read);
        self.before.read = self.shared.link_reads.choose(&mut self.random, before);
        self.shared.or_added(self.shard, &mut self.random, self.before.read)
    }

    fn choose_node(&mut self, access: impl Fn(&Requests) -> &Access) {
        let chosen = access(self.shared).choose(&mut self.random, self.before.node);
        self.node.id = self.shared.or_added(self.shard, &mut self.random, chosen);
    }

    fn choose_node_to_read(&mut self) {
        self.choose_node(|shared| &shared.node_reads);
        self.before.node = self.node.id;
    }

    /// The original hands link operations no id to go on from.
    fn before_link(&self, before: i64) -> i64 {
        if self.shared.settings.compat.access { 0 } else { before }
    }

    fn link_type_index(&mut self) -> i64 {
        self.random.below(self.shared.settings.graph.counts.types())
    }

    /// The key of a link to write.
    fn choose_link(&mut self, exists: f64) {
        let before = self.before_link(self.before.write);
        self.before.write = self.shared.link_writes.choose(&mut self.random, before);
        let id1 = self.shared.or_added(self.shard, &mut self.random, self.before.write);
        let type_index = self.link_type_index();
        self.link.id1 = id1;
        self.link.link_type = FIRST_LINK_TYPE + type_index;
        self.link.id2 = self.id2.choose(&mut self.random, id1, type_index, exists);
    }

    fn choose_ids(&mut self) {
        let (id1, type_index) = (self.read_id1(), self.link_type_index());
        let ids = self.shared.multiget.as_ref().map_or(1, |law| law.choose(&mut self.random));
        self.link.id1 = id1;
        self.link.link_type = FIRST_LINK_TYPE + type_index;
        self.id2.choose_many(&mut self.random, id1, type_index, ids as usize, &mut self.id2s);
    }

    fn choose_list(&mut self) {
        let limit = self.shared.list_limit;
        let history = &self.shards[self.shard].history;
        self.is_from_history = self.random.chance(self.shared.history) && !history.is_empty();
        if let (true, Some(entry)) = (self.is_from_history, history.any(&mut self.random)) {
            let Entry { id1, link_type, time } = entry;
            self.list = ListQuery { id1, link_type, time_min: 0, time_max: time, offset: 1, limit };
            return;
        }
        let id1 = self.read_id1();
        let link_type = FIRST_LINK_TYPE + self.link_type_index();
        self.list = ListQuery { id1, link_type, time_min: 0, time_max: i64::MAX, offset: 0, limit };
    }

    fn attempt(&mut self) -> Result<()> {
        let store = &mut self.shards[self.shard].store;
        match self.operation {
            Operation::AddNode => {
                self.node.time = now_ms() / 1_000;
                store.add_node(&self.node)?;
                self.shared.node_was_added(self.shard);
                Ok(())
            }
            Operation::UpdateNode => {
                self.node.time = now_ms() / 1_000;
                store.update_node(&self.node).map(|_| ())
            }
            Operation::DeleteNode => self.delete_node(),
            Operation::GetNode => store.get_node(NODE_TYPE, self.node.id).map(|_| ()),
            Operation::AddLink | Operation::UpdateLink | Operation::DeleteLink => self.write_link(),
            Operation::CountLink => store.count_links(self.link.id1, self.link.link_type).map(|_| ()),
            Operation::MultigetLink => {
                let found = store.multiget(self.link.id1, self.link.link_type, &self.id2s)?;
                self.tally.found += found as u64;
                self.tally.not_found += if found == 0 { self.id2s.len() as u64 } else { 0 };
                Ok(())
            }
            Operation::GetLinksList => self.read_list(),
        }
    }

    fn delete_node(&mut self) -> Result<()> {
        let (id, settings) = (self.node.id, &self.shared.settings);
        let counts = &settings.graph.counts;
        let is_large = |type_index| counts.links(id, type_index) > LINKS_DELETED_MAX;
        let shard = &mut self.shards[self.shard];
        if settings.compat.delete_node || (0..counts.types()).any(is_large) {
            return shard.store.delete_node(NODE_TYPE, id).map(|_| ());
        }
        let types = FIRST_LINK_TYPE..FIRST_LINK_TYPE + counts.types();
        shard.transactions().delete_node_and_links(NODE_TYPE, id, types).map(|_| ())
    }

    fn write_link(&mut self) -> Result<()> {
        let store = self.shards[self.shard].transactions();
        let Link { id1, link_type, id2, .. } = self.link;
        if self.operation == Operation::DeleteLink {
            store.delete_link(id1, link_type, id2, Removal::Hide)?;
        } else {
            self.link.time = now_ms();
            let is_add = self.operation == Operation::AddLink || self.shared.update_adds;
            if is_add {
                store.add_link(&self.link)?
            } else {
                store.update_link(&self.link)?
            };
        }
        if self.shared.checks_counts { store.check_count(id1, link_type) } else { Ok(()) }
    }

    fn read_list(&mut self) -> Result<()> {
        let Shard { store, history, .. } = &mut self.shards[self.shard];
        let rows = store.list_links(&self.list)?;
        self.tally.lists += 1;
        self.tally.lists_from_history += u64::from(self.is_from_history);
        self.tally.list_rows += rows as u64;
        self.shared.list_was_read(self.index, rows as u32);
        let ListQuery { id1, link_type, limit, .. } = self.list;
        if rows as i64 >= limit && rows > 0 {
            let time = store.link_time(rows - 1);
            history.add(&mut self.random, Entry { id1, link_type, time });
        } else if self.is_from_history {
            history.remove(id1, link_type);
        }
        Ok(())
    }

    /// Of all shards.
    fn detours(&self) -> Detours {
        self.shards.iter().flat_map(Shard::stores).map(SqlStore::detours).fold(
            Detours::default(),
            |all, one| Detours {
                add_to_update: all.add_to_update + one.add_to_update,
                update_to_add: all.update_to_add + one.update_to_add,
            },
        )
    }
}

/// Worth another try: serialisation failures, and deadlocks unless as the original.
pub fn is_transient(error: &Error, compat: Compat) -> bool {
    match error.code() {
        Some("40001" | "41000") => true,
        Some(_) => error.is_retryable() && !compat.deadlock,
        None => false,
    }
}

impl Client for Requester<'_> {
    fn next(&mut self) -> Result<usize> {
        if self.shared.is_over.load(Ordering::Relaxed) {
            return Err(Error::Wrong(
                "a request of another requester failed (the flaw one-failure)".to_owned(),
            ));
        }
        self.shard = self.shared.shards.choose(&mut self.random);
        self.refused = self.shards[self.shard].reopen_lost(&self.shared.target).err();
        self.operation = self.shared.mix.choose(&mut self.random);
        match self.operation {
            Operation::AddNode => {
                self.node.version = 1;
                self.node_add.generate(&mut self.random, &mut self.node.data);
            }
            Operation::UpdateNode => {
                self.choose_node(|shared| &shared.node_updates);
                self.node.version = 2;
                self.node_update.generate(&mut self.random, &mut self.node.data);
            }
            Operation::DeleteNode => self.choose_node(|shared| &shared.node_deletes),
            Operation::GetNode if self.shared.settings.compat.timed_choice => {}
            Operation::GetNode => self.choose_node_to_read(),
            Operation::AddLink => {
                self.choose_link(EXISTS_FOR_ADD);
                self.link_add.generate(&mut self.random, &mut self.link.data);
            }
            Operation::UpdateLink => {
                self.choose_link(EXISTS_FOR_UPDATE);
                self.link_update.generate(&mut self.random, &mut self.link.data);
            }
            Operation::DeleteLink => self.choose_link(EXISTS_FOR_DELETE),
            Operation::CountLink => {
                self.link.id1 = self.read_id1();
                self.link.link_type = FIRST_LINK_TYPE + self.link_type_index();
            }
            Operation::MultigetLink => self.choose_ids(),
            Operation::GetLinksList => self.choose_list(),
        }
        Ok(self.operation.index())
    }

    fn perform(&mut self) -> Result<()> {
        if let Some(error) = self.refused.take() {
            fiber::sleep(REOPEN_PAUSE);
            return Err(self.failed(error));
        }
        if self.operation == Operation::GetNode && self.shared.settings.compat.timed_choice {
            self.choose_node_to_read();
        }
        let mut tries = 0;
        loop {
            match self.attempt() {
                Err(error) if tries < RETRIES_MAX && is_transient(&error, self.shared.settings.compat) => {
                    tries += 1;
                    *self.tally.retries.entry(error.kind().to_owned()).or_insert(0) += 1;
                    let retries = &mut self.retries[self.operation.index()];
                    *retries = (retries.0 + 1, retries.1.max(tries));
                    fiber::sleep(RETRY_PAUSE * tries);
                }
                result => return result.map_err(|error| self.failed(error)),
            }
        }
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let detours = self.detours();
        let tally = &self.tally;
        let mut counters = [
            ("links found", tally.found),
            ("links not found", tally.not_found),
            ("lists", tally.lists),
            ("lists from history", tally.lists_from_history),
            ("list rows", tally.list_rows),
            ("retries", tally.retries.values().sum()),
            ("adds that became updates", detours.add_to_update),
            ("updates that became adds", detours.update_to_add),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .to_vec();
        counters.extend(tally.retries.iter().map(|(code, count)| (format!("retries after {code}"), *count)));
        counters
    }
}

impl Requester<'_> {
    /// What becomes of a request that failed: it is let through, or its requester ends, whatever others do after such an error.
    fn failed(&mut self, error: Error) -> Error {
        self.shards[self.shard].suspect();
        let is_counted = matches!(error, Error::Server(_) | Error::Lost(_) | Error::Unreachable { .. });
        let error = Box::new(error);
        if is_counted && self.is_tolerated() {
            return Error::Tolerated { error, is_expected: false };
        }
        Error::Final(error)
    }

    /// One more failure, of which the server told, which took the connection along, or for which there was none; below zero
    /// any number is let through.
    fn is_tolerated(&mut self) -> bool {
        self.tally.failures += 1;
        // Under the old rules the original counts failures too.
        if self.shared.settings.compat.one_failure && !self.shared.update_adds {
            self.shared.is_over.store(true, Ordering::Relaxed);
            return false;
        }
        let most = self.shared.failures_max;
        most < 0 || self.tally.failures <= most
    }
}

impl Drop for Requester<'_> {
    /// Counters are added up over requesters; the original's log has them one by one.
    fn drop(&mut self) {
        let Tally { found, not_found, lists, lists_from_history, .. } = self.tally;
        let end = RequesterEnd { found, not_found, lists, lists_from_history, retries: self.retries };
        self.shared.ended(self.index, end);
    }
}
