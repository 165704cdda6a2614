//! The physical rule, before the one that drops sorts and after those that move projections, by which a column that is
//! constant on one side of an outer join is not above it, where it is null for rows that have found none of that side.
//!
//! ```text
//! Sort: b, a                                    Sort: b, a
//!   Hash Right Join: u.a = t.a            =>      NullSide: b
//!     Filter: u.b = 5                               Hash Right Join: u.a = t.a
//!     Scan: t                                         …
//! ```
//!
//! Blocked by: DataFusion 55 takes it for constant above the join as well, and so neither sorts by it nor keeps the groups of
//! an aggregate together. Remove when: the queries at the end of `plan.slt` have a sort by that
//! column without this rule.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, JoinType, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::EquivalenceGroup;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(super) struct NullSides;

impl PhysicalOptimizerRule for NullSides {
    fn name(&self) -> &str {
        "null_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|plan| {
            if let Some(known) = plan.downcast_ref::<NullSideExec>()
                && known.input.is::<NullSideExec>()
            {
                return Ok(Transformed::yes(Arc::clone(&known.input)));
            }
            let Some(columns) = null_columns(&plan) else { return Ok(Transformed::no(plan)) };
            let constants = plan.equivalence_properties().constants();
            let is_lost = constants.iter().any(|constant| has_any(&constant.expr, &columns));
            match is_lost {
                true => Ok(Transformed::yes(Arc::new(NullSideExec::try_new(plan, columns.into())?) as _)),
                false => Ok(Transformed::no(plan)),
            }
        })
        .data()
    }
}

/// The columns of an outer join that are null where there is no row of their side.
fn null_columns(plan: &Plan) -> Option<Vec<usize>> {
    let (kind, left, projection) = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        (join.join_type(), join.left(), join.projection.as_deref())
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        (join.join_type(), join.left(), join.projection().as_deref())
    } else {
        let join = plan.downcast_ref::<SortMergeJoinExec>()?;
        (&join.join_type, &join.left, None)
    };
    let left = left.schema().fields().len();
    let sides: [Range<usize>; 2] = match kind {
        JoinType::Left => [0..0, left..usize::MAX],
        JoinType::Right => [0..left, 0..0],
        JoinType::Full => [0..left, left..usize::MAX],
        _ => return None,
    };
    let of_join = |i: usize| projection.map_or(i, |projection: &[usize]| projection[i]);
    let is_null = |i: &usize| sides.iter().any(|side| side.contains(&of_join(*i)));
    Some((0..plan.schema().fields().len()).filter(is_null).collect())
}

fn has_any(expr: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> bool {
    collect_columns(expr).iter().any(|column| columns.contains(&column.index()))
}

/// Its input, of which less is known.
#[derive(Debug)]
struct NullSideExec {
    input: Plan,
    columns: Arc<[usize]>,
    properties: Arc<PlanProperties>,
}

impl NullSideExec {
    fn try_new(input: Plan, columns: Arc<[usize]>) -> Result<Self> {
        let known = input.equivalence_properties();
        let is_kept = |expr: &Arc<dyn PhysicalExpr>| !has_any(expr, &columns);
        let mut kept = EquivalenceProperties::new(input.schema());
        let classes = known.eq_group().iter().filter(|class| class.iter().all(is_kept)).cloned();
        kept.add_equivalence_group(EquivalenceGroup::new(classes))?;
        let properties = Arc::new(input.properties().as_ref().clone().with_eq_properties(kept));
        Ok(Self { input, columns, properties })
    }

    fn over(&self, mut children: Vec<Plan>) -> Result<Plan> {
        let missing = || DataFusionError::Internal("a node without its input".into());
        let input = children.pop().ok_or_else(missing)?;
        Ok(Arc::new(Self::try_new(input, Arc::clone(&self.columns))?))
    }
}

impl DisplayAs for NullSideExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NullSideExec")
    }
}

impl ExecutionPlan for NullSideExec {
    fn name(&self) -> &str {
        "NullSideExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// A sort by a column of that side would be put below, where it is thought to be constant.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
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
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
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
