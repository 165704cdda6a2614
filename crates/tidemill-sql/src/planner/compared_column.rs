//! Comparisons with literals, as DataFusion's rule that moves conditions down compares them with each other: the column
//! first, and each once.
//!
//! Blocked by: `simplify_predicates` (DataFusion 55) takes `1 = x` and `x = 1` for two conditions that exclude each other, also
//! when what it knows of the literal's field is all that differs, and `5 < x` for no narrower than `x >= 5`. Remove when:
//! `SELECT * FROM a LEFT JOIN b ON a.x = b.x AND 1 = a.x` finds rows of b without this rule.
//!
//! ```text
//! Filter: 1 = b.x AND b.x = 1  =>  Filter: b.x = 1
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, lit};

use super::guard::Rewrite;

/// The rule that moves conditions down sees them like this.
pub(super) fn once(plan: LogicalPlan, rewrite: &Rewrite<'_>) -> Result<Transformed<LogicalPlan>> {
    rewrite(column_first(plan)?)
}

/// Of all filters in a row: the rule makes them one.
fn column_first(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Filter(filter) = plan else { return Ok(plan) };
    let input = match filter.input.as_ref() {
        LogicalPlan::Filter(_) => Arc::new(column_first(Arc::unwrap_or_clone(filter.input))?),
        _ => filter.input,
    };
    let mut conditions: Vec<Expr> = vec![];
    for condition in split_conjunction_owned(filter.predicate) {
        let condition = turned(condition);
        if !conditions.iter().any(|known| is_same(known, &condition)) {
            conditions.push(condition);
        }
    }
    let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
    Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?))
}

/// `x > 5` of `5 < x`.
fn turned(condition: Expr) -> Expr {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(*left, Expr::Literal(..)) && matches!(*right, Expr::Column(_)) =>
        {
            match op.swap() {
                Some(op) => Expr::BinaryExpr(BinaryExpr { left: right, op, right: left }),
                None => Expr::BinaryExpr(BinaryExpr { left, op, right }),
            }
        }
        other => other,
    }
}

/// Whether both compare the same column in the same way with the same value, whatever else is known of the value.
fn is_same(one: &Expr, other: &Expr) -> bool {
    match (one, other) {
        (Expr::BinaryExpr(one), Expr::BinaryExpr(other)) => {
            let value = |expr: &Expr| expr.as_literal().cloned();
            one.op == other.op
                && matches!(*one.left, Expr::Column(_))
                && one.left == other.left
                && value(&one.right).is_some_and(|found| Some(found) == value(&other.right))
        }
        _ => false,
    }
}
