//! A fold: the partial aggregate states of a view, driven directly, without an execution plan.
//!
//! DataFusion's accumulators do the arithmetic; this file owns their life: evaluate the inputs of a batch (which may
//! fail and touches nothing), update, freeze into a batch of states (a move, not a copy), merge states, finish.
//! The states of `n` groups are a record batch: the key columns `k0..`, then the state columns `a0s0..`, named by
//! position because DataFusion names them after expression text.

mod finish;
mod number;

use std::borrow::Borrow;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{
    DataType, Date32Type, Field, Int16Type, Int32Type, Int64Type, Schema, SchemaRef, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType, UInt32Type,
};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use tidemill_sql::aggregate::{Layout, groups_accumulator};

use crate::fold::number::Numbers;
use crate::window;

pub use finish::Finish;

/// What a view aggregates: keys, aggregates, and the schemas of their states and results.
#[derive(Debug)]
pub struct Aggregation {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    aggregates: Vec<Aggregate>,
    key_schema: SchemaRef,
    state_schema: SchemaRef,
    /// Key columns, then one result column an aggregate: what the plan above the aggregate reads.
    output_schema: SchemaRef,
    /// A view without aggregates keeps its rows: the states are the rows themselves, in commit order.
    keeps_rows: bool,
    /// The first column of the states, and the last one of the input, is the pane of a sliding window.
    has_panes: bool,
}

#[derive(Debug, Clone)]
struct Aggregate {
    function: Arc<AggregateFunctionExpr>,
    /// Arguments, then ORDER BY expressions.
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// Number of state columns.
    states: usize,
    layout: Layout,
}

/// The inputs of one batch, evaluated: nothing that follows can fail because of the data's expressions.
#[derive(Debug)]
pub struct Evaluated {
    rows: usize,
    keys: Vec<ArrayRef>,
    arguments: Vec<Vec<ArrayRef>>,
    filters: Vec<Option<BooleanArray>>,
}

impl Evaluated {
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl Aggregation {
    /// `keys` and `aggregates` as the aggregate node of a physical plan has them; `output_schema` is that node's schema.
    pub fn try_new(
        keys: Vec<Arc<dyn PhysicalExpr>>,
        functions: &[Arc<AggregateFunctionExpr>],
        filters: &[Option<Arc<dyn PhysicalExpr>>],
        input_schema: &Schema,
        output_schema: SchemaRef,
    ) -> Result<Self> {
        let mut fields = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            fields.push(Field::new(format!("k{i}"), key.data_type(input_schema)?, true));
        }
        let key_schema = Arc::new(Schema::new(fields.clone()));
        let mut aggregates = Vec::new();
        for (i, (function, filter)) in functions.iter().zip(filters).enumerate() {
            let state_fields = function.state_fields()?;
            for (j, field) in state_fields.iter().enumerate() {
                fields.push(Field::new(format!("a{i}s{j}"), field.data_type().clone(), true));
            }
            let mut arguments = function.expressions();
            arguments.extend(function.order_bys().iter().map(|o| Arc::clone(&o.expr)));
            aggregates.push(Aggregate {
                function: Arc::clone(function),
                arguments,
                filter: filter.clone(),
                states: state_fields.len(),
                layout: Layout::of(function, input_schema)?,
            });
        }
        let state_schema = Arc::new(Schema::new(fields));
        Ok(Self {
            keys,
            aggregates,
            key_schema,
            state_schema,
            output_schema,
            keeps_rows: false,
            has_panes: false,
        })
    }

    /// For a view without aggregates.
    pub fn of_rows(row_schema: SchemaRef) -> Self {
        let fields = row_schema.fields().iter().enumerate();
        let fields: Vec<_> =
            fields.map(|(i, f)| Field::new(format!("r{i}"), f.data_type().clone(), true)).collect();
        Self {
            keys: Vec::new(),
            aggregates: Vec::new(),
            key_schema: Arc::new(Schema::empty()),
            state_schema: Arc::new(Schema::new(fields)),
            output_schema: row_schema,
            keeps_rows: true,
            has_panes: false,
        }
    }

