//! How sure figures are: block bootstrap over the intervals of a run, and whether a run was steady.
//!
//! What happens in one second depends on what happened in the second before, so neighbours are drawn together (Künsch's
//! moving blocks): single operations as the unit would make intervals that are far too narrow.

use crate::histogram::{COARSE_BITS, middle};
use crate::random::Random;
use crate::run::{Interval, Outcome, Slice};

/// Resamples; the 2.5th and 97.5th percentile of this many are stable to a few percent of their distance.
const RESAMPLES: usize = 400;
/// Fewer intervals than this say nothing about their spread.
const INTERVALS_LEAST: usize = 5;
/// A smaller change of the mean response within a run is not worth a warning.
const DRIFT_LEAST: f64 = 0.1;

/// A figure of a run: from a stretch of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// Operations that ended well, a second.
    Rate,
    /// Of the responses, ns.
    Mean,
    Quantile(f64),
    /// Late, skipped and never begun among all that were due, percent.
    Missed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// 95 percent; none where there are too few intervals.
    pub interval: Option<(f64, f64)>,
}

/// The seconds of one or several repeats of a run.
pub struct Seconds {
    seconds: Vec<Second>,
    width_s: f64,
    /// Of the histograms.
    bits: u32,
}

/// An interval in the form in which it is quickly added up.
#[derive(Debug, Clone)]
struct Second {
    processed: u64,
    late: u64,
    skipped: u64,
    failed: u64,
    backlog: u64,
    sum_ns: f64,
    /// Indexes and counts.
    buckets: Vec<(usize, u64)>,
}

/// Some of them added up.
#[derive(Default)]
struct Sum {
    processed: u64,
    late: u64,
    skipped: u64,
    failed: u64,
    backlog: u64,
    sum_ns: f64,
    count: u64,
    counts: Vec<u64>,
}

impl Sum {
    fn add(&mut self, second: &Second) {
        self.processed += second.processed;
        self.late += second.late;
        self.skipped += second.skipped;
        self.failed += second.failed;
        self.backlog += second.backlog;
        self.sum_ns += second.sum_ns;
        for (index, count) in &second.buckets {
            self.counts[*index] += count;
            self.count += count;
        }
    }

    fn quantile(&self, share: f64, bits: u32) -> f64 {
        let wanted = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0.0, |index| middle(bits, index) as f64)
    }
}

impl Figure {
    pub fn name(self) -> String {
        match self {
            Figure::Rate => "rate".to_owned(),
            Figure::Mean => "mean".to_owned(),
            Figure::Missed => "missed".to_owned(),
            Figure::Quantile(share) => format!("p{}", (share * 1e5).round() / 1e3),
        }
    }

    pub fn is_better_when_higher(self) -> bool {
        self == Figure::Rate
    }

    fn of(self, sum: &Sum, seconds: f64, bits: u32) -> f64 {
        match self {
            Figure::Rate => sum.processed as f64 / seconds,
            Figure::Mean if sum.count == 0 => 0.0,
            Figure::Mean => sum.sum_ns / sum.count as f64,
            Figure::Quantile(share) => sum.quantile(share, bits),
            Figure::Missed => {
                let unserved = sum.skipped + sum.backlog;
                crate::figure::percent(sum.late + unserved, sum.count + unserved + sum.failed)
            }
        }
    }
}

impl Seconds {
    /// Of all operations together.
    pub fn of(repeats: &[Outcome]) -> Self {
        Self::select(repeats, &Interval::total)
    }

    /// Of one operation, by its index.
    pub fn of_operation(repeats: &[Outcome], index: usize) -> Self {
        Self::select(repeats, &|interval| interval.operations.get(index).cloned().unwrap_or_default())
    }

    fn select(repeats: &[Outcome], of: &dyn Fn(&Interval) -> Slice) -> Self {
        let width = repeats.iter().map(|outcome| outcome.record.interval_ns).max().unwrap_or(1_000_000_000);
        let mut slices = Vec::new();
        for outcome in repeats.iter().filter(|outcome| outcome.record.interval_ns == width) {
            // What ends after the end is in an interval that nothing was due in.
            let whole = (outcome.elapsed_s * 1e9 / width as f64) as usize;
            slices.extend(outcome.record.intervals.iter().take(whole.max(1)).map(of));
        }
        Self::new(&slices, width as f64 / 1e9)
    }

    fn new(slices: &[Slice], width_s: f64) -> Self {
        let second = |slice: &Slice| Second {
            processed: slice.processed,
            late: slice.late,
            skipped: slice.skipped,
            failed: slice.failed,
            backlog: slice.backlog,
            sum_ns: slice.response.sum(),
            buckets: slice.response.entries().collect(),
        };
        Self { seconds: slices.iter().map(second).collect(), width_s, bits: COARSE_BITS }
    }

    /// Whether there are responses at all.
    pub fn is_asked(&self) -> bool {
        self.seconds.iter().any(|second| !second.buckets.is_empty())
    }

