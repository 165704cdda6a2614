//! A run: clients that do operations at intended times, and what was seen of them.
//!
//! One operating system thread a client with blocking calls: nothing is cheaper an operation, and a client that waits
//! for its server delays no other.

mod client;
mod record;
mod schedule;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::interrupt::interrupted;
use crate::target::Target;
use client::{Course, Gate, Outbox, panicked};
use record::Recorder;
pub use record::{Interval, Record, Tally};
use schedule::Schedule;

/// How often samples are fetched from the clients.
const FETCH_EVERY: Duration = Duration::from_millis(100);
/// How long operations may take that were begun before the end.
const GRACE: Duration = Duration::from_secs(30);
/// SQLite evaluates in the client's thread. Only what is touched is memory.
const CLIENT_STACK_BYTES: usize = 1 << 20;

/// What is measured: the operations of a suite against its target.
pub trait Workload: Send + Sync {
    /// The names of the operations; [`Client::next`] gives indexes into it.
    fn operations(&self) -> Vec<String>;

    /// Makes client `seat.index`, connected. Called in that client's own thread; connecting is not part of the run.
    fn client(&self, seat: &Seat) -> Result<Box<dyn Client + '_>>;

    /// May it be run against nothing, to measure the generator? Not if it sleeps, prints or starts programs.
    fn can_idle(&self) -> bool {
        true
    }
}

/// Which client of how many, and its own seed.
#[derive(Debug, Clone)]
pub struct Seat {
    pub index: usize,
    pub clients: usize,
    pub seed: u64,
}

/// One client. It lives in one thread.
pub trait Client {
    /// Chooses the next operation and makes its data, before it is due: not timed.
    fn next(&mut self) -> Result<usize>;

    /// Does what `next` chose: timed. A retryable error counts as failed and the client goes on; any other ends the client.
    fn perform(&mut self) -> Result<()>;

    /// Figures of the workload's own, added up over clients: ("links found", 12).
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Where the time went inside of the operations.
    fn parts(&self) -> Vec<Part> {
        Vec::new()
    }
}

/// A step of an operation, such as a statement of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Index into [`Workload::operations`].
    pub operation: usize,
    pub text: String,
    pub count: u64,
    pub total_ns: u64,
}

/// How a run goes.
#[derive(Debug, Clone)]
pub struct Plan {
    pub clients: usize,
    pub pace: Pace,
    /// Responses above it are late; with a rate, operations that are late before they begin are skipped.
    pub limit: Option<Duration>,
    /// Not recorded.
    pub warmup: Duration,
    /// Recorded, after the warm-up.
    pub time: Duration,
    /// Ends the run earlier, if that many operations were started after the warm-up (by each client).
    pub operations_max: Option<u64>,
    pub seed: u64,
}

/// When operations are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// Open loop, all clients together: a Poisson process with this many arrivals a second.
    Poisson(f64),
    /// Open loop, evenly spaced.
    Constant(f64),
    /// Closed loop: the next operation starts when the one before has ended, so a slow server is asked less.
    Closed,
}

/// What came of a run. It is here also when the run was cut short; `incomplete` says why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Names of the operations, in the order of `record.operations`.
    pub operations: Vec<String>,
    pub record: Record,
    /// From the end of the warm-up to the last end, s.
    pub elapsed_s: f64,
    /// What clients took to connect, s, before the run.
    pub connect_s: f64,
    /// Retryable errors by code, and the errors that ended clients.
    pub errors: BTreeMap<String, u64>,
    /// Why what is here is not the run that was asked for.
    pub incomplete: Option<String>,
    /// CPU time of this process during the run, s; an embedded database's work is in it.
    pub generator_cpu_s: f64,
    /// The workload's own figures, of all clients together.
    pub counters: BTreeMap<String, u64>,
    /// Steps of the operations, all clients together, the warm-up included.
    pub parts: Vec<Part>,
}

impl Outcome {
    /// Operations that ended well, a second.
    pub fn rate(&self) -> f64 {
        let processed: u64 = self.record.operations.iter().map(|tally| tally.processed).sum();
        if self.elapsed_s > 0.0 { processed as f64 / self.elapsed_s } else { 0.0 }
    }
}

/// What somebody who watches a run is told, several times a second.
pub struct Progress<'a> {
    /// Since the start, the warm-up included.
    pub at: Duration,
    pub is_warmup: bool,
    pub operations: &'a [String],
    pub record: &'a Record,
}

/// Runs a workload. An error means that the run did not begin; what happens after that is in the outcome.
pub fn run(
    workload: &dyn Workload,
    plan: &Plan,
    target: Option<&Target>,
    watch: &mut dyn FnMut(&Progress<'_>),
) -> Result<Outcome> {
    if plan.clients == 0 {
        return Err(Error::usage("a run needs at least one client"));
    }
    let end_ns = (plan.warmup + plan.time).as_nanos() as u64;
    let course = Course {
        plan,
        schedule: Schedule::new(plan.pace, plan.seed, end_ns),
        gate: Gate::default(),
        stop: AtomicBool::new(false),
        end_ns,
    };
    let outboxes: Vec<Outbox> = (0..plan.clients).map(|_| Outbox::default()).collect();
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for (index, outbox) in outboxes.iter().enumerate() {
            let (course, tell) = (&course, tell.clone());
            let body = move || seat(workload, course, index, outbox, &tell);
            let spawned =
                std::thread::Builder::new().stack_size(CLIENT_STACK_BYTES).spawn_scoped(scope, body);
            if let Err(error) = spawned {
                course.gate.open(None);
                return Err(Error::usage(format!("could not start client {index}: {error}")));
            }
        }
        let connecting = Instant::now();
        let connected = (0..plan.clients).try_for_each(|_| match told.recv() {
            Ok(Told::Ready) => Ok(()),
            Ok(Told::Ended(ended)) => Err(ended.error.unwrap_or_else(panicked)),
            Err(_) => Err(panicked()),
        });
        if let Err(error) = connected {
            course.gate.open(None);
            return Err(error);
        }
        let connect_s = connecting.elapsed().as_secs_f64();
        let mut outcome =
            Watcher { workload, course: &course, outboxes: &outboxes, told, target }.watch(watch);
        outcome.connect_s = connect_s;
        Ok(outcome)
    })
}

