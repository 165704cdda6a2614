//! `java.util.Random`, bit for bit: the permutation of ids is defined by its numbers.

/// The 48-bit linear congruential generator that Java specifies. Only for what must equal the original; everything
/// else draws from [`Random`](super::random::Random).
#[derive(Debug, Clone)]
pub struct JavaRandom {
    state: u64,
}

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

impl JavaRandom {
    pub fn new(seed: i64) -> Self {
        JavaRandom { state: (seed as u64 ^ MULTIPLIER) & MASK }
    }

    /// The upper `bits` (1 to 32) bits of the next state, as Java's signed `int`.
    fn bits(&mut self, bits: u32) -> i32 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        (self.state >> (48 - bits)) as i32
    }

    /// Uniform in `0..bound`; a bound below 1 counts as 1.
    pub fn next_int_below(&mut self, bound: i32) -> i32 {
        let bound = bound.max(1);
        if bound & (bound - 1) == 0 {
            return ((i64::from(bound) * i64::from(self.bits(31))) >> 31) as i32;
        }
        loop {
            let bits = self.bits(31);
            let value = bits % bound;
            // A draw from the last, incomplete block would favour small values; it shows as an overflow.
            if bits.wrapping_sub(value).wrapping_add(bound - 1) >= 0 {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_java_for_seed_42() {
        let mut random = JavaRandom::new(42);
        assert_eq!((random.bits(32), random.bits(32)), (-1170105035, 234785527));
        assert_eq!(random.next_int_below(100), 48);
    }
}
