//! What is shown while a run goes on: lines for logs, one screen for people.

mod activity;
mod screen;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::Duration;

use crate::report::text::shown;
use crate::run::{Pace, Plan, Progress, Tally};
use crate::target::Target;
use screen::Screen;

/// Lines where output goes to a file, a screen where it goes to a terminal, nothing with an interval of 0.
pub(super) enum Watch {
    Nothing,
    Lines(Lines),
    Screen(Screen),
}

impl Watch {
    pub fn new(every_s: u64, suite: &str, plan: &Plan, target: &Target) -> Self {
        match (every_s, std::io::stderr().is_terminal()) {
            (0, _) => Watch::Nothing,
            (_, true) => Watch::Screen(Screen::new(suite, plan, target)),
            (every_s, false) => Watch::Lines(Lines::new(every_s, plan)),
        }
    }

    pub fn show(&mut self, progress: &Progress<'_>) {
        match self {
            Watch::Nothing => {}
            Watch::Lines(lines) => lines.show(progress),
            Watch::Screen(screen) => screen.show(progress),
        }
    }
}

/// Lines of progress in pgbench's form, each about the time since the one before.
pub(super) struct Lines {
    every_s: u64,
    next_s: u64,
    last: Tally,
    last_at: Duration,
    is_open_loop: bool,
    /// Codes of errors that were told.
    told: BTreeSet<String>,
}

impl Lines {
    fn new(every_s: u64, plan: &Plan) -> Self {
        let is_open_loop = plan.pace != Pace::Closed;
        // Nothing is counted before.
        let (last, last_at, told) = (Tally::default(), plan.warmup, BTreeSet::new());
        Self { every_s, next_s: every_s, last, last_at, is_open_loop, told }
    }

    /// A new kind of error is told once, and at once.
    fn tell_errors(&mut self, progress: &Progress<'_>) {
        for (code, failure) in progress.errors.iter() {
            if self.told.insert(code.to_owned()) {
                eprintln!("error {code}: {}", failure.text);
            }
        }
    }

    fn show(&mut self, progress: &Progress<'_>) {
        self.tell_errors(progress);
        self.line(progress).into_iter().for_each(|line| eprintln!("{line}"));
    }

    fn line(&mut self, progress: &Progress<'_>) -> Option<String> {
        if progress.at.as_secs() < self.next_s {
            return None;
        }
        self.next_s = (progress.at.as_secs() / self.every_s + 1) * self.every_s;
        let total = progress.record.total();
        let seconds = progress.at.saturating_sub(self.last_at).as_secs_f64().max(0.001);
        let count = (total.processed - self.last.processed) as f64;
        let mean = |sum: f64| if count == 0.0 { 0.0 } else { sum / count };
        let lat = mean(total.response.sum() - self.last.response.sum());
        let squares = total.response.sum_of_squares() - self.last.response.sum_of_squares();
        let stddev = (mean(squares) - lat * lat).max(0.0).sqrt();
        let mut line = match progress.is_warmup {
            true => format!("warm-up: {:.1} s", progress.at.as_secs_f64()),
            false => format!(
                "progress: {:.1} s, {:.1} tps, lat {:.3} ms stddev {:.3}, {} failed",
                progress.at.as_secs_f64(),
                count / seconds,
                lat / 1e6,
                stddev / 1e6,
                total.failed - self.last.failed
            ),
        };
        if self.is_open_loop && !progress.is_warmup {
            line += &format!(
                ", lag {:.3} ms, {} skipped, {} late",
                mean(total.lag.sum() - self.last.lag.sum()) / 1e6,
                total.skipped - self.last.skipped,
                total.late - self.last.late
            );
        }
        if !progress.is_warmup {
            line += &format!("; p50 {} p99 {} ms so far", quantile(&total, 0.5), quantile(&total, 0.99));
        }
        (self.last, self.last_at) = (total, progress.at.max(self.last_at));
        Some(line)
    }
}

fn quantile(total: &Tally, share: f64) -> String {
    shown(&total.response, total.response.quantile(share) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Failures, Record};

    /// Two seconds of warm-up, 20 operations a second.
    #[test]
    fn rates_are_those_after_the_warmup() {
        let plan = Plan {
            clients: 1,
            threads: None,
            pace: Pace::Closed,
            limit: None,
            warmup: Duration::from_secs(2),
            time: Duration::from_secs(10),
            operations_max: None,
            seed: 1,
        };
        let mut lines = Lines::new(1, &plan);
        let mut at = |ms: u64| {
            let at = Duration::from_millis(ms);
            let processed = at.saturating_sub(plan.warmup).as_millis() as u64 / 50;
            let mut tally = Tally { processed, ..Tally::default() };
            (0..processed)
                .for_each(|i| tally.response.record(if i % 2 == 0 { 1_000_000 } else { 3_000_000 }));
            let record = Record { operations: vec![tally], ..Record::default() };
            let (is_warmup, errors) = (at < plan.warmup, &Failures::default());
            lines.line(&Progress { at, is_warmup, operations: &[], record: &record, errors, samples: &[] })
        };
        assert_eq!(at(1_500).as_deref(), Some("warm-up: 1.5 s"));
        assert_eq!(at(1_900), None);
        let line = "progress: 2.5 s, 20.0 tps, lat 2.000 ms stddev 1.000, 0 failed; p50 ";
        let told = at(2_500).unwrap();
        assert!(told.starts_with(line), "{told}");
        assert!(at(3_000).unwrap().starts_with("progress: 3.0 s, 20.0 tps"));
    }
}
