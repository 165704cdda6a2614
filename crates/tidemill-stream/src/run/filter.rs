//! A split-block Bloom filter over the keys of one block, as in Parquet: one cache line a look-up.
//!
//! Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters" (2007); the salts are Parquet's.

/// About one absent key in a hundred passes.
const BITS_PER_KEY: usize = 10;
const LINE_BYTES: usize = 32;
const SALTS: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

pub fn build(hashes: &[u64]) -> Vec<u8> {
    let lines = (hashes.len() * BITS_PER_KEY).div_ceil(LINE_BYTES * 8).max(1);
    let mut filter = vec![0; lines * LINE_BYTES];
    for &hash in hashes {
        let start = line(hash, lines) * LINE_BYTES;
        for (word, bit) in filter[start..start + LINE_BYTES].chunks_exact_mut(4).zip(bits(hash)) {
            word[bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// `false`: the key with this hash is not in the block. A filter that is no filter passes every key.
pub fn may_contain(filter: &[u8], hash: u64) -> bool {
    let lines = filter.len() / LINE_BYTES;
    if lines == 0 {
        return true;
    }
    let start = line(hash, lines) * LINE_BYTES;
    filter[start..start + LINE_BYTES]
        .chunks_exact(4)
        .zip(bits(hash))
        .all(|(word, bit)| word[bit / 8] & (1 << (bit % 8)) != 0)
}

fn line(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// One bit of each of the eight words of a line.
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    SALTS.iter().map(move |salt| (salt.wrapping_mul(hash as u32) >> 27) as usize)
}

/// Part of the file format: it must give the same value for ever and on every machine. Multiply and fold, as in
/// wyhash; the keys are not chosen by an attacker who would gain anything from collisions.
pub fn hash(key: &[u8]) -> u64 {
    const START: u64 = 0xa076_1d64_78bd_642f;
    const STEP: u64 = 0xe703_7ed1_a0b4_28db;
    const END: u64 = 0x8ebc_6af0_9c88_c6e3;
    let mut state = START ^ (key.len() as u64).wrapping_mul(STEP);
    let mut words = key.chunks_exact(8);
    for word in &mut words {
        state = fold(state ^ little_endian(word), STEP);
    }
    fold(fold(state ^ little_endian(words.remainder()), STEP), END)
}

fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_missed_and_few_are_guessed() {
        let hashes = |range: std::ops::Range<u64>| -> Vec<u64> {
            range.map(|key| hash(&[&[1][..], &(key ^ 1 << 63).to_be_bytes()].concat())).collect()
        };
        for keys in [1, 10, 4096] {
            let present = hashes(0..keys);
            let filter = build(&present);
            assert!(filter.len() as u64 <= keys * 10 / 8 + 32);
            assert!(present.iter().all(|&hash| may_contain(&filter, hash)));
            let guessed =
                hashes(1_000_000..1_100_000).iter().filter(|&&hash| may_contain(&filter, hash)).count();
            assert!(guessed < 2_500, "{guessed} of 100,000 absent keys pass with {keys} keys");
        }
        assert!(may_contain(&[], 1), "no filter");
    }

    #[test]
    fn the_hash_is_part_of_the_format() {
        assert_eq!(hash(b""), 0xa550_6ff5_2926_ac13);
        assert_eq!(hash(b"tidemill"), 0x0dcf_f7ac_1f32_48a4);
        assert_eq!(hash(b"a longer key, of 29 bytes ..."), 0x1103_8863_eab1_83f0);
    }
}
