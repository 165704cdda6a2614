//! The thread that watches a run: records samples, shows progress, ends what does not end by itself.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use crate::interrupt::interrupted;
use crate::run::client::Course;
use crate::run::record::{Record, Recorder};
use crate::run::sample::Inbox;
use crate::run::worker::{Ended, Told};
use crate::run::{Outcome, Pace, Part, Progress, cpu_seconds};
use crate::target::Target;

/// How often samples are fetched when nobody calls.
const FETCH_EVERY: Duration = Duration::from_millis(100);
/// How long operations may take that were begun before the end.
const GRACE: Duration = Duration::from_secs(30);

/// Collects samples until all clients have ended.
pub(crate) struct Watcher<'a> {
    pub operations: Vec<String>,
    pub course: &'a Course,
    pub inbox: &'a Inbox,
    pub told: mpsc::Receiver<Told>,
    pub target: Option<&'a Target>,
}

impl Watcher<'_> {
    pub fn watch(self, watch: &mut dyn FnMut(&Progress<'_>)) -> Outcome {
        let plan = &self.course.plan;
        let warmup_ns = plan.warmup.as_nanos() as u64;
        let mut recorder =
            Recorder::new(self.operations.len(), warmup_ns, plan.limit.map(|limit| limit.as_nanos() as u64));
        let mut ends: Vec<Ended> = Vec::new();
        let mut cut_off = None;
        let cpu = cpu_seconds();
        let start = self.course.gate.open();
        let mut fetched = Vec::new();
        while ends.len() < plan.clients {
            match self.told.recv_timeout(FETCH_EVERY) {
                Ok(Told::Ended(ended)) => ends.push(ended),
                Ok(Told::Ready | Told::Samples) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            // All that a client saw is there before its end is told.
            fetched.clear();
            self.inbox.fetch(&mut fetched);
            fetched.iter().for_each(|sample| recorder.add(sample));
            let at = start.elapsed();
            watch(&Progress {
                at,
                is_warmup: at < plan.warmup,
                operations: &self.operations,
                record: recorder.so_far(),
                samples: &fetched,
            });
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
        let mut outcome = outcome(self.operations, recorder.finish(), ends, cut_off, cpu_seconds() - cpu);
        // In an open loop the time goes on when nothing is due.
        let is_timed =
            plan.pace != Pace::Closed && plan.operations_max.is_none() && outcome.incomplete.is_none();
        let last = outcome.record.last_end_ns.max(if is_timed { self.course.end_ns } else { 0 });
        outcome.elapsed_s = last.saturating_sub(warmup_ns) as f64 / 1e9;
        outcome
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
        threads: 0,
        counters,
        parts,
    }
}
