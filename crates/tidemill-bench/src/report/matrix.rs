//! Results of a sweep as tables: one a figure, rows and columns by the first two things that vary.

use std::fmt::Write;

use super::remark::{behind, unlucky};
use crate::figure::{ms, percent};
use crate::result::ResultFile;
use crate::run::{Pace, Tally};
use crate::stats::{Figure, Seconds};
use crate::usl::Usl;

/// What a matrix shows.
pub struct Shown {
    pub name: &'static str,
    /// Whose interval it has.
    pub figure: Figure,
    pub of: fn(&Tally, f64) -> f64,
    text: fn(f64) -> String,
}

pub const RATE: Shown = Shown {
    name: "rate a second",
    figure: Figure::Rate,
    of: |t, s| if s > 0.0 { t.processed as f64 / s } else { 0.0 },
    text: |v| format!("{v:.1}"),
};

pub const SHOWN: [Shown; 5] = [
    Shown {
        name: "late %",
        figure: Figure::Late,
        of: |t, _| percent(t.late, t.processed),
        text: |v| format!("{v:.2}"),
    },
    Shown {
        name: "skipped %",
        figure: Figure::Skipped,
        of: |t, _| percent(t.skipped, t.asked()),
        text: |v| format!("{v:.2}"),
    },
    Shown { name: "p50 ms", figure: Figure::Quantile(0.5), of: |t, _| quantile(t, 0.5), text: ms },
    Shown { name: "p99 ms", figure: Figure::Quantile(0.99), of: |t, _| quantile(t, 0.99), text: ms },
    RATE,
];

/// No number where nothing ended well.
fn quantile(tally: &Tally, share: f64) -> f64 {
    if tally.response.is_empty() { f64::NAN } else { tally.response.quantile(share) as f64 }
}

/// Of each of `SHOWN`; none where there are too few seconds.
pub type Intervals = [Option<(f64, f64)>; SHOWN.len()];

/// Results laid out by their points. A third thing that varies, and more, is part of the row's name.
pub struct Matrix<'a> {
    pub columns: Vec<String>,
    pub column_name: String,
    pub row_name: String,
    pub rows: Vec<(String, Vec<Option<&'a ResultFile>>)>,
    /// In the same order.
    pub intervals: Vec<Vec<Intervals>>,
}

impl<'a> Matrix<'a> {
    /// None for results that were not made by one sweep.
    pub fn of(results: &'a [ResultFile]) -> Option<Matrix<'a>> {
        let names: Vec<&String> = results.first()?.point.iter().map(|(name, _)| name).collect();
        let is_one =
            |result: &ResultFile| result.point.iter().map(|(name, _)| name).eq(names.iter().copied());
        if names.is_empty() || !results.iter().all(is_one) {
            return None;
        }
        let (column_name, row_names) = match names.as_slice() {
            [only] => ((*only).clone(), Vec::new()),
            [first, rest @ ..] => ((*first).clone(), rest.to_vec()),
            [] => return None,
        };
        let row_name = row_names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        let mut matrix =
            Matrix { columns: Vec::new(), column_name, row_name, rows: Vec::new(), intervals: Vec::new() };
        for result in results {
            let column = result.point[0].1.clone();
            let row: Vec<&str> = result.point[1..].iter().map(|(_, value)| value.as_str()).collect();
            matrix.put(column, row.join(", "), result);
        }
        let row = |(_, cells): &(String, Vec<Option<&ResultFile>>)| {
            cells.iter().map(|cell| cell.map(intervals).unwrap_or_default()).collect()
        };
        matrix.intervals = matrix.rows.iter().map(row).collect();
        Some(matrix)
    }

    fn put(&mut self, column: String, row: String, result: &'a ResultFile) {
        let x = self.columns.iter().position(|c| *c == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.rows.iter_mut().for_each(|(_, cells)| cells.push(None));
            self.columns.len() - 1
        });
        let y = self.rows.iter().position(|(r, _)| *r == row).unwrap_or_else(|| {
            self.rows.push((row, vec![None; self.columns.len()]));
            self.rows.len() - 1
        });
        self.rows[y].1[x] = Some(result);
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        for (i, shown) in SHOWN.iter().enumerate() {
            let _ = writeln!(out, "\n{} ({} across{})", shown.name, self.column_name, self.down());
            let cell = |(cell, intervals): (&Option<&ResultFile>, &Intervals)| {
                let range = shown.range(*cell, intervals[i]);
                let space = if range.is_empty() { "" } else { " " };
                format!("{}{space}{range}", shown.cell(*cell))
            };
            let row = |((_, cells), intervals): (&(_, Vec<Option<&ResultFile>>), &Vec<Intervals>)| {
                cells.iter().zip(intervals).map(cell).collect::<Vec<String>>()
            };
            let rows: Vec<Vec<String>> = self.rows.iter().zip(&self.intervals).map(row).collect();
            let widest = rows.iter().flatten().chain(&self.columns).map(|cell| cell.chars().count()).max();
            let width = widest.unwrap_or(0).max(10);
            let line =
                |cells: &[String]| cells.iter().map(|cell| format!(" {cell:>width$}")).collect::<String>();
            let _ = writeln!(out, "{:<16}{}", self.row_name, line(&self.columns));
            for ((name, _), cells) in self.rows.iter().zip(&rows) {
                let _ = writeln!(out, "{name:<16}{}", line(cells));
            }
        }
        self.behind().iter().for_each(|line| out += line);
        for (name, fit) in self.fits() {
            let best = fit
                .best_clients()
                .map_or("no end in sight".to_owned(), |n| format!("best at {n:.0} clients"));
            let _ = writeln!(
                out,
                "\nscalability {name}: {:.1} a second of one client, contention {:.4}, coherency {:.6}, {best}",
                fit.lambda, fit.sigma, fit.kappa
            );
        }
        out
    }

