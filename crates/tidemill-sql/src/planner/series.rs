//! The physical rule, after all others, by which a series is made while its values are read: in lists of a batch's length,
//! each with the other columns of its row, and not in one list of all of them.
//!
//! ```text
//! Unnest: x                                       Unnest: x
//!   Projection: generate_series(a, b) as x, c  =>   Series: x
//!     rows                                            Projection: c, a, b
//!                                                       rows
//! ```

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::TryStreamExt;

use super::SessionVars;
use crate::function::series::{NAME, Pieces, pieces};
use crate::function::{Call, Input, external};
use crate::types::Type;

#[derive(Debug)]
pub struct SeriesInPieces;

impl PhysicalOptimizerRule for SeriesInPieces {
    fn name(&self) -> &str {
        "series_in_pieces"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match in_pieces(&plan)? {
            Some(series) => Ok(Transformed::yes(replace_children_if_necessary(plan, vec![series])?)),
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// What is below an UnnestExec of one series.
fn in_pieces(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(unnest) = plan.downcast_ref::<UnnestExec>() else { return Ok(None) };
    let [list] = unnest.list_column_indices() else { return Ok(None) };
    let Some(projection) = unnest.input().downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let column = list.index_in_input_schema;
    let function = projection.expr()[column].expr.downcast_ref::<ScalarFunctionExpr>();
    let Some(function) = function.filter(|function| function.name() == NAME) else { return Ok(None) };
    if list.depth != 1 || !unnest.struct_column_indices().is_empty() {
        return Ok(None);
    }
    let mut columns = projection.expr().to_vec();
    columns.remove(column);
    let arguments = function.args().iter().enumerate();
    columns.extend(
        arguments.map(|(i, expr)| ProjectionExpr { expr: Arc::clone(expr), alias: format!("argument {i}") }),
    );
    let input = Arc::new(ProjectionExec::try_new(columns, Arc::clone(projection.input()))?);
    Ok(Some(Arc::new(SeriesExec::new(input, projection.schema(), column, function.args().len()))))
}

#[derive(Debug)]
struct SeriesExec {
    /// The other columns, then the arguments.
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    /// Where the lists are.
    column: usize,
    arguments: usize,
    properties: Arc<PlanProperties>,
}

impl SeriesExec {
    fn new(input: Arc<dyn ExecutionPlan>, schema: SchemaRef, column: usize, arguments: usize) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, schema, column, arguments, properties: Arc::new(properties) }
    }
}

impl DisplayAs for SeriesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeriesExec")
    }
}

impl ExecutionPlan for SeriesExec {
    fn name(&self) -> &str {
        "SeriesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.pop() {
            Some(input) => Arc::new(Self::new(input, Arc::clone(&self.schema), self.column, self.arguments)),
            None => self,
        })
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let ty = Type::of_field(self.schema.field(self.column)).map_err(external)?;
        let missing = || DataFusionError::Internal(format!("there are no series of {}", ty.display()));
        let options = context.session_config().options();
        let making = Making {
            schema: Arc::clone(&self.schema),
            column: self.column,
            others: self.input.schema().fields().len() - self.arguments,
            vars: options.extensions.get::<SessionVars>().cloned().unwrap_or_default(),
            pieces: pieces(ty.scalar).ok_or_else(missing)?,
            values_max: context.session_config().batch_size(),
            rows: None,
        };
        let batches = futures::stream::try_unfold((input, making), |(mut input, mut making)| async {
            Ok(making.next(&mut input).await?.map(|batch| (batch, (input, making))))
        });
        let batches = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches);
        Ok(make_cooperative(Box::pin(batches)))
    }
}

/// Rows whose series are made.
struct Rows {
    columns: Vec<ArrayRef>,
    arguments: Vec<Input>,
    types: Vec<Type>,
    count: usize,
    /// The one whose series comes next, or goes on.
    row: usize,
    goes_on: bool,
}

impl Rows {
    fn new(batch: &RecordBatch, others: usize) -> Result<Self> {
        let (columns, arguments) = batch.columns().split_at(others);
        let types = batch.schema().fields()[others..]
            .iter()
            .map(|field| Type::of_field(field))
            .collect::<crate::Result<_>>();
        Ok(Self {
            columns: columns.to_vec(),
            arguments: arguments
                .iter()
                .map(|array| Input::new(&ColumnarValue::Array(Arc::clone(array))))
                .collect::<Result<_>>()?,
            types: types.map_err(external)?,
            count: batch.num_rows(),
            row: 0,
            goes_on: false,
        })
    }

    fn are_done(&self) -> bool {
        self.row == self.count
    }
}

struct Making {
    schema: SchemaRef,
    column: usize,
    /// Columns that are not arguments.
    others: usize,
    vars: SessionVars,
    pieces: Box<dyn Pieces>,
    /// In a batch.
    values_max: usize,
    rows: Option<Rows>,
}

impl Making {
    async fn next(&mut self, input: &mut SendableRecordBatchStream) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(mut rows) = self.rows.take().filter(|rows| !rows.are_done()) {
                let batch = self.make(&mut rows)?;
                self.rows = Some(rows);
                return Ok(Some(batch));
            }
            let Some(batch) = input.try_next().await? else { return Ok(None) };
            self.rows = Some(Rows::new(&batch, self.others)?);
        }
    }

    /// Lists of a batch's length altogether.
    fn make(&mut self, rows: &mut Rows) -> Result<RecordBatch> {
        let list = self.schema.field(self.column).data_type();
        let (mut of_rows, mut lengths, mut valid) = (vec![], vec![], vec![]);
        let mut left = self.values_max;
        while left > 0 && of_rows.len() < self.values_max && !rows.are_done() {
            let call = Call {
                inputs: &rows.arguments,
                types: &rows.types,
                rows: rows.count,
                vars: &self.vars,
                returns: list,
            };
            let is_null = !rows.goes_on && !self.pieces.start(&call, rows.row).map_err(external)?;
            let (made, is_done) =
                if is_null { (0, true) } else { self.pieces.make(left).map_err(external)? };
            of_rows.push(rows.row as u32);
            lengths.push(made);
            valid.push(!is_null);
            left -= made;
            rows.goes_on = !is_done;
            rows.row += usize::from(is_done);
        }
        let DataType::List(item) = list else {
            return Err(DataFusionError::Internal(format!("a series is a {list}")));
        };
        let offsets = OffsetBuffer::from_lengths(lengths);
        let lists = ListArray::try_new(Arc::clone(item), offsets, self.pieces.finish(), Some(valid.into()))?;
        let of_rows = UInt32Array::from(of_rows);
        let columns = rows.columns.iter().map(|column| take(column, &of_rows, None));
        let mut columns = columns.collect::<Result<Vec<_>, _>>()?;
        columns.insert(self.column, Arc::new(lists));
        let options = RecordBatchOptions::new().with_row_count(Some(of_rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
