//! The physical rule, before sorts are dropped that nobody needs, by which OFFSET counts rows in their order.
//!
//! ```text
//! Limit: skip=2              Projection: a
//!   Projection: a        =>    Limit: skip=2
//!     Sort: b                    Sort: b
//! ```
//!
//! Blocked by: DataFusion 55 drops a sort below a limit that only skips, when a projection between them leaves the key out.
//! Remove when: `SELECT sum(a) FROM (SELECT a FROM t ORDER BY b OFFSET 2) s` sorts without this rule.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(super) struct OffsetOrder;

impl PhysicalOptimizerRule for OffsetOrder {
    fn name(&self) -> &str {
        "offset_order"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_down(|plan| {
            let limit = plan.downcast_ref::<GlobalLimitExec>().filter(|limit| limit.fetch().is_none());
            let Some(limit) = limit else { return Ok(Transformed::no(plan)) };
            let Some(projection) = limit.input().downcast_ref::<ProjectionExec>() else {
                return Ok(Transformed::no(plan));
            };
            let below = GlobalLimitExec::new(Arc::clone(projection.input()), limit.skip(), None);
            let above = replace_children_if_necessary(Arc::clone(limit.input()), vec![Arc::new(below)])?;
            Ok(Transformed::yes(above))
        })
        .data()
    }
}
