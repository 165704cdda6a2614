//! A union of which one branch is left.
//!
//! Blocked by: `propagate_empty_relation` (DataFusion 55) looks for the columns of the union in that branch, whose own have
//! other names. Remove when: `SELECT b FROM t WHERE false UNION SELECT DISTINCT a FROM t` is no error without this guard.
//!
//! ```text
//! Union: b              Projection: a AS b
//!   Empty         =>      Projection: a
//!   Projection: a
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};

use super::guard::Rewrite;

pub(super) fn renamed(plan: LogicalPlan, rewrite: &Rewrite<'_>) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(union) = &plan else { return rewrite(plan) };
    let mut branches = union.inputs.iter().filter(|branch| !is_empty(branch));
    let (Some(last), None) = (branches.next(), branches.next()) else { return rewrite(plan) };
    let columns = last.schema().columns().into_iter().zip(union.schema.iter());
    let named = columns.map(|(column, (relation, field))| {
        Expr::Column(column).alias_qualified(relation.cloned(), field.name())
    });
    let schema = Arc::clone(&union.schema);
    let renamed = Projection::try_new_with_schema(named.collect(), Arc::clone(last), schema)?;
    Ok(Transformed::yes(LogicalPlan::Projection(renamed)))
}

fn is_empty(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row)
}
