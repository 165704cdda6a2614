//! Patterns of a list: `LIKE ANY`, `~ ALL` and their kin, of an array whose items are written.
//!
//! ```text
//! x LIKE ANY (ARRAY['a%', 'b%'])  =>  x LIKE 'a%' OR x LIKE 'b%'
//! x !~ ALL (ARRAY['a', 'b'])      =>  x !~ 'a' AND x !~ 'b'
//! ```
//!
//! And `ROW (a, b)` is `(a, b)`.

use sqlparser::ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::construct::plain_operator;
use super::name::fold;
use super::place::Text;
use crate::error::{Result, SqlError};

/// Rewrites an expression whose parts are as they were written.
pub(super) fn rewrite(expr: &mut Expr, text: &Text<'_>) -> Result<()> {
    if let Some(args) = call(expr, &["row"]).filter(|args| !args.is_empty()) {
        *expr = Expr::Tuple(args);
        return Ok(());
    }
    let Some((array, is_all)) = list(expr) else { return Ok(()) };
    let patterns = match (items(&array), &*expr) {
        (Some(patterns), _) if !patterns.is_empty() => patterns,
        (_, Expr::Like { expr, pattern, .. } | Expr::ILike { expr, pattern, .. }) => {
            let message = "LIKE ANY and ALL are not supported for what is not a list of patterns";
            let error = SqlError::unsupported(message).with_hint("Write the patterns as ARRAY[…].");
            let at = text.operator("word", expr, pattern);
            return Err(if at > 0 { error.with_position(at) } else { error });
        }
        _ => return Ok(()),
    };
    let op = if is_all { BinaryOperator::And } else { BinaryOperator::Or };
    let matches = patterns.into_iter().map(|pattern| single(expr, pattern));
    let joined = matches.reduce(|all, next| Expr::BinaryOp {
        left: Box::new(all),
        op: op.clone(),
        right: Box::new(next),
    });
    if let Some(joined) = joined {
        *expr = Expr::Nested(Box::new(joined));
    }
    Ok(())
}

/// What stands for the patterns, and whether all of them are to match.
fn list(expr: &Expr) -> Option<(Expr, bool)> {
    match expr {
        Expr::Like { any: true, pattern, .. } | Expr::ILike { any: true, pattern, .. } => {
            Some(((**pattern).clone(), false))
        }
        Expr::Like { pattern, .. } | Expr::ILike { pattern, .. } => {
            let is_all = call(pattern, &["all"]).is_some();
            call(pattern, &["all", "some"])?.pop().map(|array| (array, is_all))
        }
        Expr::AnyOp { compare_op, right, .. } if is_match(compare_op) => Some(((**right).clone(), false)),
        Expr::AllOp { compare_op, right, .. } if is_match(compare_op) => Some(((**right).clone(), true)),
        _ => None,
    }
}

/// The same of one pattern.
fn single(expr: &Expr, item: Expr) -> Expr {
    let mut single = expr.clone();
    match &mut single {
        Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } => {
            *any = false;
            **pattern = item;
            single
        }
        Expr::AnyOp { left, compare_op, .. } | Expr::AllOp { left, compare_op, .. } => {
            Expr::BinaryOp { left: left.clone(), op: compare_op.clone(), right: Box::new(item) }
        }
        _ => single,
    }
}

fn items(array: &Expr) -> Option<Vec<Expr>> {
    match array {
        Expr::Nested(inner) => items(inner),
        Expr::Array(array) => Some(array.elem.clone()),
        _ => None,
    }
}

fn is_match(op: &BinaryOperator) -> bool {
    plain_operator(op).contains('~')
}

/// The arguments of a call that the grammar has of its own.
fn call(expr: &Expr, names: &[&str]) -> Option<Vec<Expr>> {
    let Expr::Function(function) = expr else { return None };
    let [name] = &function.name.0[..] else { return None };
    let name = name.as_ident().filter(|name| name.quote_style.is_none()).map(fold)?;
    if !names.contains(&name.as_str()) {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    args.collect()
}
