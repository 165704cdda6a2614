//! Zipf's law over a range of ids: the lower, the hotter.

use super::Distribution;
use std::ops::Range;

/// P(rank k) is proportional to `k^-shape`. Draws by the method of Gray et al., "Quickly generating billion-record
/// synthetic databases" (1994): constant time, nothing stored.
#[derive(Debug, Clone)]
pub struct Zipf {
    range: Range<i64>,
    shape: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    second: f64,
}

/// From here on the harmonic number is approximated; the original's draws depend on it.
const EXACT_BELOW: i64 = 100_000;

impl Zipf {
    pub fn new(range: Range<i64>, shape: f64) -> Self {
        let size = (range.end - range.start).max(1);
        let zeta = harmonic_for_draws(size, shape);
        let eta = (1.0 - (2.0 / size as f64).powf(1.0 - shape)) / (1.0 - harmonic(2, shape) / zeta);
        Zipf { range, shape, zeta, alpha: 1.0 / (1.0 - shape), eta, second: 1.0 + 0.5f64.powf(shape) }
    }

    /// The generalised harmonic number of the range: one over the probability of its first id.
    #[cfg(test)]
    pub fn zeta(&self) -> f64 {
        self.zeta
    }

    fn size(&self) -> i64 {
        (self.range.end - self.range.start).max(1)
    }
}

impl Distribution for Zipf {
    fn range(&self) -> Range<i64> {
        self.range.clone()
    }

    fn pdf(&self, id: i64) -> f64 {
        if !self.range.contains(&id) {
            return 0.0;
        }
        ((id + 1 - self.range.start) as f64).powf(-self.shape) / self.zeta
    }

    fn cdf(&self, id: i64) -> f64 {
        match id {
            id if id < self.range.start => 0.0,
            id if id >= self.range.end - 1 => 1.0,
            id => harmonic_for_draws(id + 1 - self.range.start, self.shape) / self.zeta,
        }
    }

    fn quantile(&self, p: f64) -> i64 {
        let scaled = p * self.zeta;
        let offset = if scaled < 1.0 {
            0
        } else if scaled < self.second {
            1
        } else {
            (self.size() as f64 * (self.eta * p - self.eta + 1.0).powf(self.alpha)) as i64
        };
        self.range.start + offset.clamp(0, self.size() - 1)
    }
}

/// As the original has it: exact below a size.
pub fn harmonic_for_draws(n: i64, shape: f64) -> f64 {
    if n < EXACT_BELOW || shape > 1.0 { harmonic(n, shape) } else { harmonic_approximation(n, shape) }
}

/// The sum of `k^-shape` for k from 1 to n, added from the smallest term on.
pub fn harmonic(n: i64, shape: f64) -> f64 {
    (1..=n).rev().map(|k| (k as f64).powf(-shape)).sum()
}

/// The same by the integral and a constant that fits shapes up to one, within 0.05 %.
fn harmonic_approximation(n: i64, shape: f64) -> f64 {
    const EULER_MASCHERONI: f64 = 0.5772156649;
    let n = n as f64;
    if shape == 1.0 {
        return n.ln() + EULER_MASCHERONI;
    }
    n.powf(1.0 - shape) / (1.0 - shape) + 0.58 - 1.0 / (1.0 - shape)
}
