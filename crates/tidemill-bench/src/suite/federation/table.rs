//! The talk's table of results: a row for each query, a column for each system, and marks.

use std::fmt::Write;

use super::queries::{QUERIES, Query, SCENARIOS};
use super::schema;
use crate::figure::{ms, percent};
use crate::report::escaped;
use crate::result::ResultFile;
use crate::run::{Outcome, Tally};
use crate::stats::{Estimate, Figure, Seconds};

/// A system is as good as the fastest up to this factor, and still fine up to the next.
const EQUAL: f64 = 1.1;
const FINE: f64 = 2.0;

const LEGEND: &str = "⊙ the fastest (or within 10 %), ○ within twice its time, △ slower, N/A an error, UNK no answer in time (with a share: so often),\n\
                      WRONG another answer than the reference; ms at the median";

/// How a system answered a query.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    /// The median, ns. It is one of all that were asked: the answers that came are the quick ones.
    Time(f64),
    /// Percent of those that were asked, of any error.
    Failed(f64),
    /// The same, some of them for want of time.
    OutOfTime(f64),
    Wrong,
    /// It was not asked, or the run was cut short.
    Missing,
}

/// What is told of all systems together.
pub struct Table {
    systems: Vec<String>,
    scenarios: Vec<(String, Vec<Row>)>,
    /// 95 percent, of the medians: of the queries that have one in some system.
    intervals: Vec<Row>,
    /// Why there are no marks, if there are none.
    unranked: Option<String>,
}

/// A query, and a cell for each system.
struct Row {
    name: String,
    cells: Vec<String>,
}

impl Table {
    /// Of results of this suite, one for each system; none of others.
    pub fn of(results: &[ResultFile]) -> Option<Table> {
        if results.is_empty() || results.iter().any(|result| result.suite != super::NAME) {
            return None;
        }
        let systems: Vec<String> =
            results.iter().enumerate().map(|(i, result)| system(results, i, result)).collect();
        let unranked = unranked(&systems, results);
        let row = |query: &Query| {
            let cells: Vec<Cell> = results.iter().map(|result| cell(result, &query.title())).collect();
            let best = cells.iter().filter_map(Cell::time).fold(f64::INFINITY, f64::min);
            let best = Some(best).filter(|_| unranked.is_none());
            Row { name: query.name.to_owned(), cells: cells.iter().map(|cell| cell.text(best)).collect() }
        };
        let scenario = |(i, name): (usize, &&str)| {
            let number = i as u32 + 1;
            let rows = QUERIES.iter().filter(|query| query.scenario == number).map(row).collect();
            (format!("Scenario{number}: {name}"), rows)
        };
        let scenarios = SCENARIOS.iter().enumerate().map(scenario).collect();
        Some(Table { systems, scenarios, intervals: intervals(results), unranked })
    }

    fn legend(&self) -> &str {
        self.unranked.as_deref().unwrap_or(LEGEND)
    }

    pub fn text(&self) -> String {
        let line = |cells: &[String]| cells.iter().map(|cell| format!(" {cell:>18}")).collect::<String>();
        let mut text = format!("\n{:<28}{}\n", "", line(&self.systems));
        for (scenario, rows) in &self.scenarios {
            let _ = writeln!(text, "{scenario}");
            for Row { name, cells } in rows {
                let _ = writeln!(text, "  {name:<26}{}", line(cells));
            }
        }
        let _ = writeln!(text, "{}", self.legend());
        if !self.intervals.is_empty() {
            text.push_str("95 % intervals of the medians, ms\n");
        }
        for Row { name, cells } in &self.intervals {
            let _ = writeln!(text, "  {name:<26}{}", line(cells));
        }
        text
    }

    /// The same for a page.
    pub fn html(&self) -> String {
        let line = |tag: &str, name: &str, cells: &[String]| {
            let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
            format!("<tr><th>{}</th>{}</tr>\n", escaped(name), cells.collect::<String>())
        };
        let mut html = format!("<table class=\"systems\">{}", line("th", "", &self.systems));
        let columns = self.systems.len() + 1;
        let mut part = |heading: &str, rows: &[Row]| {
            let _ =
                writeln!(html, "<tr><th class=\"part\" colspan=\"{columns}\">{}</th></tr>", escaped(heading));
            rows.iter().for_each(|Row { name, cells }| html += &line("td", name, cells));
        };
        self.scenarios.iter().for_each(|(scenario, rows)| part(scenario, rows));
        if !self.intervals.is_empty() {
            part("95 % intervals of the medians, ms", &self.intervals);
        }
        html + &format!("</table>\n<p class=\"what\">{}</p>\n", escaped(self.legend()))
    }
}

/// Systems are ranked over the same rows only.
fn unranked(systems: &[String], results: &[ResultFile]) -> Option<String> {
    let data: Vec<String> = results.iter().map(data).collect();
    let is_same = data.iter().all(|other| *other == data[0]);
    let told = || systems.iter().zip(&data).map(|(system, data)| format!("{system}: {data}"));
    (!is_same).then(|| {
        format!("NOT THE SAME DATA, so there are no marks: {}", told().collect::<Vec<_>>().join("; "))
    })
}