    /// The same, apart for each pane of a sliding window: the pane is the last of the `input` columns.
    #[must_use]
    pub fn with_panes(&self, input: &Schema) -> Self {
        let pane = input.fields().len().saturating_sub(1);
        let pane: Arc<dyn PhysicalExpr> = Arc::new(Column::new(window::PANE, pane));
        let keys = std::iter::once(pane).chain(self.keys.iter().cloned());
        Self {
            keys: if self.keeps_rows { Vec::new() } else { keys.collect() },
            aggregates: self.aggregates.clone(),
            key_schema: window::prepend_pane(&self.key_schema),
            state_schema: window::prepend_pane(&self.state_schema),
            output_schema: window::prepend_pane(&self.output_schema),
            keeps_rows: self.keeps_rows,
            has_panes: true,
        }
    }

    pub fn has_panes(&self) -> bool {
        self.has_panes
    }

    pub fn keeps_rows(&self) -> bool {
        self.keeps_rows
    }

    pub fn state_schema(&self) -> &SchemaRef {
        &self.state_schema
    }

    pub fn output_schema(&self) -> &SchemaRef {
        &self.output_schema
    }

    /// Number of key columns; 0 for a view without GROUP BY.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    pub fn key_schema(&self) -> &SchemaRef {
        &self.key_schema
    }

    /// Those of GROUP BY; with a sliding window the pane comes first.
    pub fn keys(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.keys
    }

    /// The functions and their FILTER clauses.
    pub fn aggregates(
        &self,
    ) -> impl Iterator<Item = (&AggregateFunctionExpr, Option<&Arc<dyn PhysicalExpr>>)> {
        self.aggregates.iter().map(|a| (a.function.as_ref(), a.filter.as_ref()))
    }

    pub fn functions(&self) -> impl Iterator<Item = &Arc<AggregateFunctionExpr>> {
        self.aggregates.iter().map(|a| &a.function)
    }

    /// What the states of an aggregate are states of.
    pub fn layout(&self, aggregate: usize) -> Option<&Layout> {
        self.aggregates.get(aggregate).map(|aggregate| &aggregate.layout)
    }

    /// Evaluates keys, arguments and filters over a batch of the aggregate's input.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<Evaluated> {
        let rows = batch.num_rows();
        if self.keeps_rows {
            let mut keys = batch.columns().to_vec();
            keys.rotate_right(usize::from(self.has_panes));
            return Ok(Evaluated { rows, keys, arguments: vec![], filters: vec![] });
        }
        let keys = self.keys.iter().map(|k| k.evaluate(batch)?.into_array(rows)).collect::<Result<_>>()?;
        let mut arguments = Vec::with_capacity(self.aggregates.len());
        let mut filters = Vec::with_capacity(self.aggregates.len());
        for aggregate in &self.aggregates {
            let filter = match &aggregate.filter {
                Some(f) => Some(as_boolean_array(&f.evaluate(batch)?.into_array(rows)?)?.clone()),
                None => None,
            };
            arguments.push(
                aggregate
                    .arguments
                    .iter()
                    .map(|a| a.evaluate(batch)?.into_array(rows))
                    .collect::<Result<_>>()?,
            );
            filters.push(filter);
        }
        Ok(Evaluated { rows, keys, arguments, filters })
    }

    fn group_accumulators(&self) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
        self.aggregates.iter().map(|a| groups_accumulator(&a.function)).collect()
    }

    fn accumulators(&self) -> Result<Vec<Box<dyn Accumulator>>> {
        self.aggregates.iter().map(|a| a.function.create_accumulator()).collect()
    }

    /// Splits the columns of a state batch into keys and the state columns of each aggregate.
    fn split<'a>(
        &'a self,
        columns: &'a [ArrayRef],
    ) -> (&'a [ArrayRef], impl Iterator<Item = &'a [ArrayRef]>) {
        let (keys, mut rest) = columns.split_at(self.keys.len());
        let states = self.aggregates.iter().map(move |a| {
            let (head, tail) = rest.split_at(a.states);
            rest = tail;
            head
        });
        (keys, states)
    }

    pub(crate) fn state_batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.state_schema), columns, &options)?)
    }

    fn output_batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output_schema), columns, &options)?)
    }

    /// Finishes states whose keys are unique: no hashing, an order of magnitude faster than through a table.
    pub fn finish_unique(&self, states: &RecordBatch) -> Result<RecordBatch> {
        let rows = states.num_rows();
        if self.keeps_rows {
            return self.output_batch(states.columns().to_vec(), rows);
        }
        if self.keys.is_empty() {
            let mut fold = Fold::new(self)?;
            fold.merge(self, states)?;
            return fold.finish(self);
        }
        if rows == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.output_schema)));
        }
        let indices: Vec<usize> = (0..rows).collect();
        self.finish_grouped(states.columns(), &indices, rows, None)
    }

    /// Finishes states whose rows belong to the groups `indices`, which are numbered `0..groups`; `keys` are the
    /// groups' unique keys, or `None` if row `i` is group `i`.
    pub fn finish_grouped(
        &self,
        columns: &[ArrayRef],
        indices: &[usize],
        groups: usize,
        unique_keys: Option<&[ArrayRef]>,
    ) -> Result<RecordBatch> {
        let (keys, states) = self.split(columns);
        let mut output = unique_keys.unwrap_or(keys).to_vec();
        for (mut accumulator, state) in self.group_accumulators()?.into_iter().zip(states) {
            accumulator.merge_batch(state, indices, groups)?;
            output.push(accumulator.evaluate(EmitTo::All)?);
        }
        self.output_batch(output, groups)
    }

    /// Combines states whose rows belong to the groups `indices` (numbered `0..groups`, with the unique `keys`) into
    /// one row of state a group.
    pub fn combine_grouped(
        &self,
        columns: &[ArrayRef],
        indices: &[usize],
        groups: usize,
        keys: &[ArrayRef],
    ) -> Result<RecordBatch> {
        let (_, states) = self.split(columns);
        let mut output = keys.to_vec();
        for (mut accumulator, state) in self.group_accumulators()?.into_iter().zip(states) {
            accumulator.merge_batch(state, indices, groups)?;
            output.extend(accumulator.state(EmitTo::All)?);
        }
        self.state_batch(output, groups)
    }

    /// Finishes states of which any two may hold the same key, in commit order.
    pub fn finish<B: Borrow<RecordBatch>>(&self, states: &[B]) -> Result<RecordBatch> {
        if let [only] = states {
            return self.finish_unique(only.borrow());
        }
        let mut fold = Fold::new(self)?;
        for batch in states {
            fold.merge(self, batch.borrow())?;
        }
        fold.finish(self)
    }

    /// Merges states into one batch with unique keys, in commit order.
    pub fn combine<B: Borrow<RecordBatch>>(&self, states: &[B]) -> Result<RecordBatch> {
        if let [only] = states {
            return Ok(only.borrow().clone());
        }
        let mut fold = Fold::new(self)?;
        for batch in states {
            fold.merge(self, batch.borrow())?;
        }
        fold.freeze(self)
    }
}

