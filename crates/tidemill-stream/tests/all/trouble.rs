//! Trouble of the disk at every single change of it: power cut, error, no space. What was acknowledged is there
//! afterwards, once; the rest is there whole or not at all; and nothing is there without what came before it.
//!
//! `make test` takes a sample of the changes, `make crash` all of them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use tidemill_stream::Error;
use tidemill_stream::disk::sim::{SimDisk, Trouble};
use tidemill_stream::disk::{Disk, Operation};
use tidemill_stream::engine::{Level, Options};
use tidemill_stream::log::LogError;
use tidemill_stream::stream::StreamDefinition;

use crate::support::{Harness, Plans, everything, printed, stream};

/// How long a step waits for the maintenance thread, which may have nothing to do.
const PATIENCE: Duration = Duration::from_millis(100);
/// Changes of the disk that `make test` tries, spread over the scenario.
const SAMPLE: u64 = 16;

/// Checkpoints, segments and runs come after a few writes.
fn options() -> Options {
    Options {
        checkpoint_log_bytes: 1500,
        segment_bytes: 3000,
        memory_bytes: 1 << 10,
        inline_bytes: 1 << 10,
        reserve_bytes: 2 << 10,
        ..Options::default()
    }
}

const QUERIES: [&str; 3] = [
    "SELECT count(*), sum(x) FROM s",
    "SELECT k, count(*), sum(x), max(t) FROM s GROUP BY k",
    "SELECT k, t, x FROM s WHERE x % 7 = 0",
];
/// The view that the scenario truncates.
const TRUNCATED: usize = 1;

enum Step {
    Insert(RecordBatch, Level),
    /// Several batches that are one write.
    WriteSet(Vec<RecordBatch>),
    Truncate,
    /// Gives the maintenance thread time to write runs and to merge them.
    Settle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
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
    fn happened(self) -> bool {
        !matches!(self, Outcome::Refused | Outcome::Nothing)
    }
}

/// `rows` rows with the numbers from `first`, in `groups` groups.
fn batch(first: i64, rows: i64, groups: i64) -> RecordBatch {
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

/// Small and large writes, early and late acknowledgements, runs, merges of runs, checkpoints, a truncation.
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
        let sets = vec![batch(first + 500, 40, 60), batch(first + 600, 3, 2)];
        steps.push(Step::WriteSet(sets));
    }
    steps
}

/// What the steps of a scenario led to; those that are missing were not begun.
#[derive(Debug, Clone, Default)]
struct Trace(Vec<Outcome>);

struct Play {
    steps: Vec<Step>,
    plans: Plans,
    /// The batch query of a view over the steps in the mask, printed.
    expected: HashMap<(usize, u64), Vec<String>>,
}

impl Play {
    async fn new() -> Play {
        let plans = Plans::compile(&QUERIES.map(String::from)).await;
        let steps = scenario();
        assert!(steps.len() <= 64);
        Play { steps, plans, expected: HashMap::new() }
    }

    fn start(&self, disk: &SimDisk) -> tidemill_stream::Result<Harness> {
        Harness::start(Arc::new(disk.clone()), options(), &self.plans)
    }

    /// Performs the steps until the engine stops.
    async fn perform(&self, harness: &Harness, disk: &SimDisk) -> Trace {
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
                Step::Truncate | Step::Settle => {}
            }
        }
        events
    }

    async fn expected(&mut self, view: usize, mask: u64) -> &Vec<String> {
        if !self.expected.contains_key(&(view, mask)) {
            let rows = self.plans.batch_query(view, &self.events(view, mask)).await;
            self.expected.insert((view, mask), printed(&rows));
        }
        &self.expected[&(view, mask)]
    }

    /// The steps whose effects can be seen: a prefix of those that were not refused, with all in it that was
    /// durable.
    async fn visible(&mut self, harness: &Harness, trace: &Trace, note: &str) -> Trace {
        let durable = trace.0.iter().rposition(|o| *o == Outcome::Durable).map_or(0, |i| i + 1);
        let mut ours = Vec::new();
        for view in 0..QUERIES.len() {
            ours.push(harness.try_read(view).await.unwrap_or_else(|e| panic!("{note}: {e}")));
        }
        let count = arrow::array::AsArray::as_primitive::<Int64Type>(ours[0][0].column(0)).value(0);
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
                return Trace(trace.0[..length].to_vec());
            }
        }
        panic!("{note}: {count} rows are no state that the writes led to: {:?}\n{:#?}", trace.0, ours[1]);
    }

    /// Starts on what a power cut left, twice, and writes on.
    async fn recover(&mut self, disk: &SimDisk, trace: &Trace, seed: u64, note: &str) {
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
        let count = arrow::array::AsArray::as_primitive::<Int64Type>(counts[0].column(0)).value(0);
        let before: usize = self.events(0, mask(&found.0)).iter().map(RecordBatch::num_rows).sum();
        assert_eq!(count, before as i64 + 1, "{note}: the write afterwards");
    }
}

fn mask(outcomes: &[Outcome]) -> u64 {
    let happened = outcomes.iter().enumerate().filter(|(_, o)| o.happened());
    happened.fold(0, |mask, (i, _)| mask | 1 << i)
}

fn is_refusal(error: &Error) -> bool {
    let sql = matches!(error, Error::Sql(e) if e.state == tidemill_sql::SqlState::DISK_FULL);
    sql || matches!(error, Error::Log(LogError::DiskFull(_)))
}

