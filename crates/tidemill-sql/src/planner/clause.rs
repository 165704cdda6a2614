//! Clauses that DataFusion reads in another way than PostgreSQL: LIMIT and FETCH, rows in GROUP BY, joins that merge columns, subqueries as values.

use sqlparser::ast::{
    self, BinaryOperator, Expr, JoinConstraint, JoinOperator, LimitClause, Query, Select, SelectItem,
    SetExpr, Spanned, UnaryOperator, Value,
};

use super::allowed::{plain, shown};
use super::name::fold;
use super::{construct, marker, place, ties};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};

/// LIMIT, OFFSET and FETCH as numbers of rows.
pub fn limit(query: &mut Query) -> Result<()> {
    let mut has_ties = false;
    if let Some(fetch) = query.fetch.take() {
        has_ties = fetch.with_ties;
        if fetch.percent {
            return Err(SqlError::syntax("FETCH FIRST … PERCENT is not supported"));
        }
        if has_ties && query.order_by.is_none() {
            return Err(SqlError::syntax("WITH TIES cannot be specified without ORDER BY clause"));
        }
        let rows = fetch.quantity.unwrap_or_else(|| Expr::value(Value::Number("1".into(), false)));
        let offset = match query.limit_clause.take() {
            Some(LimitClause::LimitOffset { offset, .. }) => offset,
            _ => None,
        };
        query.limit_clause = Some(LimitClause::LimitOffset { limit: Some(rows), offset, limit_by: vec![] });
    }
    if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
        *limit = limit.take().map(|rows| count(rows, "LIMIT")).transpose()?.flatten();
        if has_ties {
            *limit = limit.take().map(ties::with_ties);
        }
        if let Some(ast::Offset { value, rows }) = offset.take() {
            *offset = count(value, "OFFSET")?.map(|value| ast::Offset { value, rows });
        }
    }
    Ok(())
}

/// A number of rows; none for NULL, which is no limit.
fn count(expr: Expr, clause: &str) -> Result<Option<Expr>> {
    let state = if clause == "LIMIT" {
        SqlState::INVALID_ROW_COUNT_IN_LIMIT
    } else {
        SqlState::INVALID_ROW_COUNT_IN_OFFSET
    };
    let place = place::extent(&expr).0;
    let rows = match marker::as_literal(&expr) {
        Some((number, _)) => number.to_string(),
        None => match &expr {
            Expr::Value(value) => match &value.value {
                Value::Null => return Ok(None),
                Value::SingleQuotedString(text) => text.trim().to_string(),
                Value::Placeholder(_) => return Ok(Some(marker::parameter(expr, Type::new(Scalar::Int8)))),
                _ => return Ok(Some(expr)),
            },
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                let message = format!("argument of {clause} must not contain variables");
                return Err(at(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), place));
            }
            Expr::Subquery(_) => {
                return Err(SqlError::unsupported(format!("a subquery in {clause} is not supported")));
            }
            _ => return Ok(Some(expr)),
        },
    };
    // A number with decimals is rounded, as it would be for any bigint.
    let invalid = || at(SqlError::invalid_text("bigint", &rows), place);
    let number = match rows.parse::<i64>() {
        Ok(number) => number,
        Err(_) if marker::as_literal(&expr).is_some() => {
            rows.parse::<f64>().map_err(|_| invalid())?.round() as i64
        }
        Err(_) => return Err(invalid()),
    };
    if number < 0 {
        return Err(SqlError::new(state, format!("{clause} must not be negative")));
    }
    Ok(Some(Expr::value(Value::Number(number.to_string(), false))))
}

fn at(error: SqlError, position: usize) -> SqlError {
    if position > 0 { error.with_position(position) } else { error }
}

/// DISTINCT ON is as many of the first items of ORDER BY, in any order, which DataFusion wants in theirs; a number in it is
/// that of an output column.
pub fn distinct_on(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    let Select { distinct: Some(ast::Distinct::On(exprs)), projection, .. } = &mut **select else {
        return Ok(());
    };
    let shown = |expr: &Expr| match output_column(expr, projection) {
        Some(column) => column.clone(),
        None => expr.clone(),
    };
    for expr in exprs.iter_mut() {
        *expr = shown(expr);
    }
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(items), .. }) = &query.order_by else {
        return Ok(());
    };
    let mut rest = std::mem::take(exprs);
    for item in items {
        let wanted = plain(&shown(&item.expr));
        match rest.iter().position(|expr| plain(expr) == wanted) {
            Some(i) => exprs.push(rest.remove(i)),
            None if rest.is_empty() => break,
            None if exprs.iter().any(|expr| plain(expr) == wanted) => {}
            None => {
                let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
                return Err(at(error, rest.first().map_or(0, |expr| place::extent(expr).0)));
            }
        }
    }
    exprs.append(&mut rest);
    Ok(())
}

