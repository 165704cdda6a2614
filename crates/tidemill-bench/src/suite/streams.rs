//! Streams into continuous views, after the pgbench script that Tidemill began with: rows a second sent, rows a second in
//! the views, and how long a row takes to be seen.

mod client;
mod schema;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::error::Result;
use crate::run::{Client, Outcome, Seat, Workload};
use crate::stats::{Estimate, Figure, Seconds};
use crate::suite::{Check, Context, Defaults, Parameter, Suite};
use crate::target::{Connection, Dialect, Target};
use client::until;
use schema::{MARK_ROWS, Shape, view};

/// The operations. A mark is an insert that can be known again; what follows it, from its acknowledgement to the moment in
/// which every view shows it, is an operation of its own.
const OPERATIONS: [&str; 3] = ["insert", "mark", "see"];
const INSERT: usize = 0;
const MARK: usize = 1;
const SEE: usize = 2;

pub struct Streams {
    parameters: Vec<Parameter>,
    /// Rows of the run that goes on, for the checks after it.
    sent: Arc<Sent>,
}

/// Since the checks before the run.
#[derive(Default)]
struct Sent {
    /// What all clients have had acknowledged, by stream.
    rows: Mutex<BTreeMap<usize, u64>>,
    /// What the views had, by view; empty while nobody has looked.
    before: Mutex<Vec<u64>>,
    /// The last mark; above every `x` that is no mark.
    mark: AtomicU64,
    /// A client has sent a mark, or waits for it.
    is_marked: AtomicBool,
    /// Whether the views have shown the mark that was sent after the run.
    is_shown: Mutex<Option<bool>>,
}

impl Sent {
    fn add(&self, stream: usize, rows: u64) {
        *self.rows.lock().unwrap_or_else(PoisonError::into_inner).entry(stream).or_insert(0) += rows;
    }

    fn to(&self, stream: usize) -> u64 {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).get(&stream).copied().unwrap_or(0)
    }

    fn before(&self, view: usize) -> Option<u64> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).get(view).copied()
    }

    fn start(&self, before: Vec<u64>, mark: u64) {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
        self.mark.store(mark, Ordering::Relaxed);
        self.set_shown(None);
    }

    /// The next mark, if none is on its way.
    fn take_mark(&self) -> Option<u64> {
        let is_free = !self.is_marked.swap(true, Ordering::Relaxed);
        is_free.then(|| self.mark.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The mark was seen, or its client is gone.
    fn give_back(&self) {
        self.is_marked.store(false, Ordering::Relaxed);
    }

    fn is_shown(&self) -> Option<bool> {
        *self.is_shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_shown(&self, is_shown: Option<bool>) {
        *self.is_shown.lock().unwrap_or_else(PoisonError::into_inner) = is_shown;
    }
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            parameters: vec![
                Parameter::new("streams", 4, "each operation inserts into all of them"),
                Parameter::new("views", 5, "one that counts, the others with sum, count and avg"),
                Parameter::new("rows", 1000, "of one insert"),
                Parameter::new("groups", 1, "of each view"),
                Parameter::new("window", "", "of each view, such as 10 seconds; empty: none"),
                Parameter::new(
                    "insert",
                    "generate",
                    "how: generate (insert … select), values, prepared, copy",
                ),
                Parameter::new(
                    "see",
                    100,
                    "one operation in so many waits until every view shows it, by max(x) in the views; 0: none, and none there",
                ),
                Parameter::new(
                    "engine",
                    "auto",
                    "tidemill, pipelinedb, or triggers (tables and triggers); auto: as the target tells",
                ),
            ],
            sent: Arc::default(),
        }
    }
}

impl Suite for Streams {
    fn name(&self) -> &str {
        "streams"
    }

    fn summary(&self) -> &str {
        "inserts into streams with continuous views over them: rows sent, rows seen, and the time between"
    }

