//! Probability distributions over ids: what all of them can do, and the simple ones.

mod empirical;
mod lognormal;
mod zipf;

pub use empirical::{Empirical, Point, RankWeights};
pub use lognormal::LogNormal;
pub use zipf::Zipf;
#[cfg(test)]
use zipf::{harmonic, harmonic_for_draws};

use super::random::Random;
use std::ops::Range;

/// A distribution over the integers of a half-open range.
pub trait Distribution: Send + Sync + std::fmt::Debug {
    /// The ids that can be drawn.
    fn range(&self) -> Range<i64>;

    /// P(X = id); 0 outside of the range.
    fn pdf(&self, id: i64) -> f64;

    /// P(X <= id); 0 below the range and 1 from its end on.
    fn cdf(&self, id: i64) -> f64;

    /// The smallest id with `cdf(id) >= p`; the first id for `p = 0`.
    fn quantile(&self, p: f64) -> i64 {
        let Range { start: mut low, end } = self.range();
        let mut high = (end - 1).max(low);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.cdf(middle) >= p { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// Draws an id.
    fn choose(&self, random: &mut Random) -> i64 {
        self.quantile(random.unit())
    }
}

/// Every id alike.
#[derive(Debug, Clone)]
pub struct Uniform {
    range: Range<i64>,
}

impl Uniform {
    pub fn new(range: Range<i64>) -> Self {
        Uniform { range }
    }

    fn width(&self) -> i64 {
        (self.range.end - self.range.start).max(1)
    }
}

impl Distribution for Uniform {
    fn range(&self) -> Range<i64> {
        self.range.clone()
    }

    fn pdf(&self, id: i64) -> f64 {
        if self.range.contains(&id) { 1.0 / self.width() as f64 } else { 0.0 }
    }

    fn cdf(&self, id: i64) -> f64 {
        ((id + 1 - self.range.start) as f64 / self.width() as f64).clamp(0.0, 1.0)
    }

    fn quantile(&self, p: f64) -> i64 {
        self.range.start + ((p * self.width() as f64) as i64).clamp(0, self.width() - 1)
    }

    fn choose(&self, random: &mut Random) -> i64 {
        self.range.start + random.below(self.width())
    }
}

/// The number of trials until the first success: how many ids one MULTIGET asks for.
#[derive(Debug, Clone)]
pub struct Geometric {
    range: Range<i64>,
    success: f64,
    /// The original adds the lower bound to a count that starts at one already, so that it never draws the bound.
    shift: i64,
}

impl Geometric {
    pub fn new(range: Range<i64>, success: f64) -> Self {
        Geometric { range, success, shift: 0 }
    }

    /// As the original draws: one more than meant, unless the uniform number is exactly zero.
    pub fn off_by_one(range: Range<i64>, success: f64) -> Self {
        Geometric { range, success, shift: 1 }
    }
}

impl Distribution for Geometric {
    fn range(&self) -> Range<i64> {
        self.range.clone()
    }

    fn pdf(&self, id: i64) -> f64 {
        if !self.range.contains(&id) {
            return 0.0;
        }
        (1.0 - self.success).powf((id - self.range.start) as f64) * self.success
    }

    fn cdf(&self, id: i64) -> f64 {
        match id {
            id if id < self.range.start => 0.0,
            id if id >= self.range.end => 1.0,
            id => 1.0 - (1.0 - self.success).powf((id - self.range.start + 1) as f64),
        }
    }

    fn quantile(&self, p: f64) -> i64 {
        if p <= 0.0 {
            return self.range.start;
        }
        let trials = ((1.0 - p).ln() / (1.0 - self.success).ln()).ceil() as i64;
        (self.range.start.saturating_add(trials - 1 + self.shift)).clamp(self.range.start, self.range.end - 1)
    }
}

#[cfg(test)]
mod tests;
