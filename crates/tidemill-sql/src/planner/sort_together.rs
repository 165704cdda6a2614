//! The physical rule, after all others, by which sides of a union that have other constants in a column of ORDER BY are
//! sorted together.
//!
//! The constant is left out of the order in which each side is sorted, and the first rows that are looked for on all sides
//! share one threshold: rows of a side whose constant comes first are then dropped for rows of another.
//!
//! ```text
//! SortPreservingMerge: url DESC, id, fetch=5        Sort: url DESC, id, fetch=5
//!   Sort: id, fetch=5                           =>    CoalescePartitions
//!     Union                                             Union
//! ```
//!
//! Blocked by: the threshold of a `SortExec` with a fetch, which its partitions share (DataFusion 55).
//! Remove when: `ORDER BY url DESC, id LIMIT 5` over a union with constant urls is right without this rule.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

#[derive(Debug)]
pub struct SortTogether;

impl PhysicalOptimizerRule for SortTogether {
    fn name(&self) -> &str {
        "sort_together"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let together = plan.downcast_ref::<SortPreservingMergeExec>().and_then(together);
            Ok(together.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }
}

fn together(merge: &SortPreservingMergeExec) -> Option<Arc<dyn ExecutionPlan>> {
    let (rows, fetch) = unsorted(merge.input(), merge.expr().len())?;
    let rows = Arc::new(CoalescePartitionsExec::new(rows));
    let fetch = merge.fetch().unwrap_or(fetch);
    Some(Arc::new(SortExec::new(merge.expr().clone(), rows).with_fetch(Some(fetch))))
}

/// The plan without the sort in it, if that leaves a part of the order out, and the rows that it looks for.
fn unsorted(plan: &Arc<dyn ExecutionPlan>, order: usize) -> Option<(Arc<dyn ExecutionPlan>, usize)> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let fetch = sort.fetch().filter(|_| sort.expr().len() < order)?;
        return Some((Arc::clone(sort.input()), fetch));
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let (below, fetch) = unsorted(projection.input(), order)?;
    let plan = replace_children_if_necessary(Arc::clone(plan), vec![below]).ok()?;
    Some((plan, fetch))
}
