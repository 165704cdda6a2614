//! A rule that leaves more to the servers: when it is on, and what it makes of a node of a plan.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::Pushdown;

pub(super) type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(super) struct NodeRule {
    pub name: &'static str,
    pub is_on: fn(&Pushdown) -> bool,
    /// What takes the node's place, if anything does. The nodes below have been there already.
    pub replace: fn(&Plan, &Pushdown) -> Result<Option<Plan>>,
}

impl PhysicalOptimizerRule for NodeRule {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> Result<Plan> {
        let pushdown = Pushdown::of(options);
        if !(self.is_on)(&pushdown) {
            return Ok(plan);
        }
        plan.transform_up(|plan| {
            let replaced = (self.replace)(&plan, &pushdown)?;
            Ok(replaced.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }
}
