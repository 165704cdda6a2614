//! A distribution known by points of its cumulative curve, read from a file or from the built-in fit.

use super::Distribution;
use std::ops::Range;

/// A value, and the share of ids that have at most this value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub value: i64,
    pub cumulative: f64,
}

/// What property every id has (its links, its reads), by rank: rank 0 has the largest value.
#[derive(Debug, Clone, PartialEq)]
pub struct Empirical {
    points: Vec<Point>,
}

impl Empirical {
    /// Points in order of both columns, at least one.
    pub fn new(points: Vec<Point>) -> Option<Self> {
        let ordered = points
            .windows(2)
            .all(|pair| pair[0].value < pair[1].value && pair[0].cumulative <= pair[1].cumulative);
        (ordered && !points.is_empty()).then_some(Empirical { points })
    }

    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The index of the first point whose share is at least `u`; the number of points when there is none.
    pub fn search(&self, u: f64) -> usize {
        self.points.partition_point(|point| point.cumulative < u)
    }

    /// The value of the id with this rank among `size` ids.
    pub fn value_of_rank(&self, rank: i64, size: i64) -> i64 {
        let index = self.search(share_above(rank, size));
        self.points[index.min(self.points.len() - 1)].value
    }

    /// Every value with the number of ids, of `size`, that have it; from the smallest value on, empty ones left out.
    /// Costs a search a point, not a step an id.
    pub fn census(&self, size: i64) -> impl Iterator<Item = (i64, i64)> {
        let last = self.points.len() - 1;
        let mut counted = 0;
        self.points.iter().enumerate().filter_map(move |(index, point)| {
            // What is left over by rounding of the last share goes to the last point, as in `value_of_rank`.
            let up_to = if index == last { size } else { size - first_rank_within(point.cumulative, size) };
            let ids = up_to - counted;
            counted = up_to;
            (ids > 0).then_some((point.value, ids))
        })
    }

    /// The mean of the curve: values an id, for many ids.
    #[cfg(test)]
    pub fn mean(&self) -> f64 {
        let mut below = 0.0;
        let mut mean = 0.0;
        for point in &self.points {
            mean += point.value as f64 * (point.cumulative - below);
            below = point.cumulative;
        }
        mean
    }
}

/// The share of the ids whose rank is not better. Always this expression: rounding decides between two values.
fn share_above(rank: i64, size: i64) -> f64 {
    1.0 - rank as f64 / size as f64
}

/// The smallest rank whose share is at most `share`.
fn first_rank_within(share: f64, size: i64) -> i64 {
    let (mut low, mut high) = (0, size);
    while low < high {
        let middle = low + (high - low) / 2;
        if share_above(middle, size) <= share { high = middle } else { low = middle + 1 }
    }
    low
}

/// Draws ids with probability proportional to their empirical value; rank 0, the hottest, is the first id.
#[derive(Debug, Clone)]
pub struct RankWeights {
    range: Range<i64>,
    /// From the hottest on: ids and weight up to the end of the step, and the value of each id in it.
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    ids_end: i64,
    weight_end: f64,
    value: f64,
}

impl RankWeights {
    /// When all values are zero every id is alike.
    pub fn new(range: Range<i64>, empirical: &Empirical) -> Self {
        let size = (range.end - range.start).max(1);
        let mut census: Vec<(i64, i64)> = empirical.census(size).collect();
        if census.iter().all(|&(value, _)| value <= 0) {
            census = vec![(1, size)];
        }
        let (mut ids_end, mut weight_end) = (0, 0.0);
        let steps = census.into_iter().rev().map(|(value, ids)| {
            ids_end += ids;
            weight_end += value.max(0) as f64 * ids as f64;
            Step { ids_end, weight_end, value: value.max(0) as f64 }
        });
        RankWeights { range, steps: steps.collect() }
    }

    fn total(&self) -> f64 {
        self.steps.last().map_or(1.0, |step| step.weight_end)
    }

    /// The step and where it starts: ids and weight before it.
    fn step(&self, index: usize) -> (Step, i64, f64) {
        let index = index.min(self.steps.len() - 1);
        let before = index.checked_sub(1).map(|i| self.steps[i]);
        (self.steps[index], before.map_or(0, |s| s.ids_end), before.map_or(0.0, |s| s.weight_end))
    }

    fn step_of_id(&self, id: i64) -> (Step, i64, f64) {
        let rank = id - self.range.start;
        self.step(self.steps.partition_point(|step| step.ids_end <= rank))
    }
}

impl Distribution for RankWeights {
    fn range(&self) -> Range<i64> {
        self.range.clone()
    }

    fn pdf(&self, id: i64) -> f64 {
        if self.range.contains(&id) { self.step_of_id(id).0.value / self.total() } else { 0.0 }
    }

    fn cdf(&self, id: i64) -> f64 {
        match id {
            id if id < self.range.start => 0.0,
            id if id >= self.range.end - 1 => 1.0,
            id => {
                let (step, ids, weight) = self.step_of_id(id);
                (weight + step.value * (id - self.range.start + 1 - ids) as f64) / self.total()
            }
        }
    }

    fn quantile(&self, p: f64) -> i64 {
        let target = p.clamp(0.0, 1.0) * self.total();
        let (step, ids, weight) = self.step(self.steps.partition_point(|step| step.weight_end <= target));
        let within = if step.value > 0.0 { ((target - weight) / step.value) as i64 } else { 0 };
        self.range.start + (ids + within).clamp(ids, step.ids_end - 1)
    }
}
