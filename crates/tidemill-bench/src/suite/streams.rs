//! Streams into continuous views, after the pgbench script that Tidemill began with: rows a second sent, rows a second in
//! the views, and how long a row takes to be seen.

mod client;
mod schema;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::run::{Client, Outcome, Seat, Workload};
use crate::suite::{Check, Context, Defaults, Parameter, Suite};
use crate::target::{Dialect, Target};
use schema::Shape;

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

    fn start(&self, before: Vec<u64>) {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
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
                    "one operation in so many waits until what was sent is seen; 0: none",
                ),
                Parameter::new(
                    "engine",
                    "auto",
                    "tidemill, pipelinedb, or triggers (tables and triggers); auto: by target",
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
        let see = if shape.window.is_empty() { context.number("see")? } else { 0 };
        Ok(Arc::new(Inserts { shape, target: context.target.clone(), sent, see }))
    }

    fn validate(&self, context: &Context, is_after: bool) -> Result<Vec<Check>> {
        let shape = Shape::of(context)?;
        let mut connection = context.target.connect()?;
        let mut found = Vec::new();
        for view in 0..shape.views {
            found.push(shape.seen(connection.as_mut(), view)?);
        }
        if !is_after {
            self.sent.start(found.iter().map(|seen| seen.rows).collect());
            return Ok(Vec::new());
        }
        if !shape.window.is_empty() {
            // What has left the window is nowhere to be counted.
            return Ok(Vec::new());
        }
        let mut checks = Vec::new();
        for (view, seen) in found.iter().enumerate() {
            // After `validate` alone nothing is known of what was sent; the sums must agree all the same.
            if let Some(before) = self.sent.before(view) {
                let sent = before + self.sent.to(shape.source(view));
                checks.push(Check::equal(&format!("rows in {}", schema::view(view)), seen.rows, sent));
            }
            if view > 0 {
                let batches = seen.rows / shape.rows;
                let wanted = (batches * shape.rows * (shape.rows + 1) / 2, seen.rows);
                let found = (seen.sum_x, seen.sum_y);
                checks.push(Check::equal(
                    &format!("sums of {}", schema::view(view)),
                    format!("{found:?}"),
                    format!("{wanted:?}"),
                ));
            }
        }
        Ok(checks)
    }

    fn figures(&self, context: &Context, outcome: &Outcome) -> Result<BTreeMap<String, f64>> {
        let shape = Shape::of(context)?;
        let inserts = outcome.record.operations.first().map_or(0, |tally| tally.processed);
        let rows = (inserts * shape.rows * shape.streams as u64) as f64;
        let mut figures = BTreeMap::new();
        if outcome.elapsed_s > 0.0 {
            figures.insert("rows a second sent and acknowledged".to_owned(), rows / outcome.elapsed_s);
        }
        if let Some(see) = outcome.record.operations.get(1).filter(|tally| tally.processed > 0) {
            figures.insert(
                "ms until acknowledged rows are seen, p50".to_owned(),
                see.service.quantile(0.5) as f64 / 1e6,
            );
            figures.insert(
                "ms until acknowledged rows are seen, p99".to_owned(),
                see.service.quantile(0.99) as f64 / 1e6,
            );
        }
        Ok(figures)
    }
}

/// The operations `insert` and `see`.
struct Inserts {
    shape: Shape,
    target: Target,
    sent: Arc<Sent>,
    see: u64,
}

impl Workload for Inserts {
    fn operations(&self) -> Vec<String> {
        vec!["insert".to_owned(), "see".to_owned()]
    }

    fn blocks(&self) -> bool {
        self.target.is_embedded()
    }

    fn client(&self, seat: &Seat) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(client::Inserter::new(self, seat)?))
    }
}
