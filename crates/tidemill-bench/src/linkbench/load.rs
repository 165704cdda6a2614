//! The load phase: the whole graph, by several loaders, the same rows whatever their number.

mod replay;
mod unit;

pub use self::replay::Replay;
use self::replay::{OF_LINKS, OF_NODES, OF_PARTS, unit_random};
use self::unit::{Unit, Units};
use super::payload::{Payload, Purpose};
use super::random::Random;
use super::request::is_transient;
use super::schema::Schema;
use super::settings::Settings;
use super::store::{FIRST_LINK_TYPE, NODE_TYPE, data_value};
use crate::error::{Error, Result};
use crate::histogram::Histogram;
use crate::target::{Connection, Dialect, Target, Value};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How a load goes.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    pub loaders: usize,
    pub seed: u64,
    pub has_nodes: bool,
    chunk: i64,
    progress_every: u64,
}

/// What was loaded, and how long its parts took.
#[derive(Debug, Default)]
pub struct Loaded {
    /// How often the whole graph was.
    pub graphs: u64,
    pub nodes: u64,
    pub links: u64,
    pub counts: u64,
    pub seconds: f64,
    pub loaders: usize,
    pub node_bulk: Histogram,
    pub links_bulk: Histogram,
    pub counts_bulk: Histogram,
    pub retries: u64,
}

/// A unit that lost against others this often is a failure.
const RETRIES_MAX: u32 = 999;
const RETRY_PAUSE: Duration = Duration::from_millis(20);
const LOADERS_MAX: usize = 1_000;

impl LoadPlan {
    /// The seed is the property's, or this one.
    pub fn new(settings: &Settings, dialect: Dialect, seed: u64) -> super::Result<Self> {
        let properties = &settings.properties;
        let loaders = properties.or("loaders", 1)?;
        if !(1..=LOADERS_MAX).contains(&loaders) {
            return Err(properties.wrong("loaders", format!("{loaders} is not between 1 and {LOADERS_MAX}")));
        }
        let chunk = properties.or("loader_chunk_size", 2_048)?;
        if !(1..=1_000_000).contains(&chunk) {
            return Err(
                properties.wrong("loader_chunk_size", format!("{chunk} is not between 1 and 1000000"))
            );
        }
        Ok(LoadPlan {
            // SQLite has one writer: more would only wait for each other.
            loaders: if dialect == Dialect::Sqlite { 1 } else { loaders },
            seed: properties.or("load_random_seed", seed as i64)? as u64,
            has_nodes: properties.or("generate_nodes", true)?,
            chunk,
            progress_every: properties.or("load_progress_interval", 50_000)?,
        })
    }
}

/// Fills the tables, which are there and empty. `report` gets lines of progress.
pub fn load(
    target: &Target,
    settings: &Settings,
    schema: &Schema,
    plan: &LoadPlan,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Loaded> {
    let start = Instant::now();
    let units = Units::new(&settings.graph, plan.chunk, plan.has_nodes, settings.compat);
    let course = Course {
        settings,
        schema,
        plan,
        units,
        next: AtomicUsize::new(0),
        links: AtomicU64::new(0),
        counts: AtomicU64::new(0),
        ids: AtomicU64::new(0),
        now_ms: super::now_ms(),
        start,
        report,
    };
    let total = Mutex::new(Loaded { graphs: 1, loaders: plan.loaders, ..Loaded::default() });
    std::thread::scope(|scope| {
        let loaders = (0..plan.loaders).map(|_| scope.spawn(|| course.run(target, &total)));
        let loaders: Vec<_> = loaders.collect();
        loaders.into_iter().try_for_each(|loader| {
            loader.join().unwrap_or_else(|_| Err(Error::Wrong("a loader failed inside (a bug)".to_owned())))
        })
    })?;
    let mut loaded = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    loaded.seconds = start.elapsed().as_secs_f64();
    Ok(loaded)
}

/// What the loaders share.
struct Course<'a> {
    settings: &'a Settings,
    schema: &'a Schema,
    plan: &'a LoadPlan,
    units: Units,
    next: AtomicUsize,
    links: AtomicU64,
    counts: AtomicU64,
    ids: AtomicU64,
    now_ms: i64,
    start: Instant,
    report: &'a (dyn Fn(&str) + Sync),
}

