//! Random numbers: xoroshiro128** seeded by splitmix64, as pgbench has them, so that its seeds mean the same here.

/// Blackman and Vigna's xoroshiro128**.
#[derive(Debug, Clone)]
pub struct Random {
    s0: u64,
    s1: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let (s0, s1) = (splitmix64(&mut state), splitmix64(&mut state));
        if s0 == 0 && s1 == 0 {
            // All zeros would stay all zeros.
            return Self { s0: 0x5851_F42D_4C95_7F2D, s1: 0x1405_7B7E_F767_814F };
        }
        Self { s0, s1 }
    }

    /// A generator of its own for part `index` of a run: streams of different parts do not meet.
    pub fn part(seed: u64, index: u64) -> Self {
        let mut state = seed ^ index.wrapping_mul(0xD1B5_4A32_D192_ED03);
        Self::new(splitmix64(&mut state))
    }

    pub fn bits(&mut self) -> u64 {
        let sx = self.s1 ^ self.s0;
        let value = self.s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.s0 = self.s0.rotate_left(24) ^ sx ^ (sx << 16);
        self.s1 = sx.rotate_left(37);
        value
    }

    /// In [0, 1), 52 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 12) as f64 / (1u64 << 52) as f64
    }

    /// In [0, max], all equally likely.
    pub fn up_to(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let shift = max.leading_zeros();
        loop {
            let value = self.bits() >> shift;
            if value <= max {
                return value;
            }
        }
    }

    /// In [0, n); 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.up_to(n.saturating_sub(1))
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_kept_and_filled() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
