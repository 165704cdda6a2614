//! What is grouped by more than a key has several rows for a value of the key.
//!
//! Blocked by: DataFusion 55 takes a column that was unique before a join for unique again in what is grouped by it and by
//! columns of the other side. Then it drops DISTINCT, and joins whose rows nobody needs. Remove when:
//! `SELECT DISTINCT a FROM (SELECT s.a, u.b FROM (SELECT DISTINCT a FROM t) s, u GROUP BY s.a, u.b) q` has each a once
//! without this guard.
//!
//! ```text
//! Distinct: a                                Aggregate: groupBy=[a]
//!   Projection: a                      =>      Projection: a
//!     Aggregate: groupBy=[s.a, u.b]              Aggregate: groupBy=[s.a, u.b]
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Dependency, FunctionalDependence};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan};

use super::guard::Rewrite;

/// Around the rule that makes an aggregate of DISTINCT, or nothing.
pub(super) fn distinct(plan: LogicalPlan, rewrite: &Rewrite<'_>) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Distinct(Distinct::All(input)) = &plan else { return rewrite(plan) };
    if input.schema().fields().is_empty() || !has_doubtful(input)? {
        return rewrite(plan);
    }
    let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
    let aggregate = Aggregate::try_new(Arc::clone(input), columns, vec![])?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

/// Around the rule that drops joins, or makes semi-joins of them.
pub(super) fn joins(plan: LogicalPlan, rewrite: &Rewrite<'_>) -> Result<Transformed<LogicalPlan>> {
    match has_doubtful(&plan)? {
        true => Ok(Transformed::no(plan)),
        false => rewrite(plan),
    }
}

fn has_doubtful(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Aggregate(aggregate) if is_doubtful(aggregate));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether some of the columns that it is grouped by are taken for a key, and nothing says that they are one.
fn is_doubtful(aggregate: &Aggregate) -> bool {
    let input = aggregate.input.schema();
    let place = |expr: &Expr| match expr {
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    };
    let groups: Vec<Option<usize>> = aggregate.group_expr.iter().map(place).collect();
    let is_key = |claimed: &FunctionalDependence, known: &FunctionalDependence| {
        let is_part = |i: &usize| claimed.source_indices.iter().any(|of| groups.get(*of) == Some(&Some(*i)));
        let tells = |group: &Option<usize>| group.is_some_and(|i| known.target_indices.contains(&i));
        known.source_indices.iter().all(is_part)
            && (known.mode == Dependency::Single || groups.iter().all(tells))
    };
    aggregate.schema.functional_dependencies().iter().any(|claimed| {
        claimed.mode == Dependency::Single
            && claimed.source_indices.len() < groups.len()
            && !input.functional_dependencies().iter().any(|known| is_key(claimed, known))
    })
}
