//! Subqueries that have one value for all rows of a plan, for whoever cannot carry them out with it.

use datafusion::common::ScalarValue;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::correlated::{any_row, is_constant};
use super::plan_error;
use crate::error;

/// The plan with such subqueries in the place of EXISTS.
pub fn exists_as_values(plan: LogicalPlan) -> error::Result<LogicalPlan> {
    let value = |expr: Expr| match &expr {
        Expr::Exists(of) if is_constant(&of.subquery) => Ok(Transformed::yes(any_row(of)?)),
        _ => Ok(Transformed::no(expr)),
    };
    let replaced = plan.transform_down(|node| node.map_expressions(|expr| expr.transform_down(value)));
    replaced.map(|plan| plan.data).map_err(plan_error)
}

/// Those of a plan, each once. What refers to the rows is not among them.
pub fn constant_subqueries(plan: &LogicalPlan) -> error::Result<Vec<Subquery>> {
    let mut found: Vec<Subquery> = Vec::new();
    let searched = plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarSubquery(subquery) = expr
                    && is_constant(subquery)
                    && !found.contains(subquery)
                {
                    found.push(subquery.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    searched.map(|_| found).map_err(plan_error)
}

/// The plan with these values in the place of such subqueries.
pub fn with_values(plan: LogicalPlan, values: &[(Subquery, ScalarValue)]) -> error::Result<LogicalPlan> {
    let value_of = |expr: Expr| -> Result<Transformed<Expr>> {
        let found = match &expr {
            Expr::ScalarSubquery(subquery) => values.iter().find(|(known, _)| known == subquery),
            _ => None,
        };
        let Some((subquery, value)) = found else { return Ok(Transformed::no(expr)) };
        let metadata = FieldMetadata::from(subquery.subquery.schema().field(0).as_ref());
        let metadata = Some(metadata).filter(|metadata| !metadata.is_empty());
        Ok(Transformed::yes(Expr::Literal(value.clone(), metadata)))
    };
    let replaced = plan.transform_down(|node| node.map_expressions(|expr| expr.transform_down(value_of)));
    replaced.map(|plan| plan.data).map_err(plan_error)
}
