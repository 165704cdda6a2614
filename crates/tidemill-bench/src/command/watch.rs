//! What is shown while a run goes on: lines for logs, one screen for people.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::figure::{ms, percent};
use crate::run::{Pace, Progress, Tally};
use crate::target::{Dialect, Rows, Target};

/// How often the screen is drawn anew.
const DRAW_EVERY: Duration = Duration::from_millis(500);
/// How often the server is asked what it does. Each time costs it a query.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Lines where output goes to a file, a screen where it goes to a terminal, nothing with an interval of 0.
pub(super) enum Watch {
    Nothing,
    Lines(Lines),
    Screen(Screen),
}

impl Watch {
    pub fn new(every_s: u64, pace: Pace, target: &Target) -> Self {
        match (every_s, std::io::stderr().is_terminal()) {
            (0, _) => Watch::Nothing,
            (_, true) => Watch::Screen(Screen::new(target)),
            (every_s, false) => Watch::Lines(Lines::new(every_s, pace)),
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
}

impl Lines {
    fn new(every_s: u64, pace: Pace) -> Self {
        let is_open_loop = pace != Pace::Closed;
        Self { every_s, next_s: every_s, last: Tally::default(), last_at: Duration::ZERO, is_open_loop }
    }

    fn show(&mut self, progress: &Progress<'_>) {
        if progress.at.as_secs() < self.next_s {
            return;
        }
        self.next_s = (progress.at.as_secs() / self.every_s + 1) * self.every_s;
        let total = progress.record.total();
        let seconds = (progress.at - self.last_at).as_secs_f64();
        let count = (total.processed - self.last.processed) as f64;
        let mean = |sum: f64| if count == 0.0 { 0.0 } else { sum / count };
        let mut line = match progress.is_warmup {
            true => format!("warm-up: {:.1} s", progress.at.as_secs_f64()),
            false => format!(
                "progress: {:.1} s, {:.1} tps, lat {} ms, {} failed",
                progress.at.as_secs_f64(),
                count / seconds,
                ms(mean(total.response.sum() - self.last.response.sum())),
                total.failed - self.last.failed
            ),
        };
        if self.is_open_loop && !progress.is_warmup {
            line += &format!(
                ", lag {} ms, {} skipped, {} late",
                ms(mean(total.lag.sum() - self.last.lag.sum())),
                total.skipped - self.last.skipped,
                total.late - self.last.late
            );
        }
        if !progress.is_warmup {
            line += &format!("; p50 {} p99 {} ms so far", quantile(&total, 0.5), quantile(&total, 0.99));
        }
        eprintln!("{line}");
        (self.last, self.last_at) = (total, progress.at);
    }
}

fn quantile(total: &Tally, share: f64) -> String {
    ms(total.response.quantile(share) as f64)
}

/// Progress, every operation, and what the server does, drawn over itself.
pub(super) struct Screen {
    drawn_lines: usize,
    next_at: Duration,
    last: (Duration, u64),
    activity: Option<Activity>,
}

impl Screen {
    fn new(target: &Target) -> Self {
        Self {
            drawn_lines: 0,
            next_at: Duration::ZERO,
            last: (Duration::ZERO, 0),
            activity: Activity::of(target),
        }
    }

    fn show(&mut self, progress: &Progress<'_>) {
        if progress.at < self.next_at {
            return;
        }
        self.next_at = progress.at + DRAW_EVERY;
        let text = self.text(progress);
        let mut out = String::new();
        if self.drawn_lines > 0 {
            let _ = write!(out, "\x1b[{}F", self.drawn_lines);
        }
        for line in text.lines() {
            let _ = writeln!(out, "\x1b[K{line}");
        }
        self.drawn_lines = text.lines().count();
        // A terminal that is gone does not end the run.
        let _ = std::io::stderr().write_all(out.as_bytes());
    }

    fn text(&mut self, progress: &Progress<'_>) -> String {
        let total = progress.record.total();
        let seconds = (progress.at - self.last.0).as_secs_f64().max(0.001);
        let now = (total.processed - self.last.1.min(total.processed)) as f64 / seconds;
        self.last = (progress.at, total.processed);
        let phase = if progress.is_warmup { "warm-up, not counted" } else { "measuring" };
        let mut text = format!("{:.1} s  {phase}  {now:.1} a second now\n", progress.at.as_secs_f64());
        text += "operation                  count   late %  skipped %  failed       mean        p50        p99        max ms\n";
        for (name, tally) in progress.operations.iter().zip(&progress.record.operations) {
            row(&mut text, name, tally);
        }
        row(&mut text, "all", &total);
        if let Some(activity) = &self.activity {
            let _ = writeln!(text, "server: {}", activity.text());
        }
        text
    }
}

fn row(text: &mut String, name: &str, tally: &Tally) {
    let times =
        [tally.response.mean(), tally.response.quantile(0.5) as f64, tally.response.quantile(0.99) as f64];
    let times: String =
        times.iter().chain([&(tally.response.max() as f64)]).map(|v| format!(" {:>10}", ms(*v))).collect();
    let _ = writeln!(
        text,
        "{name:<22} {:>9} {:>8.2} {:>10.2} {:>7}{times}",
        tally.processed,
        percent(tally.late, tally.processed),
        percent(tally.skipped, tally.asked()),
        tally.failed
    );
}

/// What the sessions of a PostgreSQL server wait for, asked on a connection of its own.
struct Activity {
    text: Arc<Mutex<String>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    target: Target,
}

impl Activity {
    fn of(target: &Target) -> Option<Activity> {
        if target.dialect() != Dialect::Postgres {
            return None;
        }
        let mut connection = target.connect().ok()?;
        let (text, stop) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicBool::new(false)));
        let (written, stopped) = (Arc::clone(&text), Arc::clone(&stop));
        let ask = move || {
            let sql = "select coalesce(wait_event_type || ' ' || wait_event, state), count(*) from pg_stat_activity \
                       where state <> 'idle' and pid <> pg_backend_pid() group by 1 order by 2 desc, 1 limit 5";
            let mut rows = Rows::default();
            while !stopped.load(Ordering::Relaxed) {
                // Not every server has the relation; the screen is then without this line's content.
                if connection.query(sql, &mut rows).is_err() {
                    return;
                }
                let of = |row| {
                    format!("{} {}", rows.int(row, 1).unwrap_or(0), rows.text(row, 0).unwrap_or_default())
                };
                let all: Vec<String> = (0..rows.len()).map(of).collect();
                *written.lock().unwrap_or_else(PoisonError::into_inner) = all.join(", ");
                std::thread::park_timeout(ASK_EVERY);
            }
        };
        Some(Activity {
            text,
            stop,
            thread: std::thread::Builder::new().spawn(ask).ok(),
            target: target.clone(),
        })
    }

    fn text(&self) -> String {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if text.is_empty() { "idle".to_owned() } else { text }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The run's own connections have ended; a server that hangs must not keep this one.
            self.target.abort();
            let _ = thread.join();
        }
    }
}
