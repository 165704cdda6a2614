//! A name that a subquery, or a query of WITH, gives to several of its columns is ambiguous outside of it. There the columns
//! have different names, as [`super::name`] or DataFusion makes them, so that `*` shows them all: who writes the name would
//! get the first one.

use std::collections::HashSet;

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, SubqueryAlias};

use super::name::display_name;
use crate::error::{Result, SqlError, SqlState};
use crate::function::external;

/// Checks the names that are written in the statement of a plan; those have places in it.
pub fn check_doubled(plan: &LogicalPlan) -> Result<()> {
    let mut is_any = false;
    let seen = plan.apply_with_subqueries(|node| {
        is_any |= matches!(node, LogicalPlan::SubqueryAlias(alias) if !doubled(alias).is_empty());
        Ok(if is_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    seen.map_err(super::plan_error)?;
    if !is_any {
        return Ok(());
    }
    let checked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| match expr {
                Expr::Column(column) if is_ambiguous(column, node) => Err(external(ambiguous(column))),
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    });
    checked.map(|_| ()).map_err(super::plan_error)
}

fn ambiguous(column: &Column) -> SqlError {
    let message = format!("column reference \"{}\" is ambiguous", column.name);
    let error = SqlError::new(SqlState::AMBIGUOUS_COLUMN, message);
    // Spans of a statement are of one line: its characters.
    match column.spans.first() {
        Some(span) if span.start.column > 0 => error.with_position(span.start.column as usize),
        _ => error,
    }
}

fn is_ambiguous(column: &Column, node: &LogicalPlan) -> bool {
    let Some(relation) = column.relation.as_ref().filter(|_| !column.spans.0.is_empty()) else {
        return false;
    };
    let mut below = node.inputs();
    while let Some(plan) = below.pop() {
        match plan {
            LogicalPlan::SubqueryAlias(alias) if alias.alias == *relation => {
                return doubled(alias).contains(&column.name);
            }
            // Names in another subquery mean nothing here.
            LogicalPlan::SubqueryAlias(_) => {}
            other => below.extend(other.inputs()),
        }
    }
    false
}

/// The names that several columns of a subquery have.
fn doubled(alias: &SubqueryAlias) -> HashSet<String> {
    // `WITH x AS (…) SELECT … FROM x AS y`
    if let LogicalPlan::SubqueryAlias(inner) = &*alias.input {
        return doubled(inner);
    }
    let mut seen = HashSet::new();
    let names: Vec<String> = match &*alias.input {
        LogicalPlan::Projection(projection) => projection.expr.iter().map(shown).collect(),
        other => other.schema().fields().iter().map(|field| display_name(field.name()).to_owned()).collect(),
    };
    names.into_iter().filter(|name| !seen.insert(name.clone())).collect()
}

/// The name of an item. Where `a.k` and `b.k` come out of a subquery, DataFusion calls the second one `k:1`.
fn shown(item: &Expr) -> String {
    match item {
        Expr::Alias(alias) => match &*alias.expr {
            Expr::Column(column) if is_numbered(&alias.name, &column.name) => column.name.clone(),
            _ => display_name(&alias.name).to_owned(),
        },
        Expr::Column(column) => display_name(&column.name).to_owned(),
        other => display_name(&other.schema_name().to_string()).to_owned(),
    }
}

fn is_numbered(name: &str, column: &str) -> bool {
    let number = name.strip_prefix(column).and_then(|rest| rest.strip_prefix(':'));
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}
