//! The invertible permutation that spreads ranks over ids, bit for bit the original's.

use super::java_random::JavaRandom;

/// Ids fall into `groups` residue classes; each class is rotated by a number of its own. So a hot rank lands on an
/// unpredictable id, the way back costs the same, and nothing is stored but the rotations.
#[derive(Debug, Clone)]
pub struct Permutation {
    size: i64,
    rotations: Vec<i64>,
}

/// Seed and groups of one use; two uses with the same seed share their hot ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shuffle {
    pub seed: i64,
    pub groups: i64,
}

/// Out-degrees, and link reads and writes that go with them.
pub const LINKS: Shuffle = Shuffle { seed: 20343988438726021, groups: 1024 };
/// Link reads and writes that know nothing of out-degrees.
pub const LINKS_UNCORRELATED: Shuffle = Shuffle { seed: 53238253823453, groups: 1024 };
/// Node reads, updates and deletes: hot reads are hot updates.
pub const NODES: Shuffle = Shuffle { seed: 4766565305853767165, groups: 1024 };

impl Permutation {
    /// Of `0..size`; a size below 1 counts as 1.
    pub fn new(shuffle: Shuffle, size: i64) -> Self {
        let size = size.max(1);
        let groups = shuffle.groups.clamp(1, size);
        let members = size / groups;
        let mut random = JavaRandom::new(shuffle.seed);
        let bound = i32::try_from(members).unwrap_or(i32::MAX);
        let rotations = (0..groups).map(|_| i64::from(random.next_int_below(bound))).collect();
        Permutation { size, rotations }
    }

    /// From rank to position, both in `0..size`.
    pub fn permute(&self, index: i64) -> i64 {
        self.rotate(index, self.rotation(index))
    }

    /// From position to rank.
    pub fn invert(&self, index: i64) -> i64 {
        self.rotate(index, self.class_size(index) - self.rotation(index))
    }

    fn groups(&self) -> i64 {
        self.rotations.len() as i64
    }

    fn rotation(&self, index: i64) -> i64 {
        self.rotations[(index % self.groups()) as usize]
    }

    /// The first classes have one member more when the groups do not divide the size.
    fn class_size(&self, index: i64) -> i64 {
        self.size / self.groups() + i64::from(index % self.groups() < self.size % self.groups())
    }

    fn rotate(&self, index: i64, rotation: i64) -> i64 {
        let moved = index + self.groups() * rotation;
        if moved < self.size { moved } else { moved % (self.class_size(index) * self.groups()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values at `0, 1, 2, 1023, 1024, 1025, n/2, n-1`.
    fn probe(size: i64, map: impl Fn(i64) -> i64) -> Vec<i64> {
        [0, 1, 2, 1023, 1024, 1025, size / 2, size - 1].into_iter().map(map).collect()
    }

    #[test]
    fn equals_the_original() {
        let golden = [
            (LINKS, 100_000, [14336, 59393, 43010, 59391, 15360, 60417, 848, 69279]),
            (LINKS, 1_000_000, [389120, 512001, 686082, 490495, 390144, 513025, 120096, 596543]),
            (LINKS_UNCORRELATED, 100_000, [86016, 22529, 19458, 64511, 87040, 23553, 76624, 61087]),
            (LINKS_UNCORRELATED, 1_000_000, [692224, 477185, 946178, 598015, 693248, 478209, 727328, 361023]),
            (NODES, 100_000, [88064, 34817, 63490, 32767, 89088, 35841, 48976, 41631]),
            (NODES, 1_000_000, [963584, 648193, 712706, 715775, 964608, 649217, 113952, 152127]),
        ];
        for (shuffle, size, expected) in golden {
            let permutation = Permutation::new(shuffle, size);
            assert_eq!(probe(size, |i| permutation.permute(i)), expected, "{shuffle:?} {size}");
        }
        let inverse = [
            (100_000, [86016, 40961, 57346, 41983, 87040, 41985, 99152, 30367]),
            (1_000_000, [611328, 488449, 314370, 510975, 612352, 489473, 879904, 403007]),
        ];
        for (size, expected) in inverse {
            let permutation = Permutation::new(LINKS, size);
            assert_eq!(probe(size, |i| permutation.invert(i)), expected, "{size}");
        }
    }

    #[test]
    fn is_a_bijection_with_its_inverse() {
        let cases = [
            (10, 1234, 1),
            (4, 1234, 2),
            (10, 1234, 5),
            (7, 1234, 3),
            (10, 1234, 7),
            (10, 1234, 11),
            (10, 1234, 15),
            (100, 1234, 11),
            (10031, 13, 7),
            (111111, 13, 7),
            (1, 1, 1),
        ];
        for (size, seed, groups) in cases {
            let permutation = Permutation::new(Shuffle { seed, groups }, size);
            let mut seen = vec![false; size as usize];
            for index in 0..size {
                let image = permutation.permute(index);
                assert!(!std::mem::replace(&mut seen[image as usize], true), "twice {image} of {size}");
                assert_eq!(permutation.invert(image), index, "{size} {seed} {groups}");
            }
        }
    }
}
