//! The lognormal distribution: sizes of payloads.

use super::Distribution;
use crate::linkbench::random::Random;
use std::ops::Range;

/// `exp` of a normal variable, rounded, and cut to the range.
#[derive(Debug, Clone)]
pub struct LogNormal {
    range: Range<i64>,
    mu: f64,
    sigma: f64,
}

impl LogNormal {
    /// `median` above 0; `sigma` is the deviation of the logarithm.
    pub fn new(range: Range<i64>, median: f64, sigma: f64) -> Self {
        LogNormal { range, mu: median.max(f64::MIN_POSITIVE).ln(), sigma }
    }
}

impl Distribution for LogNormal {
    fn range(&self) -> Range<i64> {
        self.range.clone()
    }

    fn pdf(&self, id: i64) -> f64 {
        if !self.range.contains(&id) || id <= 0 {
            return 0.0;
        }
        let z = ((id as f64).ln() - self.mu) / self.sigma;
        (-0.5 * z * z).exp() / (id as f64 * self.sigma * std::f64::consts::TAU.sqrt())
    }

    fn cdf(&self, id: i64) -> f64 {
        match id {
            id if id < self.range.start => 0.0,
            // What lies above the range is drawn as its last id.
            id if id >= self.range.end - 1 => 1.0,
            id if id <= 0 => 0.0,
            id => 0.5 * erfc(-((id as f64).ln() - self.mu) / (self.sigma * std::f64::consts::SQRT_2)),
        }
    }

    fn choose(&self, random: &mut Random) -> i64 {
        let value = (random.gaussian() * self.sigma + self.mu).exp().round() as i64;
        value.clamp(self.range.start, (self.range.end - 1).max(self.range.start))
    }
}

/// The complementary error function by its Chebyshev fit (Press et al., Numerical Recipes, 6.2), within 1.2e-7.
fn erfc(x: f64) -> f64 {
    const TERMS: [f64; 10] = [
        -1.26551223,
        1.00002368,
        0.37409196,
        0.09678418,
        -0.18628806,
        0.27886807,
        -1.13520398,
        1.48851587,
        -0.82215223,
        0.17087277,
    ];
    let t = 1.0 / (1.0 + 0.5 * x.abs());
    let polynomial = TERMS.iter().rev().fold(0.0, |sum, term| sum * t + term);
    let tail = t * (-x * x + polynomial).exp();
    if x >= 0.0 { tail } else { 2.0 - tail }
}
