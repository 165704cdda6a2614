//! The functions of expressions: names, and the algorithms of pgbench 15 to the bit.

use std::f64::consts::PI;

use crate::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    BitAnd,
    BitOr,
    Xor,
    ShiftLeft,
    ShiftRight,
    Not,
    Is,
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    Least,
    HashFnv1a,
    HashMurmur2,
    Int,
    Ln,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// Name, function, least and most arguments. Operators have no name.
const NAMED: [(&str, Function, usize, usize); 22] = [
    ("abs", Function::Abs, 1, 1),
    ("debug", Function::Debug, 1, 1),
    ("double", Function::Double, 1, 1),
    ("exp", Function::Exp, 1, 1),
    ("greatest", Function::Greatest, 1, usize::MAX),
    ("hash", Function::HashMurmur2, 1, 2),
    ("hash_fnv1a", Function::HashFnv1a, 1, 2),
    ("hash_murmur2", Function::HashMurmur2, 1, 2),
    ("int", Function::Int, 1, 1),
    ("least", Function::Least, 1, usize::MAX),
    ("ln", Function::Ln, 1, 1),
    ("mod", Function::Modulo, 2, 2),
    ("permute", Function::Permute, 2, 3),
    ("pi", Function::Pi, 0, 0),
    ("pow", Function::Power, 2, 2),
    ("power", Function::Power, 2, 2),
    ("random", Function::Random, 2, 2),
    ("random_exponential", Function::RandomExponential, 3, 3),
    ("random_gaussian", Function::RandomGaussian, 3, 3),
    ("random_zipfian", Function::RandomZipfian, 3, 3),
    ("sqrt", Function::Sqrt, 1, 1),
    // Reachable as `expr IS …` as well.
    ("is", Function::Is, 2, 2),
];

impl Function {
    pub fn named(name: &str) -> Option<Function> {
        NAMED.iter().find(|(known, ..)| *known == name).map(|(_, function, ..)| *function)
    }

    pub fn takes(self, arguments: usize) -> bool {
        let known = NAMED.iter().find(|(_, function, ..)| *function == self);
        known.is_none_or(|(_, _, least, most)| (*least..=*most).contains(&arguments))
    }
}

const GAUSSIAN_LEAST: f64 = 2.0;
const ZIPFIAN: std::ops::RangeInclusive<f64> = 1.001..=1000.0;

/// Uniform in [min, max]; one draw in the way of PostgreSQL 15.
pub fn uniform(random: &mut Random, min: i64, max: i64) -> Result<i64, String> {
    check_range(min, max)?;
    Ok(min.wrapping_add(random.up_to(max.wrapping_sub(min) as u64) as i64))
}

fn check_range(min: i64, max: i64) -> Result<(), String> {
    if min > max {
        return Err("empty range given to random".to_owned());
    }
    match max.checked_sub(min).and_then(|span| span.checked_add(1)) {
        Some(_) => Ok(()),
        None => Err("random range is too large".to_owned()),
    }
}

/// `share` in [0, 1) of the range.
fn within(min: i64, max: i64, share: f64) -> i64 {
    min + ((max - min + 1) as f64 * share) as i64
}

pub fn exponential(random: &mut Random, min: i64, max: i64, parameter: f64) -> Result<i64, String> {
    check_range(min, max)?;
    if parameter <= 0.0 {
        return Err(format!("exponential parameter must be greater than zero (not {parameter:.6})"));
    }
    let cut = (-parameter).exp();
    let uniform = 1.0 - random.unit();
    Ok(within(min, max, -(cut + (1.0 - cut) * uniform).ln() / parameter))
}

pub fn gaussian(random: &mut Random, min: i64, max: i64, parameter: f64) -> Result<i64, String> {
    check_range(min, max)?;
    if parameter < GAUSSIAN_LEAST {
        return Err(format!("gaussian parameter must be at least {GAUSSIAN_LEAST:.6} (not {parameter:.6})"));
    }
    loop {
        let (first, second) = (1.0 - random.unit(), 1.0 - random.unit());
        let deviation = (-2.0 * first.ln()).sqrt() * (2.0 * PI * second).sin();
        if (-parameter..parameter).contains(&deviation) {
            return Ok(within(min, max, (deviation + parameter) / (parameter * 2.0)));
        }
    }
}

/// Devroye's rejection, "Non-Uniform Random Variate Generation", p. 550.
pub fn zipfian(random: &mut Random, min: i64, max: i64, s: f64) -> Result<i64, String> {
    check_range(min, max)?;
    if !ZIPFIAN.contains(&s) {
        return Err(format!("zipfian parameter must be in range [1.001, 1000] (not {s:.6})"));
    }
    let n = max - min + 1;
    if n <= 1 {
        return Ok(min);
    }
    let b = 2.0_f64.powf(s - 1.0);
    loop {
        let (u, v) = (random.unit(), random.unit());
        let x = u.powf(-1.0 / (s - 1.0)).floor();
        let t = (1.0 + 1.0 / x).powf(s - 1.0);
        if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= n as f64 {
            return Ok(min - 1 + x as i64);
        }
    }
}

pub fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    let basis = 0xcbf2_9ce4_8422_2325 ^ seed as u64;
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    value.to_le_bytes().into_iter().fold(basis, fold) as i64
}

pub fn hash_murmur2(value: i64, seed: i64) -> i64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    let scramble = |k: u64| (k ^ (k >> 47)).wrapping_mul(MULTIPLIER);
    let k = scramble((value as u64).wrapping_mul(MULTIPLIER));
    let hash = ((seed as u64 ^ MULTIPLIER.wrapping_mul(8)) ^ k).wrapping_mul(MULTIPLIER);
    let hash = scramble(hash);
    (hash ^ (hash >> 47)) as i64
}

/// A permutation of [0, size) that the seed chooses.
pub fn permute(value: i64, size: i64, seed: i64) -> Result<i64, String> {
    if size <= 0 {
        return Err("permute size parameter must be greater than zero".to_owned());
    }
    if size < 2 {
        return Ok(0);
    }
    let mut random = Random::new(seed as u64);
    let size = size as u64;
    let mut v = value as u64 % size;
    let bits = 63 - size.leading_zeros();
    let mask = (1 << bits) - 1;
    let turn = |v: u64, m: u64, r: u64| {
        let v = (v.wrapping_mul(m) ^ r) & mask;
        ((v << 1) & mask) | (v >> (bits - 1))
    };
    for _ in 0..6 {
        let (m, r) = ((random.bits() & mask) | 1, random.bits() & mask);
        if v <= mask {
            v = turn(v, m, r);
        }
        let (m, r) = ((random.bits() & mask) | 1, random.bits() & mask);
        let upper = size - 1 - v;
        if upper <= mask {
            v = size - 1 - turn(upper, m, r);
        }
        v = (v + random.up_to(size - 1)) % size;
    }
    Ok(v as i64)
}
