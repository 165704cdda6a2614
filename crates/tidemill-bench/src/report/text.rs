//! The report of one result as text.

use super::noise::floors;
use super::remark::{remarks, warnings};
use crate::figure::{ms, percent};
use crate::histogram::Histogram;
use crate::result::{PlanRecord, ResultFile};
use crate::run::{Outcome, Pace, Part, TIME_MAX, Tally};
use crate::stats::{Estimate, Figure, Seconds, Times};

pub fn report(result: &ResultFile) -> String {
    let mut out = String::new();
    head(&mut out, result);
    if let Some(blemish) = result.blemish() {
        put(&mut out, &format!("INCOMPLETE: {blemish}"));
        put(&mut out, "These figures are not the run that was asked for, and rank with no other.");
    }
    figures(&mut out, result);
    for (i, outcome) in result.repeats.iter().enumerate() {
        if result.repeats.len() > 1 {
            put(&mut out, &format!("\nrepeat {} of {}", i + 1, result.repeats.len()));
        }
        outcome_block(&mut out, outcome);
    }
    operations(&mut out, result);
    for (name, value) in &result.figures {
        let interval = result.figure_intervals.get(name);
        let interval = interval.map(|(low, high)| format!(" ({low:.3} to {high:.3})")).unwrap_or_default();
        put(&mut out, &format!("{name}: {value:.3}{interval}"));
    }
    parts(&mut out, result);
    checks(&mut out, result);
    remarks(result).iter().for_each(|remark| put(&mut out, remark));
    warnings(result).iter().for_each(|warning| put(&mut out, &format!("WARNING: {warning}")));
    out
}

fn put(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn head(out: &mut String, result: &ResultFile) {
    let target = &result.target;
    let tls = if target.is_encrypted { " under TLS" } else { "" };
    put(out, &format!("{} on {}{tls}: {}", result.suite, target.url, first_line(&target.version)));
    put(out, &pace(&result.plan));
    let pairs = |pairs: &std::collections::BTreeMap<String, String>| {
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    if let Some(mode) = result.mode {
        put(out, &format!("mode: {}", mode.name()));
    }
    let given = [
        ("parameters", &result.parameters),
        ("variables", &result.variables),
        ("settings", &result.settings),
    ];
    for (label, values) in given {
        if !values.is_empty() {
            put(out, &format!("{label}: {}", pairs(values)));
        }
    }
    let machine = &result.machine;
    put(
        out,
        &format!(
            "{} cores ({}), load {} before; seed {}",
            machine.cores, machine.cpu, machine.load_before, result.plan.seed
        ),
    );
}

/// What was asked, and for how long.
pub fn pace(plan: &PlanRecord) -> String {
    let pace = match plan.pace {
        Pace::Poisson(rate) => format!("open loop, {rate} a second (Poisson)"),
        Pace::Constant(rate) => format!("open loop, {rate} a second (evenly spaced)"),
        Pace::Closed => {
            "CLOSED loop: a slow server is asked less, and response times leave out the waiting".to_owned()
        }
    };
    let limit = plan.limit_ms.map(|ms| format!(", limit {ms} ms")).unwrap_or_default();
    let operations = plan.operations_max.map(|count| format!("{count} operations of each"));
    let time = (plan.time_s < TIME_MAX.as_secs_f64()).then(|| format!("{} s", plan.time_s));
    let length: Vec<String> = operations.into_iter().chain(time).collect();
    let length = length.join(", at most ");
    format!("{pace}{limit}; {} clients; {length} after {} s of warm-up", plan.clients, plan.warmup_s)
}

pub fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The intervals of what the tables tell of each operation, over all repeats.
fn operations(out: &mut String, result: &ResultFile) {
    let Some(first) = result.repeats.first().filter(|outcome| outcome.operations.len() > 1) else { return };
    let mut figures = vec![Figure::Rate];
    figures.extend(TIMES);
    figures.extend(limited(result, &[Figure::Late, Figure::Skipped]));
    let mut rows = Vec::new();
    for (index, name) in first.operations.iter().enumerate() {
        let estimates = Seconds::of_operation(&result.repeats, index).estimates(&figures);
        let is_asked = estimates.iter().any(|estimate| estimate.value > 0.0);
        let intervals: Vec<_> = estimates.iter().map(|estimate| estimate.interval).collect();
        let told = Some(intervals).filter(|of| is_asked && of.iter().any(Option::is_some));
        rows.extend(told.map(|intervals| (name, intervals)));
    }
    if rows.is_empty() {
        return;
    }
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(14);
    let heads: String = figures.iter().map(|figure| format!(" {:>22}", figure.name())).collect();
    put(out, &format!("\n{:<width$}{heads}", "95 % intervals"));
    for (name, intervals) in rows {
        let show = |(figure, interval): (&Figure, &Option<(f64, f64)>)| {
            let range = |(low, high)| format!("{} to {}", bare(*figure, low), figure.show(high));
            format!(" {:>22}", interval.map_or("-".to_owned(), range))
        };
        put(out, &format!("{name:<width$}{}", figures.iter().zip(&intervals).map(show).collect::<String>()));
    }
}

/// A maximum has no interval: it is one operation, and the next run's may be anything above.
const TIMES: [Figure; 5] = [
    Figure::Mean,
    Figure::Quantile(0.5),
    Figure::Quantile(0.95),
    Figure::Quantile(0.99),
    Figure::Quantile(0.999),
];

/// Nothing is late, or skipped, without a limit.
fn limited<'a>(result: &ResultFile, figures: &'a [Figure]) -> impl Iterator<Item = Figure> + use<'a> {
    let has_limit = result.plan.limit_ms.is_some();
    figures.iter().copied().filter(move |_| has_limit)
}

