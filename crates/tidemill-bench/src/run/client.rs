//! The loop of one client: take a slot, wait for it, do the operation, note the times.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::run::schedule::Schedule;
use crate::run::{Client, Pace, Plan};

/// A client that has this many samples that nobody fetched waits: memory is bounded, and the lag shows it.
const SAMPLES_MAX: usize = 1 << 20;
/// Sleeping ends this much earlier than it must, by the clock of the kernel's timers.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// One slot, and what became of it. Times are nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub operation: u32,
    pub kind: Kind,
    /// The client was free and waited for the slot, so that a late begin is the generator's doing.
    pub was_idle: bool,
    pub due_ns: u64,
    pub begin_ns: u64,
    pub end_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Done,
    Failed,
    /// Over its limit before it could begin.
    Skipped,
    /// Due before the end of the run, and not begun by then.
    Backlog,
}

/// What the clients share.
pub(crate) struct Course<'a> {
    pub plan: &'a Plan,
    pub schedule: Schedule,
    pub gate: Gate,
    pub stop: AtomicBool,
    pub end_ns: u64,
}

/// Where a client leaves its samples.
#[derive(Default)]
pub(crate) struct Outbox(Mutex<Vec<Sample>>);

impl Outbox {
    fn push(&self, sample: Sample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while samples.len() >= SAMPLES_MAX {
            drop(samples);
            std::thread::sleep(Duration::from_millis(1));
            samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        }
        samples.push(sample);
    }

    pub fn fetch(&self, into: &mut Vec<Sample>) {
        std::mem::swap(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), into);
    }
}

/// Opens once, for all clients at the same moment.
#[derive(Default)]
pub(crate) struct Gate {
    opened: Mutex<Option<Option<Instant>>>,
    changed: Condvar,
}

impl Gate {
    /// `None`: there is no run after all.
    pub fn open(&self, start: Option<Instant>) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
        self.changed.notify_all();
    }

    pub fn pass(&self) -> Option<Instant> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(opened, |opened| opened.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).flatten()
    }
}

/// Runs until the end; an error is why this client ended before.
pub(crate) fn drive(
    client: &mut dyn Client,
    course: &Course<'_>,
    start: Instant,
    out: &Outbox,
) -> Result<()> {
    // Where the kernel refuses, sleeps are up to 50 µs longer, which the lag shows.
    let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
    let now = || start.elapsed().as_nanos() as u64;
    let limit_ns = course.plan.limit.map(|limit| limit.as_nanos() as u64);
    let mut left = course.plan.operations_max.unwrap_or(u64::MAX);
    while left > 0 && !course.stop.load(Ordering::Relaxed) {
        let operation = client.next()? as u32;
        let mut sample =
            Sample { operation, kind: Kind::Done, was_idle: false, due_ns: 0, begin_ns: 0, end_ns: 0 };
        if course.plan.pace == Pace::Closed {
            sample.begin_ns = now();
            sample.due_ns = sample.begin_ns;
            if sample.begin_ns >= course.end_ns {
                break;
            }
        } else {
            let Some(due) = take(course, limit_ns, &mut left, operation, out, &now) else { break };
            sample.due_ns = due;
            sample.was_idle = wait_until(due, &course.stop, &now);
            if course.stop.load(Ordering::Relaxed) {
                break;
            }
            sample.begin_ns = now();
        }
        // Those of the warm-up do not count.
        left -= u64::from(sample.due_ns >= course.plan.warmup.as_nanos() as u64);
        let done = client.perform();
        sample.end_ns = now();
        if let Err(error) = &done {
            sample.kind = Kind::Failed;
            if !error.is_retryable() {
                out.push(sample);
                return done;
            }
        }
        out.push(sample);
    }
    Ok(())
}

/// A slot that is not over its limit already; those that are have been skipped.
fn take(
    course: &Course<'_>,
    limit_ns: Option<u64>,
    left: &mut u64,
    operation: u32,
    out: &Outbox,
    now: &impl Fn() -> u64,
) -> Option<u64> {
    loop {
        let due_ns = course.schedule.take()?;
        let at = now();
        // After the end nothing is begun, and nothing is counted as skipped: it is backlog.
        if at >= course.end_ns {
            out.push(Sample {
                operation,
                kind: Kind::Backlog,
                was_idle: false,
                due_ns,
                begin_ns: at,
                end_ns: at,
            });
            continue;
        }
        let is_hopeless = limit_ns.is_some_and(|limit| due_ns.saturating_add(limit) < at);
        if !is_hopeless {
            return Some(due_ns);
        }
        out.push(Sample {
            operation,
            kind: Kind::Skipped,
            was_idle: false,
            due_ns,
            begin_ns: at,
            end_ns: at,
        });
        *left = left.saturating_sub(u64::from(due_ns >= course.plan.warmup.as_nanos() as u64));
        if *left == 0 {
            return None;
        }
    }
}

/// True if there was something to wait for.
fn wait_until(due_ns: u64, stop: &AtomicBool, now: &impl Fn() -> u64) -> bool {
    let mut has_waited = false;
    loop {
        let left = due_ns.saturating_sub(now());
        if left == 0 || stop.load(Ordering::Relaxed) {
            return has_waited;
        }
        has_waited = true;
        std::thread::park_timeout(Duration::from_nanos(left));
    }
}

/// The error that a client has when the run was ended under it.
pub(crate) fn panicked() -> Error {
    Error::Wrong("a client of the workload failed inside (a bug of the workbench)".to_owned())
}
