//! The talk's table of results: a row for each query, a column for each system, and marks.

use std::fmt::Write;

use super::queries::{QUERIES, SCENARIOS};
use super::schema;
use crate::figure::ms;
use crate::result::ResultFile;
use crate::run::{Outcome, Tally};
use crate::stats::{Estimate, Figure, Seconds};

/// A system is as good as the fastest up to this factor, and still fine up to the next.
const EQUAL: f64 = 1.1;
const FINE: f64 = 2.0;

const LEGEND: &str = "⊙ the fastest (or within 10 %), ○ within twice its time, △ slower, N/A an error, UNK no answer in time, WRONG another answer than\n\
                      the reference; ms at the median";

/// How a system answered a query.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    /// The median, ns.
    Time(f64),
    Failed,
    OutOfTime,
    Wrong,
    /// It was not asked, or the run was cut short.
    Missing,
}

/// Of results of this suite, one for each system; none of others.
pub fn table(results: &[ResultFile]) -> Option<String> {
    if results.is_empty() || results.iter().any(|result| result.suite != super::NAME) {
        return None;
    }
    let mut text = format!("\n{:<28}", "");
    for (i, result) in results.iter().enumerate() {
        let _ = write!(text, " {:>18}", system(results, i, result));
    }
    text.push('\n');
    let mut scenario = 0;
    for query in &QUERIES {
        if query.scenario != scenario {
            scenario = query.scenario;
            let _ = writeln!(text, "Scenario{scenario}: {}", SCENARIOS[scenario as usize - 1]);
        }
        let cells: Vec<Cell> = results.iter().map(|result| cell(result, &query.title())).collect();
        let best = cells.iter().filter_map(Cell::time).fold(f64::INFINITY, f64::min);
        let cells: String = cells.iter().map(|cell| format!(" {:>18}", cell.text(best))).collect();
        let _ = writeln!(text, "  {:<26}{cells}", query.name);
    }
    text.push_str(LEGEND);
    text.push('\n');
    intervals(&mut text, results);
    Some(text)
}

/// Below the marks, for the queries that have one in every system or in some.
fn intervals(text: &mut String, results: &[ResultFile]) {
    let mut rows = Vec::new();
    for query in &QUERIES {
        let interval = |result| median(result, &query.title())?.interval;
        let cells: Vec<Option<(f64, f64)>> = results.iter().map(interval).collect();
        if cells.iter().any(Option::is_some) {
            let cell = |cell: &Option<(f64, f64)>| {
                cell.map_or("-".to_owned(), |(low, high)| format!("{} to {}", ms(low), ms(high)))
            };
            let cells: String = cells.iter().map(|interval| format!(" {:>18}", cell(interval))).collect();
            rows.push(format!("  {:<26}{cells}", query.title()));
        }
    }
    if !rows.is_empty() {
        let _ = writeln!(text, "95 % intervals of the medians, ms\n{}", rows.join("\n"));
    }
}

/// The median response of a query, ns, with its interval.
fn median(result: &ResultFile, title: &str) -> Option<Estimate> {
    cell(result, title).time()?;
    let index = result.repeats.first()?.operations.iter().position(|name| name == title)?;
    let found = Seconds::of_operation(&result.repeats, index).estimates(&[Figure::Quantile(0.5)]);
    found.into_iter().next()
}

/// The engine; with the number of the result where two have the same.
fn system(results: &[ResultFile], index: usize, result: &ResultFile) -> String {
    let engine = |result: &ResultFile| {
        let parameter = |name: &str| result.parameters.get(name).map_or("", String::as_str);
        schema::engine(parameter("engine"), parameter("nodes")).unwrap_or_default()
    };
    let name = engine(result);
    let is_only = results.iter().filter(|other| engine(other) == name).count() == 1;
    if is_only { name.to_owned() } else { format!("{name} {}", index + 1) }
}

fn cell(result: &ResultFile, title: &str) -> Cell {
    if result.checks.iter().any(|check| check.name == title && !check.passed) {
        return Cell::Wrong;
    }
    let asked = |outcome: &Outcome| {
        let index = outcome.operations.iter().position(|name| name == title)?;
        Some((
            outcome.record.operations[index].clone(),
            outcome.counters.get(&super::out_of_time(title)).copied(),
        ))
    };
    let mut total = Tally::default();
    let mut out_of_time = 0;
    for (tally, late) in result.repeats.iter().filter_map(asked) {
        total.merge(&tally);
        out_of_time += late.unwrap_or(0);
    }
    match (total.processed, total.failed) {
        (0, _) if out_of_time > 0 => Cell::OutOfTime,
        (0, 0) => Cell::Missing,
        (0, _) => Cell::Failed,
        _ => Cell::Time(total.response.quantile(0.5) as f64),
    }
}

impl Cell {
    fn time(&self) -> Option<f64> {
        match self {
            Cell::Time(time) => Some(*time),
            _ => None,
        }
    }

    fn text(self, best: f64) -> String {
        match self {
            Cell::Time(time) if time <= best * EQUAL => format!("⊙ {}", ms(time)),
            Cell::Time(time) if time <= best * FINE => format!("○ {}", ms(time)),
            Cell::Time(time) => format!("△ {}", ms(time)),
            Cell::Failed => "N/A".to_owned(),
            Cell::OutOfTime => "UNK".to_owned(),
            Cell::Wrong => "WRONG".to_owned(),
            Cell::Missing => "-".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_by_the_fastest() {
        let marks = [10e6, 10.9e6, 19e6, 21e6].map(|time| Cell::Time(time).text(10e6));
        assert_eq!(marks, ["⊙ 10.00", "⊙ 10.90", "○ 19.00", "△ 21.00"]);
        let others = [Cell::Failed, Cell::OutOfTime, Cell::Wrong, Cell::Missing].map(|cell| cell.text(1.0));
        assert_eq!(others, ["N/A", "UNK", "WRONG", "-"]);
    }
}
