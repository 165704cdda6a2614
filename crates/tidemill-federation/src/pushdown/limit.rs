//! A few rows of many nodes, whichever they are: the nodes are asked one after the other.
//!
//! ```text
//! CoalescePartitions: fetch=10       InTurn: fetch=10
//!   Union                      =>      Union
//!     ForeignScan: SELECT v LIMIT 10     ForeignScan: SELECT v LIMIT 10
//!     ForeignScan: SELECT v LIMIT 10     ForeignScan: SELECT v LIMIT 10
//! ```
//!
//! The first one mostly has all of them, and would share the processors and the network with the others for nothing. Who has to look
//! for rows, because of a condition, is asked at once, and so is everybody when the first one takes its time.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::stream::{SelectAll, StreamExt, try_unfold};

use super::Pushdown;
use super::rule::{NodeRule, Plan};
use crate::scan::ForeignScanExec;

pub(super) const RULE: NodeRule =
    NodeRule { name: "foreign_limit", is_on: |pushdown| pushdown.filters, replace: take_turns };

/// More rows come faster from several nodes.
const ROWS_MAX: usize = 20_000;
/// A node that gives nothing for so long is not waited for alone.
const PATIENCE: Duration = Duration::from_millis(5);

fn take_turns(plan: &Plan, _: &Pushdown) -> Result<Option<Plan>> {
    let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() else { return Ok(None) };
    let Some(rows) = coalesce.fetch().filter(|rows| *rows <= ROWS_MAX) else { return Ok(None) };
    let Some(union) = coalesce.input().downcast_ref::<UnionExec>() else { return Ok(None) };
    let gives_any_rows = |side: &Plan| {
        scan_of(side).is_some_and(|scan| {
            let select = scan.select();
            let as_they_are = select.keys.is_none() && select.joined.is_none() && select.order.is_empty();
            as_they_are && select.conditions.is_empty() && select.limit.is_some()
        })
    };
    let is_alike = union.inputs().len() > 1 && union.inputs().iter().all(gives_any_rows);
    Ok(is_alike.then(|| Arc::new(InTurnExec::new(Arc::clone(coalesce.input()), rows)) as Plan))
}

/// The one scan below projections.
fn scan_of(plan: &Plan) -> Option<&ForeignScanExec> {
    match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => scan_of(projection.input()),
        None => plan.downcast_ref::<ForeignScanExec>().filter(|scan| scan.dynamic_filters().next().is_none()),
    }
}

/// Gives the first rows of its input, whose partitions it starts when it needs them.
#[derive(Debug)]
pub struct InTurnExec {
    input: Plan,
    rows: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl InTurnExec {
    fn new(input: Plan, rows: usize) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { input, rows, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    fn over(self: Arc<Self>, mut children: Vec<Plan>) -> Plan {
        match children.pop() {
            Some(input) => Arc::new(Self::new(input, self.rows)),
            None => self,
        }
    }

    /// Those that are known not to be there: their error, or warning, does not depend on whose turn it is.
    fn absent(&self) -> Vec<usize> {
        let sides = self.input.children();
        let is_absent = |side: &usize| {
            let scan = sides.get(*side).and_then(|side| scan_of(side));
            scan.is_some_and(|scan| scan.connector().absence().is_some())
        };
        (0..sides.len()).filter(is_absent).collect()
    }
}

impl DisplayAs for InTurnExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InTurnExec: fetch={}", self.rows)
    }
}

impl ExecutionPlan for InTurnExec {
    fn name(&self) -> &str {
        "InTurnExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.over(children))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.over(children))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn fetch(&self) -> Option<usize> {
        Some(self.rows)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let partitions = self.input.output_partitioning().partition_count();
        let absent = self.absent();
        let mut turns = Turns {
            input: Arc::clone(&self.input),
            context,
            waiting: (0..partitions).filter(|partition| !absent.contains(partition)).collect(),
            running: SelectAll::new(),
            left: self.rows,
        };
        absent.into_iter().try_for_each(|partition| turns.start(partition))?;
        let rows = try_unfold((turns, baseline), |(mut turns, baseline)| async move {
            let batch = turns.next().await?;
            Ok(batch.map(|batch| {
                baseline.record_output(batch.num_rows());
                (batch, (turns, baseline))
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

struct Turns {
    input: Plan,
    context: Arc<TaskContext>,
    waiting: VecDeque<usize>,
    running: SelectAll<SendableRecordBatchStream>,
    /// Rows that are still wanted.
    left: usize,
}

impl Turns {
    fn start(&mut self, partition: usize) -> Result<()> {
        self.running.push(self.input.execute(partition, Arc::clone(&self.context))?);
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.left > 0 {
            let batch = match self.running.is_empty() {
                true => None,
                false => match tokio::time::timeout(PATIENCE, self.running.next()).await {
                    Ok(batch) => batch,
                    Err(_) if self.waiting.is_empty() => self.running.next().await,
                    Err(_) => {
                        while let Some(partition) = self.waiting.pop_front() {
                            self.start(partition)?;
                        }
                        continue;
                    }
                },
            };
            match batch.transpose()? {
                Some(batch) => {
                    let rows = batch.num_rows().min(self.left);
                    self.left -= rows;
                    return Ok(Some(batch.slice(0, rows)));
                }
                None => match self.waiting.pop_front() {
                    Some(partition) => self.start(partition)?,
                    None => return Ok(None),
                },
            }
        }
        Ok(None)
    }
}