    fn needs(&self) -> Option<&'static str> {
        Some("streams, or triggers")
    }

    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn defaults(&self) -> Defaults {
        Defaults { clients: Some(10), ..Defaults::default() }
    }

    fn prepare(&self, context: &Context) -> Result<()> {
        let shape = Shape::of(context)?;
        let mut connection = context.target.connect()?;
        for statement in shape.drops() {
            connection.execute(&statement)?;
        }
        for statement in shape.creates() {
            connection.execute(&statement)?;
        }
        Ok(())
    }

    fn workload(&self, context: &Context) -> Result<Arc<dyn Workload>> {
        let shape = Shape::of(context)?;
        // Against nothing, nothing is sent.
        let sent =
            if context.target.dialect() == Dialect::Noop { Arc::default() } else { Arc::clone(&self.sent) };
        // Nothing shows nothing: the generator's own cost is that of its inserts.
        let is_idle = context.target.dialect() == Dialect::Noop;
        let see = if is_idle { 0 } else { context.number("see")? };
        Ok(Arc::new(Inserts { shape, target: context.target.clone(), sent, see }))
    }

    fn validate(&self, context: &Context, is_after: bool) -> Result<Vec<Check>> {
        let shape = Shape::of(context)?;
        let mut connection = context.target.connect()?;
        let (mut found, mut mark) = (Vec::new(), shape.rows);
        for view in 0..shape.views {
            found.push(shape.seen(connection.as_mut(), view)?);
            if shape.has_marks && !is_after {
                mark = mark.max(shape.mark(connection.as_mut(), view)?);
            }
        }
        if !is_after {
            self.sent.start(found.iter().map(|seen| seen.rows).collect(), mark);
            return if shape.window.is_empty() {
                as_left(&shape, connection.as_mut())
            } else {
                Ok(Vec::new())
            };
        }
        if !shape.window.is_empty() {
            return Ok(self.windows(&shape, &found));
        }
        let mut checks = Vec::new();
        for (i, seen) in found.iter().enumerate() {
            // After `validate` alone nothing is known of what was sent; the sums must agree all the same.
            if let Some(before) = self.sent.before(i) {
                let sent = before + self.sent.to(shape.source(i));
                checks.push(Check::equal(&format!("rows in {}", view(i)), seen.rows, sent));
            }
            checks.extend(sums(&shape, i, seen));
        }
        Ok(checks)
    }

    fn figures(&self, context: &Context, outcome: &Outcome) -> Result<BTreeMap<String, Estimate>> {
        let shape = Shape::of(context)?;
        let mut figures = BTreeMap::new();
        let inserts = outcome.record.operations.get(INSERT).map_or(0, |tally| tally.processed);
        if outcome.elapsed_s > 0.0 && inserts > 0 {
            let rows = (shape.rows * shape.streams as u64) as f64;
            let rate =
                Seconds::of_operation(std::slice::from_ref(outcome), INSERT).estimates(&[Figure::Rate])[0];
            let rate = Estimate { value: inserts as f64 / outcome.elapsed_s, ..rate };
            figures.insert("rows a second sent and acknowledged".to_owned(), rate.times(rows));
            // The rows of a run that was cut short may never come.
            if outcome.incomplete.is_none()
                && let Some(behind_s) = self.catch_up(context, &shape)?
            {
                let share = outcome.elapsed_s / (outcome.elapsed_s + behind_s);
                figures.insert("rows a second visible in every view".to_owned(), rate.times(rows * share));
            }
        }
        let is_seen = outcome.record.operations.get(SEE).is_some_and(|tally| tally.processed > 0);
        let shares = [0.5, 0.99];
        let quantiles = shares.map(Figure::Quantile);
        let lags =
            is_seen.then(|| Seconds::of_operation(std::slice::from_ref(outcome), SEE).estimates(&quantiles));
        for ((share, figure), lag) in shares.iter().zip(quantiles).zip(lags.into_iter().flatten()) {
            let exact = outcome.record.operations[SEE].response.quantile(*share) as f64;
            let name = format!("ms until acknowledged rows are seen in every view, {}", figure.name());
            figures.insert(name, Estimate { value: exact, ..lag }.times(1e-6));
        }
        Ok(figures)
    }
}