    /// A line for each cell whose run did not have its rate, or in which many operations failed.
    fn behind(&self) -> Vec<String> {
        let cells = self.rows.iter().flat_map(|(_, cells)| cells.iter().flatten());
        let told = cells.filter_map(|result| {
            let point: Vec<String> =
                result.point.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let why = |outcome| behind(result, outcome).or_else(|| unlucky(outcome));
            let why = result.repeats.iter().find_map(why)?;
            Some(format!("\nWARNING: {}: {why}", point.join(" ")))
        });
        let mut lines: Vec<String> = told.collect();
        lines.last_mut().into_iter().for_each(|line| line.push('\n'));
        lines
    }

    /// The scalability law over clients, by row: only of closed loops, as the others do what they are asked for.
    pub fn fits(&self) -> Vec<(&str, Usl)> {
        if self.column_name != "clients" {
            return Vec::new();
        }
        fn fit<'m>((name, cells): &'m (String, Vec<Option<&ResultFile>>)) -> Option<(&'m str, Usl)> {
            let is_closed = |result: &&&ResultFile| result.plan.pace == Pace::Closed;
            let point = |result: &&ResultFile| Some((result.plan.clients as f64, RATE.value(result)?));
            let points: Vec<_> = cells.iter().flatten().filter(is_closed).filter_map(point).collect();
            Some((name.as_str(), Usl::fit(&points)?))
        }
        self.rows.iter().filter_map(fit).collect()
    }

    fn down(&self) -> String {
        if self.row_name.is_empty() { String::new() } else { format!(", {} down", self.row_name) }
    }
}

/// 95 percent, over all repeats.
fn intervals(result: &ResultFile) -> Intervals {
    let estimates = Seconds::of(&result.repeats).estimates(&SHOWN.map(|shown| shown.figure));
    let mut intervals = Intervals::default();
    intervals.iter_mut().zip(estimates).for_each(|(interval, estimate)| *interval = estimate.interval);
    intervals
}

impl Shown {
    /// Over all repeats; none where nothing was measured, or only a part.
    pub fn value(&self, result: &ResultFile) -> Option<f64> {
        if result.blemish().is_some() {
            return None;
        }
        let mut total = Tally::default();
        let mut elapsed = 0.0;
        for outcome in &result.repeats {
            total.merge(&outcome.record.total());
            elapsed += outcome.elapsed_s;
        }
        Some((self.of)(&total, elapsed))
    }

    /// The interval behind the value, in brackets; empty where there is none.
    pub fn range(&self, result: Option<&ResultFile>, interval: Option<(f64, f64)>) -> String {
        let is_measured = result.is_some_and(|result| result.blemish().is_none());
        let shown = |(low, high)| format!("[{}, {}]", (self.text)(low), (self.text)(high));
        interval.filter(|_| is_measured).map(shown).unwrap_or_default()
    }

    pub fn cell(&self, result: Option<&ResultFile>) -> String {
        match result.map(|result| self.value(result)) {
            None => "-".to_owned(),
            Some(None) => "failed".to_owned(),
            Some(Some(value)) => (self.text)(value),
        }
    }
}
