//! GROUP BY as DataFusion takes it: no lists of columns, no column twice in ROLLUP or CUBE, no positions in these, and one
//! group of all rows where nothing else is said.
//!
//! ```text
//! GROUP BY (a, b)        =>  GROUP BY a, b
//! GROUP BY ROLLUP (a, a) =>  GROUP BY GROUPING SETS ((a, a), (a), ())
//! GROUP BY CUBE ((a, b)) =>  GROUP BY GROUPING SETS ((a, b), ())
//! SELECT a … ROLLUP (1)  =>  SELECT a … ROLLUP (a)
//! GROUP BY ()            =>  GROUP BY GROUPING SETS (())
//! HAVING true            =>  GROUP BY GROUPING SETS (()) HAVING true
//! ```

use sqlparser::ast::{Expr, GroupByExpr, Select, Spanned};

use super::allowed::{IsAggregate, has_aggregate, located, plain, position, projected, shown};
use super::clause::output_column;
use super::place::{self, Text};
use crate::error::{Result, SqlError, SqlState};

/// Items of a CUBE, each of which doubles its sets.
const CUBE_ITEMS_MAX: usize = 12;

/// Puts the columns of the select list in the place of their numbers in grouping sets. Elsewhere DataFusion knows them.
pub fn positions(select: &mut Select) -> Result<()> {
    let Select { group_by: GroupByExpr::Expressions(items, _), projection, .. } = select else {
        return Ok(());
    };
    let sets = items.iter_mut().filter_map(|item| match item {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => Some(sets),
        _ => None,
    });
    for key in sets.flatten().flatten() {
        if !matches!(key, Expr::Value(_)) {
            continue;
        }
        position(key, "GROUP BY", projected(projection))?;
        match output_column(key, projection) {
            Some(column) => *key = column.clone(),
            None if projection.iter().all(|item| shown(item).is_some()) => {}
            None => {
                let message = "positions behind * in ROLLUP, CUBE and GROUPING SETS are not supported";
                let at = place::of_span(key.span()).0;
                return Err(located(SqlState::FEATURE_NOT_SUPPORTED, message, at));
            }
        }
    }
    Ok(())
}

/// A select with HAVING has one group, if nothing else makes groups.
pub fn of_having(select: &mut Select, is_aggregate: IsAggregate<'_>) {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(items, _) if items.is_empty());
    let mut exprs = select.projection.iter().filter_map(shown).chain(&select.having);
    if select.having.is_none() || is_grouped || exprs.any(|expr| has_aggregate(expr, is_aggregate)) {
        return;
    }
    select.group_by = GroupByExpr::Expressions(vec![all_rows()], vec![]);
}

fn all_rows() -> Expr {
    Expr::GroupingSets(vec![vec![]])
}

pub fn expand(exprs: &mut Vec<Expr>, text: &Text<'_>) -> Result<()> {
    let is_grouped = !exprs.is_empty();
    let mut expanded = Vec::with_capacity(exprs.len());
    for expr in std::mem::take(exprs) {
        match expr {
            Expr::Tuple(parts) => expanded.extend(parts),
            Expr::Cube(items) if items.len() > CUBE_ITEMS_MAX => {
                let message = format!("CUBE is limited to {CUBE_ITEMS_MAX} elements");
                let mut error = SqlError::new(SqlState::TOO_MANY_COLUMNS, message);
                let first = items.iter().flatten().next();
                error.position = first.map(|item| text.before("cube", item)).filter(|at| *at > 0);
                return Err(error);
            }
            Expr::Rollup(items) if has_lists(&items) || repeats(&items) => {
                let sets = (0..=items.len()).rev().map(|length| items[..length].concat());
                expanded.push(Expr::GroupingSets(sets.collect()));
            }
            Expr::Cube(items) if has_lists(&items) || repeats(&items) => {
                let is_in = |set: usize, item: usize| set & (1 << (items.len() - 1 - item)) != 0;
                let of_set = |set| (0..items.len()).filter(move |item| is_in(set, *item));
                let sets = (0..1_usize << items.len()).rev();
                let sets = sets.map(|set| of_set(set).flat_map(|item| items[item].clone()).collect());
                expanded.push(Expr::GroupingSets(sets.collect()));
            }
            other => expanded.push(other),
        }
    }
    if is_grouped && expanded.is_empty() {
        expanded.push(all_rows());
    }
    *exprs = expanded;
    Ok(())
}

/// Whether several expressions come and go together.
fn has_lists(items: &[Vec<Expr>]) -> bool {
    items.iter().any(|item| item.len() != 1)
}

/// Whether an expression is in it twice.
fn repeats(items: &[Vec<Expr>]) -> bool {
    let exprs: Vec<Expr> = items.iter().flatten().map(plain).collect();
    exprs.iter().enumerate().any(|(i, expr)| exprs[..i].contains(expr))
}
