//! Sliding windows: the same states with a pane number as first key.
//!
//! Time is cut into panes of equal length, counted from 1970. Each group has one state for each pane in which it had
//! events; a read merges the panes of a group that reach into the window, so the result moves with the clock although
//! no event comes, and what is older is dropped a pane at a time.
//!
//! ```text
//!        now - span                    now
//!            |-------- window ---------|
//!   | dropped  | pane | pane | pane | pane |
//!          ^ this pane still counts until all of it is out of the window
//! ```
//!
//! So no event younger than the window is left out, and none older than the window and one pane is counted.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::kernels::cmp::gt_eq;
use arrow::compute::{filter_record_batch, unary};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimestampMicrosecondType};
use datafusion::error::{DataFusionError, Result};

use crate::error::run_error;
use crate::fold::{Aggregation, Finish, Fold};
use crate::run::{KeyEncoder, RunError};
use crate::view::Frozen;

/// The hidden column.
pub const PANE: &str = "pane";

/// The lengths of a sliding window, of at least a microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    span_us: i64,
    pane_us: i64,
}

impl Window {
    /// `step_percent` of the span is a pane.
    pub fn new(span_us: i64, step_percent: u8) -> Self {
        let pane_us = i128::from(span_us) * i128::from(step_percent) / 100;
        Self { span_us: span_us.max(1), pane_us: i64::try_from(pane_us).unwrap_or(i64::MAX).max(1) }
    }

    pub fn span_us(&self) -> i64 {
        self.span_us
    }

    pub fn pane_us(&self) -> i64 {
        self.pane_us
    }

    /// The oldest pane that reaches into the window.
    pub fn first_pane(&self, now_us: i64) -> i64 {
        now_us.saturating_sub(self.span_us).div_euclid(self.pane_us)
    }

    /// The pane of each time.
    pub fn panes(&self, times: &ArrayRef) -> Result<ArrayRef> {
        let times = times.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(|| {
            DataFusionError::Internal(format!("events have {} as arrival time", times.data_type()))
        })?;
        let panes: Int64Array = unary(times, |us| us.div_euclid(self.pane_us));
        Ok(Arc::new(panes))
    }
}

/// The pane and behind it `schema`.
pub(crate) fn prepend_pane(schema: &Schema) -> SchemaRef {
    let fields: Vec<_> =
        std::iter::once(Arc::new(pane_field())).chain(schema.fields().iter().cloned()).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

pub(crate) fn pane_field() -> Field {
    Field::new(PANE, DataType::Int64, true)
}

/// The key from which on the panes of a run are `first` or later: the pane is the first part of the key, and the
/// encoding of a key starts with that of its parts.
pub(crate) fn key_from(first: i64) -> Result<Vec<u8>, RunError> {
    let encoder = KeyEncoder::try_new(&Schema::new(vec![pane_field()]), 1)?;
    let panes: ArrayRef = Arc::new(Int64Array::from(vec![first]));
    let keys = encoder.encode_columns(&[panes], 1)?;
    Ok(keys.get(0).to_vec())
}

/// The rows of states with a pane as first column whose pane is `first` or later.
pub(crate) fn from_pane(states: &RecordBatch, first: i64) -> Result<RecordBatch> {
    let panes = states.column(0).as_primitive::<Int64Type>();
    if panes.iter().flatten().all(|pane| pane >= first) {
        return Ok(states.clone());
    }
    Ok(filter_record_batch(states, &gt_eq(panes, &Int64Array::new_scalar(first))?)?)
}

/// Merges the panes from `first` on of a state, and finishes them as the view's query, which knows of no panes.
pub(crate) fn finish(finish: &Finish, frozen: &Frozen, first: i64) -> Result<RecordBatch> {
    let aggregation = finish.aggregation();
    let external = |error: RunError| DataFusionError::External(Box::new(run_error(&error)));
    let hidden = if aggregation.keeps_rows() { 2 } else { 1 };
    let mut fold = Fold::new(aggregation)?;
    let from = key_from(first).map_err(external)?;
    for layer in &frozen.layers {
        for run in &layer.runs {
            for block in run.range(Bound::Included(&from), Bound::Unbounded) {
                merge(&mut fold, aggregation, &block.map_err(external)?, hidden)?;
            }
        }
        for batch in &layer.batches {
            merge(&mut fold, aggregation, &from_pane(batch, first)?, 1)?;
        }
    }
    finish.folded(fold)
}

fn merge(fold: &mut Fold, aggregation: &Aggregation, states: &RecordBatch, hidden: usize) -> Result<()> {
    let columns = states.columns()[hidden..].to_vec();
    fold.merge(aggregation, &aggregation.state_batch(columns, states.num_rows())?)
}