/// Without its unit.
fn bare(figure: Figure, value: f64) -> String {
    let shown = figure.show(value);
    let number = shown.trim_end_matches(|c: char| !c.is_ascii_digit());
    number.to_owned()
}

/// With intervals, over all repeats.
fn figures(out: &mut String, result: &ResultFile) {
    let mut figures = vec![Figure::Rate];
    figures.extend(TIMES);
    figures.push(Figure::Stddev);
    figures.extend(limited(result, &[Figure::Late, Figure::Skipped]));
    // Without a limit nothing is late, or skipped, but it may never have begun.
    let is_limited = result.plan.limit_ms.is_some();
    let has_backlog = || result.repeats.iter().any(|outcome| outcome.record.total().backlog > 0);
    figures.extend((is_limited || has_backlog()).then_some(Figure::Missed));
    let floors = floors(result, &figures);
    let noise_head = if result.again.is_empty() { "" } else { "noise (A/A)" };
    put(out, format!("\nfigure               value  {:<24}  {noise_head}", "95 % interval").trim_end());
    for (i, (figure, estimate)) in
        figures.iter().zip(Seconds::of(&result.repeats).estimates(&figures)).enumerate()
    {
        let noise = floors[i].map(|floor| format!("± {:.1} %", floor * 100.0)).unwrap_or_default();
        figure_line(out, &figure.name(), *figure, estimate, &noise);
    }
    for (name, times) in [("service", Times::Service), ("lag", Times::Lag)] {
        // In a closed loop nobody waits for a slot.
        if times == Times::Lag && result.plan.pace == Pace::Closed {
            continue;
        }
        let figures = [Figure::Mean, Figure::Quantile(0.99)];
        for (figure, estimate) in
            figures.iter().zip(Seconds::of_times(&result.repeats, times).estimates(&figures))
        {
            figure_line(out, &format!("{name} {}", figure.name()), *figure, estimate, "");
        }
    }
}

fn figure_line(out: &mut String, name: &str, figure: Figure, estimate: Estimate, noise: &str) {
    let Estimate { value, interval } = estimate;
    let range = interval.map_or("too few to tell".to_owned(), |(low, high)| {
        format!("{} to {}", figure.show(low), figure.show(high))
    });
    put(out, format!("{name:<12}{:>14}  {range:<24}  {noise}", figure.show(value)).trim_end());
}

