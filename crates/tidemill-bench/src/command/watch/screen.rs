//! One screen for people, drawn over itself: how far the run is, what it does now, every operation, the server.

use std::io::Write as _;
use std::time::Duration;

use super::activity::Activity;
use crate::figure::{ms, percent};
use crate::histogram::Histogram;
use crate::machine::memory_max_bytes;
use crate::report::text::shown;
use crate::run::{Pace, Plan, Progress, Slice, Tally, cpu_seconds};
use crate::target::Target;

/// How often it is drawn anew.
const DRAW_EVERY: Duration = Duration::from_millis(500);
/// Columns and rows of a terminal that does not say.
const SIZE_DEFAULT: (usize, usize) = (100, 40);
/// Of lines that show the last intervals.
const SPARKS: usize = 40;
const BAR: usize = 40;

pub struct Screen {
    heading: String,
    warmup: Duration,
    time: Duration,
    /// Of all clients together, which end the run before its time.
    operations_max: Option<u64>,
    drawn_lines: usize,
    next_at: Duration,
    /// When it was drawn last, and the CPU that was used by then, s.
    last: (Duration, f64),
    activity: Option<Activity>,
}

impl Screen {
    pub fn new(suite: &str, plan: &Plan, target: &Target) -> Self {
        let pace = match plan.pace {
            Pace::Poisson(rate) | Pace::Constant(rate) => format!("open loop, {rate} a second"),
            Pace::Closed => "CLOSED loop".to_owned(),
        };
        Self {
            heading: format!("{suite} on {}: {} clients, {pace}", target.url(), plan.clients),
            warmup: plan.warmup,
            time: plan.time,
            operations_max: plan.operations_max.map(|each| each.saturating_mul(plan.clients as u64)),
            drawn_lines: 0,
            next_at: Duration::ZERO,
            last: (Duration::ZERO, cpu_seconds()),
            activity: Activity::of(target),
        }
    }

    pub fn show(&mut self, progress: &Progress<'_>) {
        if progress.at < self.next_at {
            return;
        }
        self.next_at = progress.at + DRAW_EVERY;
        let (columns, rows) = terminal_size();
        let mut lines = self.lines(progress);
        // What has scrolled away cannot be drawn over.
        lines.truncate(rows.saturating_sub(1));
        let mut out = String::new();
        if self.drawn_lines > 0 {
            out += &format!("\x1b[{}F", self.drawn_lines);
        }
        for line in &lines {
            // A line that the terminal would break were two the next time.
            out.extend(line.chars().take(columns.saturating_sub(1)));
            out += "\x1b[K\n";
        }
        // What was longer before is gone.
        out += "\x1b[J";
        self.drawn_lines = lines.len();
        // A terminal that is gone does not end the run.
        let _ = std::io::stderr().write_all(out.as_bytes());
    }

    fn lines(&mut self, progress: &Progress<'_>) -> Vec<String> {
        let total = progress.record.total();
        let intervals = &progress.record.intervals;
        let shown: Vec<Slice> =
            intervals.iter().skip(intervals.len().saturating_sub(SPARKS)).map(|i| i.total()).collect();
        let mut lines = vec![self.heading.clone(), self.bar(progress), String::new()];
        lines.extend(rates(&shown, progress, &total, self.warmup));
        lines.push(String::new());
        lines.push(head());
        let operations = progress.operations.iter().zip(&progress.record.operations);
        let asked = operations.filter(|(_, tally)| tally.asked() > 0);
        lines.extend(asked.map(|(name, tally)| row(name, tally)));
        lines.push(row("all", &total));
        lines.extend(progress.errors.lines());
        lines.push(String::new());
        if let Some(activity) = &self.activity {
            lines.push(format!("server     {}", activity.text()));
        }
        lines.push(self.generator(progress.at));
        lines
    }

    fn bar(&self, progress: &Progress<'_>) -> String {
        let whole = (self.warmup + self.time).as_secs_f64().max(0.001);
        let at = progress.at.as_secs_f64();
        let done = self.operations_max.map(|most| (progress.record.total().asked(), most));
        let share = done.map_or(0.0, |(done, most)| done as f64 / most as f64).max(at / whole);
        let full = (share.min(1.0) * BAR as f64) as usize;
        let bar: String = (0..BAR).map(|i| if i < full { '█' } else { '░' }).collect();
        let phase = match (progress.is_warmup, at > whole) {
            (true, _) => "warming up, not counted",
            (false, false) => "measuring",
            (false, true) => "waiting for the last answers",
        };
        match done {
            Some((done, most)) => format!("{bar} {done} of {most} operations, {at:.0} s, {phase}"),
            None => format!("{bar} {:.0} s of {whole:.0} s, {phase}", at.min(whole)),
        }
    }

    fn generator(&mut self, at: Duration) -> String {
        let cpu = cpu_seconds();
        let seconds = (at - self.last.0).as_secs_f64().max(0.001);
        let share = (cpu - self.last.1) / seconds * 100.0;
        self.last = (at, cpu);
        format!("generator  {share:.0} % of a core, {:.0} MB", memory_max_bytes() as f64 / 1e6)
    }
}

