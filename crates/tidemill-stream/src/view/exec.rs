//! Reading a view: the leaf that turns frozen states into the aggregate's rows.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Statistics;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use tidemill_sql::aggregate::StateForm;

use crate::fold::{Aggregation, Finish};
use crate::view::lookup::KeyFilter;
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
    finish: Arc<Finish>,
    /// The groups that are wanted; `None`: all.
    filter: Option<Arc<KeyFilter>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl StateExec {
    pub fn new(aggregation: Arc<Aggregation>) -> Self {
        Self::of(Finish::new(aggregation))
    }

    fn of(finish: Finish) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(finish.schema())),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let finish = Arc::new(finish);
        Self { view: None, finish, filter: None, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    pub(super) fn of_view(&self, view: &Arc<View>, filter: Option<Arc<KeyFilter>>) -> Self {
        Self {
            view: Some(Arc::clone(view)),
            finish: Arc::clone(&self.finish),
            filter,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same groups, with the states of aggregates behind their results.
    pub(super) fn with_states(&self, states: &[(usize, Arc<StateForm>)]) -> Self {
        let add = |finish: Finish, (aggregate, states): &(usize, Arc<StateForm>)| {
            finish.with_state(*aggregate, Arc::clone(states))
        };
        Self::of(states.iter().fold(Finish::clone(&self.finish), add))
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
        let aggregation = self.finish.aggregation();
        let functions: Vec<_> = aggregation.functions().map(|a| a.name().to_string()).collect();
        write!(f, "StateExec: keys={}, aggregates=[{}]", aggregation.key_count(), functions.join(", "))?;
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
        let schema = Arc::clone(self.finish.schema());
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
        let finish = Arc::clone(&self.finish);
        let schema = Arc::clone(finish.schema());
        let filter = self.filter.clone();
        let is_brief =
            filter.as_ref().is_some_and(|filter| filter.keys().is_some_and(|keys| keys <= BRIEF_KEYS_MAX));
        if frozen.has_runs() && frozen.first_pane.is_none() && !is_brief {
            return stream_state(finish, frozen, filter);
        }
        let finished = async move {
            match frozen.first_pane {
                None if frozen.has_runs() => look_up(&finish, &frozen, filter.as_ref()),
                None => match filter {
                    Some(filter) => finish.several(&filter.batches(&frozen.batches())?),
                    None => finish.several(&frozen.batches()),
                },
                Some(first) if !frozen.has_runs() => window::finish(&finish, &frozen, first),
                // Runs are read from disk, which must not stop the reactor.
                Some(first) => SpawnedTask::spawn_blocking(move || window::finish(&finish, &frozen, first))
                    .join()
                    .await
                    .map_err(|e| DataFusionError::External(Box::new(e)))?,
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
