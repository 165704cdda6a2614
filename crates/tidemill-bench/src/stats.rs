//! How sure figures are: block bootstrap over the intervals of a run, and whether a run was steady.
//!
//! What happens in one second depends on what happened in the second before, so neighbours are drawn together (Künsch's
//! moving blocks): single operations as the unit would make intervals that are far too narrow.

mod drift;
mod figure;
mod order;

pub use drift::STEADY_SECONDS_LEAST;
pub use figure::{Figure, Times};

use crate::histogram::{COARSE_BITS, middle};
use crate::random::Random;
use crate::run::{Interval, Outcome, Slice, Tally};

/// Resamples; the 2.5th and 97.5th percentile of this many are stable to a few percent of their distance.
const RESAMPLES: usize = 400;
/// Fewer intervals than this say nothing about their spread.
const INTERVALS_LEAST: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// 95 percent; none where there are too few intervals, or too few values beyond a quantile.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// In another unit.
    pub fn times(self, factor: f64) -> Estimate {
        let interval = self.interval.map(|(low, high)| (low * factor, high * factor));
        Estimate { value: self.value * factor, interval }
    }
}

/// The seconds of one or several repeats of a run.
pub struct Seconds {
    /// All that was seen, to the end; none for a stretch of a run. The figures are of this, and the seconds say how sure they are.
    whole: Option<Whole>,
    seconds: Vec<Second>,
    width_s: f64,
    /// Of the histograms.
    bits: u32,
}

/// Repeats together.
#[derive(Debug, Clone, Default)]
struct Whole {
    tally: Tally,
    elapsed_s: f64,
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
    sum_of_squares: f64,
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
    sum_of_squares: f64,
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
        self.sum_of_squares += second.sum_of_squares;
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
        found.map_or(f64::NAN, |index| middle(bits, index) as f64)
    }
}

impl Seconds {
    /// Of all operations together.
    pub fn of(repeats: &[Outcome]) -> Self {
        Self::select(repeats, &|outcome| outcome.record.total(), &Interval::total)
    }

    /// Of one operation, by its index.
    pub fn of_operation(repeats: &[Outcome], index: usize) -> Self {
        let tally = |outcome: &Outcome| outcome.record.operations.get(index).cloned().unwrap_or_default();
        let slice = |interval: &Interval| interval.operations.get(index).cloned().unwrap_or_default();
        Self::select(repeats, &tally, &slice)
    }

    /// Of all operations together.
    pub fn of_times(repeats: &[Outcome], times: Times) -> Self {
        let tally = |outcome: &Outcome| {
            let total = outcome.record.total();
            let response = match times {
                Times::Response => return total,
                Times::Service => total.service,
                Times::Lag => total.lag,
            };
            Tally { response, ..Tally::default() }
        };
        Self::select(repeats, &tally, &|interval| match times {
            Times::Response => interval.total(),
            Times::Service => Slice { response: interval.service.clone(), ..Slice::default() },
            Times::Lag => Slice { response: interval.lag.clone(), ..Slice::default() },
        })
    }

    fn select(
        repeats: &[Outcome],
        tally: &dyn Fn(&Outcome) -> Tally,
        of: &dyn Fn(&Interval) -> Slice,
    ) -> Self {
        let mut all = Whole::default();
        for outcome in repeats {
            all.tally.merge(&tally(outcome));
            all.elapsed_s += outcome.elapsed_s;
        }
        let width = repeats.iter().map(|outcome| outcome.record.interval_ns).max().unwrap_or(1_000_000_000);
        let mut slices = Vec::new();
        for outcome in repeats.iter().filter(|outcome| outcome.record.interval_ns == width) {
            // What ends after the end is in an interval that nothing was due in, or is not over.
            let over = (outcome.elapsed_s * 1e9 / width as f64) as usize;
            slices.extend(outcome.record.intervals.iter().take(over).map(of));
        }
        Self { whole: Some(all), ..Self::new(&slices, width as f64 / 1e9) }
    }

    fn new(slices: &[Slice], width_s: f64) -> Self {
        let second = |slice: &Slice| Second {
            processed: slice.processed,
            late: slice.late,
            skipped: slice.skipped,
            failed: slice.failed,
            backlog: slice.backlog,
            sum_ns: slice.response.sum(),
            sum_of_squares: slice.response.sum_of_squares(),
            buckets: slice.response.entries().collect(),
        };
        Self { whole: None, seconds: slices.iter().map(second).collect(), width_s, bits: COARSE_BITS }
    }

    /// Whether there are responses at all.
    pub fn is_asked(&self) -> bool {
        self.whole.as_ref().is_some_and(|whole| !whole.tally.response.is_empty())
    }

    /// Times of nothing are no number, or 0 in a stretch of a run.
    fn values(&self, figures: &[Figure]) -> Vec<f64> {
        match &self.whole {
            Some(whole) => figures.iter().map(|figure| figure.of_whole(whole)).collect(),
            // The larger one of 0 and no number is 0.
            None => self.figures(figures, None).into_iter().map(|value| value.max(0.0)).collect(),
        }
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
        // The seconds have coarse histograms, and no part of the last one: what is drawn has the scale of the values.
        let is_scale = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
        let scale = |(value, drawn): (f64, f64)| Some(value / drawn).filter(is_scale).unwrap_or(1.0);
        let scales: Vec<f64> =
            self.values(figures).into_iter().zip(self.figures(figures, None)).map(scale).collect();
        let mut random = Random::new(seed);
        let mut draw = || {
            let drawn = self.figures(figures, Some(&mut random));
            drawn.into_iter().zip(&scales).map(|(value, scale)| value * scale).collect()
        };
        Some((0..RESAMPLES).map(|_| draw()).collect())
    }

