//! Reading a view: the leaf that turns frozen states into the aggregate's rows, and the view as a table.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use crate::fold::Aggregation;
use crate::view::lookup::{KeyFilter, key_columns, over_keys, shown_of};
use crate::view::read::{look_up, stream_state};
use crate::view::{Frozen, View, ViewId};
use crate::window;

/// Rows of the batches that a read gives.
const BATCH_ROWS: usize = 8192;
/// So many keys are looked up on disk by the session's own thread, as in PostgreSQL: the blocks are mostly in memory, and
/// under load to hand the work to another thread and back takes many times as long.
const BRIEF_KEYS_MAX: usize = 8;

/// The states of several views at one commit. A query finds it as an extension of its session's configuration.
#[derive(Debug, Default)]
pub struct Snapshot {
    views: HashMap<ViewId, Frozen>,
}

impl Snapshot {
    pub fn new(views: HashMap<ViewId, Frozen>) -> Self {
        Self { views }
    }

    pub fn view(&self, id: ViewId) -> Option<&Frozen> {
        self.views.get(&id)
    }

    pub(crate) fn views(&self) -> &HashMap<ViewId, Frozen> {
        &self.views
    }
}

/// The leaf of a view's finish plan: gives the finished groups of the view's state.
#[derive(Debug)]
pub struct StateExec {
    /// `None` in the template that belongs to no view yet.
    view: Option<Arc<View>>,
    aggregation: Arc<Aggregation>,
    /// The groups that are wanted; `None`: all.
    filter: Option<Arc<KeyFilter>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl StateExec {
    pub fn new(aggregation: Arc<Aggregation>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(aggregation.output_schema())),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { view: None, aggregation, filter: None, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    pub(super) fn of_view(&self, view: &Arc<View>, filter: Option<Arc<KeyFilter>>) -> Self {
        Self {
            view: Some(Arc::clone(view)),
            aggregation: Arc::clone(&self.aggregation),
            filter,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// How the groups that are wanted are found, and which they are; `None`: all.
    pub fn condition(&self) -> Option<(&'static str, &Arc<dyn PhysicalExpr>)> {
        self.filter.as_ref().map(|filter| filter.condition())
    }

    pub fn view(&self) -> Option<ViewId> {
        self.view.as_ref().map(|view| view.id)
    }

    pub(super) fn view_read(&self) -> Option<&Arc<View>> {
        self.view.as_ref()
    }

    /// Whether a column comes from the events as it is: a key, or any column of kept rows.
    pub(super) fn is_given(&self, column: usize) -> bool {
        self.aggregation.keeps_rows() || column < self.aggregation.key_count()
    }
}

/// The views whose state a plan reads.
pub fn state_views(plan: &Arc<dyn ExecutionPlan>) -> Vec<ViewId> {
    let mut views = Vec::new();
    let mut stack = vec![plan];
    while let Some(node) = stack.pop() {
        if let Some(id) = node.downcast_ref::<StateExec>().and_then(StateExec::view)
            && !views.contains(&id)
        {
            views.push(id);
        }
        stack.extend(node.children());
    }
    views
}

impl DisplayAs for StateExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions: Vec<_> = self.aggregation.functions().map(|a| a.name().to_string()).collect();
        write!(f, "StateExec: keys={}, aggregates=[{}]", self.aggregation.key_count(), functions.join(", "))?;
        self.filter.as_ref().map_or(Ok(()), |filter| write!(f, ", {filter}"))
    }
}

impl ExecutionPlan for StateExec {
    fn name(&self) -> &str {
        "StateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match context.session_config().get_extension::<Snapshot>() {
            Some(snapshot) => self.read(&snapshot, partition),
            None => Err(without_snapshot()),
        }
    }

    /// So that joins keep the smaller side in memory.
    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let groups = self.view.as_ref().map(|view| view.groups());
        let wanted = self.filter.as_ref().and_then(|filter| filter.keys()).unwrap_or(usize::MAX);
        let num_rows = groups.map_or(Precision::Absent, |groups| Precision::Inexact(groups.min(wanted)));
        Ok(Arc::new(Statistics { num_rows, ..Statistics::new_unknown(&self.schema()) }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

fn without_snapshot() -> DataFusionError {
    DataFusionError::Internal("a view is read without a snapshot".into())
}

impl StateExec {
    /// The finished groups at the commit of the snapshot.
    pub(super) fn read(&self, snapshot: &Snapshot, partition: usize) -> Result<SendableRecordBatchStream> {
        let frozen = self.view().and_then(|id| snapshot.view(id).cloned()).ok_or_else(without_snapshot)?;
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let alive = frozen.alive;
        let schema = Arc::clone(self.aggregation.output_schema());
        let batches = self.stream(frozen).map(move |batch| {
            let batch = match alive {
                Some(alive) => alive.rows(&batch?)?,
                None => batch?,
            };
            baseline.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn stream(&self, frozen: Frozen) -> SendableRecordBatchStream {
        let aggregation = Arc::clone(&self.aggregation);
        let schema = Arc::clone(aggregation.output_schema());
        let filter = self.filter.clone();
        let is_brief =
            filter.as_ref().is_some_and(|filter| filter.keys().is_some_and(|keys| keys <= BRIEF_KEYS_MAX));
        if frozen.has_runs() && frozen.first_pane.is_none() && !is_brief {
            return stream_state(aggregation, frozen, filter);
        }
        let finished = async move {
            match frozen.first_pane {
                None if frozen.has_runs() => look_up(&aggregation, &frozen, filter.as_ref()),
                None => match filter {
                    Some(filter) => aggregation.finish(&filter.batches(&frozen.batches())?),
                    None => aggregation.finish(&frozen.batches()),
                },
                Some(first) if !frozen.has_runs() => window::finish(&aggregation, &frozen, first),
                // Runs are read from disk, which must not stop the reactor.
                Some(first) => {
                    SpawnedTask::spawn_blocking(move || window::finish(&aggregation, &frozen, first))
                        .join()
                        .await
                        .map_err(|e| DataFusionError::External(Box::new(e)))?
                }
            }
        };
        let batches = futures::stream::once(finished).flat_map(|finished| {
            futures::stream::iter(match finished {
                Ok(batch) => slices(&batch).into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            })
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}

fn slices(batch: &RecordBatch) -> Vec<RecordBatch> {
    (0..batch.num_rows())
        .step_by(BATCH_ROWS)
        .map(|start| batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start)))
        .collect()
}

/// A view in the eyes of the planner.
#[derive(Debug)]
pub struct ViewTable {
    view: Arc<View>,
    schema: SchemaRef,
}

impl ViewTable {
    /// `schema` names and types the columns as users see them; the finish plan gives them in the same order.
    pub fn new(view: Arc<View>, schema: SchemaRef) -> Self {
        Self { view, schema }
    }

    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The column of the view's groups (or rows) that this column of the table shows, if it is not computed.
    pub fn given(&self, column: usize) -> Option<usize> {
        shown_of(&self.view.plan.finish, column)
    }

    /// The columns that show the keys of GROUP BY; none if a key is not shown, or if there are no groups.
    pub fn key(&self) -> Vec<&str> {
        let aggregation = &self.view.plan.aggregation;
        let count = match aggregation.keeps_rows() {
            true => 0,
            false => aggregation.key_count() - usize::from(aggregation.has_panes()),
        };
        let shown = |key: usize| (0..self.schema.fields().len()).find(|i| self.given(*i) == Some(key));
        let columns: Option<Vec<usize>> = (0..count).map(shown).collect();
        columns.unwrap_or_default().into_iter().map(|i| self.schema.field(i).name().as_str()).collect()
    }

    /// `filter` over the keys of the state, if that is all that it is about. Panes of a window have keys of their own.
    fn over_keys(&self, filter: &Expr) -> Option<Expr> {
        let plan = &self.view.plan;
        let key = |name: &str| shown_of(&plan.finish, self.schema.index_of(name).ok()?);
        if plan.window.is_some() || plan.aggregation.keeps_rows() { None } else { over_keys(filter, &key) }
    }

    fn key_filter(&self, session: &dyn Session, filters: &[Expr]) -> Result<Option<Arc<KeyFilter>>> {
        let Some(filter) = conjunction(filters.iter().filter_map(|f| self.over_keys(f))) else {
            return Ok(None);
        };
        let keys = key_columns(self.view.plan.aggregation.key_schema())?;
        let predicate = session.create_physical_expr(filter, &keys)?;
        Ok(Some(self.view.key_filter(predicate)?))
    }
}

#[async_trait]
impl TableProvider for ViewTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let supported = |filter: &&Expr| match self.over_keys(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(supported).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filter = self.key_filter(session, filters)?;
        let finish = Arc::clone(&self.view.plan.finish).transform_up(|node| {
            Ok(match node.downcast_ref::<StateExec>() {
                Some(leaf) => Transformed::yes(
                    Arc::new(leaf.of_view(&self.view, filter.clone())) as Arc<dyn ExecutionPlan>
                ),
                // Nodes above keep what one execution did: each read gets fresh ones.
                None => Transformed::yes(node.reset_state()?),
            })
        });
        let finish = finish.data()?;
        let produced = finish.schema();
        let columns: Vec<usize> =
            projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let expressions = columns.iter().map(|&i| ProjectionExpr {
            expr: Arc::new(Column::new(produced.field(i).name(), i)) as Arc<dyn PhysicalExpr>,
            alias: self.schema.field(i).name().clone(),
        });
        Ok(Arc::new(ProjectionExec::try_new(expressions.collect::<Vec<_>>(), finish)?))
    }
}

/// The view behind a table of the planner, if it is one.
pub fn as_view(table: &dyn TableProvider) -> Option<&ViewTable> {
    (table as &dyn Any).downcast_ref::<ViewTable>()
}
