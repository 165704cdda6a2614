//! Results as one HTML page that needs nothing else.

use std::fmt::Write;

use super::chart;
use super::difference::Differences;
use super::matrix::{Matrix, SHOWN, Shown};
use super::noise::floors;
use super::plot::escaped;
use super::remark::{remarks, warnings};
use super::text::{self, shown};
use crate::figure::{ms, percent};
use crate::result::ResultFile;
use crate::run::{Outcome, Tally};
use crate::stats::{Estimate, Figure, Seconds};
use crate::suite::federation::Table;

const STYLE: &str = include_str!("page.css");

/// The first figures that a reader looks for.
const CARDS: [Figure; 5] =
    [Figure::Rate, Figure::Quantile(0.5), Figure::Quantile(0.95), Figure::Quantile(0.99), Figure::Missed];

pub fn page(results: &[ResultFile]) -> String {
    let suite = results.first().map_or("tidemill bench", |result| &result.suite);
    let title = escaped(suite);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}: tidemill bench</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    if let Some(matrix) = Matrix::of(results) {
        heat_maps(&mut out, &matrix);
        out.push_str(&chart::scalability(&matrix).svg());
    }
    let is_sweep = Matrix::of(results).is_some();
    Table::of(results).iter().filter(|_| !is_sweep).for_each(|table| out += &table.html());
    for result in results {
        one(&mut out, result, results.first().filter(|_| !is_sweep));
    }
    out + "</body></html>\n"
}

/// `first`: the result with which this one is compared.
fn one(out: &mut String, result: &ResultFile, first: Option<&ResultFile>) {
    let point: Vec<String> = result.point.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let heading = if point.is_empty() { result.target.url.clone() } else { point.join(", ") };
    let tls = if result.target.is_encrypted { ", under TLS" } else { "" };
    let _ = writeln!(
        out,
        "<section><h2>{}</h2><p class=\"what\">{}{tls}<br>{}</p>",
        escaped(&heading),
        escaped(text::first_line(&result.target.version)),
        escaped(&text::pace(&result.plan))
    );
    if let Some(blemish) = result.blemish() {
        let _ =
            writeln!(out, "<p class=\"bad\">Incomplete: {}. It ranks with no other.</p>", escaped(&blemish));
    }
    let differences = first.map(|first| Differences::between(first, result).lines()).unwrap_or_default();
    for difference in differences {
        let told = format!("{difference} (from the first result)");
        let _ = writeln!(out, "<p class=\"warn\">{}</p>", escaped(&told));
    }
    for warning in warnings(result) {
        let _ = writeln!(out, "<p class=\"warn\">{}</p>", escaped(&sentence(&warning)));
    }
    cards(out, result);
    for (i, outcome) in result.repeats.iter().enumerate() {
        if result.repeats.len() > 1 {
            let _ = writeln!(out, "<h3>Repeat {} of {}</h3>", i + 1, result.repeats.len());
        }
        out.push_str("<div class=\"plots\">\n");
        chart::of(outcome).iter().for_each(|plot| out.push_str(&plot.svg()));
        out.push_str("</div>\n");
        operations(out, outcome);
    }
    notes(out, result);
    out.push_str("</section>\n");
}

/// A text that begins as one within a line.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Over all repeats, with intervals.
fn cards(out: &mut String, result: &ResultFile) {
    let estimates = Seconds::of(&result.repeats).estimates(&CARDS);
    out.push_str("<div class=\"cards\">\n");
    for ((figure, Estimate { value, interval }), floor) in
        CARDS.iter().zip(estimates).zip(floors(result, &CARDS))
    {
        let (name, unit, show): (_, _, fn(f64) -> String) = match figure {
            Figure::Rate => ("throughput".to_owned(), "/s", |value| format!("{value:.1}")),
            Figure::Missed => ("late, skipped or never begun".to_owned(), "%", |value| format!("{value:.2}")),
            _ => (figure.name(), "ms", ms),
        };
        let range = interval
            .map_or("too few to tell".to_owned(), |(low, high)| format!("{} to {}", show(low), show(high)));
        let noise = floor.map(|floor| format!("<br>noise ± {:.1} %", floor * 100.0)).unwrap_or_default();
        let _ = writeln!(
            out,
            "<div><span>{name}</span><b>{} <small>{unit}</small></b><span>{range}{noise}</span></div>",
            show(value)
        );
    }
    out.push_str("</div>\n");
}