/// States in the making. One aggregation's fold must not be given another's batches.
pub enum Fold {
    /// Without GROUP BY: scalar accumulators, several times faster than grouped ones with one group.
    Global { accumulators: Vec<Box<dyn Accumulator>>, rows: u64 },
    Grouped {
        keys: Box<dyn GroupValues>,
        accumulators: Vec<Box<dyn GroupsAccumulator>>,
        /// Scratch: the group of each row of the batch at hand.
        indices: Vec<usize>,
        rows: u64,
    },
    /// Batches of states, in order.
    Rows { batches: Vec<RecordBatch> },
}

impl std::fmt::Debug for Fold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fold({} groups)", self.groups())
    }
}

impl Fold {
    pub fn new(aggregation: &Aggregation) -> Result<Self> {
        if aggregation.keeps_rows {
            return Ok(Fold::Rows { batches: Vec::new() });
        }
        if aggregation.keys.is_empty() {
            return Ok(Fold::Global { accumulators: aggregation.accumulators()?, rows: 0 });
        }
        Ok(Fold::Grouped {
            keys: key_table(&aggregation.key_schema)?,
            accumulators: aggregation.group_accumulators()?,
            indices: Vec::new(),
            rows: 0,
        })
    }

    pub fn groups(&self) -> usize {
        match self {
            Fold::Global { .. } => 1,
            Fold::Grouped { keys, .. } => keys.len(),
            Fold::Rows { batches } => batches.iter().map(RecordBatch::num_rows).sum(),
        }
    }

