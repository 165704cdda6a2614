//! A scenario of writes, and what may be seen after trouble: what was acknowledged as durable is there, once; the rest is
//! there whole or not at all; and nothing is there without what came before it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use tidemill_stream::Error;
use tidemill_stream::disk::Disk;
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::{Level, Options, Part};
use tidemill_stream::log::LogError;
use tidemill_stream::stream::{StreamDefinition, StreamId};
use tokio::runtime::Handle;

use crate::support::{Harness, OUTPUTS, Plans, printed, stream};

/// How long a step waits for the maintenance thread, which may have nothing to do.
const PATIENCE: Duration = Duration::from_millis(100);

/// Checkpoints, segments and runs come after a few writes.
pub fn options() -> Options {
    Options {
        checkpoint_log_bytes: 1500,
        segment_bytes: 3000,
        memory_bytes: 1 << 10,
        inline_bytes: 1 << 10,
        reserve_bytes: 2 << 10,
        ..Options::default()
    }
}

pub const QUERIES: [&str; 4] = [
    "SELECT count(*), sum(x) FROM s",
    "SELECT k, count(*), sum(x), max(t) FROM s GROUP BY k",
    "SELECT k, t, x FROM s WHERE x % 7 = 0",
    "SELECT k, count(*), sum(x), min(t) FROM b GROUP BY k",
];
/// A transform that writes to another one's stream.
const TRANSFORMS: [(&str, StreamId); 2] = [
    ("SELECT k, t, x + 1, y FROM s WHERE x % 3 > 0", OUTPUTS[0].1),
    ("SELECT k, upper(t), x, y FROM a UNION ALL SELECT k, t, -x, y FROM a WHERE x % 5 = 0", OUTPUTS[1].1),
];
const OUTPUT: &str = "SELECT k, t, x + 1 AS x FROM s WHERE x % 3 > 0";
const LAST_OUTPUT: &str =
    "SELECT k, upper(t) AS t, x FROM a UNION ALL SELECT k, t, -x FROM a WHERE x % 5 = 0";
/// The view that the scenario truncates.
pub const TRUNCATED: usize = 1;

pub enum Step {
    Insert(RecordBatch, Level),
    /// Several batches that are one write.
    WriteSet(Vec<RecordBatch>),
    Truncate,
    /// Empties the view and gives it, and no other, these events at the same commit.
    Replace(RecordBatch),
    /// Gives the maintenance thread time to write runs and to merge them.
    Settle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Durable,
    /// Acknowledged before it was synced.
    Applied,
    /// The writer was told that it had not happened, and that the engine goes on.
    Refused,
    /// The engine stopped before it answered.
    Unknown,
    /// The step writes nothing.
    Nothing,
}

impl Outcome {
    pub fn happened(self) -> bool {
        !matches!(self, Outcome::Refused | Outcome::Nothing)
    }
}

/// `rows` rows with the numbers from `first`, in `groups` groups.
pub fn batch(first: i64, rows: i64, groups: i64) -> RecordBatch {
    let numbers = || first..first + rows;
    let columns: Vec<Option<ArrayRef>> = vec![
        None,
        Some(Arc::new(numbers().map(|n| (n % groups) as i32).collect::<Int32Array>())),
        Some(Arc::new(numbers().map(|n| Some(format!("text {}", n % 13))).collect::<StringArray>())),
        Some(Arc::new(numbers().collect::<Int64Array>())),
        Some(Arc::new(numbers().map(|n| n as f64 / 4.0).collect::<Float64Array>())),
    ];
    StreamDefinition::event_batch(&stream().event_schema(), columns, rows as usize, 0).unwrap()
}

/// Small and large writes, early and late acknowledgements, runs, merges of runs, checkpoints, a truncation, a replacement.
fn scenario() -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..5 {
        let first = round * 1000;
        for i in 0..3 {
            steps.push(Step::Insert(batch(first + i * 10, 1 + i, 5), Level::SyncCommit));
            steps.push(Step::Insert(batch(first + 100 + i * 10, 2, 5), Level::SyncReceive));
        }
        steps.push(Step::Insert(batch(first + 300, 150, 400), Level::SyncCommit));
        steps.push(Step::Settle);
        if round == 2 {
            steps.push(Step::Truncate);
        }
        if round == 3 {
            steps.push(Step::Replace(batch(first + 700, 20, 3)));
        }
        let sets = vec![batch(first + 500, 40, 60), batch(first + 600, 3, 2)];
        steps.push(Step::WriteSet(sets));
    }
    steps
}