/// What makes the rows: by it, and not by where they lie.
fn data(result: &ResultFile) -> String {
    let parameter = |name: &str| result.parameters.get(name).map_or("", String::as_str);
    let number = |name: &str| parameter(name).replace('_', "");
    let parts = parameter("nodes").split(',').filter(|url| !url.trim().is_empty()).count().max(1);
    format!("{parts} × {} rows of {} sensors, seed {}", number("rows"), number("sensors"), result.plan.seed)
}

fn intervals(results: &[ResultFile]) -> Vec<Row> {
    let row = |query: &Query| {
        let interval = |result| median(result, &query.title())?.interval;
        let found: Vec<Option<(f64, f64)>> = results.iter().map(interval).collect();
        let cell = |interval: &Option<(f64, f64)>| {
            interval.map_or("-".to_owned(), |(low, high)| format!("{} to {}", ms(low), ms(high)))
        };
        let is_there = found.iter().any(Option::is_some);
        is_there.then(|| Row { name: query.title(), cells: found.iter().map(cell).collect() })
    };
    QUERIES.iter().filter_map(row).collect()
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
        let version = || Ok(result.target.version.clone());
        schema::engine(parameter("engine"), parameter("nodes"), version).unwrap_or_default()
    };
    let name = engine(result);
    let is_only = results.iter().filter(|other| engine(other) == name).count() == 1;
    if is_only { name.to_owned() } else { format!("{name} {}", index + 1) }
}

fn cell(result: &ResultFile, title: &str) -> Cell {
    if result.checks.iter().any(|check| check.name == title && !check.passed) {
        return Cell::Wrong;
    }
    counted(&result.repeats, title)
}

fn counted(repeats: &[Outcome], title: &str) -> Cell {
    let asked = |outcome: &Outcome| {
        let index = outcome.operations.iter().position(|name| name == title)?;
        Some((
            outcome.record.operations[index].clone(),
            outcome.counters.get(&super::out_of_time(title)).copied(),
        ))
    };
    let mut total = Tally::default();
    let mut out_of_time = 0;
    for (tally, late) in repeats.iter().filter_map(asked) {
        total.merge(&tally);
        out_of_time += late.unwrap_or(0);
    }
    let share = percent(total.failed, total.processed + total.failed);
    match (total.processed, total.failed) {
        (_, 1..) if out_of_time > 0 => Cell::OutOfTime(share),
        (_, 1..) => Cell::Failed(share),
        (0, 0) => Cell::Missing,
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

    /// `best`: the fastest time, ns, where there are marks.
    fn text(self, best: Option<f64>) -> String {
        match (self, best) {
            (Cell::Time(time), None) => ms(time),
            (Cell::Time(time), Some(best)) if time <= best * EQUAL => format!("⊙ {}", ms(time)),
            (Cell::Time(time), Some(best)) if time <= best * FINE => format!("○ {}", ms(time)),
            (Cell::Time(time), Some(_)) => format!("△ {}", ms(time)),
            (Cell::Failed(share), _) => with_share("N/A", share),
            (Cell::OutOfTime(share), _) => with_share("UNK", share),
            (Cell::Wrong, _) => "WRONG".to_owned(),
            (Cell::Missing, _) => "-".to_owned(),
        }
    }
}

fn with_share(mark: &str, share: f64) -> String {
    if share < 100.0 { format!("{mark} {share:.1} %") } else { mark.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_by_the_fastest() {
        let marks = [10e6, 10.9e6, 19e6, 21e6].map(|time| Cell::Time(time).text(Some(10e6)));
        assert_eq!(marks, ["⊙ 10.00", "⊙ 10.90", "○ 19.00", "△ 21.00"]);
        let others = [Cell::Failed(100.0), Cell::OutOfTime(100.0), Cell::Wrong, Cell::Missing];
        assert_eq!(others.map(|cell| cell.text(Some(1.0))), ["N/A", "UNK", "WRONG", "-"]);
        assert_eq!(Cell::Time(10e6).text(None), "10.00");
    }

    /// Those that came in time are no median of all.
    #[test]
    fn a_query_that_fails_now_and_then_has_no_time() {
        let title = QUERIES[0].title();
        let found = |failed, late| {
            let mut tally = Tally { processed: 60, failed, ..Tally::default() };
            tally.response.record(1_000_000);
            let record = crate::run::Record { operations: vec![tally], ..Default::default() };
            let counters = [(super::super::out_of_time(&title), late)].into();
            let outcome = Outcome { operations: vec![title.clone()], record, counters, ..Outcome::default() };
            counted(&[outcome], &title).text(Some(1.0))
        };
        assert_eq!((found(40, 40), found(40, 1)), ("UNK 40.0 %".to_owned(), "UNK 40.0 %".to_owned()));
        assert_eq!((found(20, 0), found(0, 0)), ("N/A 25.0 %".to_owned(), "△ 1.00".to_owned()));
    }
}