impl Streams {
    /// How long after the run, in seconds, every view shows all that was acknowledged; none where that cannot be told, or has not
    /// come.
    fn catch_up(&self, context: &Context, shape: &Shape) -> Result<Option<f64>> {
        let mut connection = context.target.connect()?;
        let begin = Instant::now();
        let has_come = if shape.window.is_empty() {
            let is_there = |i: usize| {
                let wanted = self.sent.before(i).unwrap_or(0) + self.sent.to(shape.source(i));
                until(|| Ok(shape.seen(connection.as_mut(), i)?.rows >= wanted))
            };
            (0..shape.views).map(is_there).collect::<Result<Vec<_>>>()?.into_iter().all(|has_come| has_come)
        } else {
            // Rows leave a window, so that their number tells nothing: what is sent last is shown last.
            let Some(mark) = shape.has_marks.then(|| self.sent.take_mark()).flatten() else {
                return Ok(None);
            };
            self.sent.give_back();
            for i in 0..shape.streams {
                connection.execute(&shape.mark_text(i, mark))?;
                self.sent.add(i, MARK_ROWS);
            }
            let is_there = |i: usize| until(|| Ok(shape.mark(connection.as_mut(), i)? >= mark));
            let has_come = (0..shape.views)
                .map(is_there)
                .collect::<Result<Vec<_>>>()?
                .into_iter()
                .all(|has_come| has_come);
            self.sent.set_shown(Some(has_come));
            has_come
        };
        Ok(has_come.then(|| begin.elapsed().as_secs_f64()))
    }

    /// What has left a window is nowhere to be counted: nothing is there twice, and the last of it is there.
    fn windows(&self, shape: &Shape, found: &[schema::Seen]) -> Vec<Check> {
        let mut checks = Vec::new();
        for (i, seen) in found.iter().enumerate() {
            if let Some(before) = self.sent.before(i) {
                let most = before + self.sent.to(shape.source(i));
                let passed = seen.rows <= most;
                let detail = format!("{} of {most} that were sent", seen.rows);
                checks.push(Check {
                    name: format!("rows in {} are no more than were sent", view(i)),
                    passed,
                    detail,
                });
            }
        }
        if let Some(is_shown) = self.sent.is_shown() {
            let detail = if is_shown { "shown" } else { "not shown" }.to_owned();
            checks.push(Check { name: "the last row in every view".to_owned(), passed: is_shown, detail });
        }
        checks
    }
}

/// Are the sums those of whole inserts? The first view has none.
fn sums(shape: &Shape, i: usize, seen: &schema::Seen) -> Option<Check> {
    let batches = seen.sum_y / shape.rows;
    let wanted = (batches * shape.rows * (shape.rows + 1) / 2, batches * shape.rows);
    let found = (seen.sum_x, seen.sum_y);
    (i > 0)
        .then(|| Check::equal(&format!("sums of {}", view(i)), format!("{found:?}"), format!("{wanted:?}")))
}

/// What earlier runs left, before anything is timed: sums of whole inserts, and as many rows in each view of a stream. Rows of
/// a run that was cut short may still be on their way.
fn as_left(shape: &Shape, connection: &mut dyn Connection) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    until(|| {
        let found = (0..shape.views).map(|i| shape.seen(connection, i)).collect::<Result<Vec<_>>>()?;
        checks = found.iter().enumerate().filter_map(|(i, seen)| sums(shape, i, seen)).collect();
        for (i, seen) in found.iter().enumerate().skip(1) {
            let first = (0..i).find(|&first| shape.source(first) == shape.source(i));
            checks.extend(first.map(|first| {
                let name = format!("rows in {} and {}", view(i), view(first));
                Check::equal(&name, seen.rows, found[first].rows)
            }));
        }
        Ok(checks.iter().all(|check| check.passed))
    })?;
    // Those that are right are told when the run has ended.
    checks.retain(|check| !check.passed);
    Ok(checks)
}

/// The workload.
struct Inserts {
    shape: Shape,
    target: Target,
    sent: Arc<Sent>,
    see: u64,
}

impl Workload for Inserts {
    fn operations(&self) -> Vec<String> {
        OPERATIONS.map(str::to_owned).to_vec()
    }

    fn blocks(&self) -> bool {
        self.target.is_embedded()
    }

    fn client(&self, seat: &Seat) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(client::Inserter::new(self, seat)?))
    }
}
