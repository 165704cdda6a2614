//! What a read makes of states: the results, and behind them the states themselves where `combine` wants them.

use std::borrow::Borrow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use tidemill_sql::aggregate::StateForm;

use super::{Aggregation, Fold};

/// An aggregation, and which of its aggregates give their states as well.
#[derive(Debug, Clone)]
pub struct Finish {
    aggregation: Arc<Aggregation>,
    states: Vec<(usize, Arc<StateForm>)>,
    schema: SchemaRef,
}

impl Finish {
    pub fn new(aggregation: Arc<Aggregation>) -> Self {
        let schema = Arc::clone(aggregation.output_schema());
        Self { aggregation, states: vec![], schema }
    }

    /// With the state of one aggregate more, as the last column.
    pub fn with_state(&self, aggregate: usize, states: Arc<StateForm>) -> Self {
        let field = Field::new(format!("s{aggregate}"), states.data_type(), false);
        let fields = self.schema.fields().iter().cloned().chain([Arc::new(field)]);
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), self.schema.metadata().clone());
        let states = self.states.iter().cloned().chain([(aggregate, states)]).collect();
        Self { aggregation: Arc::clone(&self.aggregation), states, schema: Arc::new(schema) }
    }

    pub fn aggregation(&self) -> &Arc<Aggregation> {
        &self.aggregation
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// As [`Aggregation::finish_unique`].
    pub fn unique(&self, states: &RecordBatch) -> Result<RecordBatch> {
        if self.states.is_empty() {
            return self.aggregation.finish_unique(states);
        }
        if self.aggregation.key_count() > 0 {
            return self.beside_states(states);
        }
        let mut fold = Fold::new(&self.aggregation)?;
        fold.merge(&self.aggregation, states)?;
        self.folded(fold)
    }

    /// As [`Aggregation::finish_grouped`], for groups with these unique keys.
    pub fn grouped(
        &self,
        columns: &[ArrayRef],
        indices: &[usize],
        groups: usize,
        keys: &[ArrayRef],
    ) -> Result<RecordBatch> {
        if self.states.is_empty() {
            return self.aggregation.finish_grouped(columns, indices, groups, Some(keys));
        }
        self.beside_states(&self.aggregation.combine_grouped(columns, indices, groups, keys)?)
    }

    /// As [`Aggregation::finish`].
    pub fn several<B: Borrow<RecordBatch>>(&self, states: &[B]) -> Result<RecordBatch> {
        if self.states.is_empty() {
            return self.aggregation.finish(states);
        }
        self.unique(&self.aggregation.combine(states)?)
    }

    /// As [`Fold::finish`].
    pub fn folded(&self, mut fold: Fold) -> Result<RecordBatch> {
        if self.states.is_empty() {
            return fold.finish(&self.aggregation);
        }
        self.beside_states(&fold.freeze(&self.aggregation)?)
    }

    /// The results of states with unique keys, and the states.
    fn beside_states(&self, unique: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = self.aggregation.finish_unique(unique)?.columns().to_vec();
        for (aggregate, states) in &self.states {
            let (_, mut all) = self.aggregation.split(unique.columns());
            let own = all.nth(*aggregate);
            let own = own.ok_or_else(|| DataFusionError::Internal(format!("no aggregate {aggregate}")))?;
            columns.push(states.as_struct(own.to_vec())?);
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(unique.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?)
    }
}