    /// The figures of all, or of one draw of blocks with replacement.
    fn figures(&self, figures: &[Figure], draw: Option<&mut Random>) -> Vec<f64> {
        let n = self.seconds.len();
        let last =
            self.seconds.iter().filter_map(|second| second.buckets.last()).map(|(index, _)| index + 1).max();
        let mut sum = Sum { counts: vec![0; last.unwrap_or(0)], ..Sum::default() };
        match draw {
            None => self.seconds.iter().for_each(|second| sum.add(second)),
            Some(random) => {
                let block = (n as f64).cbrt().ceil() as usize;
                let mut left = n;
                while left > 0 {
                    let start = random.below((n - block + 1) as u64) as usize;
                    let take = block.min(left);
                    self.seconds[start..start + take].iter().for_each(|second| sum.add(second));
                    left -= take;
                }
            }
        }
        figures.iter().map(|figure| figure.of(&sum, n as f64 * self.width_s, self.bits)).collect()
    }

    fn draws(&self, figures: &[Figure], seed: u64) -> Option<Vec<Vec<f64>>> {
        if self.seconds.len() < INTERVALS_LEAST {
            return None;
        }
        let mut random = Random::new(seed);
        Some((0..RESAMPLES).map(|_| self.figures(figures, Some(&mut random))).collect())
    }

    pub fn estimates(&self, figures: &[Figure]) -> Vec<Estimate> {
        let values = self.figures(figures, None);
        let draws = self.draws(figures, 1);
        let interval =
            |i: usize| draws.as_ref().map(|draws| middle_95(draws.iter().map(|draw| draw[i]).collect()));
        values.into_iter().enumerate().map(|(i, value)| Estimate { value, interval: interval(i) }).collect()
    }

    /// The ratio of `self` to `base`, figure by figure.
    pub fn ratios(&self, base: &Seconds, figures: &[Figure]) -> Vec<Estimate> {
        let (new, old) = (self.figures(figures, None), base.figures(figures, None));
        let draws = self.draws(figures, 2).zip(base.draws(figures, 3));
        let ratio = |i: usize| {
            let interval = draws.as_ref().map(|(new, old)| {
                middle_95(new.iter().zip(old).map(|(new, old)| quotient(new[i], old[i])).collect())
            });
            Estimate { value: quotient(new[i], old[i]), interval }
        };
        (0..figures.len()).map(ratio).collect()
    }

    /// How the last third's mean response differs from the first third's, as a share, if that is more than chance.
    pub fn drift(&self) -> Option<f64> {
        let n = self.seconds.len();
        let third = n / 3;
        if third < INTERVALS_LEAST {
            return None;
        }
        let part = |seconds: &[Second]| Seconds { seconds: seconds.to_vec(), ..*self };
        let ratio =
            part(&self.seconds[n - third..]).ratios(&part(&self.seconds[..third]), &[Figure::Mean])[0];
        let (low, high) = ratio.interval?;
        let is_chance = (low..=high).contains(&1.0) || (ratio.value - 1.0).abs() < DRIFT_LEAST;
        (!is_chance).then_some(ratio.value - 1.0)
    }
}

/// Nothing to nothing is no change.
fn quotient(new: f64, old: f64) -> f64 {
    match (new, old) {
        (0.0, 0.0) => 1.0,
        (new, 0.0) => new * f64::INFINITY,
        (new, old) => new / old,
    }
}

fn middle_95(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    (at(0.025), at(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(n: usize, seed: u64, scale: f64) -> Vec<Slice> {
        let mut random = Random::new(seed);
        let second = |_| {
            let mut slice = Slice { processed: 100, ..Slice::default() };
            (0..100).for_each(|_| slice.response.record((random.exponential() * scale) as u64));
            slice
        };
        (0..n).map(second).collect()
    }

    fn seconds(slices: &[Slice]) -> Seconds {
        Seconds::new(slices, 1.0)
    }

    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_say() {
        let covered = (0..100).filter(|seed| {
            let data = slices(40, *seed, 1e6);
            let (low, high) = seconds(&data).estimates(&[Figure::Mean])[0].interval.unwrap();
            (low..=high).contains(&1e6)
        });
        let covered = covered.count();
        assert!((85..=100).contains(&covered), "{covered} of 100");
    }

    #[test]
    fn a_difference_is_seen_and_none_is_not() {
        let contains_1 = |e: &Estimate| e.interval.is_some_and(|(low, high)| (low..=high).contains(&1.0));
        let figures = [Figure::Mean, Figure::Quantile(0.5), Figure::Rate];
        let mut alarms = 0;
        for seed in 0..20 {
            let (a, b) = (slices(60, 3 * seed, 1e6), slices(60, 3 * seed + 1, 1e6));
            let worse = slices(60, 3 * seed + 2, 1.2e6);
            let same = seconds(&b).ratios(&seconds(&a), &figures);
            alarms += same.iter().filter(|estimate| !contains_1(estimate)).count();
            assert!(!contains_1(&seconds(&worse).ratios(&seconds(&a), &figures)[0]), "seed {seed}");
        }
        // Two of 40 are expected: the rate is the same in all.
        assert!(alarms <= 7, "{alarms}");
    }

    #[test]
    fn a_drift_is_told() {
        let mut data = slices(30, 1, 1e6);
        assert_eq!(seconds(&data).drift(), None);
        data.extend(slices(30, 2, 2e6));
        assert!(seconds(&data).drift().unwrap() > 0.5);
        assert!(seconds(&data[..3]).estimates(&[Figure::Mean])[0].interval.is_none());
    }
}
