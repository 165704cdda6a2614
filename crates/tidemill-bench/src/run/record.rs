//! Samples to figures: for the whole run, for each operation, for each interval.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::figure::percent;
use crate::histogram::Histogram;
use crate::run::sample::{Kind, Passed, Sample};

/// A run has at most this many intervals; a longer one has wider ones.
const INTERVALS_MAX: usize = 600;
const SECOND_NS: u64 = 1_000_000_000;
/// When more of what was due was never begun, the run did not have its rate.
const BACKLOG_SHARE_MAX: f64 = 0.01;
/// In the last moments of any run some are due, and of a short one they are soon a percent.
const BACKLOG_LEAST: u64 = 5;

/// With a larger share of failed operations the figures are those of the lucky ones.
const FAILED_SHARE_MAX: f64 = 0.01;

/// What one operation did, or all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Ended well.
    pub processed: u64,
    /// Of these, those whose response took longer than the limit.
    pub late: u64,
    /// Not begun, because they were over the limit before.
    pub skipped: u64,
    /// Lost against others, as pgbench counts: serialization failures and deadlocks.
    pub failed: u64,
    /// Due before the end of the run, and not begun by then.
    pub backlog: u64,
    /// From the intended start to the end.
    pub response: Histogram,
    /// From the send to the end.
    pub service: Histogram,
    /// From the intended start to the send.
    pub lag: Histogram,
}

/// What happened in one stretch of time, by operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub operations: Vec<Slice>,
    /// Of all operations that were due in it.
    #[serde(default = "Histogram::coarse", skip_serializing_if = "Histogram::is_empty")]
    pub service: Histogram,
    #[serde(default = "Histogram::coarse", skip_serializing_if = "Histogram::is_empty")]
    pub lag: Histogram,
}

/// What one operation did in an interval, or all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slice {
    /// Ended in it.
    #[serde(skip_serializing_if = "is_zero")]
    pub processed: u64,
    /// Of those that were due in it.
    #[serde(skip_serializing_if = "is_zero")]
    pub late: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub backlog: u64,
    /// Responses of those that were due in it.
    #[serde(skip_serializing_if = "Histogram::is_empty")]
    pub response: Histogram,
}

impl Default for Slice {
    fn default() -> Self {
        let response = Histogram::coarse();
        Self { processed: 0, late: 0, skipped: 0, failed: 0, backlog: 0, response }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// All that was recorded after the warm-up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub interval_ns: u64,
    pub intervals: Vec<Interval>,
    pub operations: Vec<Tally>,
    /// How late clients woke up that had nothing else to do: the generator's own delay.
    pub oversleep: Histogram,
    /// The last end, since the start of the run.
    pub last_end_ns: u64,
}

/// Sorts samples in.
pub(crate) struct Recorder {
    record: Record,
    warmup_ns: u64,
    limit_ns: u64,
}

impl Tally {
    fn add(&mut self, sample: &Sample, is_late: bool) {
        self.processed += 1;
        self.late += u64::from(is_late);
        self.response.record(sample.end_ns - sample.due_ns);
        self.service.record(sample.end_ns - sample.begin_ns);
        self.lag.record(sample.begin_ns - sample.due_ns);
    }

    pub fn merge(&mut self, other: &Tally) {
        self.processed += other.processed;
        self.late += other.late;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.backlog += other.backlog;
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
    }

    /// All that were due and taken by a client.
    pub fn asked(&self) -> u64 {
        self.processed + self.skipped + self.failed
    }

    /// So many failed that the figures are those of the lucky ones, and say nothing of the whole.
    pub fn is_unlucky(&self) -> bool {
        self.failed as f64 > FAILED_SHARE_MAX * self.asked() as f64
    }

    /// All that were due.
    pub fn due(&self) -> u64 {
        self.asked() + self.backlog
    }

    /// Late, skipped or never begun among all that were due, percent.
    pub fn missed(&self) -> f64 {
        percent(self.late + self.skipped + self.backlog, self.due())
    }

    /// Whether nearly all that was due ended well. Then the rate is that of the arrivals, and not the database's.
    pub fn has_its_rate(&self) -> bool {
        (self.due() - self.processed) as f64 <= BACKLOG_SHARE_MAX * self.due() as f64
    }

    /// What to say when the rate was not reached.
    pub fn behind(&self) -> Option<String> {
        let Tally { backlog, .. } = self;
        let is_much = *backlog as f64 > BACKLOG_SHARE_MAX * self.due() as f64;
        let is_behind = is_much && *backlog >= BACKLOG_LEAST;
        is_behind.then(|| format!("{backlog} of {} operations that were due were never begun", self.due()))
    }
}

impl Interval {
    pub(crate) fn new(operations: usize) -> Self {
        let (service, lag) = (Histogram::coarse(), Histogram::coarse());
        Self { operations: vec![Slice::default(); operations], service, lag }
    }