    /// True if nothing was folded in since the last freeze.
    pub fn is_empty(&self) -> bool {
        match self {
            Fold::Global { rows, .. } | Fold::Grouped { rows, .. } => *rows == 0,
            Fold::Rows { batches } => batches.is_empty(),
        }
    }

    /// Bytes of memory.
    pub fn size(&self) -> usize {
        match self {
            Fold::Global { accumulators, .. } => accumulators.iter().map(|a| a.size()).sum(),
            Fold::Grouped { keys, accumulators, indices, .. } => {
                keys.size()
                    + accumulators.iter().map(|a| a.size()).sum::<usize>()
                    + indices.capacity() * size_of::<usize>()
            }
            Fold::Rows { batches } => batches.iter().map(RecordBatch::get_array_memory_size).sum(),
        }
    }

    /// Folds the events of a batch in. After an error the fold is in an unknown state and must be thrown away.
    pub fn update(&mut self, aggregation: &Aggregation, input: &Evaluated) -> Result<()> {
        if input.rows == 0 {
            return Ok(());
        }
        match self {
            Fold::Rows { batches } => batches.push(aggregation.state_batch(input.keys.clone(), input.rows)?),
            Fold::Global { accumulators, rows } => {
                *rows += input.rows as u64;
                for ((accumulator, arguments), filter) in
                    accumulators.iter_mut().zip(&input.arguments).zip(&input.filters)
                {
                    match filter {
                        None => accumulator.update_batch(arguments)?,
                        Some(filter) => {
                            let kept = arguments
                                .iter()
                                .map(|a| Ok(arrow::compute::filter(a, filter)?))
                                .collect::<Result<Vec<_>>>()?;
                            accumulator.update_batch(&kept)?;
                        }
                    }
                }
            }
            Fold::Grouped { keys, accumulators, indices, rows } => {
                *rows += input.rows as u64;
                indices.clear();
                keys.intern(&input.keys, indices)?;
                let groups = keys.len();
                for ((accumulator, arguments), filter) in
                    accumulators.iter_mut().zip(&input.arguments).zip(&input.filters)
                {
                    accumulator.update_batch(arguments, indices, filter.as_ref(), groups)?;
                }
            }
        }
        Ok(())
    }

    /// Merges a batch of states in. After an error the fold is in an unknown state and must be thrown away.
    pub fn merge(&mut self, aggregation: &Aggregation, states: &RecordBatch) -> Result<()> {
        if states.num_rows() == 0 {
            return Ok(());
        }
        let (key_columns, state_columns) = aggregation.split(states.columns());
        match self {
            Fold::Rows { batches } => batches.push(states.clone()),
            Fold::Global { accumulators, rows } => {
                *rows += states.num_rows() as u64;
                for (accumulator, state) in accumulators.iter_mut().zip(state_columns) {
                    accumulator.merge_batch(state)?;
                }
            }
            Fold::Grouped { keys, accumulators, indices, rows } => {
                *rows += states.num_rows() as u64;
                indices.clear();
                keys.intern(key_columns, indices)?;
                let groups = keys.len();
                for (accumulator, state) in accumulators.iter_mut().zip(state_columns) {
                    accumulator.merge_batch(state, indices, groups)?;
                }
            }
        }
        Ok(())
    }