/// The output column that a number or a name in ORDER BY stands for.
pub(super) fn output_column<'s>(expr: &Expr, projection: &'s [SelectItem]) -> Option<&'s Expr> {
    match expr {
        Expr::Value(value) => {
            let Value::Number(number, _) = &value.value else { return None };
            let before = projection.get(..number.parse().ok()?)?;
            if before.iter().any(|item| shown(item).is_none()) {
                return None;
            }
            before.last().and_then(shown)
        }
        Expr::Identifier(name) => projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if fold(alias) == fold(name) => Some(expr),
            _ => None,
        }),
        _ => None,
    }
}

/// Conditions of joins are boolean; a merged column that would have to come from the right side is refused, because
/// DataFusion takes it from the left. Those of two relations are merged already.
pub fn joins(select: &mut Select) -> Result<()> {
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        let (constraint, right) = match &mut join.join_operator {
            JoinOperator::Join(c)
            | JoinOperator::Inner(c)
            | JoinOperator::Left(c)
            | JoinOperator::LeftOuter(c) => (c, false),
            JoinOperator::Right(c) | JoinOperator::RightOuter(c) | JoinOperator::FullOuter(c) => (c, true),
            _ => continue,
        };
        match constraint {
            JoinConstraint::On(condition) => {
                let taken = std::mem::replace(condition, Expr::value(Value::Null));
                *condition = construct::boolean(taken, "JOIN/ON");
            }
            JoinConstraint::Using(_) | JoinConstraint::Natural if right => {
                let at = place::of_span(join.relation.span()).0;
                let kind = if let JoinConstraint::Natural = constraint { "NATURAL" } else { "USING" };
                let message = format!("RIGHT and FULL JOIN with {kind} are not supported here");
                let error = SqlError::unsupported(message)
                    .with_hint("Write the condition with ON, and coalesce() for the merged column.");
                return Err(self::at(error, at));
            }
            _ => {}
        }
    }
    Ok(())
}

/// `(a, b) op (c, d)`, column by column.
pub fn compare_rows(a: &[Expr], op: &BinaryOperator, b: &[Expr]) -> Result<Expr> {
    if a.len() != b.len() {
        return Err(SqlError::syntax("unequal number of entries in row expressions"));
    }
    let strict = match op {
        BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::Gt,
        other => other.clone(),
    };
    let (last, first) = match a.len().checked_sub(1) {
        Some(last) => (last, 0..last),
        None => return Err(SqlError::syntax("a row without columns cannot be compared")),
    };
    let pair = |i: usize, op: &BinaryOperator| compare(a[i].clone(), op.clone(), b[i].clone());
    match op {
        BinaryOperator::Eq => {
            Ok(first.rev().fold(pair(last, op), |rest, i| join(pair(i, op), BinaryOperator::And, rest)))
        }
        BinaryOperator::NotEq => {
            Ok(first.rev().fold(pair(last, op), |rest, i| join(pair(i, op), BinaryOperator::Or, rest)))
        }
        BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq => {
            // The first columns that differ decide.
            Ok(first.rev().fold(pair(last, op), |rest, i| {
                let equal = join(pair(i, &BinaryOperator::Eq), BinaryOperator::And, rest);
                join(pair(i, &strict), BinaryOperator::Or, equal)
            }))
        }
        other => Err(SqlError::unsupported(format!("operator {other} is not supported for rows"))),
    }
}

fn compare(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    let mut expr = join(left, op, right);
    place::annotate(&mut expr, 0);
    expr
}

fn join(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// `-a ^ b` is `(-a) ^ b`: PostgreSQL's minus binds closer than its power.
pub fn minus_before_power(expr: &mut Expr) {
    let Expr::UnaryOp { op: sign @ (UnaryOperator::Minus | UnaryOperator::Plus), expr: operand } = expr
    else {
        return;
    };
    if matches!(&**operand, Expr::BinaryOp { op, .. } if is_power(op)) {
        let (sign, mut power) = (*sign, std::mem::replace(&mut **operand, Expr::value(Value::Null)));
        sign_base(&mut power, sign);
        *expr = power;
    }
}

fn is_power(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::PGExp | BinaryOperator::BitwiseXor)
}

/// Puts the sign before the first base of a chain of powers.
fn sign_base(expr: &mut Expr, sign: UnaryOperator) {
    match expr {
        Expr::BinaryOp { left, op, .. } if is_power(op) => sign_base(left, sign),
        base => {
            let operand = Box::new(std::mem::replace(base, Expr::value(Value::Null)));
            *base = Expr::UnaryOp { op: sign, expr: operand };
        }
    }
}
