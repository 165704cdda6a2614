//! What the reporting queries must answer, computed from the seed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Generator, Lookup, Row, V1_PARTS};
use crate::suite::Check;
use crate::target::Rows;

/// Queries 2 and 3 read a part of the table for each key: that many are checked.
const CHECKED_KEYS_MAX: usize = 20;

#[derive(Clone)]
pub(super) struct Group {
    pub count: u64,
    /// Of v1, in ten-thousandths.
    sum: u64,
    /// Of v2.
    max: u64,
    /// Of v1 * v2, in ten-thousandths.
    min: u64,
}

impl Group {
    const EMPTY: Group = Group { count: 0, sum: 0, max: 0, min: u64::MAX };

    fn add(&mut self, row: &Row) {
        self.count += 1;
        self.sum += row.v1;
        self.max = self.max.max(row.v2);
        self.min = self.min.min(row.v1 * row.v2);
    }

    /// The count stands in column `at`; then come the average, the maximum and, in the queries that have it, the minimum.
    fn is_in(&self, rows: &Rows, row: usize, at: usize) -> bool {
        let is_near = |column: usize, wanted: f64| {
            rows.float(row, column).is_some_and(|found| (found - wanted).abs() < 1e-3 + wanted * 1e-9)
        };
        rows.int(row, at) == Some(self.count as i64)
            && is_near(at + 1, self.sum as f64 / self.count as f64 / V1_PARTS)
            && rows.int(row, at + 2) == Some(self.max as i64)
            && (rows.columns() <= at + 3 || is_near(at + 3, self.min as f64 / V1_PARTS))
    }
}

/// What the queries must answer.
pub(super) struct Expected {
    /// By fk1 - 1.
    pub by_fk1: Vec<Group>,
    /// By fk1 and fk2, of the keys that are asked for.
    pub by_both: BTreeMap<(u64, u64), Group>,
    /// Lengths of the data of both tables that are looked up, by id - 1.
    pub lookups: [Vec<usize>; 2],
}

impl Expected {
    pub fn of(scale: u64, seed: u64) -> Self {
        let mut generator = Generator::new(scale, seed);
        let (fk1s, fk2s) = (generator.lookup1, generator.lookup2);
        let lookups = [Lookup::new(seed, 0, fk1s).collect(), Lookup::new(seed, 1, fk2s).collect()];
        let by_fk1 = vec![Group::EMPTY; fk1s as usize];
        let mut expected = Self { by_fk1, by_both: BTreeMap::new(), lookups };
        let asked: BTreeSet<u64> = expected.asked().collect();
        for _ in 0..generator.rows() {
            let row = generator.row();
            expected.by_fk1[row.fk1 as usize - 1].add(&row);
            if asked.contains(&row.fk1) {
                expected.by_both.entry((row.fk1, row.fk2)).or_insert(Group::EMPTY).add(&row);
            }
        }
        expected
    }

    /// The keys that queries 2 and 3 are checked with, evenly spread over all.
    pub fn asked(&self) -> impl Iterator<Item = u64> + use<> {
        let all = self.by_fk1.len();
        (1..=all as u64).step_by(all.div_ceil(CHECKED_KEYS_MAX))
    }

    pub fn check(&self, name: &str, answers: &[Rows], at: usize, groups: usize) -> Check {
        let is_right = |rows: &Rows, row: usize| {
            let key =
                |column: usize| rows.int(row, column).and_then(|id| u64::try_from(id).ok()).unwrap_or(0);
            let has_data = |column: usize, lengths: &[usize]| {
                let length = key(column).checked_sub(1).and_then(|id| lengths.get(id as usize));
                let data = rows.text(row, column + 1);
                length
                    .zip(data)
                    .is_some_and(|(length, data)| *length == data.len() && data.bytes().all(|b| b == b'X'))
            };
            let group = match at {
                2 => key(0).checked_sub(1).and_then(|id| self.by_fk1.get(id as usize)),
                _ => self.by_both.get(&(key(0), key(2))).filter(|_| has_data(2, &self.lookups[1])),
            };
            has_data(0, &self.lookups[0]) && group.is_some_and(|group| group.is_in(rows, row, at))
        };
        let right: usize =
            answers.iter().map(|rows| (0..rows.len()).filter(|row| is_right(rows, *row)).count()).sum();
        let found: usize = answers.iter().map(Rows::len).sum();
        let found = format!("{found} groups, {right} of them right");
        Check::equal(name, found, format!("{groups} groups, {groups} of them right"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many keys there are.
    #[test]
    fn so_many_keys_are_checked_and_no_more() {
        let asked = |keys: usize| {
            let expected = Expected {
                by_fk1: vec![Group::EMPTY; keys],
                by_both: BTreeMap::new(),
                lookups: Default::default(),
            };
            expected.asked().collect::<Vec<_>>()
        };
        assert_eq!(asked(10).len(), 10);
        let many = asked(1_000_000);
        assert_eq!((many.len(), many[0], many[19]), (CHECKED_KEYS_MAX, 1, 950_001));
        assert_eq!(asked(30), (1..30).step_by(2).collect::<Vec<u64>>());
    }
}
