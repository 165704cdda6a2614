//! Subqueries in the condition of an outer join: each becomes a column of the side that it refers to.
//!
//! ```text
//! Left Join: a.k = b.k AND EXISTS (SELECT … WHERE z.k = b.k)
//!   TableScan: a
//!   TableScan: b
//! =>
//! Projection: a.k, b.k
//!   Left Join: a.k = b.k AND __result_1.value IS NOT NULL
//!     TableScan: a
//!     Left Join: b.k IS NOT DISTINCT FROM __result_1.c0
//!       TableScan: b
//!       SubqueryAlias: __result_1
//! ```

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder};

use super::correlated::{Names, free_columns, placed, subquery};
use crate::error::SqlError;

impl Names {
    pub(super) fn outer_join(&self, mut join: Join) -> Result<Transformed<LogicalPlan>> {
        let schema = Arc::clone(&join.schema);
        let mut left = Arc::unwrap_or_clone(join.left);
        let mut right = Arc::unwrap_or_clone(join.right);
        let is_lateral = !free_columns(&right).is_empty();
        let filter = join.filter.take().map(|filter| {
            filter.transform_down(|expr| {
                if subquery(&expr).is_none() {
                    return Ok(Transformed::no(expr));
                }
                let columns = columns(&expr);
                let of = |plan: &LogicalPlan| columns.iter().find(|c| plan.schema().has_column(c));
                let side = match (of(&left), of(&right)) {
                    (Some(_), Some(column)) => return Err(unsupported(column)),
                    (None, Some(column)) if is_lateral => return Err(unsupported(column)),
                    (Some(_), None) => &mut left,
                    (None, None) if is_lateral => &mut left,
                    (None, _) => &mut right,
                };
                Ok(Transformed::new(self.replace(expr, side)?, true, TreeNodeRecursion::Jump))
            })
        });
        let filter = filter.transpose()?.map(|filter| filter.data);
        let joined = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            join.on,
            filter,
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        let plan = LogicalPlanBuilder::from(self.lateral(joined)?.data)
            .project(schema.columns().into_iter().map(Expr::Column))?
            .build()?;
        Ok(Transformed::yes(plan))
    }
}

/// What a subquery, and what is compared with it, refers to.
fn columns(expr: &Expr) -> Vec<Column> {
    let mut columns: Vec<Column> = expr.column_refs().into_iter().cloned().collect();
    // The closure gives no errors.
    let _ = expr.apply(|expr| {
        columns.extend(subquery(expr).map(|of| free_columns(&of.subquery)).unwrap_or_default());
        Ok(TreeNodeRecursion::Continue)
    });
    columns
}

fn unsupported(column: &Column) -> DataFusionError {
    let error =
        SqlError::unsupported("a subquery in the condition of an outer join can refer to one side only")
            .with_hint("Compute its value, or the rows to join, in a subquery in FROM.");
    crate::function::external(placed(error, column))
}
