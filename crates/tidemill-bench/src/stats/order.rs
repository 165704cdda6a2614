//! What the order of the values says of a quantile, whatever their distribution is.
//!
//! How many of n values lie beyond the true quantile has a binomial distribution, so the values at some ranks have it between them
//! in 95 of 100 cases. What is drawn from the values never goes beyond the largest of them, so the bootstrap alone is too narrow
//! where few lie beyond; this alone is too narrow where neighbours depend on each other. An interval has both in it.

use super::{Estimate, Figure, Seconds};

/// Of each side.
const TAIL: f64 = 0.025;
/// The normal distribution's, for it.
const Z: f64 = 1.96;
/// With more values beyond the quantile their number is as good as normal.
const EXACT_MAX: f64 = 100.0;

/// How many values may lie beyond the true quantile: at least, and at most. No least number where even none is likely enough.
fn beyond(count: u64, share: f64) -> (Option<u64>, u64) {
    let (n, beyond) = (count as f64, 1.0 - share);
    let mean = n * beyond;
    if mean > EXACT_MAX {
        let far = Z * (mean * share).sqrt() + 0.5;
        return (Some((mean - far).floor() as u64), (mean + far).ceil() as u64);
    }
    let (mut least, mut most) = (None, 0);
    let mut probability = (n * share.ln()).exp();
    let mut so_far = probability;
    while 1.0 - so_far > TAIL && most < count {
        least = if so_far <= TAIL { Some(most) } else { least };
        probability *= (n - most as f64) / (most as f64 + 1.0) * beyond / share;
        so_far += probability;
        most += 1;
    }
    (least, most)
}

impl Seconds {
    /// Between what values a quantile lies, by their order; the upper end is infinite where too few lie beyond. None for other
    /// figures.
    fn bounds(&self, figure: Figure) -> Option<(f64, f64)> {
        let (Figure::Quantile(share), Some(whole)) = (figure, &self.whole) else { return None };
        let times = &whole.tally.response;
        let (least, most) = beyond(times.count(), share);
        let low = times.count().checked_sub(most).filter(|rank| *rank > 0);
        let high = least.map(|least| times.at_rank(times.count() - least) as f64);
        Some((low.map_or(0.0, |rank| times.at_rank(rank) as f64), high.unwrap_or(f64::INFINITY)))
    }

    /// With the bounds in it.
    pub(super) fn widened(&self, figure: Figure, estimate: Estimate) -> Estimate {
        match self.bounds(figure) {
            Some(bounds) => estimate.with(bounds),
            None => estimate,
        }
    }

    /// The same for a ratio to `base`: the distances of both add up as independent ones do (Donner and Zou).
    pub(super) fn ratio_widened(&self, base: &Seconds, figure: Figure, ratio: Estimate) -> Estimate {
        let Some((new, old)) = self.bounds(figure).zip(base.bounds(figure)) else { return ratio };
        let values = (self.values(&[figure])[0], base.values(&[figure])[0]);
        let far = |one: f64, other: f64| one.ln().hypot(other.ln()).exp();
        let down = far(values.0 / new.0, old.1 / values.1);
        let up = far(new.1 / values.0, values.1 / old.0);
        ratio.with((ratio.value / down, ratio.value * up))
    }
}

impl Estimate {
    /// Without an end nothing is told.
    fn with(self, bounds: (f64, f64)) -> Estimate {
        let both = |(low, high): (f64, f64)| (low.min(bounds.0), high.max(bounds.1));
        Estimate { interval: self.interval.map(both).filter(|(_, high)| high.is_finite()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::run::{Interval, Outcome, Slice, Tally};

    /// The exact ones, by the binomial distribution.
    #[test]
    fn ranks_are_those_of_the_binomial_distribution() {
        assert_eq!(beyond(100, 0.5), (Some(39), 60));
        assert_eq!(beyond(1500, 0.99), (Some(7), 23));
        assert_eq!(beyond(1500, 0.999), (None, 4));
        assert_eq!((beyond(367, 0.99).0, beyond(368, 0.99).0), (None, Some(0)));
        assert_eq!(beyond(1_000_000, 0.5), (Some(499_019), 500_981));
        assert_eq!(beyond(0, 0.5), (None, 0));
    }

    /// Thirty seconds of values that do not depend on each other, exponential with a mean of 1 ms.
    fn outcome(seed: u64, each_second: u64) -> Outcome {
        let mut random = Random::new(seed);
        let mut outcome = Outcome { elapsed_s: 30.0, ..Outcome::default() };
        let mut tally = Tally { processed: 30 * each_second, ..Tally::default() };
        for _ in 0..30 {
            let mut slice = Slice { processed: each_second, ..Slice::default() };
            for _ in 0..each_second {
                let time = (random.exponential() * 1e6) as u64;
                slice.response.record(time);
                tally.response.record(time);
            }
            outcome.record.intervals.push(Interval { operations: vec![slice], ..Interval::new(0) });
        }
        (outcome.record.interval_ns, outcome.record.operations) = (1_000_000_000, vec![tally]);
        outcome
    }

    /// As often as they say, or a little more. With fewer beyond it than that a quantile has none.
    #[test]
    fn intervals_of_quantiles_cover_the_truth() {
        let shares = [0.5, 0.95, 0.99, 0.999];
        let covered = |each_second: u64, share: f64| {
            let runs = (0..100).filter(|seed| {
                let seconds = Seconds::of(&[outcome(*seed, each_second)]);
                let truth = -(1.0 - share).ln() * 1e6;
                let interval = seconds.estimates(&[Figure::Quantile(share)])[0].interval;
                interval.is_some_and(|(low, high)| (low..=high).contains(&truth))
            });
            runs.count()
        };
        let few = shares.map(|share| covered(50, share));
        assert!(few[..3].iter().all(|count| *count >= 93) && few[3] == 0, "{few:?}");
        let more = covered(200, 0.999);
        assert!(more >= 93, "{more}");
    }

    /// Of two runs of the same, a tail of few values is no change.
    #[test]
    fn ratios_of_quantiles_cover_one() {
        let figure = [Figure::Quantile(0.99)];
        let same = (0..60).filter(|seed| {
            let (a, b) = (Seconds::of(&[outcome(2 * seed, 50)]), Seconds::of(&[outcome(2 * seed + 1, 50)]));
            a.ratios(&b, &figure)[0].interval.is_some_and(|(low, high)| (low..=high).contains(&1.0))
        });
        let same = same.count();
        assert!(same >= 56, "{same} of 60");
        let few = Seconds::of(&[outcome(1, 5)]);
        assert_eq!(few.ratios(&few, &figure)[0].interval, None);
    }
}
