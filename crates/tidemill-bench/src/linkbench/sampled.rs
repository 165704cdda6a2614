//! Figures of each requester and operation, interval by interval, from a sample of each: what the original shows while
//! a run goes on.

use super::mix::Operation;
use super::random::Random;
use super::request::Requests;
use super::settings::Settings;
use crate::error::Result;
use crate::run::{Kind, Plan, Progress, Sample};

const DISPLAY_EVERY_S: u64 = 60;
const SAMPLES_MAX: usize = 10_000;

/// The order in which the original shows them; DELETE_LINK it forgets.
const SHOWN: [&str; 11] = [
    "MULTIGET_LINK",
    "GET_LINKS_LIST",
    "COUNT_LINK",
    "UPDATE_LINK",
    "ADD_LINK",
    "DELETE_LINK",
    "RANGE_SIZE",
    "ADD_NODE",
    "UPDATE_NODE",
    "DELETE_NODE",
    "GET_NODE",
];
/// Not an operation: how many rows lists had.
const RANGE_SIZE: &str = "RANGE_SIZE";
const DELETE_LINK: &str = "DELETE_LINK";

/// Collects what requesters see, and sums it up at the end of each interval.
pub struct Sampled {
    /// By requester, then as shown.
    columns: Vec<Column>,
    shown: Vec<&'static str>,
    samples_max: usize,
    every_ms: u64,
    began_ms: u64,
    at_ms: u64,
    warmup_ns: u64,
    random: Random,
}

/// One operation of one requester.
#[derive(Clone, Default)]
struct Column {
    total: u64,
    errors: u64,
    /// Of this interval; a sample of them is kept.
    ended: u64,
    sum: f64,
    kept: Vec<u32>,
}

/// One operation of one requester in one interval. Times are in µs.
pub struct Figures {
    pub requester: usize,
    pub operation: &'static str,
    pub total: u64,
    pub errors: u64,
    pub ended: u64,
    pub lasted_ms: u64,
    pub samples: usize,
    /// None without samples.
    pub times: Option<Times>,
}

pub struct Times {
    pub mean: f64,
    /// Least, 25, 50, 75, 90, 95, 99 percent, most.
    pub at: [u32; 8],
}

impl Sampled {
    pub fn new(settings: &Settings, plan: &Plan) -> Result<Self> {
        let properties = &settings.properties;
        let warmup_ns = plan.warmup.as_nanos() as u64;
        let is_shown = |name: &&&str| !settings.compat.csv_stream || **name != DELETE_LINK;
        let shown: Vec<&str> = SHOWN.iter().filter(is_shown).copied().collect();
        Ok(Sampled {
            columns: vec![Column::default(); plan.clients * shown.len()],
            shown,
            samples_max: properties.or("maxsamples", SAMPLES_MAX)?,
            every_ms: properties.or("displayfreq", DISPLAY_EVERY_S)?.saturating_mul(1_000),
            began_ms: warmup_ns / 1_000_000,
            at_ms: warmup_ns / 1_000_000,
            warmup_ns,
            random: Random::part(plan.seed, u64::MAX),
        })
    }

    /// Gives figures when an interval has ended, else nothing.
    pub fn add(&mut self, requests: &Requests, progress: &Progress<'_>) -> Vec<Figures> {
        progress.samples.iter().for_each(|sample| self.record(requests, sample));
        self.at_ms = progress.at.as_millis() as u64;
        let has_ended = self.every_ms > 0 && self.at_ms >= self.began_ms.saturating_add(self.every_ms);
        if has_ended { self.sum_up() } else { Vec::new() }
    }

    /// Of the interval so far; the next one begins empty.
    pub fn sum_up(&mut self) -> Vec<Figures> {
        let lasted_ms = self.at_ms.saturating_sub(self.began_ms);
        self.began_ms = self.at_ms;
        let shown = &self.shown;
        let figures = |(index, column): (usize, &mut Column)| {
            let (requester, operation) = (index / shown.len(), shown[index % shown.len()]);
            column.sum_up(requester, operation, lasted_ms)
        };
        self.columns.iter_mut().enumerate().map(figures).collect()
    }

    fn record(&mut self, requests: &Requests, sample: &Sample) {
        let (requester, operation) = (sample.client as usize, sample.operation as usize);
        let is_list = operation == Operation::GetLinksList.index() && sample.kind == Kind::Done;
        // Each list has left its size, those of the warm-up too.
        let size = if is_list { requests.next_list_size(requester) } else { None };
        if sample.due_ns < self.warmup_ns {
            return;
        }
        let Some(name) = Operation::NAMES.get(operation) else { return };
        match sample.kind {
            Kind::Done => {
                let us = (sample.end_ns - sample.begin_ns) / 1_000;
                self.keep(requester, name, u32::try_from(us).unwrap_or(u32::MAX));
                size.into_iter().for_each(|rows| self.keep(requester, RANGE_SIZE, rows));
            }
            Kind::Failed => {
                self.column(requester, name).into_iter().for_each(|(column, _)| column.errors += 1)
            }
            _ => {}
        }
    }