fn operations(out: &mut String, outcome: &Outcome) {
    out.push_str("<table class=\"operations\"><tr><th>operation</th>");
    let heads = [
        "count",
        "a second",
        "late %",
        "skipped %",
        "failed",
        "mean ms",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max",
    ];
    heads.iter().for_each(|head| *out += &format!("<th>{head}</th>"));
    out.push_str("</tr>\n");
    let total = outcome.record.total();
    let asked = outcome.operations.iter().map(String::as_str).zip(&outcome.record.operations);
    let asked: Vec<(&str, &Tally)> = asked.filter(|(_, tally)| tally.asked() > 0).collect();
    let all = (asked.len() > 1).then_some(("all", &total));
    for (name, tally) in asked.iter().copied().chain(all) {
        let rate = if outcome.elapsed_s > 0.0 { tally.processed as f64 / outcome.elapsed_s } else { 0.0 };
        let mut cells = vec![
            tally.processed.to_string(),
            format!("{rate:.1}"),
            format!("{:.2}", percent(tally.late, tally.processed)),
            format!("{:.2}", percent(tally.skipped, tally.asked())),
            tally.failed.to_string(),
            shown(&tally.response, tally.response.mean()),
        ];
        let times = &tally.response;
        cells.extend([0.5, 0.95, 0.99, 0.999].map(|share| shown(times, times.quantile(share) as f64)));
        cells.push(shown(times, times.max() as f64));
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        let _ = writeln!(out, "<tr><th>{}</th>{cells}</tr>", escaped(name));
    }
    out.push_str("</table>\n");
}

/// Answers, what the generator cost, and all of it as text.
fn notes(out: &mut String, result: &ResultFile) {
    out.push_str("<ul>\n");
    for check in &result.checks {
        let (class, mark) = if check.passed { ("right", "right") } else { ("wrong", "WRONG") };
        let (name, detail) = (escaped(&check.name), escaped(&check.detail));
        let _ = writeln!(out, "<li class=\"{class}\">{mark}: {name}: {detail}</li>");
    }
    for line in result.outcomes().flat_map(|outcome| outcome.errors.lines()) {
        let _ = writeln!(out, "<li class=\"wrong\">{}</li>", escaped(&line));
    }
    for remark in remarks(result) {
        let _ = writeln!(out, "<li>{}</li>", escaped(&remark));
    }
    out.push_str("</ul>\n");
    let settings: String =
        result.target.server_settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    for (summary, text) in
        [("The report as text", text::report(result)), ("Settings of the server", settings)]
    {
        if !text.is_empty() {
            let _ =
                writeln!(out, "<details><summary>{summary}</summary><pre>{}</pre></details>", escaped(&text));
        }
    }
}

fn heat_maps(out: &mut String, matrix: &Matrix<'_>) {
    for (i, shown) in SHOWN.iter().enumerate() {
        let down =
            if matrix.row_name.is_empty() { String::new() } else { format!("{} \\ ", matrix.row_name) };
        let names = escaped(&format!("{down}{}", matrix.column_name));
        let _ = writeln!(out, "<h2>{}</h2><table class=\"heat\"><tr><th>{names}</th>", shown.name);
        for column in &matrix.columns {
            let _ = write!(out, "<th>{}</th>", escaped(column));
        }
        out.push_str("</tr>\n");
        let values = matrix.rows.iter().flat_map(|(_, cells)| cells.iter().flatten());
        let most = values.filter_map(|result| shown.value(result)).fold(0.0, f64::max);
        for ((name, cells), intervals) in matrix.rows.iter().zip(&matrix.intervals) {
            let _ = write!(out, "<tr><th>{}</th>", escaped(name));
            for (cell, intervals) in cells.iter().zip(intervals) {
                heat_cell(out, shown, *cell, &shown.range(*cell, intervals[i]), most);
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</table>\n");
    }
}

/// The darker, the more of what is shown.
fn heat_cell(out: &mut String, shown: &Shown, cell: Option<&ResultFile>, range: &str, most: f64) {
    let heat = cell
        .and_then(|result| shown.value(result))
        .filter(|value| !value.is_nan() && most > 0.0)
        .map_or(0.0, |value| value / most);
    let lightness = 97.0 - 45.0 * heat;
    let _ = write!(
        out,
        "<td style=\"background:hsl(28 85% {lightness:.0}%)\">{} <small>{}</small></td>",
        escaped(&shown.cell(cell)),
        escaped(range)
    );
}