/// Waits until the run files are others than before, or for as long as there is patience.
fn settle(disk: &SimDisk) {
    let runs = || disk.list(Path::new("run"));
    let (before, until) = (runs().ok(), Instant::now() + PATIENCE);
    while runs().is_ok_and(|now| Some(now) == before) && Instant::now() < until {
        std::thread::yield_now();
    }
}

/// Numbers of the changes to try out of `changes`.
fn points(changes: u64) -> impl Iterator<Item = u64> {
    let step = if everything() { 1 } else { (changes / SAMPLE).max(1) };
    (0..changes).step_by(step as usize)
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test)
}

/// Changes of the disk of a scenario without trouble, which ends as it should.
async fn untroubled(play: &mut Play) -> u64 {
    let disk = SimDisk::new();
    let harness = play.start(&disk).unwrap();
    let trace = play.perform(&harness, &disk).await;
    assert!(!trace.0.iter().any(|o| matches!(o, Outcome::Refused | Outcome::Unknown)), "{:?}", trace.0);
    let seen = play.visible(&harness, &trace, "no trouble").await;
    assert_eq!(mask(&seen.0), mask(&trace.0));
    assert!(!disk.list(Path::new("run")).unwrap().is_empty(), "the scenario writes runs");
    drop(harness);
    disk.changes()
}

#[test]
fn a_power_cut_at_any_change_loses_nothing_acknowledged() {
    run(async {
        let mut play = Play::new().await;
        let changes = untroubled(&mut play).await;
        for change in points(changes) {
            let note = format!("power cut at change {change} of {changes}");
            let disk = SimDisk::new();
            disk.trouble_at(change, Trouble::Halt);
            let trace = match play.start(&disk) {
                Ok(harness) => play.perform(&harness, &disk).await,
                Err(_) => Trace::default(),
            };
            for seed in 0..if everything() { 4 } else { 2 } {
                play.recover(&disk, &trace, change * 100 + seed * 10, &note).await;
            }
        }
    });
}

#[test]
fn an_error_at_any_change_stops_the_engine_or_harms_nothing() {
    run(async {
        let mut play = Play::new().await;
        let changes = untroubled(&mut play).await;
        for change in points(changes) {
            let note = format!("error at change {change} of {changes}");
            let disk = SimDisk::new();
            disk.trouble_at(change, Trouble::Fail);
            let trace = match play.start(&disk) {
                Ok(harness) => {
                    let trace = play.perform(&harness, &disk).await;
                    if trace.0.contains(&Outcome::Unknown) {
                        let cause =
                            harness.fatal.cause().unwrap_or_else(|| panic!("{note}: no cause is told"));
                        assert!(cause.contains("could not") && cause.contains('"'), "{note}: {cause}");
                        harness.insert(batch(7, 1, 1), Level::SyncCommit).await.unwrap_err();
                    }
                    // Reads go on.
                    play.visible(&harness, &trace, &note).await;
                    trace
                }
                Err(error) => {
                    assert!(error.to_string().contains("could not"), "{note}: {error}");
                    Trace::default()
                }
            };
            play.recover(&disk, &trace, change * 10, &note).await;
        }
    });
}

#[test]
fn a_full_disk_refuses_writes_and_recovers() {
    run(async {
        let mut play = Play::new().await;
        let changes = untroubled(&mut play).await;
        for change in points(changes) {
            let note = format!("disk full at change {change} of {changes}");
            let disk = SimDisk::new();
            disk.trouble_at(change, Trouble::Full);
            let trace = match play.start(&disk) {
                Ok(harness) => {
                    let trace = play.perform(&harness, &disk).await;
                    let stopped = trace.0.contains(&Outcome::Unknown);
                    assert!(!stopped, "{note}: the engine stopped: {:?}", harness.fatal.cause());
                    let seen = play.visible(&harness, &trace, &note).await;
                    assert_eq!(mask(&seen.0), mask(&trace.0), "{note}: a write is missing");
                    disk.set_capacity(u64::MAX);
                    harness.engine.flush().await.unwrap_or_else(|e| panic!("{note}: room again: {e}"));
                    // What FLUSH has answered for is durable.
                    let durable = |o: &Outcome| if o.happened() { Outcome::Durable } else { *o };
                    Trace(trace.0.iter().map(durable).collect())
                }
                Err(error) => {
                    assert!(error.to_string().contains("could not"), "{note}: {error}");
                    Trace::default()
                }
            };
            play.recover(&disk, &trace, change * 10, &note).await;
        }
    });
}

#[test]
fn a_failed_fsync_of_the_log_stops_the_engine_and_acknowledges_nothing() {
    run(async {
        let play = Play::new().await;
        let disk = SimDisk::new();
        let harness = play.start(&disk).unwrap();
        harness.insert(batch(0, 1, 1), Level::SyncCommit).await.unwrap();
        disk.fail(Operation::Sync, 0);
        harness.insert(batch(1, 1, 1), Level::SyncCommit).await.unwrap_err();
        let cause = harness.fatal.cause().unwrap();
        assert!(cause.starts_with("could not sync file \"log/"), "{cause}");
        let error = harness.insert(batch(2, 1, 1), Level::SyncCommit).await.unwrap_err();
        assert!(error.to_string().contains("shutting down after an error of its disk"), "{error}");
        harness.insert(batch(3, 1, 1), Level::Async).await.unwrap_err();
        // Readers see what is durable.
        let count = harness.read(0).await;
        assert_eq!(arrow::array::AsArray::as_primitive::<Int64Type>(count[0].column(0)).value(0), 1);
    });
}
