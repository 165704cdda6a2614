//! A continuous transform: what it selects of a stream's events becomes events of other streams, at the same commit.
//!
//! ```text
//! events of s ─► Front ─► rows ─┬─► Output ─► events of s1 ─► views and transforms of s1
//!                               └─► Output ─► events of s2 ─► …
//! ```
//!
//! It has no state. What is logged are the deltas of the views behind it, so its outputs are as durable as these: applied
//! with the events that they come from, or not at all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::error::{Error, Result, unsupported};
use crate::front::Front;
use crate::join::{JoinedRows, Joins, set_apart};
use crate::stream::{ARRIVAL, StreamId};
use crate::view::{ViewId, view_session};

/// What a transform does with events, whatever becomes of its rows.
#[derive(Debug)]
pub struct TransformPlan {
    front: Front,
    /// Of the query.
    pub schema: SchemaRef,
    /// Where among the columns of the rows the time of arrival is: a column of the query, or one behind these.
    pub arrival: usize,
}

impl TransformPlan {
    /// The streams that are read, each once.
    pub fn streams(&self) -> Vec<StreamId> {
        let mut streams: Vec<_> = self.front.branches.iter().map(|b| b.stream).collect();
        streams.sort();
        streams.dedup();
        streams
    }

    /// How many rows an event of `stream` becomes at most.
    pub fn rows_per_event(&self, stream: StreamId) -> usize {
        self.front.branches.iter().filter(|b| b.stream == stream).count()
    }
}

/// Plans `query`, an analysed plan over [`crate::stream::StreamTable`]s, as a transform.
pub async fn compile(session: &SessionState, query: &LogicalPlan) -> Result<TransformPlan> {
    let state = view_session(session);
    let optimized = set_apart(state.optimize(query)?)?;
    let physical = DefaultPhysicalPlanner::default().create_physical_plan(&optimized, &state).await?;
    let front = Front::compile(&physical).ok_or_else(|| {
        unsupported("a continuous transform can only select, filter and unite the events of streams")
            .with_hint("Have aggregates in a continuous view over a stream that the transform writes to.")
    })?;
    let schema = physical.schema();
    let given = schema.fields().iter().position(|field| field.name() == ARRIVAL);
    Ok(match given {
        Some(arrival) => TransformPlan { front, schema, arrival },
        None => TransformPlan { front: front.with_arrival(), arrival: schema.fields().len(), schema },
    })
}

/// Where the rows of a transform go.
pub trait Output: fmt::Debug + Send + Sync {
    /// The stream whose events they become.
    fn stream(&self) -> StreamId;

    /// The rows as events of it; `rows` are the columns of the transform's [`TransformPlan`].
    fn events(&self, rows: &RecordBatch) -> tidemill_sql::Result<RecordBatch>;
}

#[derive(Debug)]
pub struct Transform {
    /// Views and transforms have numbers of one sequence: a write names either as its targets.
    pub id: ViewId,
    pub plan: Arc<TransformPlan>,
    outputs: Vec<Arc<dyn Output>>,
    /// Those of its front.
    joins: Arc<Joins>,
    active: AtomicBool,
    pub stats: TransformStats,
}

/// Counters since the server started.
#[derive(Debug, Default)]
pub struct TransformStats {
    pub input_rows: AtomicU64,
    pub input_bytes: AtomicU64,
    pub input_batches: AtomicU64,
    pub output_rows: AtomicU64,
    pub output_bytes: AtomicU64,
    pub errors: AtomicU64,
    pub run_us: AtomicU64,
}

impl Transform {
    pub fn new(id: ViewId, plan: Arc<TransformPlan>, outputs: Vec<Arc<dyn Output>>, active: bool) -> Self {
        let (joins, active) = (Joins::of(&plan.front), AtomicBool::new(active));
        Self { id, plan, outputs, joins, active, stats: TransformStats::default() }
    }

    pub fn joins(&self) -> &Arc<Joins> {
        &self.joins
    }

    /// The streams that it writes to.
    pub fn outputs(&self) -> impl Iterator<Item = StreamId> {
        self.outputs.iter().map(|output| output.stream())
    }

    /// An inactive transform skips what is written meanwhile.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    pub(crate) fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Release);
    }

    /// What the events of `stream` become, in the order in which it is to be folded.
    pub(crate) fn run(
        &self,
        stream: StreamId,
        events: &RecordBatch,
        joined: &JoinedRows,
    ) -> Result<Vec<(StreamId, RecordBatch)>> {
        let started = Instant::now();
        let add = |counter: &AtomicU64, by: usize| {
            counter.fetch_add(by as u64, Ordering::Relaxed);
        };
        add(&self.stats.input_rows, events.num_rows());
        add(&self.stats.input_bytes, events.get_array_memory_size());
        add(&self.stats.input_batches, 1);
        let made = self.made_of(stream, events, joined).inspect_err(|_| add(&self.stats.errors, 1))?;
        for (_, events) in &made {
            add(&self.stats.output_rows, events.num_rows());
            add(&self.stats.output_bytes, events.get_array_memory_size());
        }
        self.stats.run_us.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
        Ok(made)
    }

    fn made_of(
        &self,
        stream: StreamId,
        events: &RecordBatch,
        joined: &JoinedRows,
    ) -> Result<Vec<(StreamId, RecordBatch)>> {
        let mut made = Vec::new();
        for branch in self.plan.front.branches.iter().filter(|b| b.stream == stream) {
            let rows = branch.run(events, joined)?;
            if rows.num_rows() == 0 {
                continue;
            }
            for output in &self.outputs {
                made.push((output.stream(), output.events(&rows).map_err(Error::Sql)?));
            }
        }
        Ok(made)
    }
}
