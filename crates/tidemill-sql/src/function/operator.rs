//! Operators over what is not a number: text, dates, json, arrays.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{BinaryExpr, Like};
use datafusion::logical_expr::{Expr, Operator};

use super::pattern::{call, ends_in_escape};
use super::{Param, Registry, Returns, cast};
use crate::error::{Result, SqlError};
use crate::types::{Scalar, Type};

const TEXT: Param = Param::Is(Type::new(Scalar::Text));
const BOOL: Returns = Returns::Is(Type::new(Scalar::Bool));

pub(super) fn register(r: &mut Registry) {
    r.native("~~", &[TEXT, TEXT], BOOL, |args| like(args, false, false));
    r.native("!~~", &[TEXT, TEXT], BOOL, |args| like(args, true, false));
    r.native("~~*", &[TEXT, TEXT], BOOL, |args| like(args, false, true));
    r.native("!~~*", &[TEXT, TEXT], BOOL, |args| like(args, true, true));
    r.native("~", &[TEXT, TEXT], BOOL, |args| regex(args, Operator::RegexMatch));
    r.native("!~", &[TEXT, TEXT], BOOL, |args| regex(args, Operator::RegexNotMatch));
    r.native("~*", &[TEXT, TEXT], BOOL, |args| regex(args, Operator::RegexIMatch));
    r.native("!~*", &[TEXT, TEXT], BOOL, |args| regex(args, Operator::RegexNotIMatch));
    of_character(r);
}

/// In a pattern, blanks at the end of a `character` count.
fn of_character(r: &mut Registry) {
    const OPERANDS: [Param; 2] = [Param::Is(Type::new(Scalar::Bpchar)), TEXT];
    r.native("~~", &OPERANDS, BOOL, |args| like(padded(args), false, false));
    r.native("!~~", &OPERANDS, BOOL, |args| like(padded(args), true, false));
    r.native("~~*", &OPERANDS, BOOL, |args| like(padded(args), false, true));
    r.native("!~~*", &OPERANDS, BOOL, |args| like(padded(args), true, true));
    r.native("~", &OPERANDS, BOOL, |args| regex(padded(args), Operator::RegexMatch));
    r.native("!~", &OPERANDS, BOOL, |args| regex(padded(args), Operator::RegexNotMatch));
    r.native("~*", &OPERANDS, BOOL, |args| regex(padded(args), Operator::RegexIMatch));
    r.native("!~*", &OPERANDS, BOOL, |args| regex(padded(args), Operator::RegexNotIMatch));
}

/// The value with its blanks as text; other databases do not keep them.
fn padded(mut args: Vec<Expr>) -> Vec<Expr> {
    if let Some(value) = args.first_mut() {
        *value = cast::relabel(std::mem::take(value), Type::new(Scalar::Text));
    }
    args
}

fn pair(args: Vec<Expr>) -> Result<(Box<Expr>, Box<Expr>)> {
    let [left, right] =
        <[Expr; 2]>::try_from(args).map_err(|_| SqlError::internal("an operator has two operands"))?;
    Ok((Box::new(left), Box::new(right)))
}

fn like(args: Vec<Expr>, negated: bool, case_insensitive: bool) -> Result<Expr> {
    let (expr, mut pattern) = pair(args)?;
    let is_whole =
        matches!(&*pattern, Expr::Literal(ScalarValue::Utf8(Some(text)), _) if !ends_in_escape(text));
    if !is_whole {
        let function = if case_insensitive { "ilike_pattern" } else { "like_pattern" };
        pattern = Box::new(call(function, vec![(*expr).clone(), *pattern])?);
    }
    Ok(Expr::Like(Like::new(negated, expr, pattern, None, case_insensitive)))
}

fn regex(args: Vec<Expr>, op: Operator) -> Result<Expr> {
    let (expr, pattern) = pair(args)?;
    Ok(Expr::BinaryExpr(BinaryExpr::new(expr, op, pattern)))
}
