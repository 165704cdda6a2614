//! The threads of a run: each drives some of the clients.

use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::fiber::run_together;
use crate::run::client::{Course, drive};
use crate::run::sample::{Inbox, Outbox, Sample};
use crate::run::{Client, Part, Seat, Workload};

/// The fewer threads, the more answers one look at the sockets finds; at 10 µs an operation one drives 100,000 a second.
const CLIENTS_A_THREAD: usize = 16;
/// Sleeping ends this much earlier than it must, by the clock of the kernel's timers.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// What clients tell the watcher.
pub(crate) enum Told {
    Ready,
    /// Samples lie there.
    Samples,
    Ended(Ended),
}

pub(crate) struct Ended {
    pub error: Option<Error>,
    pub own: Own,
}

impl Ended {
    pub fn early(error: Option<Error>) -> Ended {
        Ended { error, own: Own::default() }
    }
}

/// The workload's own figures of one client.
#[derive(Clone, Default)]
pub(crate) struct Own {
    pub counters: Vec<(String, u64)>,
    pub parts: Vec<Part>,
}

impl Own {
    pub fn of(client: &dyn Client) -> Own {
        Own { counters: client.counters(), parts: client.parts() }
    }

    /// What came after `before`. Some counters may have come later.
    pub fn since(mut self, before: &Own) -> Own {
        for (name, count) in &mut self.counters {
            let was = before.counters.iter().find(|(other, _)| other == name);
            *count -= was.map_or(0, |(_, count)| *count);
        }
        for (part, was) in self.parts.iter_mut().zip(&before.parts) {
            part.count -= was.count;
            part.total_ns -= was.total_ns;
        }
        self
    }
}

/// What each thread needs.
#[derive(Clone)]
pub(crate) struct Worker {
    pub workload: Arc<dyn Workload>,
    pub course: Arc<Course>,
    pub inbox: Arc<Inbox>,
    pub tell: mpsc::Sender<Told>,
}

impl Worker {
    /// Starts threads for all clients.
    pub fn start_all(&self) -> Result<Vec<JoinHandle<()>>> {
        let clients = self.course.plan.clients;
        let threads = self.threads();
        let start = |thread: usize| {
            let worker = self.clone();
            let seats = (thread..clients).step_by(threads).collect();
            let started = std::thread::Builder::new().spawn(move || worker.run(seats));
            started.map_err(|error| Error::usage(format!("could not start thread {thread}: {error}")))
        };
        (0..threads).map(start).collect()
    }

    fn threads(&self) -> usize {
        let clients = self.course.plan.clients;
        if self.workload.blocks() {
            return clients;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let needed = clients.div_ceil(CLIENTS_A_THREAD).min(cores);
        self.course.plan.threads.unwrap_or(needed).clamp(1, clients)
    }

    fn run(self, seats: Vec<usize>) {
        // Where the kernel refuses, sleeps are up to 50 µs longer, which the lag shows.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
        let tell = self.tell.clone();
        let call = move || drop(tell.send(Told::Samples));
        let outbox = Rc::new(Outbox::new(Arc::clone(&self.inbox), call));
        let clients = seats.len();
        let body = |index| {
            let (worker, outbox) = (self.clone(), Rc::clone(&outbox));
            Box::new(move || worker.seat(index, &outbox)) as Box<dyn FnOnce()>
        };
        if let Err(error) = run_together(seats.into_iter().map(body).collect()) {
            let cause = Error::usage(format!("the clients of a thread could not go on: {error}"));
            // Whoever listens is gone only when the run is given up.
            (0..clients).for_each(|_| drop(self.tell.send(Told::Ended(Ended::early(Some(cause.clone()))))));
        }
    }

    fn seat<F: Fn()>(&self, index: usize, outbox: &Outbox<F>) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.sit(index, outbox)));
        let ended = ended.unwrap_or_else(|_| Ended::early(Some(panicked())));
        // Before the end is told, because nobody looks after the last one.
        outbox.send();
        let _ = self.tell.send(Told::Ended(ended));
    }

    fn sit<F: Fn()>(&self, index: usize, outbox: &Outbox<F>) -> Ended {
        let plan = &self.course.plan;
        let seat = Seat { index, clients: plan.clients, seed: plan.seed };
        let mut client = match self.workload.client(&seat) {
            Ok(client) => client,
            Err(error) => return Ended::early(Some(error)),
        };
        let _ = self.tell.send(Told::Ready);
        let Some(start) = self.course.gate.pass() else { return Ended::early(None) };
        drive(client.as_mut(), &self.course, start, &|sample| {
            outbox.push(Sample { client: index as u32, ..sample });
        })
    }
}

/// The error that a client has when the run was ended under it.
pub(crate) fn panicked() -> Error {
    Error::Wrong("a client of the workload failed inside (a bug of the workbench)".to_owned())
}
