//! GROUP BY as DataFusion takes it: no lists of columns, and no column twice in ROLLUP or CUBE.
//!
//! ```text
//! GROUP BY (a, b)        =>  GROUP BY a, b
//! GROUP BY ROLLUP (a, a) =>  GROUP BY GROUPING SETS ((a, a), (a), ())
//! ```

use sqlparser::ast::Expr;

use super::allowed::plain;
use super::place::Text;
use crate::error::{Result, SqlError, SqlState};

/// Items of a CUBE, each of which doubles its sets.
const CUBE_ITEMS_MAX: usize = 12;

pub fn expand(exprs: &mut Vec<Expr>, text: &Text<'_>) -> Result<()> {
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
            Expr::Rollup(items) if repeats(&items) => {
                let sets = (0..=items.len()).rev().map(|length| items[..length].concat());
                expanded.push(Expr::GroupingSets(sets.collect()));
            }
            Expr::Cube(items) if repeats(&items) => {
                let is_in = |set: usize, item: usize| set & (1 << (items.len() - 1 - item)) != 0;
                let of_set = |set| (0..items.len()).filter(move |item| is_in(set, *item));
                let sets = (0..1_usize << items.len()).rev();
                let sets = sets.map(|set| of_set(set).flat_map(|item| items[item].clone()).collect());
                expanded.push(Expr::GroupingSets(sets.collect()));
            }
            other => expanded.push(other),
        }
    }
    *exprs = expanded;
    Ok(())
}

/// Whether an expression is in it twice.
fn repeats(items: &[Vec<Expr>]) -> bool {
    let exprs: Vec<Expr> = items.iter().flatten().map(plain).collect();
    exprs.iter().enumerate().any(|(i, expr)| exprs[..i].contains(expr))
}