/// What a client's thread tells.
enum Told {
    Ready,
    Ended(Ended),
}

struct Ended {
    error: Option<Error>,
    counters: Vec<(String, u64)>,
    parts: Vec<Part>,
}

fn seat(
    workload: &dyn Workload,
    course: &Course<'_>,
    index: usize,
    outbox: &Outbox,
    tell: &mpsc::Sender<Told>,
) {
    let seat = Seat { index, clients: course.plan.clients, seed: course.plan.seed };
    let ended = |error| Told::Ended(Ended { error, counters: Vec::new(), parts: Vec::new() });
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut client = match workload.client(&seat) {
            Ok(client) => client,
            Err(error) => return ended(Some(error)),
        };
        // Whoever listens is gone only when the run is given up.
        let _ = tell.send(Told::Ready);
        let Some(start) = course.gate.pass() else { return ended(None) };
        let result = client::drive(client.as_mut(), course, start, outbox);
        Told::Ended(Ended { error: result.err(), counters: client.counters(), parts: client.parts() })
    }));
    let _ = tell.send(caught.unwrap_or_else(|_| ended(Some(panicked()))));
}

/// Collects samples until all clients have ended.
struct Watcher<'a> {
    workload: &'a dyn Workload,
    course: &'a Course<'a>,
    outboxes: &'a [Outbox],
    told: mpsc::Receiver<Told>,
    target: Option<&'a Target>,
}

impl Watcher<'_> {
    fn watch(self, watch: &mut dyn FnMut(&Progress<'_>)) -> Outcome {
        let plan = self.course.plan;
        let operations = self.workload.operations();
        let warmup_ns = plan.warmup.as_nanos() as u64;
        let mut recorder =
            Recorder::new(operations.len(), warmup_ns, plan.limit.map(|limit| limit.as_nanos() as u64));
        let mut ends: Vec<Ended> = Vec::new();
        let mut cut_off = None;
        let cpu = cpu_seconds();
        let start = Instant::now();
        self.course.gate.open(Some(start));
        let mut fetched = Vec::new();
        while ends.len() < plan.clients {
            match self.told.recv_timeout(FETCH_EVERY) {
                Ok(Told::Ended(ended)) => ends.push(ended),
                Ok(Told::Ready) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            self.fetch(&mut recorder, &mut fetched);
            let at = start.elapsed();
            let is_warmup = at < plan.warmup;
            watch(&Progress { at, is_warmup, operations: &operations, record: recorder.so_far() });
            if interrupted() && !self.course.stop.swap(true, Ordering::Relaxed) {
                cut_off.get_or_insert_with(|| "interrupted".to_owned());
            }
            let grace_ends = plan.warmup + plan.time + GRACE;
            if at > grace_ends && cut_off.is_none() {
                let waiting = plan.clients - ends.len();
                cut_off =
                    Some(format!("{waiting} operations had not ended {} s after the end", GRACE.as_secs()));
                self.target.into_iter().for_each(Target::abort);
            }
        }
        self.fetch(&mut recorder, &mut fetched);
        let mut outcome = outcome(operations, recorder.finish(), ends, cut_off, cpu_seconds() - cpu);
        // In an open loop the time goes on when nothing is due.
        let is_timed =
            plan.pace != Pace::Closed && plan.operations_max.is_none() && outcome.incomplete.is_none();
        let last = outcome.record.last_end_ns.max(if is_timed { self.course.end_ns } else { 0 });
        outcome.elapsed_s = last.saturating_sub(warmup_ns) as f64 / 1e9;
        outcome
    }

    fn fetch(&self, recorder: &mut Recorder, fetched: &mut Vec<client::Sample>) {
        for outbox in self.outboxes {
            outbox.fetch(fetched);
            fetched.drain(..).for_each(|sample| recorder.add(&sample));
        }
    }
}

fn outcome(
    operations: Vec<String>,
    record: Record,
    ends: Vec<Ended>,
    cut_off: Option<String>,
    generator_cpu_s: f64,
) -> Outcome {
    let mut errors = BTreeMap::new();
    let mut counters = BTreeMap::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut first = None;
    for ended in ends {
        for (i, part) in ended.parts.into_iter().enumerate() {
            match parts.get_mut(i) {
                Some(sum) => {
                    sum.count += part.count;
                    sum.total_ns += part.total_ns;
                }
                None => parts.push(part),
            }
        }
        for (name, count) in ended.counters {
            *counters.entry(name).or_insert(0) += count;
        }
        if let Some(error) = ended.error {
            *errors.entry(error.to_string()).or_insert(0) += 1;
            first.get_or_insert(error);
        }
    }
    let lost: u64 = errors.values().sum();
    let incomplete = cut_off.or_else(|| {
        let clients = if lost == 1 { "one client" } else { "clients" };
        first.map(|error| format!("{clients} ended early ({lost}): {error}"))
    });
    Outcome {
        operations,
        record,
        elapsed_s: 0.0,
        connect_s: 0.0,
        errors,
        incomplete,
        generator_cpu_s,
        counters,
        parts,
    }
}

/// CPU time that this process has had so far.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
