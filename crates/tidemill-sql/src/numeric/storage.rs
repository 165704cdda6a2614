//! The bytes of a `Numeric` in Arrow, whose order is that of the numbers. The layout is told in `numeric.rs`.

use super::digits::Digits;
use super::small::{Small, power_of_ten};
use super::{Numeric, Repr, SCALE_MAX, WEIGHT_MAX};
use crate::error::{Result, SqlError, SqlState};

const ZERO: u8 = 0x80;
/// Positive, with an exponent below `EXPONENT_MIN` in the next two bytes.
const TINY: u8 = 0x81;
/// Positive, with the exponent `EXPONENT_MIN`; the next ones follow.
const NEAR_FIRST: u8 = 0x82;
const NEAR_LAST: u8 = NEAR_FIRST + (EXPONENT_MAX - EXPONENT_MIN) as u8;
/// Positive, with an exponent above `EXPONENT_MAX` in the next two bytes.
const HUGE: u8 = NEAR_LAST + 1;
const INFINITY: u8 = 0xe0;
const NEGATIVE_INFINITY: u8 = !INFINITY;
const NAN: u8 = 0xf0;

/// The base-100 exponents that fit the header.
const EXPONENT_MIN: i32 = -16;
const EXPONENT_MAX: i32 = 63;
/// Added to the exponent after `TINY`, so that it is not negative: with at most 16,383 decimals it is at
/// least -8192.
const TINY_BIAS: i32 = 8192;
/// The bytes of the scale at the end.
const SCALE_LEN: usize = 2;
/// So many base-100 digits are 38 decimals, which fit an `i128`.
const SMALL_LEN_MAX: usize = 19;

impl Numeric {
    /// Appends the storage encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let scale = self.scale().unwrap_or(0) as u16;
        match &self.0 {
            Repr::Small { mantissa, scale } => {
                let split = Small { mantissa: *mantissa, scale: *scale }.split();
                encode_finite(split.digits(), split.weight, out);
            }
            Repr::Large(value) => encode_finite(&value.digits, value.weight, out),
            Repr::NaN => out.push(NAN),
            Repr::Infinity => out.push(INFINITY),
            Repr::NegativeInfinity => out.push(NEGATIVE_INFINITY),
        }
        if self.is_negative() && self.is_finite() {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        out.extend(scale.to_be_bytes());
    }

    /// The storage encoding, in a vector of its own.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        self.encode(&mut out);
        out
    }

    /// The part of an encoding that is the same for equal numbers: all but the scale.
    pub fn key(bytes: &[u8]) -> &[u8] {
        &bytes[..bytes.len().saturating_sub(SCALE_LEN)]
    }

    /// The number of a [`key`](Self::key), with as many decimals as it needs.
    pub fn from_key(key: &[u8]) -> Result<Self> {
        let with_scale = |scale: i32| [key, &(scale as u16).to_be_bytes()].concat();
        Self::decode(&with_scale(0)).or_else(|_| Ok(Self::decode(&with_scale(SCALE_MAX))?.trim_scale()))
    }

    /// Reads an encoding. Anything that `encode` does not write is an error.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        decode(bytes).ok_or_else(|| SqlError::new(SqlState::DATA_CORRUPTED, "invalid stored numeric value"))
    }
}

/// Header, exponent and digits of the absolute value.
fn encode_finite(digits: &[u16], weight: i32, out: &mut Vec<u8>) {
    let Some(first) = digits.first() else {
        return out.push(ZERO);
    };
    let exponent = weight * 2 + i32::from(*first >= 100);
    if exponent < EXPONENT_MIN {
        out.push(TINY);
        out.extend(((exponent + TINY_BIAS) as u16).to_be_bytes());
    } else if exponent > EXPONENT_MAX {
        out.push(HUGE);
        out.extend((exponent as u16).to_be_bytes());
    } else {
        out.push(NEAR_FIRST + (exponent - EXPONENT_MIN) as u8);
    }
    if *first >= 100 {
        out.push((first / 100 * 2 + 1) as u8);
    }
    out.push((first % 100 * 2 + 1) as u8);
    for digit in &digits[1..] {
        out.extend([(digit / 100 * 2 + 1) as u8, (digit % 100 * 2 + 1) as u8]);
    }
    // A last base-10,000 digit such as 4200 ends with a base-100 zero.
    if out.last() == Some(&1) {
        out.pop();
    }
    if let Some(last) = out.last_mut() {
        *last -= 1;
    }
}