    fn column(&mut self, requester: usize, name: &str) -> Option<(&mut Column, &mut Random)> {
        let place = self.shown.iter().position(|shown| *shown == name)?;
        let column = self.columns.get_mut(requester * self.shown.len() + place)?;
        Some((column, &mut self.random))
    }

    fn keep(&mut self, requester: usize, name: &str, value: u32) {
        let most = self.samples_max;
        let Some((column, random)) = self.column(requester, name) else { return };
        column.total += 1;
        column.ended += 1;
        column.sum += f64::from(value);
        if column.kept.len() < most {
            column.kept.push(value);
            return;
        }
        // Vitter's algorithm R: each has the same chance to be kept.
        let place = random.below(column.ended as i64) as usize;
        column.kept.get_mut(place).into_iter().for_each(|kept| *kept = value);
    }
}

impl Column {
    fn sum_up(&mut self, requester: usize, operation: &'static str, lasted_ms: u64) -> Figures {
        let Column { total, errors, ended, sum, .. } = *self;
        let mut sorted = std::mem::take(&mut self.kept);
        (self.ended, self.sum) = (0, 0.0);
        sorted.sort_unstable();
        let n = sorted.len();
        let times = (n > 0).then(|| {
            let at = [0, n / 4, n / 2, n - 1 - n / 4, n - 1 - n / 10, n - 1 - n / 20, n - 1 - n / 100, n - 1];
            Times { mean: sum / ended as f64, at: at.map(|index| sorted[index]) }
        });
        Figures { requester, operation, total, errors, ended, lasted_ms, samples: n, times }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::linkbench::compat::Compat;
    use crate::linkbench::settings::Sources;
    use crate::linkbench::shard::Shards;
    use crate::target::Target;
    use std::time::Duration;

    /// Two requesters of a run with a warm-up of a second, and what to tell of it.
    pub fn run_of_two(compat: Compat) -> (Settings, Plan, Requests) {
        let define = ["requesters=2", "requests=1", "displayfreq=1", "warmup_time=1", "progressfreq=1"];
        let define = define.map(str::to_owned).to_vec();
        let mut settings = Sources { nodes: Some(10), define, ..Sources::default() }.settings().unwrap();
        settings.compat = compat;
        let target = Target::open("noop:").unwrap();
        let shards = Shards::new(&settings.properties, target.dialect()).unwrap();
        let mut requests = Requests::new(&target, &settings, &shards).unwrap();
        requests.keep_list_sizes(2);
        let plan = Plan { time: Duration::from_secs(5), ..requests.plan(1).unwrap() };
        (settings, plan, requests)
    }

    pub fn sample(operation: Operation, kind: Kind, us: u64) -> Sample {
        let begin_ns = 1_500_000_000;
        let index = operation.index() as u16;
        Sample { client: 1, ..Sample::new(index, kind, begin_ns, begin_ns, begin_ns + us * 1_000) }
    }

    #[test]
    fn intervals_have_figures_of_each_requester_and_operation() {
        let (settings, plan, requests) = run_of_two(Compat::none());
        let mut sampled = Sampled::new(&settings, &plan).unwrap();
        let get = |kind, us| sample(Operation::GetNode, kind, us);
        (1..=100).for_each(|us| sampled.record(&requests, &get(Kind::Done, us)));
        sampled.record(&requests, &get(Kind::Failed, 7));
        sampled.record(&requests, &Sample { due_ns: 0, ..get(Kind::Done, 7) });
        // One of the warm-up, and one after it.
        [5, 70].into_iter().for_each(|rows| requests.list_was_read(1, rows));
        let list = sample(Operation::GetLinksList, Kind::Done, 9);
        sampled.record(&requests, &Sample { due_ns: 0, ..list });
        sampled.record(&requests, &list);
        sampled.at_ms = 2_000;
        let told = |figures: Vec<Figures>| -> Vec<String> {
            let line = |of: &Figures| {
                let times = of.times.as_ref().map(|times| (times.mean, times.at));
                let head = (of.requester, of.operation, of.total, of.errors, of.ended, of.lasted_ms);
                format!("{head:?} {} {times:?}", of.samples)
            };
            figures.iter().map(line).collect()
        };
        let first = told(sampled.sum_up());
        assert_eq!(first.len(), 2 * 11);
        let get = "(1, \"GET_NODE\", 100, 1, 100, 1000) 100 Some((50.5, [1, 26, 51, 75, 90, 95, 99, 100]))";
        assert_eq!(first[21], get);
        assert_eq!(first[17], format!("(1, \"RANGE_SIZE\", 1, 0, 1, 1000) 1 Some((70.0, {:?}))", [70; 8]));
        sampled.at_ms = 3_000;
        assert_eq!(told(sampled.sum_up())[21], "(1, \"GET_NODE\", 100, 1, 0, 1000) 0 None");
    }
}
