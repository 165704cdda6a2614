//! The loop of one client: take a slot, wait for it, do the operation, note the times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::fiber;
use crate::run::failure::Failures;
use crate::run::sample::{Kind, Passed, Sample};
use crate::run::schedule::Schedule;
use crate::run::worker::{Ended, Own};
use crate::run::{Client, Pace, Plan};

/// How often somebody who waits looks whether the run goes on, or begins.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_FOR_START_EVERY: Duration = Duration::from_millis(1);

/// What the clients share.
pub(crate) struct Course {
    pub plan: Plan,
    pub schedule: Schedule,
    pub gate: Gate,
    pub stop: AtomicBool,
    /// Of operations after the warm-up.
    pub errors: Mutex<Failures>,
    /// Nobody has counted them yet. There are a thousand of them a second at most, by what one has at least, and by how many
    /// slots there may be.
    pub passed: Mutex<Vec<Passed>>,
    pub end_ns: u64,
}

/// Opens once, for all clients at the same moment.
#[derive(Default)]
pub(crate) struct Gate(Mutex<Option<Option<Instant>>>);

impl Gate {
    /// A moment so near that nobody has to wait for long, and so far that everybody is there in time.
    pub fn open(&self) -> Instant {
        let start = Instant::now() + 5 * LOOK_FOR_START_EVERY;
        self.set(Some(start));
        start
    }

    /// There is no run after all.
    pub fn close(&self) {
        self.set(None);
    }

    fn set(&self, start: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
    }

    /// Waits for the start.
    pub fn pass(&self) -> Option<Instant> {
        loop {
            let opened = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(start) = opened {
                start.into_iter().for_each(fiber::sleep_until);
                return start;
            }
            fiber::sleep(LOOK_FOR_START_EVERY);
        }
    }
}

impl Course {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn is_recorded(&self, due_ns: u64) -> bool {
        due_ns >= self.plan.warmup.as_nanos() as u64
    }

    fn add_error(&self, error: &Error) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).add(error);
    }

    /// The slots up to `until_ns` that are too many to be taken one by one, if there are so many.
    fn pass(&self, operation: u16, kind: Kind, until_ns: u64) {
        let Some((from_ns, count)) = self.schedule.pass(until_ns) else { return };
        let passed = Passed { operation, kind, from_ns, until_ns, count };
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).push(passed);
    }

    pub fn take_passed(&self) -> Vec<Passed> {
        std::mem::take(&mut self.passed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn errors_so_far(&self) -> Failures {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs until the end; an error is why this client ended before. Its own figures are without the warm-up.
pub(crate) fn drive(
    client: &mut dyn Client,
    course: &Course,
    start: Instant,
    push: &dyn Fn(Sample),
) -> Ended {
    let mut before = None;
    let error = operate(client, course, start, push, &mut before).err();
    let own = Own::of(client);
    let before = before.unwrap_or_else(|| own.clone());
    Ended { error, own: own.since(&before) }
}

/// `before` gets the client's own figures at the end of the warm-up.
fn operate(
    client: &mut dyn Client,
    course: &Course,
    start: Instant,
    push: &dyn Fn(Sample),
    before: &mut Option<Own>,
) -> Result<()> {
    let now = || start.elapsed().as_nanos() as u64;
    let mut left = course.plan.operations_max.unwrap_or(u64::MAX);
    while left > 0 && !course.is_stopped() {
        let operation = client.next()? as u16;
        let (due_ns, begin_ns, was_idle) = if course.plan.pace == Pace::Closed {
            let at = now();
            (at, at, false)
        } else {
            let Some(due_ns) = take(course, &mut left, operation, push, &now) else { break };
            let was_idle = wait_until(start, due_ns, course);
            (due_ns, now(), was_idle)
        };
        if due_ns >= course.end_ns || course.is_stopped() {
            break;
        }
        // Those of the warm-up do not count.
        if course.is_recorded(due_ns) {
            left -= 1;
            before.get_or_insert_with(|| Own::of(client));
        }
        let kind = kind_of(client.perform(), course, due_ns)?;
        let end_ns = now();
        push(Sample { was_idle, ..Sample::new(operation, kind, due_ns, begin_ns, end_ns) });
        if kind == Kind::Done
            && let Some(operation) = client.then()
        {
            let kind = kind_of(client.perform(), course, end_ns)?;
            push(Sample::new(operation as u16, kind, end_ns, end_ns, now()));
        }
        // Where nothing was waited for, the others of this thread have waited.
        fiber::yield_now();
    }
    Ok(())
}

/// What an operation that was due then counts as; the error that ends its client.
fn kind_of(done: Result<()>, course: &Course, due_ns: u64) -> Result<Kind> {
    match done {
        Ok(()) => Ok(Kind::Done),
        // As pgbench has it, the operation that ended its client is none that failed: what became of it is not known.
        Err(error) if !error.is_retryable() => Err(error),
        Err(error) => {
            if course.is_recorded(due_ns) {
                course.add_error(&error);
            }
            Ok(Kind::Failed)
        }
    }
}

/// A slot that is not over its limit already; those that are have been skipped.
fn take(
    course: &Course,
    left: &mut u64,
    operation: u16,
    push: &dyn Fn(Sample),
    now: &impl Fn() -> u64,
) -> Option<u64> {
    let limit_ns = course.plan.limit.map(|limit| limit.as_nanos() as u64);
    // Somebody who interrupts a run does not wait until it has caught up.
    while !course.is_stopped() {
        let due_ns = course.schedule.take()?;
        let at = now();
        // After the end nothing is begun, and nothing is counted as skipped: it is backlog.
        if at >= course.end_ns {
            push(Sample::new(operation, Kind::Backlog, due_ns, at, at));
            course.pass(operation, Kind::Backlog, course.end_ns);
            continue;
        }
        let is_hopeless = limit_ns.is_some_and(|limit| due_ns.saturating_add(limit) < at);
        if !is_hopeless {
            return Some(due_ns);
        }
        push(Sample::new(operation, Kind::Skipped, due_ns, at, at));
        *left = left.saturating_sub(u64::from(course.is_recorded(due_ns)));
        if *left == 0 {
            return None;
        }
        // Of a number of operations each is counted down.
        if let (Some(limit), None) = (limit_ns, course.plan.operations_max) {
            course.pass(operation, Kind::Skipped, at - limit);
        }
    }
    None
}

/// True if there was something to wait for.
fn wait_until(start: Instant, due_ns: u64, course: &Course) -> bool {
    let due = start + Duration::from_nanos(due_ns);
    let mut has_waited = false;
    loop {
        let now = Instant::now();
        if now >= due || course.is_stopped() {
            return has_waited;
        }
        has_waited = true;
        fiber::sleep_until(due.min(now + LOOK_EVERY));
    }
}