fn decode(bytes: &[u8]) -> Option<Numeric> {
    let (key, scale) = bytes.split_last_chunk::<SCALE_LEN>()?;
    let scale = i32::from(u16::from_be_bytes(*scale));
    let (header, rest) = key.split_first()?;
    match *header {
        NAN | INFINITY | NEGATIVE_INFINITY => {
            let valid = rest.is_empty() && scale == 0;
            valid.then_some(match *header {
                NAN => Numeric::NAN,
                INFINITY => Numeric::INFINITY,
                _ => Numeric::NEG_INFINITY,
            })
        }
        _ if scale > SCALE_MAX => None,
        ZERO => rest.is_empty().then_some(Numeric::small(Small { mantissa: 0, scale: scale as u16 })),
        _ => decode_finite(*header, rest, scale),
    }
}

fn decode_finite(header: u8, rest: &[u8], scale: i32) -> Option<Numeric> {
    let negative = header < ZERO;
    let mask = if negative { 0xff } else { 0 };
    let (exponent, digits) = match header ^ mask {
        TINY => {
            let (exponent, digits) = split_exponent(rest, mask)?;
            (Some(exponent - TINY_BIAS).filter(|exponent| *exponent < EXPONENT_MIN)?, digits)
        }
        HUGE => {
            let (exponent, digits) = split_exponent(rest, mask)?;
            (Some(exponent).filter(|exponent| *exponent > EXPONENT_MAX)?, digits)
        }
        near @ NEAR_FIRST..=NEAR_LAST => (i32::from(near - NEAR_FIRST) + EXPONENT_MIN, rest),
        _ => return None,
    };
    check_digits(digits, mask)?;
    if let Some(small) = decode_small(digits, mask, exponent, scale) {
        let mantissa = if negative { -small.mantissa } else { small.mantissa };
        return Some(Numeric::small(Small { mantissa, ..small }));
    }
    let value = decode_large(negative, digits, mask, exponent, scale);
    let valid = value.weight <= WEIGHT_MAX && value.min_scale() <= scale;
    if valid { Numeric::finish(value).ok() } else { None }
}

fn split_exponent(bytes: &[u8], mask: u8) -> Option<(i32, &[u8])> {
    let (exponent, rest) = bytes.split_first_chunk::<2>()?;
    Some((i32::from(u16::from_be_bytes(exponent.map(|byte| byte ^ mask))), rest))
}

/// Every digit is below 100, only the last byte ends the number, and neither the first nor the last digit is
/// zero.
fn check_digits(digits: &[u8], mask: u8) -> Option<()> {
    let (last, others) = digits.split_last()?;
    let last = last ^ mask;
    let first = digits.first()? ^ mask;
    let valid = (2..200).contains(&last)
        && last.is_multiple_of(2)
        && first > 1
        && others.iter().all(|byte| !(byte ^ mask).is_multiple_of(2) && byte ^ mask < 200);
    valid.then_some(())
}

/// `None` if the digits do not fit an `i128`, or if the scale hides some.
fn decode_small(digits: &[u8], mask: u8, exponent: i32, scale: i32) -> Option<Small> {
    if digits.len() > SMALL_LEN_MAX {
        return None;
    }
    let digits_of = || digits.iter().map(|byte| (byte ^ mask) / 2);
    let value = if digits.len() <= 9 {
        i128::from(digits_of().fold(0u64, |v, digit| v * 100 + u64::from(digit)))
    } else {
        digits_of().fold(0i128, |v, digit| v * 100 + i128::from(digit))
    };
    let shift = (exponent - digits.len() as i32 + 1) * 2 + scale;
    let mantissa = match shift {
        0.. => value.checked_mul(power_of_ten(shift as u32)?)?,
        // The last base-100 digit may be a multiple of ten, one decimal more than is shown.
        -1 if value % 10 == 0 => value / 10,
        _ => return None,
    };
    Some(Small { mantissa, scale: scale as u16 })
}

