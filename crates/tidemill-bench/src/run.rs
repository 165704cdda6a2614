//! A run: clients that do operations at intended times, and what was seen of them.
//!
//! One operating system thread a client with blocking calls: nothing is cheaper an operation, and a client that waits
//! for its server delays no other.

use std::time::Duration;

use crate::error::Result;

/// What is measured: the operations of a suite against its target.
pub trait Workload: Send + Sync {
    /// The names of the operations; [`Client::next`] gives indexes into it.
    fn operations(&self) -> Vec<String>;

    /// Makes client `seat.index`, connected. Called in that client's own thread; connecting is not part of the run.
    fn client(&self, seat: &Seat) -> Result<Box<dyn Client>>;
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
    /// Ends the run earlier, if that many operations were started (by each client).
    pub operations_max: Option<u64>,
    pub seed: u64,
}

/// When operations are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Open loop, all clients together: a Poisson process with this many arrivals a second.
    Poisson(f64),
    /// Open loop, evenly spaced.
    Constant(f64),
    /// Closed loop: the next operation starts when the one before has ended, so a slow server is asked less.
    Closed,
}
