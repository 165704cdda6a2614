//! The random numbers of a worker: fast, seeded, one stream for each purpose.

use crate::random;

/// The workbench's generator with what payloads and sizes need on top. A worker owns one, so nothing is shared or locked.
#[derive(Debug, Clone)]
pub struct Random {
    bits: random::Random,
    spare_gaussian: Option<f64>,
}

impl Random {
    #[cfg(test)]
    pub fn new(seed: u64) -> Self {
        Random { bits: random::Random::new(seed), spare_gaussian: None }
    }

    /// The stream number `index` of a family: unrelated to its neighbours, the same on every run.
    pub fn part(seed: u64, index: u64) -> Self {
        Random { bits: random::Random::part(seed, index), spare_gaussian: None }
    }

    pub fn unit(&mut self) -> f64 {
        self.bits.unit()
    }

    /// Uniform in `0..bound`; 0 when the bound is below 1.
    pub fn below(&mut self, bound: i64) -> i64 {
        self.bits.below(bound.max(0) as u64) as i64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Standard normal, by the polar method.
    pub fn gaussian(&mut self) -> f64 {
        if let Some(spare) = self.spare_gaussian.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare_gaussian = Some(y * scale);
                return x * scale;
            }
        }
    }

    /// Bytes uniform in `low..=high`; nothing is written when the range is empty.
    pub fn fill(&mut self, target: &mut [u8], low: u8, high: u8) {
        let span = u64::from(high.saturating_sub(low)) + 1;
        // Eight bits a draw would be biased: 16 bits of one draw make one byte, the bias is below 0.4 %.
        for chunk in target.chunks_mut(4) {
            let draw = self.bits.bits();
            for (lane, byte) in chunk.iter_mut().enumerate() {
                let part = (draw >> (16 * lane)) & 0xFFFF;
                *byte = low + ((part * span) >> 16) as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_uniform_enough() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (9_600..10_400).contains(&n)), "{counts:?}");
        let mut bytes = vec![0; 100_000];
        random.fill(&mut bytes, 50, 220);
        assert_eq!((bytes.iter().min(), bytes.iter().max()), (Some(&50), Some(&220)));
    }

    #[test]
    fn parts_differ_and_repeat() {
        assert_eq!(Random::part(1, 2).below(1 << 40), Random::part(1, 2).below(1 << 40));
        assert_ne!(Random::part(1, 2).below(1 << 40), Random::part(1, 3).below(1 << 40));
    }
}
