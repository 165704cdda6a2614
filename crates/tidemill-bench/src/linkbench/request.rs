//! The request phase: requesters that do the mix of operations.

mod requester;
mod shard;

use self::requester::Requester;
pub use self::requester::{RequesterEnd, is_transient};
use super::access::{Access, LinkAccess, Use, check_probability, class_name};
use super::compat::Compat;
use super::distribution::{Distribution, Geometric};
use super::id2::Id2;
use super::mix::{Mix, Operation};
use super::random::Random;
use super::schema::Schema;
use super::settings::Settings;
use super::shard::Shards;
use super::{Error, Result};
use crate::run::{Client, Pace, Plan, RATE_MAX, Seat, Workload};
use crate::target::{Connection, Dialect, Target};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The workload: what requesters share. Nothing in it changes during a run.
pub struct Requests {
    target: Target,
    shards: Shards,
    settings: Settings,
    mix: Mix,
    link_reads: LinkAccess,
    link_writes: LinkAccess,
    node_reads: Access,
    node_updates: Access,
    node_deletes: Access,
    multiget: Option<Arc<dyn Distribution>>,
    /// Share of lists that go on where another ended.
    history: f64,
    /// Rows that a list has at most: one that is full may have more.
    list_limit: i64,
    /// UPDATE_LINK adds, as first published: `never_change`.
    update_adds: bool,
    is_id2_own: bool,
    /// Each requester's own, besides that of the run.
    seed: Option<u64>,
    failures_max: i64,
    /// By shard: one more than the highest node id, so far as is known.
    nodes_end: Vec<AtomicI64>,
    /// By requester: the sizes of lists whose samples nobody has looked at yet. There are no more than samples on their
    /// way, which are bounded; empty when nobody wants to know.
    list_sizes: Vec<Mutex<VecDeque<u32>>>,
    ends: Mutex<BTreeMap<usize, RequesterEnd>>,
    /// A request failed, and the flaw `one-failure` ends the run.
    is_over: AtomicBool,
    /// After each write of a link its count is compared with its list: a test of the store, at the cost of the write.
    checks_counts: bool,
}

const LIST_LIMIT: i64 = 10_000;
/// A node with more links of one type leaves them behind when it is deleted: hiding millions of them would take longer
/// than all the rest of the run, and be in one run and not in the next.
const LINKS_DELETED_MAX: i64 = 10_000;
const MULTIGET_MAX: i64 = 10_000;

impl Requests {
    pub fn new(target: &Target, settings: &Settings, shards: &Shards) -> Result<Self> {
        let (properties, compat) = (&settings.properties, settings.compat);
        let ids = settings.graph.counts.ids();
        let data = &settings.graph.data;
        let access = |of| Access::new(properties, of, ids.clone(), data, compat);
        let history = properties.or("getlinklist_history", 0.0)? / 100.0;
        if !(0.0..=1.0).contains(&history) {
            return Err(properties.wrong("getlinklist_history", "is not a percentage".to_owned()));
        }
        let id2gen = properties.or("id2gen_config", 0)?;
        if !(0..=1).contains(&id2gen) {
            return Err(properties.wrong("id2gen_config", format!("{id2gen} is neither 0 nor 1")));
        }
        let nodes_end = || AtomicI64::new(ids.end);
        Ok(Requests {
            nodes_end: shards.schemas().iter().map(|_| nodes_end()).collect(),
            is_over: AtomicBool::new(false),
            list_sizes: Vec::new(),
            ends: Mutex::default(),
            mix: Mix::new(properties)?,
            link_reads: LinkAccess::reads(properties, &ids, data, compat)?,
            link_writes: LinkAccess::writes(properties, &ids, data, compat)?,
            node_reads: access(Use::NodeReads)?,
            node_updates: access(Use::NodeUpdates)?,
            node_deletes: access(Use::NodeDeletes)?,
            multiget: multiget(settings, compat)?,
            history,
            list_limit: LIST_LIMIT,
            update_adds: properties.or("never_change", false)?,
            is_id2_own: id2gen == 1,
            seed: properties.optional::<i64>("request_random_seed")?.map(|seed| seed as u64),
            failures_max: properties.or("max_failed_requests", 0)?,
            target: target.clone(),
            shards: shards.clone(),
            checks_counts: properties.or("check_count", false)?,
            settings: settings.clone(),
        })
    }

    /// The run that the properties ask for. Rates are of all requesters together here.
    pub fn plan(&self, seed: u64) -> Result<Plan> {
        let properties = &self.settings.properties;
        let clients: usize = properties.or("requesters", 1)?;
        let rate: i64 = properties.or("requestrate", 0)?;
        let rate_of_all = rate as f64 * clients as f64;
        if rate_of_all > RATE_MAX {
            let message = format!("{rate} of each of {clients} requesters is above {RATE_MAX} a second");
            return Err(properties.wrong("requestrate", message));
        }
        let requests = properties.required("requests")?;
        let seconds = properties.or("maxtime", 100_000)?;
        let empty = [("requests", requests), ("maxtime", seconds)].into_iter().find(|(_, most)| *most == 0);
        if let Some((key, _)) = empty.filter(|_| clients > 0) {
            return Err(
                properties.wrong(key, "0 measures nothing; requesters=0 is no request phase".to_owned())
            );
        }
        Ok(Plan {
            clients,
            threads: None,
            pace: if rate > 0 { Pace::Poisson(rate_of_all) } else { Pace::Closed },
            limit: None,
            warmup: Duration::from_secs(properties.or("warmup_time", 0)?),
            time: Duration::from_secs(seconds),
            operations_max: Some(requests),
            seed: self.seed.unwrap_or(seed),
        })
    }

