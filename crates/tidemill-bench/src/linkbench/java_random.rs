//! `java.util.Random`, bit for bit: the permutation of ids is defined by its numbers.

/// The 48-bit linear congruential generator that Java specifies. Only for what must equal the original; everything
/// else draws from [`Random`](super::random::Random).
#[derive(Debug, Clone)]
pub struct JavaRandom {
    state: u64,
    spare_gaussian: Option<f64>,
}

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

impl JavaRandom {
    pub fn new(seed: i64) -> Self {
        JavaRandom { state: (seed as u64 ^ MULTIPLIER) & MASK, spare_gaussian: None }
    }

    /// The upper `bits` (1 to 32) bits of the next state, as Java's signed `int`.
    fn bits(&mut self, bits: u32) -> i32 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        (self.state >> (48 - bits)) as i32
    }

    pub fn next_int(&mut self) -> i32 {
        self.bits(32)
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

    pub fn next_long(&mut self) -> i64 {
        (i64::from(self.bits(32)) << 32).wrapping_add(i64::from(self.bits(32)))
    }

    pub fn next_double(&mut self) -> f64 {
        let high = i64::from(self.bits(26)) << 27;
        (high + i64::from(self.bits(27))) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Standard normal by Marsaglia's polar method, as Java specifies it.
    pub fn next_gaussian(&mut self) -> f64 {
        if let Some(spare) = self.spare_gaussian.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.next_double() - 1.0;
            let y = 2.0 * self.next_double() - 1.0;
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare_gaussian = Some(y * scale);
                return x * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_java_for_seed_42() {
        let fresh = || JavaRandom::new(42);
        let mut ints = fresh();
        assert_eq!((ints.next_int(), ints.next_int()), (-1170105035, 234785527));
        let mut mixed = fresh();
        mixed.next_int();
        mixed.next_int();
        assert_eq!(mixed.next_int_below(100), 48);
        assert_eq!(mixed.next_double(), 0.047939305137387644);
        assert_eq!(mixed.next_long(), -1068554554583376509);
        assert_eq!(mixed.next_gaussian(), 0.26697360572421960);
    }
}
