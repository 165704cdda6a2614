//! Joins in which null equals null keep to their own keys.
//!
//! Blocked by: DataFusion makes keys of a join's further equalities, and one join of several, and a join has one way to compare
//! null for all of its keys. Remove when: each key has its own. Until then two rules do not touch such joins.

use datafusion::common::NullEquality;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Join, JoinType, LogicalPlan};

use super::guard::Rewrite;

fn is_null_safe(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// Around a rule that sees each node on its own.
pub(super) fn of_node(plan: LogicalPlan, rewrite: &Rewrite<'_>) -> Result<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Join(join) if is_null_safe(join) => Ok(Transformed::no(plan)),
        _ => rewrite(plan),
    }
}

/// Around a rule that goes over the plan itself and looks for inner joins: meanwhile these are none.
pub(super) fn of_plan(plan: LogicalPlan, rewrite: &Rewrite<'_>) -> Result<Transformed<LogicalPlan>> {
    let hidden = plan.transform_up_with_subqueries(|plan| {
        Ok(match plan {
            LogicalPlan::Join(join) if is_null_safe(&join) && join.join_type == JoinType::Inner => {
                Transformed::yes(LogicalPlan::Join(Join { join_type: HIDDEN, null_aware: true, ..join }))
            }
            other => Transformed::no(other),
        })
    })?;
    if !hidden.transformed {
        return rewrite(hidden.data);
    }
    let rewritten = rewrite(hidden.data)?;
    let shown = rewritten.data.transform_up_with_subqueries(|plan| {
        Ok(match plan {
            LogicalPlan::Join(join) if join.join_type == HIDDEN && join.null_aware => {
                let join_type = JoinType::Inner;
                Transformed::yes(LogicalPlan::Join(Join { join_type, null_aware: false, ..join }))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(Transformed::new(shown.data, rewritten.transformed, rewritten.tnr))
}

/// Only anti joins are aware of null otherwise.
const HIDDEN: JoinType = JoinType::Full;