    /// From here on sizes of lists must be fetched.
    pub fn keep_list_sizes(&mut self, requesters: usize) {
        self.list_sizes = (0..requesters).map(|_| Mutex::default()).collect();
    }

    pub fn list_was_read(&self, requester: usize, rows: u32) {
        if let Some(sizes) = self.list_sizes.get(requester) {
            sizes.lock().unwrap_or_else(PoisonError::into_inner).push_back(rows);
        }
    }

    /// Of the requester's first list that was not asked for yet.
    pub fn next_list_size(&self, requester: usize) -> Option<u32> {
        self.list_sizes.get(requester)?.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub fn ended(&self, requester: usize, end: RequesterEnd) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(requester, end);
    }

    /// Of all requesters that have ended.
    pub fn ends(&self) -> BTreeMap<usize, RequesterEnd> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nodes of earlier runs are there as well.
    fn find_nodes(
        &self,
        shard: usize,
        connection: &mut dyn Connection,
        schema: &Schema,
    ) -> crate::error::Result<()> {
        if !self.settings.compat.growth && schema.dialect != Dialect::Noop {
            let sql = format!("SELECT coalesce(max(id), 0) FROM {}", schema.nodes());
            self.nodes_end[shard].fetch_max(connection.query_int(&sql)? + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn node_was_added(&self, shard: usize) {
        self.nodes_end[shard].fetch_add(1, Ordering::Relaxed);
    }

    /// A node that was added after the load is chosen as often as the average of those that were loaded, else the one
    /// that the law has `chosen`. How many numbers are drawn does not depend on what others have added.
    fn or_added(&self, shard: usize, random: &mut Random, chosen: i64) -> i64 {
        if self.settings.compat.growth {
            return chosen;
        }
        let ids = self.settings.graph.counts.ids();
        let added = self.nodes_end[shard].load(Ordering::Relaxed) - ids.end;
        let place = (random.unit() * (added + ids.end - ids.start) as f64) as i64;
        if place < added { ids.end + place } else { chosen }
    }

    fn id2(&self, seat: &Seat) -> Id2 {
        let graph = &self.settings.graph;
        Id2 {
            counts: Arc::clone(&graph.counts),
            split: graph.split,
            random_max: graph.random_id2_max,
            first: graph.first_offset,
            own: self.is_id2_own.then_some((seat.clients as i64, seat.index as i64)),
        }
    }
}

fn multiget(settings: &Settings, compat: Compat) -> Result<Option<Arc<dyn Distribution>>> {
    let properties = &settings.properties;
    let Some(class) = properties.text("link_multiget_dist") else { return Ok(None) };
    let [low, high] = ["link_multiget_dist_min", "link_multiget_dist_max"];
    let range = properties.required(low)?..properties.required(high)?;
    if !(1..MULTIGET_MAX).contains(&range.start) {
        let message = format!("{} is not between 1 and {}", range.start, MULTIGET_MAX - 1);
        return Err(properties.wrong(low, message));
    }
    if range.end <= range.start || range.end > MULTIGET_MAX {
        let message = format!("{} to {} is not a range within 1 to {MULTIGET_MAX}", range.start, range.end);
        // What the command line says is the culprit, rather than what a file has.
        let is_low = properties.is_defined(low) && !properties.is_defined(high);
        return Err(properties.wrong(if is_low { low } else { high }, message));
    }
    let law: Arc<dyn Distribution> = match class_name(class).trim_end_matches("distribution") {
        "geometric" => {
            let key = "link_multiget_dist_prob";
            let success = properties.required(key)?;
            check_probability(properties, key, success)?;
            let geometric = if compat.multiget { Geometric::off_by_one } else { Geometric::new };
            Arc::new(geometric(range, success))
        }
        "uniform" => Arc::new(super::distribution::Uniform::new(range)),
        _ => return Err(unknown_law(settings, class)),
    };
    Ok(Some(law))
}

fn unknown_law(settings: &Settings, class: &str) -> Error {
    let message = format!("\"{class}\" is neither Geometric nor Uniform");
    settings.properties.wrong("link_multiget_dist", message)
}

impl Workload for Requests {
    fn operations(&self) -> Vec<String> {
        Operation::NAMES.map(str::to_owned).to_vec()
    }

    fn blocks(&self) -> bool {
        self.target.is_embedded()
    }

    fn client(&self, seat: &Seat) -> crate::error::Result<Box<dyn Client + '_>> {
        Ok(Box::new(Requester::new(self, seat)?))
    }
}

#[cfg(test)]
mod failure_tests;
#[cfg(test)]
mod tests;
