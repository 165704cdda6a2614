//! The front of a view: what happens to a stream's events below the aggregate.
//!
//! ```text
//! AggregateExec              <- the fold
//!   ProjectionExec  ─┐
//!     FilterExec     ├─ steps of one branch, in reverse
//!       StreamExec  ─┘
//! ```
//!
//! Filters, projections and joins with rows that are no events (`join.rs`) are taken out of the physical plan and evaluated directly: a micro-batch costs what its
//! expressions cost, no stream is polled and no operator keeps state between batches.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use tidemill_sql::types::{Scalar, Type};

use crate::error::{Error, unsupported};
use crate::join::{Join, JoinStep, JoinedRows};
use crate::stream::{ARRIVAL, ARRIVAL_COLUMN, StreamDefinition, StreamExec, StreamId};
use crate::window::{self, Window};

/// One branch for each place in the query that reads a stream.
#[derive(Debug)]
pub struct Front {
    pub branches: Vec<Branch>,
}

#[derive(Debug)]
pub struct Branch {
    pub stream: StreamId,
    /// Columns of the stream that the first step reads.
    columns: Vec<usize>,
    schema: SchemaRef,
    steps: Vec<Step>,
    /// What each event carries behind its other columns.
    carried: Option<Carried>,
}

/// A column of the events that takes no part in the query.
#[derive(Debug, Clone, Copy)]
enum Carried {
    /// For a sliding window: the number of its pane.
    Pane(Window),
    /// For a transform: when it arrived.
    Arrival,
}

#[derive(Debug, Clone)]
pub enum Step {
    Filter { predicate: Arc<dyn PhysicalExpr>, columns: Option<Vec<usize>> },
    Project { expressions: Vec<Arc<dyn PhysicalExpr>>, schema: SchemaRef },
    Join(JoinStep),
}

impl Front {
    /// Takes the front out of the plan below an aggregate, or of a whole plan without one. `None` if the plan has
    /// nodes that are neither filter, projection, join, union nor a stream.
    pub fn compile(plan: &Arc<dyn ExecutionPlan>) -> Option<Front> {
        let mut branches = Vec::new();
        collect(plan, &mut Vec::new(), &mut branches).then_some(Front { branches })
    }

    /// Like [`Front::compile`], with an error that names the first node that does not belong in a front.
    pub fn try_compile(plan: &Arc<dyn ExecutionPlan>) -> Result<Front, Error> {
        Front::compile(plan).ok_or_else(|| {
            let node = foreign_node(plan);
            match JoinStep::obstacle(node) {
                Some(obstacle) => Error::Sql(obstacle),
                None => {
                    let name = node.name().trim_end_matches("Exec").to_lowercase();
                    unsupported(format!("a continuous view cannot have {name} below its aggregates"))
                }
            }
        })
    }

    /// All columns of a stream but the time of arrival, as they are.
    pub fn of_columns(stream: &StreamDefinition) -> Front {
        let columns: Vec<usize> = (0..=stream.columns.len()).filter(|i| *i != ARRIVAL_COLUMN).collect();
        let fields = stream.columns.iter().map(|(name, ty)| ty.field(name)).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        Front { branches: vec![Branch { stream: stream.id, columns, schema, steps: vec![], carried: None }] }
    }

    /// Makes every branch carry the events' pane through its steps, as the last column. It takes no part in the plan,
    /// so the plan's column numbers stay as they are.
    #[must_use]
    pub fn with_window(mut self, window: Window) -> Front {
        for branch in &mut self.branches {
            branch.carry(Carried::Pane(window));
        }
        self
    }

    /// The same with the time of arrival.
    #[must_use]
    pub fn with_arrival(mut self) -> Front {
        self.branches.iter_mut().for_each(|branch| branch.carry(Carried::Arrival));
        self
    }

    /// The joins of all branches, each once.
    pub fn joins(&self) -> Vec<Arc<Join>> {
        let mut joins: Vec<Arc<Join>> = Vec::new();
        for step in self.branches.iter().flat_map(|branch| &branch.steps) {
            if let Step::Join(step) = step
                && !joins.iter().any(|known| Arc::ptr_eq(known, &step.join))
            {
                joins.push(Arc::clone(&step.join));
            }
        }
        joins
    }

    /// Columns of `stream` that are read at all.
    pub fn columns_of(&self, stream: StreamId) -> impl Iterator<Item = usize> + '_ {
        self.branches.iter().filter(move |b| b.stream == stream).flat_map(|b| b.columns.iter().copied())
    }
}

/// Walks down from `plan`; `above` are the steps on the way here, the last one runs first.
fn collect(plan: &Arc<dyn ExecutionPlan>, above: &mut Vec<Step>, out: &mut Vec<Branch>) -> bool {
    if let Some(stream) = plan.downcast_ref::<StreamExec>() {
        let steps = above.iter().rev().cloned().collect();
        out.push(Branch {
            stream: stream.stream(),
            columns: stream.columns().to_vec(),
            schema: stream.schema(),
            steps,
            carried: None,
        });
        return true;
    }
    let joined = || JoinStep::compile(plan).map(|(step, input)| (Step::Join(step), input));
    if let Some((step, input)) = Step::compile(plan).or_else(joined) {
        above.push(step);
        let ok = collect(input, above, out);
        above.pop();
        return ok;
    }
    let is_union = plan.is::<UnionExec>() || plan.is::<InterleaveExec>();
    is_union && plan.children().into_iter().all(|child| collect(child, above, out))
}

