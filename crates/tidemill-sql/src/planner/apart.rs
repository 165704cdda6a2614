//! Lists of IN are not made one across AND and OR.
//!
//! Blocked by: DataFusion takes two lists for sets of values. But null is equal to nothing, and an empty intersection is
//! null for null, which is something else than false in a select list and below NOT. Remove when: lists with null are not
//! made one, and an empty one minds null.
//!
//! ```text
//! x IN (1, 2) AND x NOT IN (2, NULL)   is not   x IN (1)   where x = 1
//! x IN (1) AND x IN (2)                is not   false      where x is null
//! (x = 1 OR x = 2) AND x IN (3)        is not   false      where x is null: equalities become a list, too,
//!                                                          and so do = ANY and <> ALL of an array
//! ```

use std::sync::{Arc, LazyLock};

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, ScalarUDF};

use super::guard::Rewrite;
use super::opaque::{self, Opaque};
use crate::function::listed;

const NAME: &str = "__apart";

static APART: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Opaque::new(NAME).function());

/// The rule that simplifies expressions finds no two lists beside each other.
pub(super) fn lists(plan: LogicalPlan, rewrite: &Rewrite<'_>) -> Result<Transformed<LogicalPlan>> {
    // The call shows in the names of some expressions.
    let names = NamePreserver::new(&plan);
    let named = |expr: Expr| {
        let name = names.save(&expr);
        hidden(expr)?.map_data(|expr| Ok(name.restore(expr)))
    };
    let hidden = plan.map_expressions(|expr| match expr {
        Expr::GroupingSet(_) => expr.map_children(named),
        expr => named(expr),
    })?;
    if !hidden.transformed {
        return rewrite(hidden.data);
    }
    let rewritten = rewrite(hidden.data)?;
    let shown = rewritten.data.map_expressions(shown)?;
    Ok(Transformed::new(shown.data, rewritten.transformed, rewritten.tnr))
}

/// With what is a list, or may become one, in a call that says nothing to the rule.
fn hidden(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) = expr
        else {
            return Ok(Transformed::no(expr));
        };
        let hides = match op {
            Operator::And => may_be_list,
            _ => may_be_list_of_others,
        };
        let is_list = (hides(&left), hides(&right));
        let hidden = |expr: Box<Expr>, is_list: bool| match is_list {
            true => Box::new(opaque::call(&APART, *expr)),
            false => expr,
        };
        let (left, right) = (hidden(left, is_list.0), hidden(right, is_list.1));
        let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
        Ok(Transformed::new_transformed(expr, is_list.0 || is_list.1))
    })
}

fn shown(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(mut call) if call.name() == NAME => {
            Ok(Transformed::yes(call.args.swap_remove(0)))
        }
        Expr::Alias(alias)
            if alias.relation.is_none() && alias.name == alias.expr.schema_name().to_string() =>
        {
            Ok(Transformed::yes(*alias.expr))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// `x IN (…)` or `x NOT IN (…)` once it is simplified.
fn may_be_list(expr: &Expr) -> bool {
    match expr {
        expr if is_negated_list(expr).is_some() => true,
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            may_be_equality(left) && may_be_equality(right)
        }
        Expr::Not(_) => may_be_list_of_others(expr),
        _ => false,
    }
}

fn may_be_equality(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }) => true,
        expr => may_be_list(expr),
    }
}

/// `x NOT IN (…)`: that `x IN (…) OR x IN (…)` is one list is right.
fn may_be_list_of_others(expr: &Expr) -> bool {
    match expr {
        expr if is_negated_list(expr) == Some(true) => true,
        Expr::Not(inner) => inner.exists(|expr| Ok(is_comparison(expr))).unwrap_or(true),
        _ => false,
    }
}

/// Of a list, and of a call that becomes one.
fn is_negated_list(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::InList(list) => Some(list.negated),
        Expr::ScalarFunction(call) => listed::is_negated(call.name()),
        _ => None,
    }
}

fn is_comparison(expr: &Expr) -> bool {
    match expr {
        expr if is_negated_list(expr).is_some() => true,
        Expr::BinaryExpr(comparison) => matches!(comparison.op, Operator::Eq | Operator::NotEq),
        _ => false,
    }
}
