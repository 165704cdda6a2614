//! HDR histograms: buckets whose width grows with the value, so that every value has the same number of digits.

mod counts;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use counts::Counts;

/// Sub-buckets a power of two: what a whole run has. A value is off by 0.1 percent at most.
pub const FINE_BITS: u32 = 10;
/// What an operation has in one interval of a run: off by 0.8 percent at most.
pub const COARSE_BITS: u32 = 7;
/// 73 minutes in nanoseconds. Longer times count as this one; the exact maximum is kept beside.
const VALUE_MAX: u64 = 1 << 42;

/// Counts of times in nanoseconds, with fixed bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bits: u32,
    counts: Counts,
    total: u64,
    sum: f64,
    sum_of_squares: f64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new(FINE_BITS)
    }
}

impl Histogram {
    pub fn new(bits: u32) -> Self {
        let is_fine = bits >= FINE_BITS;
        let counts = if is_fine { Counts::Dense(Vec::new()) } else { Counts::Sparse(Vec::new()) };
        Self { bits, counts, total: 0, sum: 0.0, sum_of_squares: 0.0, min: u64::MAX, max: 0 }
    }

    pub fn coarse() -> Self {
        Self::new(COARSE_BITS)
    }

    pub fn record(&mut self, value: u64) {
        self.add(index(self.bits, value), 1);
        self.sum += value as f64;
        self.sum_of_squares += (value as f64).powi(2);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn add(&mut self, index: usize, count: u64) {
        self.counts.add(index, count);
        self.total += count;
    }

    /// Both have the same precision.
    pub fn merge(&mut self, other: &Histogram) {
        assert_eq!(self.bits, other.bits, "histograms of one precision are merged");
        other.entries().for_each(|(index, count)| self.add(index, count));
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Nanoseconds; 0 when there is nothing.
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum / self.total as f64 }
    }

    /// Of the population, as pgbench has it.
    pub fn stddev(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        (self.sum_of_squares / self.total as f64 - self.mean().powi(2)).max(0.0).sqrt()
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    pub fn min(&self) -> u64 {
        if self.total == 0 { 0 } else { self.min }
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }

    pub fn sum_of_squares(&self) -> f64 {
        self.sum_of_squares
    }

    /// The smallest value that at least this share of all values is not above; 0 when there is nothing.
    pub fn quantile(&self, share: f64) -> u64 {
        self.at_rank((share * self.total as f64).ceil() as u64)
    }

    /// The value at this place in their order, from 1.
    pub fn at_rank(&self, rank: u64) -> u64 {
        let wanted = rank.clamp(1, self.total.max(1));
        let mut seen = 0;
        for (index, count) in self.entries() {
            seen += count;
            if seen >= wanted {
                return middle(self.bits, index).clamp(self.min, self.max);
            }
        }
        self.max()
    }

    /// Buckets that have something: the index of each, and how many.
    pub fn entries(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.entries()
    }

    /// Buckets that have something: the middle of each, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.entries().map(|(index, count)| (middle(self.bits, index), count))
    }
}

/// The bucket of a value at a precision.
pub fn index(bits: u32, value: u64) -> usize {
    let value = value.min(VALUE_MAX);
    let shift = (64 - value.leading_zeros()).saturating_sub(bits + 1);
    (u64::from(shift) << bits) as usize + (value >> shift) as usize
}

/// The middle of a bucket: what stands for its values.
pub fn middle(bits: u32, index: usize) -> u64 {
    let index = index as u64;
    let shift = (index >> bits).saturating_sub(1);
    let low = (index - (shift << bits)) << shift;
    low + ((1 << shift) >> 1)
}

/// As people and other programs read it: `[[nanoseconds, count], …]` with the exact figures beside.
#[derive(Serialize, Deserialize)]
struct Written {
    digits_bits: u32,
    sum_ns: f64,
    sum_of_squares: f64,
    min_ns: u64,
    max_ns: u64,
    buckets: Vec<(u64, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written {
            digits_bits: self.bits,
            sum_ns: self.sum,
            sum_of_squares: self.sum_of_squares,
            min_ns: self.min(),
            max_ns: self.max,
            buckets: self.buckets().collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        if !(1..=20).contains(&written.digits_bits) {
            return Err(D::Error::custom("digits_bits is not between 1 and 20"));
        }
        let mut histogram = Histogram::new(written.digits_bits);
        for (value, count) in written.buckets {
            histogram.add(index(written.digits_bits, value), count);
        }
        histogram.sum = written.sum_ns;
        histogram.sum_of_squares = written.sum_of_squares;
        histogram.max = written.max_ns;
        histogram.min = if histogram.total == 0 { u64::MAX } else { written.min_ns };
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn every_value_is_near_its_bucket() {
        let mut random = Random::new(3);
        for bits in [COARSE_BITS, FINE_BITS] {
            let mut last = 0;
            for value in
                (0..5000).chain((0..100_000).map(|_| random.bits() >> (22 + random.below(41) as u32)))
            {
                let found = middle(bits, index(bits, value)) as f64;
                let off = (found - value as f64).abs() / (value as f64).max(1.0);
                assert!(off <= 1.0 / f64::from(1 << bits), "{value} {found}");
            }
            for value in 0..100_000 {
                let at = index(bits, value);
                assert!(at == last || at == last + 1, "{value}");
                last = at;
            }
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut random = Random::new(4);
        let mut values: Vec<u64> = (0..9999).map(|_| (random.exponential() * 1e6) as u64).collect();
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        values.sort_unstable();
        for share in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[((share * 9999.0_f64).ceil() as usize).clamp(1, 9999) - 1] as f64;
            let found = histogram.quantile(share) as f64;
            assert!((found - exact).abs() <= exact / 1000.0 + 1.0, "{share}: {found} {exact}");
        }
        let mean = values.iter().sum::<u64>() as f64 / 9999.0;
        assert!((histogram.mean() - mean).abs() < 1.0);
        assert_eq!(histogram.max(), values[9998]);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut histogram = Histogram::new(COARSE_BITS);
        for value in [1, 5, 5, 1_000_000, u64::MAX] {
            histogram.record(value);
        }
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        let empty = Histogram::default();
        let text = serde_json::to_string(&empty).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), empty);
        assert_eq!((empty.quantile(0.5), empty.mean() as u64, empty.stddev() as u64), (0, 0, 0));
    }
}