impl Course<'_> {
    fn run(&self, target: &Target, total: &Mutex<Loaded>) -> Result<()> {
        let result = self.run_units(target, total);
        if result.is_err() {
            // The others need not finish what will be thrown away.
            self.next.store(usize::MAX / 2, Ordering::Relaxed);
        }
        result
    }

    fn run_units(&self, target: &Target, total: &Mutex<Loaded>) -> Result<()> {
        let payload =
            |purpose| Payload::new(&self.settings.properties, purpose, self.settings.compat, self.plan.seed);
        let mut loader = Loader {
            course: self,
            connection: target.connect()?,
            link_data: payload(Purpose::LinkAdd)?,
            node_data: payload(Purpose::NodeAdd)?,
            loaded: Loaded::default(),
            data: Vec::new(),
            text: String::new(),
            counts: Vec::new(),
            id2s: HashSet::new(),
        };
        let result = loop {
            let Some(unit) = self.units.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break Ok(()) };
            if let Err(error) = loader.load(&unit) {
                break Err(error);
            }
        };
        total.lock().unwrap_or_else(PoisonError::into_inner).merge(&loader.loaded);
        result
    }

    /// A line each time the number of links passes a multiple of the interval.
    fn progress(&self, ids: u64, links: u64, counts: u64) {
        let before = self.links.fetch_add(links, Ordering::Relaxed);
        let counts = self.counts.fetch_add(counts, Ordering::Relaxed) + counts;
        let ids = self.ids.fetch_add(ids, Ordering::Relaxed) + ids;
        let (links, every) = (before + links, self.plan.progress_every);
        if every == 0 || links / every == before / every {
            return;
        }
        let range = self.settings.graph.counts.ids();
        let (all, seconds) = (range.end - range.start, self.start.elapsed().as_secs_f64().max(1e-3));
        let rate = |n: u64| (n as f64 / seconds) as u64;
        let percent = 100.0 * ids as f64 / all as f64;
        (self.report)(&format!(
            "{ids}/{all} id1s ({percent:.1}%) at {} /sec. {links} links at {} /sec. {counts} counts at {} /sec. link+count at {} /sec.",
            rate(ids),
            rate(links),
            rate(counts),
            rate(links + counts),
        ));
    }
}

impl Loaded {
    /// The graph once more, after this.
    pub fn add(&mut self, next: &Loaded) {
        self.merge(next);
        self.graphs += next.graphs;
        self.seconds += next.seconds;
        self.loaders = next.loaders;
    }

    fn merge(&mut self, other: &Loaded) {
        self.nodes += other.nodes;
        self.links += other.links;
        self.counts += other.counts;
        self.retries += other.retries;
        self.node_bulk.merge(&other.node_bulk);
        self.links_bulk.merge(&other.links_bulk);
        self.counts_bulk.merge(&other.counts_bulk);
    }
}

/// One loader with its session and what it uses again.
struct Loader<'a> {
    course: &'a Course<'a>,
    connection: Box<dyn Connection>,
    link_data: Payload,
    node_data: Payload,
    loaded: Loaded,
    data: Vec<u8>,
    text: String,
    /// Rows of the count table: id, type, count, time.
    counts: Vec<[i64; 4]>,
    id2s: HashSet<i64>,
}

const LINK_COLUMNS: [&str; 7] = ["id1", "id2", "link_type", "visibility", "data", "time", "version"];
const COUNT_COLUMNS: [&str; 5] = ["id", "link_type", "count", "time", "version"];
const NODE_COLUMNS: [&str; 5] = ["id", "type", "version", "time", "data"];

