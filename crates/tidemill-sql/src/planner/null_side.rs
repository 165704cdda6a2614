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

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::equivalence::EquivalenceGroup;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};

use super::pass::{Pass, PassExec};

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
            if let Some(known) = plan.downcast_ref::<PassExec<NullSide>>()
                && known.input().is::<PassExec<NullSide>>()
            {
                return Ok(Transformed::yes(Arc::clone(known.input())));
            }
            let Some(columns) = null_columns(&plan) else { return Ok(Transformed::no(plan)) };
            let constants = plan.equivalence_properties().constants();
            let is_lost = constants.iter().any(|constant| has_any(&constant.expr, &columns));
            if !is_lost {
                return Ok(Transformed::no(plan));
            }
            let below = NullSide { columns: columns.into() };
            Ok(Transformed::yes(Arc::new(PassExec::try_new(plan, below)?) as _))
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

/// Its input, of which less is known: these columns may be null.
#[derive(Debug, Clone)]
struct NullSide {
    columns: Arc<[usize]>,
}

impl Pass for NullSide {
    const NAME: &'static str = "NullSideExec";
    /// A sort by a column of that side would be put below, where it is thought to be constant.
    const KEEPS_ORDER: bool = false;

    fn properties(&self, input: &Plan) -> Result<Arc<PlanProperties>> {
        let known = input.equivalence_properties();
        let is_kept = |expr: &Arc<dyn PhysicalExpr>| !has_any(expr, &self.columns);
        let mut kept = EquivalenceProperties::new(input.schema());
        let classes = known.eq_group().iter().filter(|class| class.iter().all(is_kept)).cloned();
        kept.add_equivalence_group(EquivalenceGroup::new(classes))?;
        Ok(Arc::new(input.properties().as_ref().clone().with_eq_properties(kept)))
    }
}
