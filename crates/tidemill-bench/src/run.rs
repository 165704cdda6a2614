//! A run: clients that do operations at intended times, and what was seen of them.

mod client;
mod failure;
mod floor;
mod record;
mod sample;
mod schedule;
mod watcher;
mod worker;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::target::Target;
use client::{Course, Gate};
pub use failure::{Failure, Failures};
pub use floor::floor;
pub use record::{Interval, Record, Slice, Tally};
use sample::Inbox;
pub use sample::{Kind, Sample};
pub use schedule::RATE_MAX;
use schedule::Schedule;
use watcher::Watcher;
use worker::{Told, Worker, panicked};

/// What is measured: the operations of a suite against its target.
pub trait Workload: Send + Sync {
    /// The names of the operations; [`Client::next`] gives indexes into it.
    fn operations(&self) -> Vec<String>;

    /// Makes client `seat.index`, connected. Called in that client's own fiber; connecting is not part of the run.
    fn client(&self, seat: &Seat) -> Result<Box<dyn Client + '_>>;

    /// Does an operation stop its thread (in an embedded database, by a program that it starts)? Then each client has
    /// one of its own. Else many share a thread: connections switch to another client when they wait.
    fn blocks(&self) -> bool;

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

/// One client. It stays in one thread.
pub trait Client {
    /// Chooses the next operation and makes its data, before it is due: not timed.
    fn next(&mut self) -> Result<usize>;

    /// Does what `next` chose: timed. A retryable error counts as failed and the client goes on; any other ends the client.
    fn perform(&mut self) -> Result<()>;

    /// An operation that is due the moment in which the one before has ended well, such as waiting for what it did; `perform` does
    /// it.
    fn then(&mut self) -> Option<usize> {
        None
    }

    /// Figures of the workload's own, added up over clients: ("links found", 12). They only grow, so that those of the
    /// warm-up can be taken off.
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
    /// That the clients share; none: as many as they need.
    pub threads: Option<usize>,
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

/// The time of a run that ends by its operations alone: three years.
pub const TIME_MAX: Duration = Duration::from_secs(100_000_000);

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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Names of the operations, in the order of `record.operations`.
    pub operations: Vec<String>,
    pub record: Record,
    /// From the end of the warm-up to the last end, s.
    pub elapsed_s: f64,
    /// What clients took to connect, s, before the run.
    pub connect_s: f64,
    /// Errors of operations, and those that ended clients, by code.
    pub errors: Failures,
    /// Why what is here is not the run that was asked for.
    pub incomplete: Option<String>,
    /// CPU time of this process during the run, s; an embedded database's work is in it.
    pub generator_cpu_s: f64,
    /// Threads that the clients had.
    pub threads: usize,
    /// The workload's own figures, of all clients together.
    pub counters: BTreeMap<String, u64>,
    /// Steps of the operations, all clients together.
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
    pub errors: &'a Failures,
    /// What has come since it was told last.
    pub samples: &'a [Sample],
}

/// Runs a workload. An error means that the run did not begin; what happens after that is in the outcome.
pub fn run(
    workload: Arc<dyn Workload>,
    plan: &Plan,
    target: Option<&Target>,
    watch: &mut dyn FnMut(&Progress<'_>),
) -> Result<Outcome> {
    if plan.clients == 0 {
        return Err(Error::usage("a run needs at least one client"));
    }
    let end_ns = (plan.warmup + plan.time).as_nanos() as u64;
    let course = Arc::new(Course {
        plan: plan.clone(),
        schedule: Schedule::new(plan.pace, plan.seed, end_ns),
        gate: Gate::default(),
        stop: AtomicBool::new(false),
        errors: Mutex::default(),
        passed: Mutex::default(),
        end_ns,
    });
    let (tell, told) = mpsc::channel();
    let inbox = Arc::<Inbox>::default();
    let worker = Worker { workload, course: Arc::clone(&course), inbox: Arc::clone(&inbox), tell };
    let connecting = Instant::now();
    let workers = worker.start_all().inspect_err(|_| course.gate.close())?;
    let operations = worker.workload.operations();
    // From here on only clients can tell something, so that it is known when all are gone.
    drop(worker);
    let watched = all_connected(plan.clients, &told).map(|()| {
        let connect_s = connecting.elapsed().as_secs_f64();
        let watcher = Watcher { operations, course: &course, inbox: &inbox, told, target };
        let (outcome, have_all_ended) = watcher.watch(watch);
        (Outcome { connect_s, threads: workers.len(), ..outcome }, have_all_ended)
    });
    // Whoever is still at the gate goes home.
    course.gate.close();
    // Threads that nothing could end are not waited for: they end with what they do, or with the program.
    if watched.as_ref().map_or(true, |(_, have_all_ended)| *have_all_ended) {
        // Clients that panic have told so.
        workers.into_iter().for_each(|worker| drop(worker.join()));
    }
    watched.map(|(outcome, _)| outcome)
}

fn all_connected(clients: usize, told: &mpsc::Receiver<Told>) -> Result<()> {
    (0..clients).try_for_each(|_| match told.recv() {
        Ok(Told::Ready | Told::Samples) => Ok(()),
        Ok(Told::Ended(ended)) => Err(ended.error.unwrap_or_else(panicked)),
        Err(_) => Err(panicked()),
    })
}

/// CPU time that this process has had so far.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