fn terminal_size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => SIZE_DEFAULT,
    }
}

/// Throughput and the slow end of the responses: in the last whole interval, so far, and as a line.
fn rates(slices: &[Slice], progress: &Progress<'_>, total: &Tally, warmup: Duration) -> Vec<String> {
    let width_s = progress.record.interval_ns as f64 / 1e9;
    let measured_s = progress.at.saturating_sub(warmup).as_secs_f64().max(0.001);
    // The last one is not over yet.
    let whole = &slices[..slices.len().saturating_sub(1)];
    let per_s: Vec<f64> = whole.iter().map(|slice| slice.processed as f64 / width_s).collect();
    let p99_of = |response: &Histogram| match response.is_empty() {
        true => f64::NAN,
        false => response.quantile(0.99) as f64,
    };
    let p99: Vec<f64> = whole.iter().map(|slice| p99_of(&slice.response)).collect();
    let line = |name: &str, now: String, so_far: String, values: &[f64]| {
        format!("{name:<11}{now:>10} now {so_far:>10} so far  {}", sparks(values))
    };
    vec![
        line(
            "a second",
            format!("{:.1}", per_s.last().copied().unwrap_or(0.0)),
            format!("{:.1}", total.processed as f64 / measured_s),
            &per_s,
        ),
        line("p99 ms", ms(p99.last().copied().unwrap_or(f64::NAN)), ms(p99_of(&total.response)), &p99),
    ]
}

/// A bar for each value, the highest full.
fn sparks(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| if most > 0.0 { BARS[(value / most * 7.0).round() as usize] } else { BARS[0] };
    values.iter().map(bar).collect()
}

fn head() -> String {
    format!(
        "{:<24} {:>9} {:>7} {:>7} {:>6} {:>9} {:>9} {:>9} {:>9} ms",
        "operation", "count", "late %", "skip %", "failed", "mean", "p50", "p99", "max"
    )
}

fn row(name: &str, tally: &Tally) -> String {
    let response = &tally.response;
    let times = [
        response.mean(),
        response.quantile(0.5) as f64,
        response.quantile(0.99) as f64,
        response.max() as f64,
    ];
    let times: String = times.iter().map(|time| format!(" {:>9}", shown(response, *time))).collect();
    let name: String = name.chars().take(24).collect();
    format!(
        "{name:<24} {:>9} {:>7.2} {:>7.2} {:>6}{times}",
        tally.processed,
        percent(tally.late, tally.processed),
        percent(tally.skipped, tally.asked()),
        tally.failed
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Failures, Interval, Record};

    #[test]
    fn a_screen_tells_how_far_it_is_and_every_operation() {
        let plan = Plan {
            clients: 4,
            threads: None,
            pace: Pace::Poisson(100.0),
            limit: None,
            warmup: Duration::from_secs(2),
            time: Duration::from_secs(18),
            operations_max: None,
            seed: 1,
        };
        let target = Target::open("noop:").unwrap();
        let mut tally = Tally { processed: 200, late: 2, ..Tally::default() };
        (0..200).for_each(|i| tally.response.record(1_000_000 * (i + 1)));
        let mut slice = Slice { processed: 100, ..Slice::default() };
        (0..100).for_each(|i| slice.response.record(1_000_000 * (i + 1)));
        let interval = Interval { operations: vec![slice, Slice::default()], ..Interval::new(0) };
        let record = Record {
            interval_ns: 1_000_000_000,
            intervals: vec![interval.clone(), interval.clone(), interval],
            operations: vec![tally, Tally::default()],
            oversleep: Default::default(),
            last_end_ns: 0,
        };
        let operations = ["new order".to_owned(), "never asked".to_owned()];
        let mut errors = Failures::default();
        errors.add(&crate::error::Error::server("40001", "could not serialize access"));
        let at = Duration::from_secs(5);
        let progress = Progress {
            at,
            is_warmup: false,
            operations: &operations,
            record: &record,
            errors: &errors,
            samples: &[],
        };
        let lines = Screen::new("orders", &plan, &target).lines(&progress);
        assert_eq!(lines[0], "orders on noop:: 4 clients, open loop, 100 a second");
        assert_eq!(lines[1], format!("{}{} 5 s of 20 s, measuring", "█".repeat(10), "░".repeat(30)));
        assert_eq!(lines[3], "a second        100.0 now       66.7 so far  ██");
        assert!(
            lines[7].starts_with("new order                      200    1.00    0.00      0     100.5"),
            "{}",
            lines[7]
        );
        assert!(!lines.iter().any(|line| line.contains("never asked")));
        let counted = Plan { operations_max: Some(100), ..plan };
        let bar = Screen::new("orders", &counted, &target).bar(&progress);
        assert_eq!(
            bar,
            format!("{}{} 200 of 400 operations, 5 s, measuring", "█".repeat(20), "░".repeat(20))
        );
        let error = "error 40001: 1 operations failed; the first: could not serialize access (40001)";
        assert_eq!(lines[9], error);
    }
}
