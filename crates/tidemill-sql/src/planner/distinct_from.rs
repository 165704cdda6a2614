//! `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`.
//!
//! Blocked by: sqlparser reads what follows IS DISTINCT FROM as far as it goes, whatever binds more closely. Remove when: it
//! reads an operand there. Until then the tree is turned: parentheses are nodes of their own, so what is below an operator and binds
//! less closely than it is known to be misread.

use std::mem::replace;
use std::ops::ControlFlow;

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use crate::walk::{Walk, walk_expressions_mut};

pub fn rewrite(node: &mut impl Walk) {
    let _ = walk_expressions_mut(node, |expr| {
        turn(expr);
        ControlFlow::<()>::Continue(())
    });
}

/// What is below is in order already.
fn turn(expr: &mut Expr) {
    use BinaryOperator::{And, Or};
    let looser: &[BinaryOperator] = match expr {
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => &[And, Or],
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => &[And, Or],
        Expr::BinaryOp { op: And, .. } => &[Or],
        _ => return,
    };
    let Some(below) = last_operand(expr) else { return };
    if !matches!(below, Expr::BinaryOp { op, .. } if looser.contains(op)) {
        return;
    }
    let top = taken(below);
    let mut outer = taken(expr);
    *expr = at_first_operand(top, looser, move |first| {
        if let Some(below) = last_operand(&mut outer) {
            *below = first;
        }
        outer
    });
}

fn last_operand(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => Some(right),
        Expr::UnaryOp { expr, .. } => Some(expr),
        Expr::BinaryOp { right, .. } => Some(right),
        _ => None,
    }
}

/// Puts something else in the place of the first operand of operators that bind less closely.
fn at_first_operand(top: Expr, looser: &[BinaryOperator], put: impl FnOnce(Expr) -> Expr) -> Expr {
    match top {
        Expr::BinaryOp { left, op, right } if looser.contains(&op) => {
            let left = Box::new(at_first_operand(*left, looser, put));
            Expr::BinaryOp { left, op, right }
        }
        first => put(first),
    }
}

fn taken(expr: &mut Expr) -> Expr {
    replace(expr, Expr::value(Value::Null))
}
