//! What can be told of a stretch of a run.

use super::{Sum, Whole};
use crate::figure::{ms, percent};

/// A figure of a run: from a stretch of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// Operations that ended well, a second.
    Rate,
    /// Of the times, ns.
    Mean,
    Quantile(f64),
    /// Of the population, ns.
    Stddev,
    /// Among those that ended well, percent.
    Late,
    /// Among all that were asked, percent.
    Skipped,
    /// Late, skipped and never begun among all that were due, percent.
    Missed,
}

/// Which times of the operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Times {
    Response,
    Service,
    Lag,
}

impl Figure {
    pub fn name(self) -> String {
        match self {
            Figure::Rate => "rate".to_owned(),
            Figure::Mean => "mean".to_owned(),
            Figure::Stddev => "stddev".to_owned(),
            Figure::Late => "late".to_owned(),
            Figure::Skipped => "skipped".to_owned(),
            Figure::Missed => "missed".to_owned(),
            Figure::Quantile(share) => format!("p{}", (share * 1e5).round() / 1e3),
        }
    }

    pub fn is_better_when_higher(self) -> bool {
        self == Figure::Rate
    }

    /// As people read it, with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Figure::Rate => format!("{value:.1}/s"),
            Figure::Late | Figure::Skipped | Figure::Missed => format!("{value:.3} %"),
            _ if value.is_nan() => ms(value),
            _ => format!("{} ms", ms(value)),
        }
    }

    /// Times of nothing are no number.
    pub(super) fn of(self, sum: &Sum, seconds: f64, bits: u32) -> f64 {
        match self {
            Figure::Rate => sum.processed as f64 / seconds,
            Figure::Mean if sum.count == 0 => f64::NAN,
            Figure::Mean => sum.sum_ns / sum.count as f64,
            Figure::Quantile(share) => sum.quantile(share, bits),
            Figure::Stddev if sum.count == 0 => f64::NAN,
            Figure::Stddev => {
                let mean = sum.sum_ns / sum.count as f64;
                (sum.sum_of_squares / sum.count as f64 - mean.powi(2)).max(0.0).sqrt()
            }
            Figure::Late => percent(sum.late, sum.count),
            Figure::Skipped => percent(sum.skipped, sum.count + sum.skipped + sum.failed),
            Figure::Missed => {
                let unserved = sum.skipped + sum.backlog;
                percent(sum.late + unserved, sum.count + unserved + sum.failed)
            }
        }
    }

    /// The same of a whole run.
    pub(super) fn of_whole(self, Whole { tally, elapsed_s }: &Whole) -> f64 {
        match self {
            Figure::Mean | Figure::Quantile(_) | Figure::Stddev if tally.response.is_empty() => f64::NAN,
            Figure::Rate if *elapsed_s > 0.0 => tally.processed as f64 / elapsed_s,
            Figure::Rate => 0.0,
            Figure::Mean => tally.response.mean(),
            Figure::Quantile(share) => tally.response.quantile(share) as f64,
            Figure::Stddev => tally.response.stddev(),
            Figure::Late => percent(tally.late, tally.processed),
            Figure::Skipped => percent(tally.skipped, tally.asked()),
            Figure::Missed => tally.missed(),
        }
    }
}
