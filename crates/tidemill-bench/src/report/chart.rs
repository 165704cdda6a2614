//! What a result is drawn as.

use super::matrix::{Matrix, RATE};
use super::plot::{Plot, Series};
use crate::histogram::Histogram;
use crate::result::ResultFile;
use crate::run::{Interval, Outcome, Slice};

const COUNTS: [(&str, fn(&Slice) -> u64); 5] = [
    ("ended well", |i| i.processed),
    ("late", |i| i.late),
    ("skipped", |i| i.skipped),
    ("failed", |i| i.failed),
    ("never begun", |i| i.backlog),
];

/// Operations with fewer responses in an interval have no percentile that says something.
const LEAST_AN_INTERVAL: u64 = 10;

/// Where the spectrum of percentiles has marks.
const SPECTRUM: [f64; 7] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

/// All plots of one run.
pub fn of(outcome: &Outcome) -> Vec<Plot> {
    vec![throughput(outcome), over_time(outcome), by_operation(outcome), spectrum(outcome)]
}

fn throughput(outcome: &Outcome) -> Plot {
    let width = outcome.record.interval_ns as f64 / 1e9;
    let seconds = seconds(outcome);
    let series = |(name, of): &(&str, fn(&Slice) -> u64)| Series {
        name: (*name).to_owned(),
        points: seconds.iter().map(|(at, slice)| (*at, of(slice) as f64 / width)).collect(),
    };
    let is_there = |(_, of): &&(&str, fn(&Slice) -> u64)| seconds.iter().any(|(_, slice)| of(slice) > 0);
    let series = COUNTS.iter().filter(is_there).map(series).collect();
    Plot {
        title: "Operations a second".to_owned(),
        x_label: "s",
        y_label: "a second",
        is_y_logarithmic: false,
        x_marks: Vec::new(),
        series,
    }
}

/// The last interval holds only what ended after the end.
fn whole_intervals(outcome: &Outcome) -> impl Iterator<Item = (usize, &Interval)> {
    let width = outcome.record.interval_ns as f64 / 1e9;
    let whole = (outcome.elapsed_s / width).floor().max(1.0) as usize;
    outcome.record.intervals.iter().take(whole).enumerate()
}

fn seconds(outcome: &Outcome) -> Vec<(f64, Slice)> {
    let width = outcome.record.interval_ns as f64 / 1e9;
    whole_intervals(outcome).map(|(i, interval)| (i as f64 * width, interval.total())).collect()
}

fn over_time(outcome: &Outcome) -> Plot {
    let mut seconds = seconds(outcome);
    seconds.retain(|(_, slice)| !slice.response.is_empty());
    let series = |(name, share): (&str, f64)| Series {
        name: name.to_owned(),
        points: seconds
            .iter()
            .map(|(at, slice)| (*at, slice.response.quantile(share) as f64 / 1e6))
            .collect(),
    };
    Plot {
        title: "Response time by the moment at which the operation was due".to_owned(),
        x_label: "s",
        y_label: "ms",
        is_y_logarithmic: true,
        x_marks: Vec::new(),
        series: [("max", 1.0), ("p99", 0.99), ("p95", 0.95), ("p50", 0.5)].map(series).into(),
    }
}

/// Operations that were asked often enough to have a percentile, each with its own line.
fn by_operation(outcome: &Outcome) -> Plot {
    let width = outcome.record.interval_ns as f64 / 1e9;
    let line = |(index, name): (usize, &String)| {
        let slices =
            whole_intervals(outcome).map(|(i, interval)| (i as f64 * width, &interval.operations[index]));
        let asked = slices.filter(|(_, slice)| !slice.response.is_empty());
        let points = asked.map(|(at, slice)| (at, slice.response.quantile(0.95) as f64 / 1e6)).collect();
        Series { name: name.clone(), points }
    };
    let often = LEAST_AN_INTERVAL * whole_intervals(outcome).count() as u64;
    let is_often = |(index, _): &(usize, &String)| outcome.record.operations[*index].processed >= often;
    let mut series: Vec<Series> = outcome.operations.iter().enumerate().filter(is_often).map(line).collect();
    if series.len() < 2 {
        // It would be the line of all operations once more.
        series.clear();
    }
    Plot {
        title: "Response time of each operation, p95".to_owned(),
        x_label: "s",
        y_label: "ms",
        is_y_logarithmic: true,
        x_marks: Vec::new(),
        series,
    }
}

/// Each nine of the percentile has the same room.
fn spectrum(outcome: &Outcome) -> Plot {
    let total = outcome.record.total();
    let nines = |share: f64| -(1.0 - share).log10();
    let most = nines(1.0 - 1.0 / (total.response.count().max(2) as f64));
    let series = |(name, histogram): (&str, &Histogram)| Series {
        name: name.to_owned(),
        points: (0..=200)
            .map(|i| f64::from(i) / 200.0 * most)
            .map(|at| (at, histogram.quantile(1.0 - 10f64.powf(-at)) as f64 / 1e6))
            .collect(),
    };
    Plot {
        title: "Percentiles".to_owned(),
        x_label: "percentile",
        y_label: "ms",
        is_y_logarithmic: true,
        x_marks: SPECTRUM
            .iter()
            .map(|share| (nines(*share), format!("{}", (share * 1e7).round() / 1e5)))
            .collect(),
        series: [("response", &total.response), ("service", &total.service)].map(series).into(),
    }
}

/// What was measured over clients, and the law that fits it.
pub fn scalability(matrix: &Matrix<'_>) -> Plot {
    let mut series = Vec::new();
    for (name, fit) in matrix.fits() {
        let cells = matrix.rows.iter().find(|(row, _)| row == name).map(|(_, cells)| cells.iter().flatten());
        let point = |result: &&ResultFile| Some((result.plan.clients as f64, RATE.value(result)?));
        let points: Vec<(f64, f64)> = cells.into_iter().flatten().filter_map(point).collect();
        let most = points.iter().map(|(clients, _)| *clients).fold(1.0, f64::max);
        let law =
            (0..=100).map(|i| 1.0 + (most - 1.0) * f64::from(i) / 100.0).map(|n| (n, fit.rate(n))).collect();
        series.push(Series { name: format!("{name} measured"), points });
        series.push(Series { name: format!("{name} fitted"), points: law });
    }
    Plot {
        title: "Operations a second over clients, and the universal scalability law".to_owned(),
        x_label: "clients",
        y_label: "a second",
        is_y_logarithmic: false,
        x_marks: Vec::new(),
        series,
    }
}