impl Loader<'_> {
    fn load(&mut self, unit: &Unit) -> Result<()> {
        match unit {
            Unit::Nodes(ids) => {
                let nodes = self.retried(|loader| loader.nodes(ids.clone()))?;
                self.loaded.nodes += nodes;
            }
            Unit::Links(ids) => {
                let links = self.retried(|loader| loader.links(ids.clone()))?;
                let counts = self.retried(Self::write_counts)?;
                self.loaded.links += links;
                self.loaded.counts += counts;
                self.course.progress((ids.end - ids.start) as u64, links, counts);
            }
            Unit::Part { id, type_index, links } => {
                let (written, time) = self.retried(|loader| loader.part(*id, *type_index, links.clone()))?;
                self.loaded.links += written;
                self.counts.clear();
                if let Some(time) = self.course.units.part_done(*id, *type_index, time) {
                    let all = self.course.settings.graph.counts.links(*id, *type_index);
                    self.counts.push([*id, FIRST_LINK_TYPE + type_index, all, time]);
                }
                let counts = self.retried(Self::write_counts)?;
                self.loaded.counts += counts;
                self.course.progress(0, written, counts);
            }
        }
        Ok(())
    }

    /// The same rows again when the unit lost against others: random numbers start with the unit.
    fn retried<T>(&mut self, work: impl Fn(&mut Self) -> Result<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            match work(self) {
                Err(error) if tries < RETRIES_MAX && is_transient(&error, self.course.settings.compat) => {
                    tries += 1;
                    self.loaded.retries += 1;
                    std::thread::sleep(RETRY_PAUSE * tries);
                }
                result => return result,
            }
        }
    }

    fn nodes(&mut self, ids: std::ops::Range<i64>) -> Result<u64> {
        let mut random = unit_random(self.course.plan.seed, OF_NODES, ids.start, 0);
        let began = Instant::now();
        let (is_text, seconds) = (self.course.schema.is_text(), self.course.now_ms / 1_000);
        let mut rows = self.connection.load(&self.course.schema.nodes(), &NODE_COLUMNS)?;
        for id in ids {
            self.node_data.generate(&mut random, &mut self.data);
            let data = data_value(is_text, &self.data, &mut self.text);
            rows.row(&[Value::Int(id), Value::Int(NODE_TYPE), Value::Int(1), Value::Int(seconds), data])?;
        }
        let written = rows.finish()?;
        self.loaded.node_bulk.record(began.elapsed().as_nanos() as u64);
        Ok(written)
    }

    /// All links of these ids, but for the lists that are loaded in parts; their count rows are kept for afterwards.
    fn links(&mut self, ids: std::ops::Range<i64>) -> Result<u64> {
        self.counts.clear();
        let mut random = unit_random(self.course.plan.seed, OF_LINKS, ids.start, 0);
        let began = Instant::now();
        let graph = &self.course.settings.graph;
        let mut writer = LinkWriter {
            course: self.course,
            rows: self.connection.load(&self.course.schema.links(), &LINK_COLUMNS)?,
            data: (&self.link_data, &mut self.data, &mut self.text),
            id2s: &mut self.id2s,
        };
        for id in ids.rev() {
            for type_index in 0..graph.counts.types() {
                let links = graph.counts.links(id, type_index);
                if links == 0 || self.course.units.is_split(links) {
                    continue;
                }
                let time = writer.list(&mut random, id, type_index, 0..links)?;
                self.counts.push([id, FIRST_LINK_TYPE + type_index, links, time]);
            }
        }
        let written = writer.rows.finish()?;
        self.loaded.links_bulk.record(began.elapsed().as_nanos() as u64);
        Ok(written)
    }

    /// How many links, and the time of the newest.
    fn part(&mut self, id: i64, type_index: i64, links: std::ops::Range<i64>) -> Result<(u64, i64)> {
        let mut random = unit_random(self.course.plan.seed, OF_PARTS + type_index as u64, id, links.start);
        let began = Instant::now();
        let mut writer = LinkWriter {
            course: self.course,
            rows: self.connection.load(&self.course.schema.links(), &LINK_COLUMNS)?,
            data: (&self.link_data, &mut self.data, &mut self.text),
            id2s: &mut self.id2s,
        };
        let time = writer.list(&mut random, id, type_index, links)?;
        let written = writer.rows.finish()?;
        self.loaded.links_bulk.record(began.elapsed().as_nanos() as u64);
        Ok((written, time))
    }

    fn write_counts(&mut self) -> Result<u64> {
        if self.counts.is_empty() {
            return Ok(0);
        }
        let began = Instant::now();
        let mut rows = self.connection.load(&self.course.schema.counts(), &COUNT_COLUMNS)?;
        for [id, link_type, count, time] in &self.counts {
            let values = [*id, *link_type, *count, *time, 0].map(Value::Int);
            rows.row(&values)?;
        }
        let written = rows.finish()?;
        self.loaded.counts_bulk.record(began.elapsed().as_nanos() as u64);
        Ok(written)
    }
}

/// Writes lists of links into one bulk statement.
struct LinkWriter<'a> {
    course: &'a Course<'a>,
    rows: Box<dyn crate::target::Load + 'a>,
    data: (&'a Payload, &'a mut Vec<u8>, &'a mut String),
    id2s: &'a mut HashSet<i64>,
}

impl LinkWriter<'_> {
    /// The time of the newest link.
    fn list(
        &mut self,
        random: &mut Random,
        id1: i64,
        type_index: i64,
        links: std::ops::Range<i64>,
    ) -> Result<i64> {
        let graph = &self.course.settings.graph;
        let (random_max, first) = (graph.random_id2_max, id1 + graph.first_offset);
        let is_text = self.course.schema.is_text();
        let mut newest = i64::MIN;
        self.id2s.clear();
        for index in links {
            let id2 = if random_max > 0 { self.fresh_id2(random, random_max) } else { first + index };
            // The last 2^32 ms, 49.7 days.
            let time = self.course.now_ms - random.below(1 << 32);
            newest = newest.max(time);
            let (payload, bytes, text) = &mut self.data;
            payload.generate(random, bytes);
            self.rows.row(&[
                Value::Int(id1),
                Value::Int(id2),
                Value::Int(FIRST_LINK_TYPE + type_index),
                Value::Int(1),
                data_value(is_text, bytes, text),
                Value::Int(time),
                Value::Int(0),
            ])?;
        }
        Ok(newest)
    }

    /// Not one of this list: there are at least twice as many as a list has links.
    fn fresh_id2(&mut self, random: &mut Random, random_max: i64) -> i64 {
        loop {
            let id2 = random.below(random_max);
            if self.id2s.insert(id2) {
                return id2;
            }
        }
    }
}

#[cfg(test)]
mod tests;