    pub fn total(&self) -> Slice {
        let mut total = Slice::default();
        self.operations.iter().for_each(|slice| total.merge(slice));
        total
    }

    fn merge(&mut self, other: &Interval) {
        self.operations.iter_mut().zip(&other.operations).for_each(|(slice, other)| slice.merge(other));
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
    }
}

impl Slice {
    fn merge(&mut self, other: &Slice) {
        self.processed += other.processed;
        self.late += other.late;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.backlog += other.backlog;
        self.response.merge(&other.response);
    }
}

impl Record {
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.operations.iter().for_each(|tally| total.merge(tally));
        total
    }
}

impl Recorder {
    pub fn new(operations: usize, warmup: Duration, limit: Option<Duration>) -> Self {
        let warmup_ns = warmup.as_nanos() as u64;
        let record = Record {
            interval_ns: SECOND_NS,
            intervals: Vec::new(),
            operations: vec![Tally::default(); operations],
            oversleep: Histogram::default(),
            last_end_ns: warmup_ns,
        };
        Self { record, warmup_ns, limit_ns: limit.map_or(u64::MAX, |limit| limit.as_nanos() as u64) }
    }

    /// The samples of the warm-up go by.
    pub fn add(&mut self, sample: &Sample) {
        if sample.due_ns < self.warmup_ns {
            return;
        }
        let response = sample.end_ns - sample.due_ns;
        let is_late = response > self.limit_ns;
        let due_in = self.interval(sample.due_ns);
        // A workload that names an operation it does not have is a bug; its samples count as the last one's.
        let operation = (sample.operation as usize).min(self.record.operations.len().saturating_sub(1));
        let Some(tally) = self.record.operations.get_mut(operation) else { return };
        let interval = &mut self.record.intervals[due_in].operations[operation];
        match sample.kind {
            Kind::Skipped | Kind::Backlog => self.add_unserved(sample.kind, operation, due_in, 1),
            Kind::Failed => {
                tally.failed += 1;
                interval.failed += 1;
                self.record.last_end_ns = self.record.last_end_ns.max(sample.end_ns);
            }
            Kind::Done => {
                tally.add(sample, is_late);
                interval.late += u64::from(is_late);
                interval.response.record(response);
                let interval = &mut self.record.intervals[due_in];
                interval.service.record(sample.end_ns - sample.begin_ns);
                interval.lag.record(sample.begin_ns - sample.due_ns);
                self.add_end(sample, operation);
            }
        }
    }

    fn add_unserved(&mut self, kind: Kind, operation: usize, due_in: usize, count: u64) {
        let tally = &mut self.record.operations[operation];
        let interval = &mut self.record.intervals[due_in].operations[operation];
        let counts = match kind {
            Kind::Skipped => [&mut tally.skipped, &mut interval.skipped],
            _ => [&mut tally.backlog, &mut interval.backlog],
        };
        counts.into_iter().for_each(|counted| *counted += count);
    }

    /// Each interval has its part; that of the warm-up goes by.
    pub fn add_passed(&mut self, passed: &Passed) {
        let Passed { operation, kind, from_ns, until_ns, count } = *passed;
        let mut at = from_ns.max(self.warmup_ns);
        if at >= until_ns || self.record.operations.is_empty() {
            return;
        }
        let operation = (operation as usize).min(self.record.operations.len() - 1);
        let before = |at: u64| (count as f64 * ((at - from_ns) as f64 / (until_ns - from_ns) as f64)) as u64;
        // Intervals become no wider on the way.
        self.interval(until_ns - 1);
        while at < until_ns {
            let due_in = self.interval(at);
            let end = self.warmup_ns + (due_in as u64 + 1) * self.record.interval_ns;
            let end = end.min(until_ns);
            self.add_unserved(kind, operation, due_in, before(end) - before(at));
            at = end;
        }
    }

    /// What counts by the time at which an operation ended well.
    fn add_end(&mut self, sample: &Sample, operation: usize) {
        if sample.was_idle {
            self.record.oversleep.record(sample.begin_ns - sample.due_ns);
        }
        self.record.last_end_ns = self.record.last_end_ns.max(sample.end_ns);
        let ended_in = self.interval(sample.end_ns);
        self.record.intervals[ended_in].operations[operation].processed += 1;
    }