/// The first node on the way down that can't be in a front.
fn foreign_node(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    let is_known = plan.is::<StreamExec>()
        || Step::compile(plan).is_some()
        || JoinStep::compile(plan).is_some()
        || plan.is::<UnionExec>()
        || plan.is::<InterleaveExec>();
    let below = plan.children().into_iter().find(|child| Front::compile(child).is_none());
    match below {
        Some(below) if is_known => foreign_node(below),
        _ => plan,
    }
}

impl Branch {
    /// Runs the steps over a batch with all columns of the stream. `joined` are the rows that these events join in the place
    /// of the views' own.
    pub fn run(&self, events: &RecordBatch, joined: &JoinedRows) -> Result<RecordBatch> {
        // Events that were made before their stream got a column have none of it.
        let column = |(i, field): (&usize, &Arc<Field>)| match events.columns().get(*i) {
            Some(column) => Arc::clone(column),
            None => new_null_array(field.data_type(), events.num_rows()),
        };
        let mut columns: Vec<_> = self.columns.iter().zip(self.schema.fields()).map(column).collect();
        if let Some(carried) = &self.carried {
            columns.push(carried.of(events.column(ARRIVAL_COLUMN))?);
        }
        let mut batch = with_rows(&self.schema, columns, events.num_rows())?;
        for step in &self.steps {
            if batch.num_rows() == 0 {
                // What remains is not evaluated, but the schema must be that of the last step.
                return Ok(RecordBatch::new_empty(self.output_schema()));
            }
            batch = step.run(&batch, joined)?;
        }
        Ok(batch)
    }

    fn carry(&mut self, carried: Carried) {
        self.carried = Some(carried);
        let field = carried.field();
        let mut place = self.schema.fields().len();
        self.schema = appended(&self.schema, &field);
        for step in &mut self.steps {
            match step {
                Step::Filter { columns: None, .. } => {}
                Step::Filter { columns: Some(columns), .. } => {
                    columns.push(place);
                    place = columns.len() - 1;
                }
                Step::Project { expressions, schema } => {
                    expressions.push(Arc::new(Column::new(field.name(), place)));
                    place = expressions.len() - 1;
                    *schema = appended(schema, &field);
                }
                Step::Join(join) => place = join.carry(place, &field),
            }
        }
    }

    /// The columns of the stream that are read.
    pub fn input_schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What happens to an event, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn output_schema(&self) -> SchemaRef {
        let mut schema = Arc::clone(&self.schema);
        for step in &self.steps {
            schema = match step {
                Step::Filter { columns: None, .. } => schema,
                Step::Filter { columns: Some(columns), .. } => {
                    Arc::new(schema.project(columns).unwrap_or_else(|_| schema.as_ref().clone()))
                }
                Step::Project { schema, .. } => Arc::clone(schema),
                Step::Join(join) => Arc::clone(join.schema()),
            };
        }
        schema
    }
}

impl Carried {
    fn field(self) -> Arc<Field> {
        Arc::new(match self {
            Carried::Pane(_) => window::pane_field(),
            Carried::Arrival => Type::new(Scalar::Timestamptz).field(ARRIVAL),
        })
    }

    fn of(self, arrivals: &ArrayRef) -> Result<ArrayRef> {
        match self {
            Carried::Pane(window) => window.panes(arrivals),
            Carried::Arrival => Ok(Arc::clone(arrivals)),
        }
    }
}

/// `schema` and behind it a field.
pub(crate) fn appended(schema: &Schema, field: &Arc<Field>) -> SchemaRef {
    let fields: Vec<_> = schema.fields().iter().chain([field]).cloned().collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

impl Step {
    /// What a filter or a projection does, and the plan below it.
    pub(crate) fn compile(plan: &Arc<dyn ExecutionPlan>) -> Option<(Step, &Arc<dyn ExecutionPlan>)> {
        if let Some(filter) = plan.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none()) {
            let columns = filter.projection().as_ref().map(|p| p.to_vec());
            return Some((
                Step::Filter { predicate: Arc::clone(filter.predicate()), columns },
                filter.input(),
            ));
        }
        let project = plan.downcast_ref::<ProjectionExec>()?;
        let expressions = project.expr().iter().map(|e| Arc::clone(&e.expr)).collect();
        Some((Step::Project { expressions, schema: project.schema() }, project.input()))
    }

    /// The same with other expressions; those of a join have no parameters.
    pub(crate) fn map(
        &self,
        change: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Step> {
        Ok(match self {
            Step::Filter { predicate, columns } => {
                Step::Filter { predicate: change(predicate)?, columns: columns.clone() }
            }
            Step::Project { expressions, schema } => Step::Project {
                expressions: expressions.iter().map(change).collect::<Result<_>>()?,
                schema: Arc::clone(schema),
            },
            Step::Join(join) => Step::Join(join.clone()),
        })
    }

    pub(crate) fn run(&self, batch: &RecordBatch, joined: &JoinedRows) -> Result<RecordBatch> {
        match self {
            Step::Filter { predicate, columns } => {
                let kept = predicate.evaluate(batch)?.into_array(batch.num_rows())?;
                let kept = as_boolean_array(&kept)?;
                let batch = match columns {
                    Some(columns) => batch.project(columns)?,
                    None => batch.clone(),
                };
                Ok(filter_record_batch(&batch, kept)?)
            }
            Step::Project { expressions, schema } => {
                let rows = batch.num_rows();
                let columns = expressions
                    .iter()
                    .map(|e| e.evaluate(batch)?.into_array(rows))
                    .collect::<Result<Vec<_>>>()?;
                with_rows(schema, columns, rows)
            }
            Step::Join(join) => join.run(batch, joined),
        }
    }
}

/// A batch whose row count is kept even if it has no columns (`SELECT count(*) FROM s`).
pub(crate) fn with_rows(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
