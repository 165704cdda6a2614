//! Where decoded rows go: one builder a column, cut into batches.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::text::Context;
use crate::{Result, SqlError};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use super::{BATCH_BYTES_MAX, CopyColumn};
use crate::value::ColumnBuilder;

pub(super) struct Batches {
    schema: SchemaRef,
    pub columns: Vec<ColumnBuilder>,
    /// Whether any column has values of variable length.
    variable: bool,
    rows: usize,
    rows_total: u64,
    rows_target: usize,
    ready: VecDeque<RecordBatch>,
}

impl Batches {
    pub fn new(columns: &[CopyColumn], context: &Context, rows_target: usize) -> Self {
        let schema = Schema::new(columns.iter().map(|c| c.ty.field(c.name.as_str())).collect::<Vec<_>>());
        let builders: Vec<_> =
            columns.iter().map(|c| ColumnBuilder::new(c.ty, context, rows_target)).collect();
        Self {
            schema: Arc::new(schema),
            variable: columns.iter().any(|c| c.ty.length() < 0),
            columns: builders,
            rows: 0,
            rows_total: 0,
            rows_target: rows_target.max(1),
            ready: VecDeque::new(),
        }
    }

    /// Each builder has one value more than before.
    #[inline]
    pub fn row_done(&mut self) -> Result<()> {
        self.rows += 1;
        let is_full = self.rows >= self.rows_target
            || (self.variable
                && self.columns.iter().map(ColumnBuilder::size).sum::<usize>() > BATCH_BYTES_MAX);
        if is_full { self.cut() } else { Ok(()) }
    }

    /// Each builder has so many values more than before, at most `rows_left`, and none of variable length.
    pub fn rows_done(&mut self, rows: usize) -> Result<()> {
        self.rows += rows;
        if self.rows >= self.rows_target { self.cut() } else { Ok(()) }
    }

    /// Before the batch is full.
    pub fn rows_left(&self) -> usize {
        self.rows_target - self.rows
    }

    /// Takes back what was appended of a row that is not done.
    pub fn undo_row(&mut self) {
        for column in &mut self.columns {
            column.truncate(self.rows);
        }
    }

    pub fn rows_total(&self) -> u64 {
        self.rows_total + self.rows as u64
    }

    pub fn take_full(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front()
    }

    pub fn take_any(&mut self) -> Result<Option<RecordBatch>> {
        if self.ready.is_empty() && self.rows > 0 {
            self.cut()?;
        }
        Ok(self.ready.pop_front())
    }

    #[cold]
    fn cut(&mut self) -> Result<()> {
        let arrays = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|e| SqlError::internal(format!("a batch of COPY does not fit its schema: {e}")))?;
        self.ready.push_back(batch);
        self.rows_total += self.rows as u64;
        self.rows = 0;
        Ok(())
    }
}