    /// The interval of a time; makes it, and halves their number when there are too many.
    fn interval(&mut self, at_ns: u64) -> usize {
        let since = at_ns - self.warmup_ns;
        while since / self.record.interval_ns >= INTERVALS_MAX as u64 {
            self.widen();
        }
        let index = (since / self.record.interval_ns) as usize;
        if index >= self.record.intervals.len() {
            let operations = self.record.operations.len();
            self.record.intervals.resize_with(index + 1, || Interval::new(operations));
        }
        index
    }

    fn widen(&mut self) {
        self.record.interval_ns *= 2;
        let narrow = std::mem::take(&mut self.record.intervals);
        self.record.intervals = narrow
            .chunks(2)
            .map(|pair| {
                let mut wide = pair[0].clone();
                pair[1..].iter().for_each(|other| wide.merge(other));
                wide
            })
            .collect();
    }

    pub fn so_far(&self) -> &Record {
        &self.record
    }

    pub fn finish(self) -> Record {
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(due_ms: u64, begin_ms: u64, end_ms: u64) -> Sample {
        let ns = |ms| ms * 1_000_000;
        let was_idle = begin_ms == due_ms;
        Sample { was_idle, ..Sample::new(0, Kind::Done, ns(due_ms), ns(begin_ms), ns(end_ms)) }
    }

    #[test]
    fn the_warmup_is_left_out_and_late_counts_from_the_intended_start() {
        let mut recorder = Recorder::new(1, Duration::from_secs(1), Some(Duration::from_millis(50)));
        recorder.add(&sample(999, 999, 5000));
        recorder.add(&sample(1000, 1000, 1050));
        recorder.add(&sample(1000, 1040, 1051));
        recorder.add(&Sample { kind: Kind::Skipped, ..sample(1500, 1600, 1600) });
        let record = recorder.finish();
        let total = record.total();
        assert_eq!((total.processed, total.late, total.skipped, total.asked()), (2, 1, 1, 3));
        assert_eq!(total.response.max(), 51_000_000);
        assert_eq!(total.service.min(), 11_000_000);
        assert_eq!(total.lag.max(), 40_000_000);
    }

    /// In the figure of all, and in that of the interval.
    #[test]
    fn what_was_never_begun_is_missed() {
        let mut recorder = Recorder::new(1, Duration::ZERO, None);
        (0..99).for_each(|i| recorder.add(&sample(i, i, i + 1)));
        let never = Sample { kind: Kind::Backlog, ..sample(999, 1000, 1000) };
        recorder.add(&never);
        assert_eq!((recorder.so_far().total().missed(), recorder.so_far().total().behind()), (1.0, None));
        // More than a percent, and too few to say so.
        (2..BACKLOG_LEAST).for_each(|_| recorder.add(&never));
        assert_eq!(recorder.so_far().total().behind(), None);
        recorder.add(&never);
        let record = recorder.finish();
        assert_eq!((record.intervals[0].total().backlog, record.total().due()), (5, 104));
        let told = record.total().behind();
        assert_eq!(told.as_deref(), Some("5 of 104 operations that were due were never begun"));
        let many = Tally { processed: 500, backlog: BACKLOG_LEAST, ..Tally::default() };
        assert_eq!(many.behind(), None);
    }

    #[test]
    fn slots_that_were_passed_over_are_in_their_seconds() {
        let mut recorder = Recorder::new(2, Duration::from_secs(1), None);
        let until_ns = 7 * SECOND_NS / 2;
        recorder.add_passed(&Passed {
            operation: 1,
            kind: Kind::Backlog,
            from_ns: 0,
            until_ns,
            count: 7_000_001,
        });
        let record = recorder.finish();
        let of_seconds: Vec<u64> =
            record.intervals.iter().map(|interval| interval.operations[1].backlog).collect();
        assert_eq!((of_seconds, record.total().backlog), (vec![2_000_000, 2_000_000, 1_000_001], 5_000_001));
    }

    #[test]
    fn a_rate_is_kept_when_nearly_all_ended_well() {
        let tally =
            |skipped, failed, backlog| Tally { processed: 990, skipped, failed, backlog, ..Tally::default() };
        assert!(tally(10, 0, 0).has_its_rate() && tally(3, 3, 4).has_its_rate());
        assert!(!tally(11, 0, 0).has_its_rate() && !tally(4, 4, 4).has_its_rate());
    }

    #[test]
    fn a_long_run_has_wider_intervals_and_loses_nothing() {
        let mut recorder = Recorder::new(1, Duration::ZERO, None);
        for second in 0..2000 {
            recorder.add(&sample(second * 1000, second * 1000, second * 1000 + 1));
        }
        let record = recorder.finish();
        assert_eq!((record.interval_ns, record.intervals.len()), (4 * SECOND_NS, 500));
        let totals = record.intervals.iter().map(Interval::total);
        assert!(totals.into_iter().all(|total| total.processed == 4 && total.response.count() == 4));
    }
}
