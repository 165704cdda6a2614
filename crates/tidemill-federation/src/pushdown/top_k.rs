//! The first rows of an order: each server sends no more than are wanted, in order. Where all do, there is nothing to sort
//! here: the rows of one are as they are to be, and what merges the sorted sides of a union merges those of the servers.
//!
//! ```text
//! SortPreservingMerge: v DESC, fetch=3      SortPreservingMerge: v DESC, fetch=3
//!   Sort: v DESC, fetch=3              =>     Union
//!     Union                                     ForeignScan: SELECT v … ORDER BY v DESC NULLS FIRST LIMIT 3
//!       ForeignScan: SELECT v                   ForeignScan: SELECT v … ORDER BY v DESC NULLS FIRST LIMIT 3
//!       ForeignScan: SELECT v
//! ```

use std::cell::Cell;
use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::error::Result;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::rule::{NodeRule, Plan};
use super::{Pushdown, Source, Target, push};
use crate::scan::ForeignScanExec;

pub(super) const RULE: NodeRule =
    NodeRule { name: "foreign_top_k", is_on: |pushdown| pushdown.top_k, replace: push_down };

fn push_down(plan: &Plan, _: &Pushdown) -> Result<Option<Plan>> {
    let sort = plan.downcast_ref::<SortExec>();
    let Some((sort, rows)) = sort.and_then(|sort| Some((sort, sort.fetch()?))) else { return Ok(None) };
    let sources = sort.expr().iter().map(|item| Source::of(&item.expr)).collect::<Option<Vec<_>>>();
    let Some(sources) = sources else { return Ok(None) };
    let order = sort.expr().iter().map(|item| item.options).collect();
    let first = First { order, rows, is_of_all: Cell::new(true) };
    let Some(pushed) = push(sort.input(), &sources, &first)? else { return Ok(None) };
    // Whoever sorts each partition by itself has them merged above.
    let is_each = sort.preserve_partitioning() || pushed.output_partitioning().partition_count() == 1;
    if is_each && first.is_of_all.get() {
        return Ok(Some(pushed));
    }
    replace_children_if_necessary(Arc::clone(plan), vec![pushed]).map(Some)
}

struct First {
    order: Vec<SortOptions>,
    rows: usize,
    /// No side of a union is left to be sorted here.
    is_of_all: Cell<bool>,
}

impl Target for First {
    fn scan(&self, scan: &ForeignScanExec, sources: &[Source]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let select = scan.select();
        if !scan.capabilities().sort || !select.is_of_rows() {
            return Ok(None);
        }
        let mut order = Vec::new();
        for (source, options) in sources.iter().zip(&self.order) {
            // All rows of a scan have the same constant.
            if let Source::Constant(_) = source {
                continue;
            }
            let Some(item) = select.ordered(source, *options, scan.capabilities()) else { return Ok(None) };
            order.push(item);
        }
        let mut select = select.clone();
        (select.order, select.limit) = (order, Some(self.rows));
        Ok(Some(Arc::new(scan.with_select(select, scan.schema()))))
    }

    fn other(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        self.is_of_all.set(false);
        Ok(Arc::clone(plan))
    }

    fn keeps_projections(&self) -> bool {
        true
    }
}
