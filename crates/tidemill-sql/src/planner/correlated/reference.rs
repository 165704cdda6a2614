//! What a subquery refers to of the plans around it, and which shape it has.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

use crate::error::SqlError;
use crate::function::external;
use crate::planner::lazy_value;

/// Whether nothing in a subquery refers to a plan around it.
pub fn is_constant(subquery: &Subquery) -> bool {
    free_columns(&subquery.subquery).is_empty()
}

pub fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(subquery(expr).is_some())).unwrap_or(true)
}

/// Whether the plan has one row for each value of its outer columns, or less.
pub fn is_single(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => is_single(&projection.input),
        LogicalPlan::Filter(filter) => is_single(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => is_single(&alias.input),
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

/// The columns of the input that the subquery refers to, from whatever depth.
pub fn outer_columns(subquery: &Subquery, input: &DFSchema) -> Vec<Column> {
    let mut columns = free_columns(&subquery.subquery);
    columns.retain(|column| input.has_column(column));
    columns
}

/// An aggregate of a subquery has columns of that one, which are those of `input`. With none but those of a query around it,
/// it would be that query's.
pub fn own_columns(call: &Expr, input: &DFSchema) -> Result<()> {
    let (mut outer, mut is_own) = (None, false);
    call.apply(|expr| {
        match expr {
            Expr::OuterReferenceColumn(_, column) => outer = Some(column.clone()),
            Expr::Column(_) => is_own = true,
            expr => {
                let free = subquery(expr).map(|of| free_columns(&of.subquery)).unwrap_or_default();
                is_own |= free.iter().any(|column| input.has_column(column));
                outer = free.into_iter().find(|column| !input.has_column(column)).or(outer.take());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match outer {
        Some(column) if !is_own => {
            let error =
                SqlError::unsupported("an aggregate of an outer query in a subquery is not supported")
                    .with_hint("Compute it in a subquery in FROM of the query whose columns it is of.");
            Err(external(placed(error, &column)))
        }
        _ => Ok(()),
    }
}

/// With the place of the column, if that is known.
pub fn placed(error: SqlError, column: &Column) -> SqlError {
    // Spans of a statement are of one line: its characters.
    let at = column.spans().first().map_or(0, |span| span.start.column as usize);
    if at > 0 { error.with_position(at) } else { error }
}

/// The columns that a plan refers to and that are of none of its own plans: a name is of the nearest plan that has it.
pub fn free_columns(plan: &LogicalPlan) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![];
    let mut note = |column: Column| {
        if !columns.contains(&column) {
            columns.push(column);
        }
    };
    // The closures give no errors.
    let _ = plan.apply(|node| {
        let bound = |column: &Column| node.inputs().iter().any(|input| input.schema().has_column(column));
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr {
                    note(column.clone());
                }
                let inner = subquery(expr).map(|inner| free_columns(&inner.subquery)).unwrap_or_default();
                inner.into_iter().filter(|column| !bound(column)).for_each(&mut note);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    columns
}

pub fn subquery(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(of) => Some(&of.subquery),
        Expr::InSubquery(of) => Some(&of.subquery),
        Expr::SetComparison(of) => Some(&of.subquery),
        _ => None,
    }
}

/// Whether DataFusion makes the right semi-join of a subquery that refers to the plan around it, which it does from filters
/// over joins alone: an aggregate has a row for no rows, a limit counts.
pub fn is_plain(plan: &LogicalPlan) -> bool {
    let is_plain = |node: &LogicalPlan| {
        let kind = match node {
            LogicalPlan::Filter(filter) => return !refers_from_inside(&filter.predicate),
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_) => true,
            LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
            LogicalPlan::Distinct(Distinct::All(_)) => true,
            _ => false,
        };
        kind && !node.contains_outer_reference()
            && node.expressions().iter().all(|expr| !refers_from_inside(expr))
    };
    !plan.exists(|node| Ok(!is_plain(node))).unwrap_or(true)
}

/// Whether a subquery in the expression refers to anything around it, or what it is compared with does.
fn refers_from_inside(expr: &Expr) -> bool {
    let refers = |expr: &Expr| match subquery(expr) {
        Some(of) => expr.contains_outer() || !free_columns(&of.subquery).is_empty(),
        None => false,
    };
    expr.exists(|expr| Ok(refers(expr))).unwrap_or(true)
}

/// `x NOT IN (SELECT …)` as a whole condition, over rows that are the same for every x. What is constant, or may turn out to
/// be, is no key of a join, and it is only with keys that an anti-join minds null.
pub fn is_anti_join(condition: &Expr) -> bool {
    let constant = |of: &InSubquery| is_constant(&of.subquery) && is_key(&of.expr);
    match condition {
        Expr::InSubquery(of) => of.negated && constant(of),
        Expr::Not(inner) => matches!(&**inner, Expr::InSubquery(of) if !of.negated && constant(of)),
        _ => false,
    }
}

/// A column, a cast of one, or a function of one.
fn is_key(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_key(&cast.expr),
        Expr::ScalarFunction(call) => matches!(&call.args[..], [arg] if is_key(arg)),
        _ => false,
    }
}

/// Whether an expression over the input has subqueries that DataFusion does not plan there.
pub fn has_rewritten<'e>(exprs: impl IntoIterator<Item = &'e Expr>, input: &DFSchema) -> bool {
    let rewritten = |expr: &Expr| match expr {
        Expr::ScalarSubquery(subquery) => !outer_columns(subquery, input).is_empty(),
        Expr::Exists(of) => is_constant(&of.subquery) || !outer_columns(&of.subquery, input).is_empty(),
        Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        _ => false,
    };
    let has_rewritten = |expr: &Expr| expr.exists(|expr| Ok(rewritten(expr))).unwrap_or(true);
    exprs.into_iter().any(|expr| has_rewritten(expr) || lazy_value::waits(expr))
}

/// The expression as one of a subquery, to which its columns are those of the plan around; they are added to `outer`.
pub fn referred(expr: Expr, schema: &DFSchema, outer: &mut Vec<Expr>) -> Result<Expr> {
    let referred = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            let reference = Expr::OuterReferenceColumn(field, column);
            outer.push(reference.clone());
            Ok(Transformed::yes(reference))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(referred.data)
}
