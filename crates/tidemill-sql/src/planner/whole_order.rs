//! The physical rule, after those that push projections down, and again after those that push them to servers, by which rows are sorted by all that is asked of them.
//!
//! A sort leaves out what its input tells to be constant or equal to another column. When a projection is then pushed below a
//! union nothing tells it any more.
//!
//! ```text
//! SortPreservingMerge: id, t, id2        SortPreservingMerge: id, t, id2
//!   Sort: id, t                     =>     Sort: id, t, id2
//!     Union                                  Union
//!       Projection: id, t, id AS id2           Projection: id, t, id AS id2
//! ```
//!
//! Blocked by: a union forgets which columns of all of its inputs are equal (DataFusion 55).
//! Remove when: it tells so.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub struct WholeOrder;

impl PhysicalOptimizerRule for WholeOrder {
    fn name(&self) -> &str {
        "whole_order"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|plan| {
            let mut is_changed = false;
            let mut inputs = Vec::with_capacity(plan.children().len());
            for (input, required) in plan.children().into_iter().zip(plan.required_input_ordering()) {
                let wanted = required.map(|required| required.into_single());
                let sorted = wanted.map(|wanted| sorted(input, wanted)).transpose()?.flatten();
                is_changed |= sorted.is_some();
                inputs.push(sorted.unwrap_or_else(|| Arc::clone(input)));
            }
            if is_changed {
                return Ok(Transformed::yes(replace_children_if_necessary(plan, inputs)?));
            }
            Ok(Transformed::no(plan))
        })
        .data()
    }
}

/// The rows in this order, if they do not have it.
fn sorted(rows: &Plan, wanted: LexRequirement) -> Result<Option<Plan>> {
    if rows.equivalence_properties().ordering_satisfy_requirement(wanted.clone())? {
        return Ok(None);
    }
    let sort = match rows.downcast_ref::<SortExec>() {
        Some(sort) => SortExec::new(wanted.into(), Arc::clone(sort.input()))
            .with_fetch(sort.fetch())
            .with_preserve_partitioning(sort.preserve_partitioning()),
        None => {
            let is_divided = rows.output_partitioning().partition_count() > 1;
            SortExec::new(wanted.into(), Arc::clone(rows)).with_preserve_partitioning(is_divided)
        }
    };
    Ok(Some(Arc::new(sort)))
}
