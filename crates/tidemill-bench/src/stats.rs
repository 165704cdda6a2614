//! How sure figures are: block bootstrap over the intervals of a run, and whether a run was steady.
//!
//! What happens in one second depends on what happened in the second before, so neighbours are drawn together (Künsch's
//! moving blocks): single operations as the unit would make intervals that are far too narrow.

use crate::histogram::Histogram;
use crate::random::Random;
use crate::run::{Interval, Outcome};

/// Resamples; the 2.5th and 97.5th percentile of this many are stable to a few percent of their distance.
const RESAMPLES: usize = 400;
/// Fewer intervals than this say nothing about their spread.
const INTERVALS_LEAST: usize = 5;

/// A figure of a run: from a stretch of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// Operations that ended well, a second.
    Rate,
    /// Of the responses, ns.
    Mean,
    Quantile(f64),
    /// Late and skipped among all that were asked, percent.
    Missed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// 95 percent; none where there are too few intervals.
    pub interval: Option<(f64, f64)>,
}

/// The seconds of one or several repeats of a run.
pub struct Seconds<'a> {
    intervals: Vec<&'a Interval>,
    width_s: f64,
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

    fn of(self, sum: &Interval, seconds: f64) -> f64 {
        match self {
            Figure::Rate => sum.processed as f64 / seconds,
            Figure::Mean => sum.response.mean(),
            Figure::Quantile(share) => sum.response.quantile(share) as f64,
            Figure::Missed => {
                let asked = sum.response.count() + sum.skipped + sum.failed;
                crate::figure::percent(sum.late + sum.skipped, asked)
            }
        }
    }
}

impl<'a> Seconds<'a> {
    pub fn of(repeats: &'a [Outcome]) -> Self {
        let width = repeats.iter().map(|outcome| outcome.record.interval_ns).max().unwrap_or(1_000_000_000);
        let mut intervals = Vec::new();
        for outcome in repeats.iter().filter(|outcome| outcome.record.interval_ns == width) {
            // What ends after the end is in an interval that nothing was due in.
            let whole = (outcome.elapsed_s * 1e9 / width as f64) as usize;
            intervals.extend(outcome.record.intervals.iter().take(whole.max(1)));
        }
        Self { intervals, width_s: width as f64 / 1e9 }
    }

    /// The figure of all, or of one draw of blocks with replacement.
    fn figures(&self, figures: &[Figure], draw: Option<&mut Random>) -> Vec<f64> {
        let n = self.intervals.len();
        let mut sum = Interval::default();
        match draw {
            None => self.intervals.iter().for_each(|interval| sum.merge(interval)),
            Some(random) => {
                let block = (n as f64).cbrt().ceil() as usize;
                let mut left = n;
                while left > 0 {
                    let start = random.below((n - block + 1) as u64) as usize;
                    let take = block.min(left);
                    self.intervals[start..start + take].iter().for_each(|interval| sum.merge(interval));
                    left -= take;
                }
            }
        }
        figures.iter().map(|figure| figure.of(&sum, n as f64 * self.width_s)).collect()
    }

    fn draws(&self, figures: &[Figure], seed: u64) -> Option<Vec<Vec<f64>>> {
        if self.intervals.len() < INTERVALS_LEAST {
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
    pub fn ratios(&self, base: &Seconds<'_>, figures: &[Figure]) -> Vec<Estimate> {
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
        let third = self.intervals.len() / 3;
        if third < INTERVALS_LEAST {
            return None;
        }
        let part = |range: std::ops::Range<usize>| Seconds {
            intervals: self.intervals[range].to_vec(),
            width_s: self.width_s,
        };
        let n = self.intervals.len();
        let ratio = part(n - third..n).ratios(&part(0..third), &[Figure::Mean])[0];
        let (low, high) = ratio.interval?;
        let is_chance = (low..=high).contains(&1.0) || (ratio.value - 1.0).abs() < 0.1;
        (!is_chance).then_some(ratio.value - 1.0)
    }

    pub fn all(&self) -> Histogram {
        let mut sum = Interval::default();
        self.intervals.iter().for_each(|interval| sum.merge(interval));
        sum.response
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

    fn intervals(n: usize, seed: u64, scale: f64) -> Vec<Interval> {
        let mut random = Random::new(seed);
        let second = |_| {
            let mut interval = Interval { processed: 100, ..Interval::default() };
            (0..100).for_each(|_| interval.response.record((random.exponential() * scale) as u64));
            interval
        };
        (0..n).map(second).collect()
    }

    fn seconds(intervals: &[Interval]) -> Seconds<'_> {
        Seconds { intervals: intervals.iter().collect(), width_s: 1.0 }
    }

    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_say() {
        let covered = (0..100).filter(|seed| {
            let data = intervals(40, *seed, 1e6);
            let (low, high) = seconds(&data).estimates(&[Figure::Mean])[0].interval.unwrap();
            (low..=high).contains(&1e6)
        });
        let covered = covered.count();
        assert!((85..=100).contains(&covered), "{covered} of 100");
    }

    #[test]
    fn a_difference_is_seen_and_none_is_not() {
        let (a, b, worse) = (intervals(60, 1, 1e6), intervals(60, 2, 1e6), intervals(60, 3, 1.2e6));
        let contains_1 = |e: &Estimate| e.interval.is_some_and(|(low, high)| (low..=high).contains(&1.0));
        let figures = [Figure::Mean, Figure::Quantile(0.5), Figure::Rate];
        assert!(seconds(&b).ratios(&seconds(&a), &figures).iter().all(contains_1));
        assert!(!contains_1(&seconds(&worse).ratios(&seconds(&a), &figures)[0]));
    }

    #[test]
    fn a_drift_is_told() {
        let mut data = intervals(30, 1, 1e6);
        assert_eq!(seconds(&data).drift(), None);
        data.extend(intervals(30, 2, 2e6));
        assert!(seconds(&data).drift().unwrap() > 0.5);
        assert!(seconds(&data[..3]).estimates(&[Figure::Mean])[0].interval.is_none());
    }
}
