//! Conditions that stay above what makes rows of none, or other rows of fewer.
//!
//! Blocked by: DataFusion moves a condition below an aggregate when all of its columns are keys, also one that has no
//! column: but an aggregate without keys, or with a grouping set without keys, has a row for no rows. Nor does it mind that
//! a condition has another value each time, or that DISTINCT ON has other rows without those that are left out. Remove when:
//! `SELECT 1 FROM (SELECT max(a) FROM t) s WHERE random() < 0` has no rows without this rule.
//!
//! ```text
//! Filter: random() < 0              Filter: random() < 0
//!   Aggregate: max(t.a)      not =>   Aggregate: max(t.a)
//!     TableScan: t                      Filter: random() < 0 …
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, Filter, LogicalPlan};

use super::guard::Rewrite;

/// The rule that moves conditions down does not see those that stay.
pub(super) fn above(plan: LogicalPlan, rewrite: &Rewrite<'_>) -> Result<Transformed<LogicalPlan>> {
    let Some((conditions, below)) = conditions_over(&plan) else { return rewrite(plan) };
    let (kept, others): (Vec<_>, Vec<_>) =
        conditions.into_iter().partition(|condition| stays(condition, below));
    let Some(kept) = conjunction(kept) else { return rewrite(plan) };
    let below = Arc::new(below.clone());
    let rest = match conjunction(others) {
        Some(others) => rewrite(LogicalPlan::Filter(Filter::try_new(others, below)?))?,
        None => Transformed::no(Arc::unwrap_or_clone(below)),
    };
    rest.map_data(|rest| Ok(LogicalPlan::Filter(Filter::try_new(kept, Arc::new(rest))?)))
}

/// All conditions on the rows of an operator that may need them above itself, the first ones first.
fn conditions_over(plan: &LogicalPlan) -> Option<(Vec<Expr>, &LogicalPlan)> {
    let LogicalPlan::Filter(filter) = plan else { return None };
    let (mut conditions, below) = match filter.input.as_ref() {
        below @ (LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_)) => {
            (vec![], below)
        }
        inner => conditions_over(inner)?,
    };
    conditions.extend(split_conjunction_owned(filter.predicate.clone()));
    Some((conditions, below))
}

fn stays(condition: &Expr, below: &LogicalPlan) -> bool {
    let has_row_of_none = |aggregate: &Aggregate| {
        aggregate.group_expr.is_empty() || matches!(aggregate.group_expr[0], Expr::GroupingSet(_))
    };
    condition.is_volatile()
        || match below {
            LogicalPlan::Aggregate(aggregate) => {
                has_row_of_none(aggregate) && condition.column_refs().is_empty()
            }
            LogicalPlan::Distinct(distinct) => matches!(distinct, Distinct::On(_)),
            _ => false,
        }
}