    /// Moves the states out and leaves an empty fold.
    pub fn freeze(&mut self, aggregation: &Aggregation) -> Result<RecordBatch> {
        match self {
            Fold::Rows { batches } => {
                let batches = std::mem::take(batches);
                Ok(arrow::compute::concat_batches(&aggregation.state_schema, &batches)?)
            }
            Fold::Global { accumulators, rows } => {
                let mut columns = Vec::with_capacity(aggregation.state_schema.fields().len());
                for accumulator in accumulators.iter_mut() {
                    for value in accumulator.state()? {
                        columns.push(value.to_array()?);
                    }
                }
                // `state` may consume: what follows starts from scratch.
                *accumulators = aggregation.accumulators()?;
                *rows = 0;
                aggregation.state_batch(columns, 1)
            }
            // Some accumulators can't give the states of no groups.
            Fold::Grouped { keys, .. } if keys.is_empty() => {
                Ok(RecordBatch::new_empty(Arc::clone(&aggregation.state_schema)))
            }
            Fold::Grouped { keys, accumulators, rows, .. } => {
                let groups = keys.len();
                let mut columns = emit_keys(keys.as_mut())?;
                for accumulator in accumulators.iter_mut() {
                    columns.extend(accumulator.state(EmitTo::All)?);
                }
                *rows = 0;
                aggregation.state_batch(columns, groups)
            }
        }
    }

    /// Finishes the aggregates: the rows that the plan above the aggregate reads.
    pub fn finish(mut self, aggregation: &Aggregation) -> Result<RecordBatch> {
        match &mut self {
            Fold::Rows { .. } => {
                let states = self.freeze(aggregation)?;
                aggregation.finish_unique(&states)
            }
            Fold::Global { accumulators, .. } => {
                let columns =
                    accumulators.iter_mut().map(|a| a.evaluate()?.to_array()).collect::<Result<Vec<_>>>()?;
                aggregation.output_batch(columns, 1)
            }
            Fold::Grouped { keys, .. } if keys.is_empty() => {
                Ok(RecordBatch::new_empty(Arc::clone(&aggregation.output_schema)))
            }
            Fold::Grouped { keys, accumulators, .. } => {
                let groups = keys.len();
                let mut columns = emit_keys(keys.as_mut())?;
                for accumulator in accumulators.iter_mut() {
                    columns.push(accumulator.evaluate(EmitTo::All)?);
                }
                aggregation.output_batch(columns, groups)
            }
        }
    }
}

fn key_table(schema: &SchemaRef) -> Result<Box<dyn GroupValues>> {
    let [field] = schema.fields().as_ref() else { return general_key_table(schema) };
    let data_type = field.data_type().clone();
    Ok(match data_type {
        DataType::Int16 => Box::new(Numbers::<Int16Type>::new(data_type)),
        DataType::Int32 => Box::new(Numbers::<Int32Type>::new(data_type)),
        DataType::Int64 => Box::new(Numbers::<Int64Type>::new(data_type)),
        DataType::UInt32 => Box::new(Numbers::<UInt32Type>::new(data_type)),
        DataType::Date32 => Box::new(Numbers::<Date32Type>::new(data_type)),
        DataType::Time64(TimeUnit::Microsecond) => Box::new(Numbers::<Time64MicrosecondType>::new(data_type)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Box::new(Numbers::<TimestampMicrosecondType>::new(data_type))
        }
        _ => return general_key_table(schema),
    })
}

fn general_key_table(schema: &SchemaRef) -> Result<Box<dyn GroupValues>> {
    new_group_values(Arc::clone(schema), &GroupOrdering::None)
}

/// Emits all keys and clears the table. `GroupValuesColumn` (two or more keys) leaves its map filled after
/// `emit(All)`, and the next `intern` would read out of bounds; clearing is what makes it safe.
/// Blocked by: DataFusion 55.2. Remove when: its `emit(EmitTo::All)` clears the map.
fn emit_keys(keys: &mut dyn GroupValues) -> Result<Vec<ArrayRef>> {
    let groups = keys.len();
    let columns = keys.emit(EmitTo::All)?;
    keys.clear_shrink(groups);
    Ok(columns)
}