/// What the steps of a scenario led to; those that are missing were not begun.
#[derive(Debug, Clone, Default)]
pub struct Trace(pub Vec<Outcome>);

pub struct Play {
    steps: Vec<Step>,
    plans: Plans,
    /// The batch query of a view over the steps in the mask, printed.
    expected: HashMap<(usize, u64), Vec<String>>,
    starts: AtomicUsize,
}

impl Play {
    pub async fn new() -> Play {
        let transforms = TRANSFORMS.map(|(query, output)| (query.to_string(), vec![output]));
        let plans = Plans::compile(&QUERIES.map(String::from)).await.with_transforms(&transforms).await;
        let plans = plans.where_outputs_are(&[("a", OUTPUT.into()), ("b", LAST_OUTPUT.into())]);
        let steps = scenario();
        assert!(steps.len() <= 64);
        Play { steps, plans, expected: HashMap::new(), starts: AtomicUsize::new(0) }
    }

    /// In every other engine sessions lead the commits, in the rest only the committer's thread does.
    pub fn start(&self, disk: &SimDisk) -> tidemill_stream::Result<Harness> {
        let leads = self.starts.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let runtime = if leads { Handle::try_current().ok() } else { None };
        Harness::start(Arc::new(disk.clone()), Options { runtime, ..options() }, &self.plans)
    }

    /// Performs the steps until the engine stops.
    pub async fn perform(&self, harness: &Harness, disk: &SimDisk) -> Trace {
        let mut trace = Trace::default();
        for step in &self.steps {
            let outcome = match self.step(harness, disk, step).await {
                Ok(outcome) => outcome,
                Err(error) if is_refusal(&error) => Outcome::Refused,
                Err(_) => Outcome::Unknown,
            };
            trace.0.push(outcome);
            if outcome == Outcome::Unknown {
                break;
            }
        }
        trace
    }

    async fn step(&self, harness: &Harness, disk: &SimDisk, step: &Step) -> tidemill_stream::Result<Outcome> {
        match step {
            Step::Insert(batch, level) => {
                harness.insert(batch.clone(), *level).await?;
                let durable = *level == Level::SyncCommit;
                Ok(if durable { Outcome::Durable } else { Outcome::Applied })
            }
            Step::WriteSet(batches) => {
                let mut set = harness.engine.begin(true);
                for batch in batches {
                    set.add(harness.stream.id, None, batch)?;
                }
                set.commit(Level::SyncCommit).await?;
                Ok(Outcome::Durable)
            }
            Step::Truncate => {
                harness.engine.truncate(Plans::id(TRUNCATED)).await?;
                Ok(Outcome::Durable)
            }
            Step::Replace(batch) => {
                let view = Plans::id(TRUNCATED);
                let (stream, targets) = (harness.stream.id, Some([view].into()));
                let events = Part::Events { stream, targets, batch: batch.clone() };
                harness.engine.write(vec![Part::Truncate { view }, events], Level::SyncCommit).await?;
                Ok(Outcome::Durable)
            }
            Step::Settle => {
                settle(disk);
                Ok(Outcome::Nothing)
            }
        }
    }

    /// The batches that `view` has after the steps of `mask`.
    fn events(&self, view: usize, mask: u64) -> Vec<RecordBatch> {
        let mut events = vec![batch(0, 0, 1)];
        for (_, step) in self.steps.iter().enumerate().filter(|(i, _)| mask & (1 << i) != 0) {
            match step {
                Step::Insert(batch, _) => events.push(batch.clone()),
                Step::WriteSet(batches) => events.extend_from_slice(batches),
                Step::Truncate if view == TRUNCATED => events.truncate(1),
                Step::Replace(batch) if view == TRUNCATED => {
                    events.truncate(1);
                    events.push(batch.clone());
                }
                Step::Truncate | Step::Replace(_) | Step::Settle => {}
            }
        }
        events
    }

