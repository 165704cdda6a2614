//! Physical nodes that hand the rows of their one input on as they are: what they are for is beside that.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    apply_expression_roots,
};

type Plan = Arc<dyn ExecutionPlan>;

/// What such a node has of its own.
pub trait Pass: fmt::Debug + Clone + Send + Sync + 'static {
    const NAME: &'static str;
    /// Otherwise no sort is moved below it.
    const KEEPS_ORDER: bool = true;

    /// What is known of the rows.
    fn properties(&self, input: &Plan) -> Result<Arc<PlanProperties>> {
        Ok(Arc::clone(input.properties()))
    }

    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &[]
    }

    fn execute(
        &self,
        input: &Plan,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        input.execute(partition, context)
    }
}

#[derive(Debug)]
pub struct PassExec<P> {
    input: Plan,
    pass: P,
    properties: Arc<PlanProperties>,
}

impl<P: Pass> PassExec<P> {
    pub fn try_new(input: Plan, pass: P) -> Result<Self> {
        let properties = pass.properties(&input)?;
        Ok(Self { input, pass, properties })
    }

    pub fn input(&self) -> &Plan {
        &self.input
    }

    fn over(&self, mut children: Vec<Plan>) -> Result<Plan> {
        let missing = || DataFusionError::Internal("a node without its input".into());
        let input = children.pop().ok_or_else(missing)?;
        Ok(Arc::new(Self::try_new(input, self.pass.clone())?))
    }
}

impl<P: Pass> DisplayAs for PassExec<P> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(P::NAME)
    }
}

impl<P: Pass> ExecutionPlan for PassExec<P> {
    fn name(&self) -> &str {
        P::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![P::KEEPS_ORDER]
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn replace_children(self: Arc<Self>, children: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        self.over(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        self.over(children)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.pass.exprs(), f)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.pass.execute(&self.input, partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let missing = || DataFusionError::Internal("a node without its input's statistics".into());
        inputs.first().cloned().ok_or_else(missing)
    }
}
