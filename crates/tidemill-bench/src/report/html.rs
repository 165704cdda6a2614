//! Results as one HTML page that needs nothing else.

use std::fmt::Write;

use super::matrix::{Matrix, RATE, SHOWN, Shown};
use super::plot::{Plot, Series, escaped};
use super::text;
use crate::histogram::Histogram;
use crate::result::ResultFile;
use crate::run::{Outcome, Slice};

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
    figure{margin:1em 0}svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif}svg .title{font-weight:600;font-size:13px}\
    svg .end{text-anchor:end}svg .middle{text-anchor:middle}svg .grid{stroke:#e4e4e4}svg .axis{stroke:#777}\
    pre{background:#f6f6f6;padding:1em;overflow:auto;font-size:12px}table{border-collapse:collapse;margin:.5em 0 1.5em}\
    td,th{padding:.35em .8em;text-align:right;border:1px solid #fff}th{font-weight:600}.bad{background:#fde0e0;padding:.6em 1em}";

const COUNTS: [(&str, fn(&Slice) -> u64); 4] = [
    ("ended well", |i| i.processed),
    ("late", |i| i.late),
    ("skipped", |i| i.skipped),
    ("failed", |i| i.failed),
];

/// Where the spectrum of percentiles has marks.
const SPECTRUM: [f64; 7] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

pub fn page(results: &[ResultFile]) -> String {
    let title = results
        .first()
        .map_or("tidemill bench".to_owned(), |result| format!("{}: tidemill bench", result.suite));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{STYLE}</style></head><body>\n<h1>{}</h1>\n",
        escaped(&title),
        escaped(&title)
    );
    if let Some(matrix) = Matrix::of(results) {
        heat_maps(&mut out, &matrix);
        out.push_str(&scalability(&matrix).svg());
    }
    for result in results {
        one(&mut out, result);
    }
    out + "</body></html>\n"
}

fn one(out: &mut String, result: &ResultFile) {
    let point: Vec<String> = result.point.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let heading = if point.is_empty() { result.target.url.clone() } else { point.join(", ") };
    let _ = writeln!(out, "<h2>{}</h2>", escaped(&heading));
    if let Some(blemish) = result.blemish() {
        let _ =
            writeln!(out, "<p class=\"bad\">Incomplete: {}. It ranks with no other.</p>", escaped(&blemish));
    }
    for outcome in &result.repeats {
        for plot in [throughput(outcome), over_time(outcome), spectrum(outcome)] {
            out.push_str(&plot.svg());
        }
    }
    let _ = writeln!(out, "<pre>{}</pre>", escaped(&text::report(result)));
    let settings: String =
        result.target.server_settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    if !settings.is_empty() {
        let _ = writeln!(
            out,
            "<details><summary>Settings of the server</summary><pre>{}</pre></details>",
            escaped(&settings)
        );
    }
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
fn seconds(outcome: &Outcome) -> Vec<(f64, Slice)> {
    let width = outcome.record.interval_ns as f64 / 1e9;
    let whole = (outcome.elapsed_s / width).floor().max(1.0) as usize;
    let intervals = outcome.record.intervals.iter().take(whole).enumerate();
    intervals.map(|(i, interval)| (i as f64 * width, interval.total())).collect()
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

fn heat_maps(out: &mut String, matrix: &Matrix<'_>) {
    for shown in &SHOWN {
        let _ = writeln!(
            out,
            "<h2>{}</h2><table><tr><th>{} \\ {}</th>",
            shown.name,
            escaped(&matrix.row_name),
            escaped(&matrix.column_name)
        );
        for column in &matrix.columns {
            let _ = write!(out, "<th>{}</th>", escaped(column));
        }
        out.push_str("</tr>\n");
        let values = matrix.rows.iter().flat_map(|(_, cells)| cells.iter().flatten());
        let most = values.filter_map(|result| shown.value(result)).fold(0.0, f64::max);
        for (name, cells) in &matrix.rows {
            let _ = write!(out, "<tr><th>{}</th>", escaped(name));
            cells.iter().for_each(|cell| heat_cell(out, shown, *cell, most));
            out.push_str("</tr>\n");
        }
        out.push_str("</table>\n");
    }
}

/// What was measured over clients, and the law that fits it.
fn scalability(matrix: &Matrix<'_>) -> Plot {
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

/// The darker, the more of what is shown.
fn heat_cell(out: &mut String, shown: &Shown, cell: Option<&ResultFile>, most: f64) {
    let heat =
        cell.and_then(|result| shown.value(result)).filter(|_| most > 0.0).map_or(0.0, |value| value / most);
    let lightness = 97.0 - 45.0 * heat;
    let _ = write!(
        out,
        "<td style=\"background:hsl(28 85% {lightness:.0}%)\">{}</td>",
        escaped(&shown.cell(cell))
    );
}