    async fn expected(&mut self, view: usize, mask: u64) -> &Vec<String> {
        if !self.expected.contains_key(&(view, mask)) {
            let rows = self.plans.batch_query(view, &self.events(view, mask), "").await;
            self.expected.insert((view, mask), printed(&rows));
        }
        &self.expected[&(view, mask)]
    }

    /// The steps whose effects can be seen: a prefix of those that were not refused, with all in it that was
    /// durable.
    pub async fn visible(&mut self, harness: &Harness, trace: &Trace, note: &str) -> Trace {
        self.try_visible(harness, trace, note).await.unwrap_or_else(|e| panic!("{note}: {e}"))
    }

    pub async fn try_visible(
        &mut self,
        harness: &Harness,
        trace: &Trace,
        note: &str,
    ) -> tidemill_stream::Result<Trace> {
        let durable = trace.0.iter().rposition(|o| *o == Outcome::Durable).map_or(0, |i| i + 1);
        let mut ours = Vec::new();
        for view in 0..QUERIES.len() {
            ours.push(harness.try_read(view).await?);
        }
        let count = first_count(&ours[0]);
        let ours: Vec<_> = ours.iter().map(|batches| printed(batches)).collect();
        for length in durable..=trace.0.len() {
            let mask = mask(&trace.0[..length]);
            let rows: usize = self.events(0, mask).iter().map(RecordBatch::num_rows).sum();
            if rows as i64 != count {
                continue;
            }
            let mut equal = true;
            for (view, ours) in ours.iter().enumerate() {
                equal &= ours == self.expected(view, mask).await;
            }
            if equal {
                return Ok(Trace(trace.0[..length].to_vec()));
            }
        }
        panic!("{note}: {count} rows are no state that the writes led to: {:?}\n{:#?}", trace.0, ours[1]);
    }

    /// Starts on what a power cut left, twice, and writes on.
    pub async fn recover(&mut self, disk: &SimDisk, trace: &Trace, seed: u64, note: &str) {
        let disk = disk.crash(seed);
        disk.set_capacity(u64::MAX);
        let note = format!("{note}, crash {seed}");
        let start = |play: &Play, disk: &SimDisk| {
            play.start(disk).unwrap_or_else(|e| panic!("{note}: does not start: {e}"))
        };
        let harness = start(self, &disk);
        let mut found = self.visible(&harness, trace, &note).await;
        // What a start has shown is durable.
        found.0.iter_mut().filter(|o| o.happened()).for_each(|o| *o = Outcome::Durable);
        let again = disk.crash(seed + 1);
        let harness = start(self, &again);
        let note = format!("{note}, started twice");
        assert_eq!(self.visible(&harness, &found, &note).await.0, found.0, "{note}");
        harness.insert(batch(7, 1, 1), Level::SyncCommit).await.unwrap();
        let last = again.crash(seed + 2);
        let harness = start(self, &last);
        let counts = harness.read(0).await;
        let count = first_count(&counts);
        let before: usize = self.events(0, mask(&found.0)).iter().map(RecordBatch::num_rows).sum();
        assert_eq!(count, before as i64 + 1, "{note}: the write afterwards");
    }
}

/// The value of a view that counts.
pub fn first_count(batches: &[RecordBatch]) -> i64 {
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Those of the steps that had an effect.
pub fn mask(outcomes: &[Outcome]) -> u64 {
    let happened = outcomes.iter().enumerate().filter(|(_, o)| o.happened());
    happened.fold(0, |mask, (i, _)| mask | 1 << i)
}

fn is_refusal(error: &Error) -> bool {
    let sql = matches!(error, Error::Sql(e) if e.state == tidemill_sql::SqlState::DISK_FULL);
    // States of a write that could not be put into a run are in no log.
    sql || matches!(error, Error::Log(LogError::DiskFull(_)) | Error::Run(_))
}

/// Waits until the run files are others than before, or for as long as there is patience.
fn settle(disk: &SimDisk) {
    let runs = || disk.list(Path::new("run"));
    let (before, until) = (runs().ok(), Instant::now() + PATIENCE);
    while runs().is_ok_and(|now| Some(now) == before) && Instant::now() < until {
        std::thread::yield_now();
    }
}

pub fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test)
}