fn decode_large(negative: bool, bytes: &[u8], mask: u8, exponent: i32, scale: i32) -> Digits {
    let weight = exponent.div_euclid(2);
    // An even exponent: the first base-100 digit is the lower half of its base-10,000 digit.
    let lead = usize::from(exponent.rem_euclid(2) == 0);
    let mut digits = vec![0u16; (lead + bytes.len()).div_ceil(2)];
    for (i, byte) in bytes.iter().enumerate() {
        let at = lead + i;
        digits[at / 2] += u16::from((byte ^ mask) / 2) * if at.is_multiple_of(2) { 100 } else { 1 };
    }
    Digits::new(negative, weight, scale, digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// xorshift64*.
    struct Random(u64);

    impl Random {
        fn new() -> Self {
            let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let seed =
                std::env::var("SEED").map_or(clock.as_nanos() as u64 | 1, |seed| seed.parse().unwrap());
            println!("SEED={seed}");
            Self(seed)
        }

        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
        }

        fn digits(&mut self, length: usize) -> String {
            let alphabet = ["0123456789", "09", "01", "059"][self.below(4)];
            (0..length).map(|_| char::from(alphabet.as_bytes()[self.below(alphabet.len())])).collect()
        }

        /// Values that often are near each other: short digits, few exponents, trailing zeros.
        fn numeric(&mut self) -> Numeric {
            if self.below(20) == 0 {
                let special = [Numeric::NAN, Numeric::INFINITY, Numeric::NEG_INFINITY, Numeric::ZERO];
                return special[self.below(4)].clone();
            }
            let sign = ["", "-"][self.below(2)];
            let length = [3, 3, 10, 45][self.below(4)];
            let (length, decimals) = (self.below(length), self.below(length));
            let (whole, fraction) = (self.digits(length), self.digits(decimals));
            let exponent = match self.below(8) {
                0 => self.below(147_000) as i64 - 16_000,
                1 => self.below(300) as i64 - 150,
                _ => 0,
            };
            let text = format!("{sign}0{whole}.{fraction}e{exponent}");
            Numeric::parse(&text).unwrap_or(Numeric::ONE)
        }
    }

    #[test]
    fn bytes_order_as_the_numbers_do() {
        let mut random = Random::new();
        for _ in 0..20_000 {
            let (a, b) = (random.numeric(), random.numeric());
            let (left, right) = (a.to_bytes(), b.to_bytes());
            let (left_key, right_key) = (Numeric::key(&left), Numeric::key(&right));
            assert_eq!(left_key.cmp(right_key), a.cmp(&b), "{a} and {b}");
            if a != b {
                assert_eq!(left.cmp(&right), a.cmp(&b), "{a} and {b}");
                assert!(!left_key.starts_with(right_key) && !right_key.starts_with(left_key), "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_sorted_list_has_sorted_bytes() {
        let sorted = [
            "-Infinity",
            "-1e131071",
            "-1e200",
            "-10000.1",
            "-10000",
            "-9999",
            "-100",
            "-99",
            "-1.01",
            "-1",
            "-0.99",
            "-0.01",
            "-0.0099",
            "-1e-40",
            "-1e-16383",
            "0",
            "1e-16383",
            "1e-40",
            "0.0099",
            "0.01",
            "0.1",
            "0.99",
            "1",
            "1.001",
            "1.01",
            "1.1",
            "2",
            "10",
            "99",
            "99.99",
            "100",
            "100.01",
            "101",
            "9999",
            "10000",
            "1e127",
            "1e128",
            "1e131071",
            "Infinity",
            "NaN",
        ];
        let bytes = sorted.map(|text| Numeric::parse(text).unwrap().to_bytes());
        assert!(bytes.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn equal_numbers_have_one_key() {
        for (a, b) in [("1", "1.00"), ("0", "0.000"), ("-5e3", "-5000.0"), ("12345.67", "12345.6700")] {
            let [a, b] = [a, b].map(|text| Numeric::parse(text).unwrap().to_bytes());
            assert_ne!(a, b);
            assert_eq!(Numeric::key(&a), Numeric::key(&b));
        }
        // Too many decimals for an i128: the other representation of the same value.
        let one = Numeric::ONE.round(100).unwrap();
        assert_eq!(one, Numeric::ONE);
        assert_eq!(Numeric::key(&one.to_bytes()), Numeric::key(&Numeric::ONE.to_bytes()));
        assert_eq!(Numeric::decode(&one.to_bytes()).unwrap().scale(), Some(100));
    }

    #[test]
    fn small_numbers_are_short() {
        for (text, length) in
            [("0", 3), ("7", 4), ("42", 4), ("-100", 4), ("1234", 5), ("12345.67", 7), ("1e100", 4)]
        {
            assert_eq!(Numeric::parse(text).unwrap().to_bytes().len(), length, "{text}");
        }
    }

    #[test]
    fn the_layout_is_pinned() {
        let cases = [
            ("0", "800000"),
            ("7", "920e0000"),
            ("-7", "6df10000"),
            ("0.50", "91640002"),
            ("12345.67", "94032f5b860002"),
            ("1e128", "d20040020000"),
            ("1e-40", "811fec020028"),
            ("Infinity", "e00000"),
            ("NaN", "f00000"),
        ];
        for (text, expected) in cases {
            let bytes = Numeric::parse(text).unwrap().to_bytes();
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{text}");
        }
    }

    /// Whatever decodes must be what `encode` writes; everything else is an error and no panic.
    #[test]
    fn garbage_is_an_error() {
        let mut random = Random::new();
        for _ in 0..100_000 {
            let mut bytes = random.numeric().to_bytes();
            bytes.truncate(40);
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => bytes[at] ^= 1 << random.below(8),
                    2 => bytes.insert(at, random.below(256) as u8),
                    _ if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => {}
                }
            }
            match Numeric::decode(&bytes) {
                Ok(value) => assert_eq!(value.to_bytes(), bytes, "{value}"),
                Err(error) => assert_eq!(error.state, SqlState::DATA_CORRUPTED),
            }
        }
        assert!(Numeric::decode(&[]).is_err());
        assert!(Numeric::key(&[1]).is_empty());
    }
}
