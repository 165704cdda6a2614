//! What the server does meanwhile, asked on a connection of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::target::{Connection, Dialect, Rows, Target};

/// Each time costs the server these queries.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// A question whose answer is told as it is.
const SESSIONS: &str = "select coalesce(wait_event_type || ' ' || wait_event, state), count(*) from pg_stat_activity \
                        where state <> 'idle' and pid <> pg_backend_pid() group by 1 order by 2 desc, 1 limit 4";

/// Questions whose answers are numbers that grow; how quickly they do is told.
const COUNTERS: [(Dialect, &str, Told); 3] = [
    (
        Dialect::Postgres,
        "select sum(xact_commit + xact_rollback), sum(blks_hit), sum(blks_hit + blks_read) from pg_stat_database",
        |grown, s| {
            let cached = if grown[2] > 0.0 { 100.0 * grown[1] / grown[2] } else { 100.0 };
            format!("{:.0} transactions/s, {cached:.1} % of blocks from the cache", grown[0] / s)
        },
    ),
    (Dialect::Postgres, "select pg_current_wal_lsn() - '0/0'", |grown, s| {
        format!("{:.1} MB of WAL/s", grown[0] / s / 1e6)
    }),
    (
        Dialect::MySql,
        "select variable_value from information_schema.global_status where variable_name = 'QUESTIONS'",
        |grown, s| format!("{:.0} statements/s", grown[0] / s),
    ),
];

/// By how much the numbers have grown, and in how many seconds.
type Told = fn(&[f64], f64) -> String;

pub(super) struct Activity {
    text: Arc<Mutex<String>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    target: Target,
}

impl Activity {
    /// None where there is nothing to ask.
    pub fn of(target: &Target) -> Option<Activity> {
        if !COUNTERS.iter().any(|(dialect, ..)| *dialect == target.dialect()) {
            return None;
        }
        let mut questions = Questions::new(target)?;
        let (text, stop) = (Arc::<Mutex<String>>::default(), Arc::<AtomicBool>::default());
        let (written, stopped) = (Arc::clone(&text), Arc::clone(&stop));
        let ask = move || {
            while !stopped.load(Ordering::Relaxed) {
                let answer = questions.ask();
                *written.lock().unwrap_or_else(PoisonError::into_inner) = answer;
                std::thread::park_timeout(ASK_EVERY);
            }
        };
        let thread = std::thread::Builder::new().spawn(ask).ok();
        Some(Activity { text, stop, thread, target: target.clone() })
    }

    pub fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

struct Questions {
    connection: Box<dyn Connection>,
    rows: Rows,
    knows_sessions: bool,
    counters: Vec<Counter>,
}

struct Counter {
    sql: &'static str,
    told: Told,
    last: Option<(Instant, Vec<f64>)>,
}

impl Questions {
    fn new(target: &Target) -> Option<Questions> {
        let dialect = target.dialect();
        let counters = COUNTERS.iter().filter(|(of, ..)| *of == dialect);
        let counters = counters.map(|(_, sql, told)| Counter { sql, told: *told, last: None }).collect();
        let connection = target.connect().ok()?;
        Some(Questions {
            connection,
            rows: Rows::default(),
            knows_sessions: dialect == Dialect::Postgres,
            counters,
        })
    }

    /// Not every server of a protocol has every relation: what it cannot answer once is not asked again.
    fn ask(&mut self) -> String {
        let mut told = Vec::new();
        if self.knows_sessions {
            match self.sessions() {
                Some(sessions) => told.push(sessions),
                None => self.knows_sessions = false,
            }
        }
        let mut counters = std::mem::take(&mut self.counters);
        counters.retain_mut(|counter| match self.connection.query(counter.sql, &mut self.rows) {
            Ok(_) => {
                told.extend(counter.grown(&self.rows));
                true
            }
            Err(_) => false,
        });
        self.counters = counters;
        told.join("; ")
    }

    fn sessions(&mut self) -> Option<String> {
        self.connection.query(SESSIONS, &mut self.rows).ok()?;
        let rows = &self.rows;
        let of = |row| format!("{} {}", rows.int(row, 1).unwrap_or(0), rows.text(row, 0).unwrap_or_default());
        let all: Vec<String> = (0..rows.len()).map(of).collect();
        Some(if all.is_empty() { "idle".to_owned() } else { all.join(", ") })
    }
}

impl Counter {
    /// None the first time.
    fn grown(&mut self, rows: &Rows) -> Option<String> {
        let now = Instant::now();
        let values: Vec<f64> =
            (0..rows.columns()).map(|column| rows.float(0, column).unwrap_or(0.0)).collect();
        let (then, before) = self.last.replace((now, values.clone()))?;
        let grown: Vec<f64> = values.iter().zip(&before).map(|(value, before)| value - before).collect();
        (grown.len() == values.len()).then(|| (self.told)(&grown, (now - then).as_secs_f64().max(1e-3)))
    }
}
