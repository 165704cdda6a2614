//! The thread that watches a run: records samples, shows progress, ends what does not end by itself.

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use crate::interrupt::interrupted;
use crate::run::client::Course;
use crate::run::record::Recorder;
use crate::run::sample::Inbox;
use crate::run::worker::{Ended, Told};
use crate::run::{Outcome, Pace, Part, Progress, cpu_seconds};
use crate::target::Target;

/// How often samples are fetched when nobody calls.
const FETCH_EVERY: Duration = Duration::from_millis(100);
/// How long operations may take that were begun before the end.
const GRACE: Duration = Duration::from_secs(30);
/// And before somebody interrupted the run.
const INTERRUPTED_GRACE: Duration = Duration::from_secs(1);
/// Between what is done then to end them.
const STEP: Duration = Duration::from_secs(1);

/// What is done to end operations that do not end by themselves, in this order.
enum Step {
    /// The server is asked to give them up.
    Cancel,
    /// Their connections are shut down.
    ShutDown,
    /// What waits for neither is left behind: a program, or a script that sleeps.
    Leave,
}

/// The end of a run that was cut short.
struct CutOff {
    why: String,
    next: (Duration, Step),
}

/// Collects samples until all clients have ended.
pub(crate) struct Watcher<'a> {
    pub operations: Vec<String>,
    pub course: &'a Course,
    pub inbox: &'a Inbox,
    pub told: mpsc::Receiver<Told>,
    pub target: Option<&'a Target>,
}

impl Watcher<'_> {
    /// True if all clients have ended.
    pub fn watch(self, watch: &mut dyn FnMut(&Progress<'_>)) -> (Outcome, bool) {
        let plan = &self.course.plan;
        let mut recorder = Recorder::new(self.operations.len(), plan.warmup, plan.limit);
        let mut ends: Vec<Ended> = Vec::new();
        let mut cut_off: Option<CutOff> = None;
        let cpu = cpu_seconds();
        let start = self.course.gate.open();
        let mut samples = Vec::new();
        while ends.len() < plan.clients {
            match self.told.recv_timeout(FETCH_EVERY) {
                Ok(Told::Ended(ended)) => ends.push(ended),
                Ok(Told::Ready | Told::Samples) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            // All that a client saw is there before its end is told.
            samples.clear();
            self.inbox.fetch(&mut samples);
            samples.iter().for_each(|sample| recorder.add(sample));
            self.course.take_passed().iter().for_each(|passed| recorder.add_passed(passed));
            let at = start.elapsed();
            let (record, operations) = (recorder.so_far(), &self.operations[..]);
            let (is_warmup, errors) = (at < plan.warmup, &self.course.errors_so_far());
            watch(&Progress { at, is_warmup, operations, record, errors, samples: &samples });
            let waiting = plan.clients - ends.len();
            if waiting > 0 && self.cut_off(at, waiting, &mut cut_off) {
                break;
            }
        }
        let left = plan.clients - ends.len();
        let cut_off = cut_off.map(|cut_off| match left {
            0 => cut_off.why,
            left => format!("{}; {left} clients did not end", cut_off.why),
        });
        let errors = self.course.errors_so_far();
        let outcome =
            Outcome { operations: self.operations, record: recorder.finish(), errors, ..Outcome::default() };
        let mut outcome = ended(outcome, ends, cut_off);
        outcome.generator_cpu_s = cpu_seconds() - cpu;
        outcome.elapsed_s = elapsed_s(&outcome, self.course);
        (outcome, left == 0)
    }

    /// Ends the run when somebody wants that, or when operations do not end. True when nothing more can be done.
    fn cut_off(&self, at: Duration, waiting: usize, cut_off: &mut Option<CutOff>) -> bool {
        let Some(CutOff { next, .. }) = cut_off else {
            *cut_off = self.why_now(at, waiting);
            // Whoever waits for a slot goes home.
            self.course.stop.fetch_or(cut_off.is_some(), Ordering::Relaxed);
            return false;
        };
        if at < next.0 {
            return false;
        }
        let after = match next.1 {
            Step::Cancel => {
                self.target.into_iter().for_each(Target::cancel);
                Step::ShutDown
            }
            Step::ShutDown => {
                self.target.into_iter().for_each(Target::give_up);
                Step::Leave
            }
            Step::Leave => return true,
        };
        *next = (at + STEP, after);
        false
    }

    /// Somebody has interrupted it, or it should have ended long ago.
    fn why_now(&self, at: Duration, waiting: usize) -> Option<CutOff> {
        let plan = &self.course.plan;
        if interrupted() {
            let next = (at + INTERRUPTED_GRACE, Step::Cancel);
            return Some(CutOff { why: "interrupted".to_owned(), next });
        }
        let is_over = at > plan.warmup + plan.time + GRACE;
        let why = || format!("{waiting} operations had not ended {} s after the end", GRACE.as_secs());
        is_over.then(|| CutOff { why: why(), next: (at, Step::Cancel) })
    }
}

/// From the end of the warm-up to the last end. In an open loop the time goes on when nothing is due.
fn elapsed_s(outcome: &Outcome, course: &Course) -> f64 {
    let plan = &course.plan;
    let is_timed = plan.pace != Pace::Closed && plan.operations_max.is_none() && outcome.incomplete.is_none();
    let last = outcome.record.last_end_ns.max(if is_timed { course.end_ns } else { 0 });
    last.saturating_sub(plan.warmup.as_nanos() as u64) as f64 / 1e9
}

/// With what clients told when they ended.
fn ended(mut outcome: Outcome, ends: Vec<Ended>, cut_off: Option<String>) -> Outcome {
    let mut first = None;
    for ended in ends {
        add_parts(&mut outcome.parts, ended.own.parts);
        for (name, count) in ended.own.counters {
            *outcome.counters.entry(name).or_insert(0) += count;
        }
        if let Some(error) = ended.error {
            outcome.errors.add_end(&error);
            first.get_or_insert(error);
        }
    }
    let lost = outcome.errors.clients();
    outcome.incomplete = cut_off.or_else(|| {
        let clients = if lost == 1 { "one client" } else { "clients" };
        first.map(|error| format!("{clients} ended early ({lost}): {error}"))
    });
    outcome
}

/// All clients have the same steps.
fn add_parts(sums: &mut Vec<Part>, parts: Vec<Part>) {
    for (i, part) in parts.into_iter().enumerate() {
        match sums.get_mut(i) {
            Some(sum) => {
                sum.count += part.count;
                sum.total_ns += part.total_ns;
            }
            None => sums.push(part),
        }
    }
}