fn outcome_block(out: &mut String, outcome: &Outcome) {
    let total = outcome.record.total();
    table(out, outcome, &total);
    let missed = total.missed();
    put(
        out,
        &format!(
            "late {}/{} ({:.3} %), skipped {} ({:.3} %), failed {} ({:.3} %), missed (late, skipped or never begun) {missed:.3} %, due and never begun {}",
            total.late,
            total.processed,
            percent(total.late, total.processed),
            total.skipped,
            percent(total.skipped, total.asked()),
            total.failed,
            percent(total.failed, total.asked()),
            total.backlog,
        ),
    );
    put(
        out,
        &format!(
            "response average = {} ms, stddev = {} ms; lag avg {} (max {}) ms",
            shown(&total.response, total.response.mean()),
            shown(&total.response, total.response.stddev()),
            shown(&total.lag, total.lag.mean()),
            shown(&total.lag, total.lag.max() as f64)
        ),
    );
    for (name, count) in &outcome.counters {
        put(out, &format!("{name}: {count}"));
    }
    outcome.errors.lines().iter().for_each(|line| put(out, line));
}

/// A figure of some times; times of nothing have none.
pub fn shown(times: &Histogram, value: f64) -> String {
    ms(if times.is_empty() { f64::NAN } else { value })
}

/// A row an operation, then all of them together by the three times.
fn table(out: &mut String, outcome: &Outcome, total: &Tally) {
    let names = outcome.operations.iter().map(|name| name.chars().count());
    let width = names.max().unwrap_or(0).max("all: response".len());
    let head = format!(
        "\n{:<width$} {:>9} {:>9} {:>8} {:>10} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} ms",
        "operation",
        "count",
        "rate",
        "late %",
        "skipped %",
        "failed",
        "mean",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max"
    );
    put(out, &head);
    let operations = outcome.operations.iter().map(String::as_str).zip(&outcome.record.operations);
    let asked = operations.filter(|(_, tally)| tally.asked() > 0);
    for (name, tally) in asked.chain([("all: response", total)]) {
        let rate = if outcome.elapsed_s > 0.0 { tally.processed as f64 / outcome.elapsed_s } else { 0.0 };
        let line = format!(
            "{name:<width$} {:>9} {rate:>9.1} {:>8.3} {:>10.3} {:>7} {}",
            tally.processed,
            percent(tally.late, tally.processed),
            percent(tally.skipped, tally.asked()),
            tally.failed,
            columns(&tally.response)
        );
        put(out, &line);
    }
    for (name, times) in [("all: service", &total.service), ("all: lag", &total.lag)] {
        put(out, &format!("{name:<width$} {:>47} {}", "", columns(times)));
    }
}

fn columns(times: &Histogram) -> String {
    let quantiles = [0.5, 0.95, 0.99, 0.999].map(|share| times.quantile(share) as f64);
    let all = [&[times.mean()], &quantiles[..], &[times.max() as f64]].concat();
    all.iter().map(|value| format!("{:>10}", shown(times, *value))).collect::<Vec<_>>().join(" ")
}

/// Where the time of scripts went. Steps are only added up, so repeats alone tell how sure their means are.
fn parts(out: &mut String, result: &ResultFile) {
    let with_parts: Vec<&Outcome> = result.repeats.iter().filter(|outcome| outcome.parts.len() > 1).collect();
    let Some(outcome) = with_parts.last() else { return };
    let of_repeats = if with_parts.len() > 1 { "  lowest to highest repeat" } else { "" };
    put(out, &format!("\nmean ms   count      step{of_repeats}"));
    for (i, part) in outcome.parts.iter().enumerate().filter(|(_, part)| part.count > 0) {
        let mean = |part: &Part| part.total_ns as f64 / part.count.max(1) as f64;
        let means = with_parts.iter().filter_map(|outcome| outcome.parts.get(i).map(mean));
        let (low, high) = means.fold((f64::MAX, 0.0_f64), |(low, high), m| (low.min(m), high.max(m)));
        let spread = match with_parts.len() {
            1 => String::new(),
            _ => format!("  {} to {} ms", ms(low), ms(high)),
        };
        let operation = outcome.operations.get(part.operation).map_or("", String::as_str);
        put(out, &format!("{:>8}  {:<9}  {operation}: {}{spread}", ms(mean(part)), part.count, part.text));
    }
}

fn checks(out: &mut String, result: &ResultFile) {
    for check in &result.checks {
        let mark = if check.passed { "right" } else { "WRONG" };
        put(out, &format!("{mark}: {}: {}", check.name, check.detail));
    }
}