    pub fn estimates(&self, figures: &[Figure]) -> Vec<Estimate> {
        let draws = self.draws(figures, 1);
        let estimate = |(i, value)| {
            let drawn = |draws: &Vec<Vec<f64>>| draws.iter().map(|draw| draw[i]).collect();
            self.widened(figures[i], Estimate::new(value, draws.as_ref().map(drawn)))
        };
        self.values(figures).into_iter().enumerate().map(estimate).collect()
    }

    /// The ratio of `self` to `base`, figure by figure.
    pub fn ratios(&self, base: &Seconds, figures: &[Figure]) -> Vec<Estimate> {
        let (new, old) = (self.values(figures), base.values(figures));
        let draws = self.draws(figures, 2).zip(base.draws(figures, 3));
        let ratio = |i: usize| {
            let drawn = draws
                .as_ref()
                .map(|(new, old)| new.iter().zip(old).map(|(new, old)| quotient(new[i], old[i])).collect());
            self.ratio_widened(base, figures[i], Estimate::new(quotient(new[i], old[i]), drawn))
        };
        (0..figures.len()).map(ratio).collect()
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

impl Estimate {
    /// The middle 95 percent of what was drawn, and the value. Draws of seconds without a response say nothing of times; when
    /// most are, nothing is known.
    fn new(value: f64, drawn: Option<Vec<f64>>) -> Estimate {
        let told = drawn.map(|drawn| drawn.into_iter().filter(|value| !value.is_nan()).collect::<Vec<_>>());
        let interval = told.filter(|drawn| drawn.len() > RESAMPLES / 2).map(|mut drawn| {
            drawn.sort_by(f64::total_cmp);
            let at = |share: f64| drawn[((drawn.len() - 1) as f64 * share).round() as usize];
            (at(0.025).min(value), at(0.975).max(value))
        });
        Estimate { value, interval }
    }
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

    /// Late, skipped and spread are those of the whole, and lie in their intervals.
    #[test]
    fn every_figure_has_an_interval() {
        let mut data = slices(40, 9, 1e6);
        for (i, slice) in data.iter_mut().enumerate() {
            (slice.late, slice.skipped) = (5 + i as u64 % 3, 10);
        }
        let figures =
            [Figure::Late, Figure::Skipped, Figure::Missed, Figure::Stddev, Figure::Quantile(0.999)];
        let found = seconds(&data).estimates(&figures);
        let late: u64 = data.iter().map(|slice| slice.late).sum();
        let wanted = [late as f64 / 40.0, 1000.0 / 110.0, (late as f64 / 40.0 + 10.0) / 1.1];
        for (estimate, wanted) in found.iter().zip(wanted) {
            assert!((estimate.value - wanted).abs() < 1e-9, "{estimate:?} {wanted}");
        }
        // Of an exponential distribution it is the mean.
        assert!((found[3].value / 1e6 - 1.0).abs() < 0.1, "{:?}", found[3]);
        for (estimate, figure) in found.iter().zip(figures) {
            let (low, high) = estimate.interval.unwrap();
            assert!(low > 0.0 && low <= estimate.value && estimate.value <= high, "{figure:?} {estimate:?}");
        }
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

    /// A run of 7.5 seconds: rates are of all of it, percentiles of the fine histogram, and inside of their intervals.
    #[test]
    fn figures_are_of_the_whole_run() {
        let figures = [Figure::Rate, Figure::Mean, Figure::Quantile(0.95), Figure::Quantile(0.99)];
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut outcome = Outcome { elapsed_s: 7.5, ..Outcome::default() };
            let mut tally = Tally { processed: 80, ..Tally::default() };
            for _ in 0..8 {
                let mut slice = Slice { processed: 10, ..Slice::default() };
                let times: Vec<u64> = (0..10).map(|_| (random.exponential() * 1e6) as u64).collect();
                times.iter().for_each(|time| slice.response.record(*time));
                times.iter().for_each(|time| tally.response.record(*time));
                outcome.record.intervals.push(Interval { operations: vec![slice], ..Interval::new(0) });
            }
            let p99 = tally.response.quantile(0.99) as f64;
            (outcome.record.interval_ns, outcome.record.operations) = (1_000_000_000, vec![tally]);
            let estimates = Seconds::of(std::slice::from_ref(&outcome)).estimates(&figures);
            assert_eq!((estimates[0].value, estimates[3].value), (80.0 / 7.5, p99));
            // Of 80 values none may lie beyond it.
            assert_eq!(estimates[3].interval, None);
            for Estimate { value, interval } in estimates[..3].iter().copied() {
                let (low, high) = interval.unwrap();
                assert!((low..=high).contains(&value), "seed {seed}: {value} {low} {high}");
            }
            outcome.elapsed_s = 0.5;
            let rate = Seconds::of(&[outcome]).estimates(&[Figure::Rate])[0];
            assert_eq!(rate, Estimate { value: 160.0, interval: None });
        }
    }

    /// An operation that few seconds have.
    #[test]
    fn empty_seconds_have_no_times() {
        let mut data = slices(30, 1, 1e6);
        data.iter_mut()
            .enumerate()
            .filter(|(i, _)| i % 10 > 0)
            .for_each(|(_, slice)| *slice = Slice::default());
        let estimate = seconds(&data).estimates(&[Figure::Mean])[0];
        assert!(estimate.interval.unwrap().0 > 5e5, "{estimate:?}");
        let none = seconds(&vec![Slice::default(); 30]).estimates(&[Figure::Mean, Figure::Rate]);
        assert_eq!((none[0].value, none[0].interval, none[1].interval), (0.0, None, Some((0.0, 0.0))));
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
