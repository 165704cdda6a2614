//! Constructs of the tree as markers: operators, conditions, literals, lists, and functions with a grammar of their own.

use sqlparser::ast::{
    self, AccessExpr, BinaryOperator, Expr, Spanned, Subscript, TrimWhereField, UnaryOperator, Value,
};
use sqlparser::tokenizer::Span;

use super::{clause, marker, name, place};
use crate::error::{Result, SqlError, SqlState};
use crate::function::like_escape;
use crate::types::{Scalar, Type};

pub fn boolean(expr: Expr, place: &str) -> Expr {
    let mut marked = marker::op(marker::BOOLEAN, expr, marker::text(place));
    place::annotate(&mut marked, 0);
    marked
}

/// A number by its size: int4, int8 or numeric.
pub fn number(digits: &str, span: Span) -> Result<Expr> {
    let digits = digits.replace('_', "");
    let scalar = if digits.contains(['.', 'e', 'E']) {
        Scalar::Numeric
    } else if digits.parse::<i32>().is_ok() {
        Scalar::Int4
    } else if digits.parse::<i64>().is_ok() {
        Scalar::Int8
    } else {
        Scalar::Numeric
    };
    Ok(marker::literal_at(&digits, Type::new(scalar), span))
}

/// A bare integer here is a position or a count, not a value of a type.
pub fn restore_ordinal(expr: &mut Expr) {
    if let Some((number, _)) = marker::as_literal(expr) {
        let (digits, negative) = (number.trim_start_matches('-').to_string(), number.starts_with('-'));
        let number = Expr::value(Value::Number(digits, false));
        *expr = if negative {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) }
        } else {
            number
        };
    }
}

pub fn unary(op: UnaryOperator, expr: Expr) -> Result<Expr> {
    if let (UnaryOperator::Minus, Some((digits, _))) = (op, marker::as_literal(&expr)) {
        let negated = digits.strip_prefix('-').map_or_else(|| format!("-{digits}"), str::to_string);
        return number(&negated, Span::empty());
    }
    let name = match op {
        UnaryOperator::Not => {
            return Ok(Expr::UnaryOp { op, expr: Box::new(boolean(expr, "NOT")) });
        }
        UnaryOperator::Plus => "+",
        UnaryOperator::Minus => "-",
        UnaryOperator::BitwiseNot => "~",
        UnaryOperator::PGAbs => "@",
        UnaryOperator::PGSquareRoot => "|/",
        UnaryOperator::PGCubeRoot => "||/",
        other => return Err(SqlError::unsupported(format!("operator {other} is not supported"))),
    };
    Ok(marker::op(marker::PREFIX, expr, marker::text(name)))
}

pub fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Result<Expr> {
    let op = match op {
        BinaryOperator::PGCustomBinaryOperator(_) => BinaryOperator::Custom(plain_operator(&op)),
        BinaryOperator::BitwiseXor | BinaryOperator::PGExp => BinaryOperator::Custom("^".into()),
        other => other,
    };
    if let (Expr::Tuple(a), Expr::Tuple(b)) = (&left, &right) {
        return clause::compare_rows(a, &op, b);
    }
    Ok(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) })
}

/// The operator without `OPERATOR(pg_catalog.…)` around it.
pub fn plain_operator(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        other => other.to_string(),
    }
}

pub fn interval_literal(interval: ast::Interval) -> Result<Expr> {
    let span = interval.value.span();
    let text = match *interval.value {
        Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text,
        other => match marker::as_literal(&other) {
            Some((number, _)) => number.to_string(),
            None => return Err(SqlError::syntax("an interval literal requires a string")),
        },
    };
    let typmod =
        interval.fractional_seconds_precision.or(interval.leading_precision).map_or(-1, |p| p.min(6) as i32);
    let ty = Type::new(Scalar::Interval).with_typmod(typmod);
    // `interval '5' day`: a bare number counts the field; the last field of a range decides.
    let text = match (&interval.leading_field, &interval.last_field) {
        (Some(field), None) if text.trim().parse::<f64>().is_ok() => format!("{text} {field}"),
        (Some(ast::DateTimeField::Year), Some(_)) if text.contains('-') => text,
        _ => text,
    };
    Ok(marker::cast(marker::text_at(text, span), ty))
}

pub fn case(
    operand: Option<Box<Expr>>,
    conditions: Vec<ast::CaseWhen>,
    otherwise: Option<Box<Expr>>,
) -> Result<Expr> {
    let mut parts = vec![];
    for arm in conditions {
        parts.push(match &operand {
            Some(operand) => {
                let mut equal = binary((**operand).clone(), BinaryOperator::Eq, arm.condition)?;
                place::annotate(&mut equal, 0);
                equal
            }
            None => arm.condition,
        });
        parts.push(arm.result);
    }
    let flag = marker::text(if otherwise.is_some() { "else" } else { "" });
    parts.extend(otherwise.map(|e| *e));
    Ok(marker::op(marker::CASE, marker::pack(parts), flag))
}

pub fn in_list(expr: Expr, list: Vec<Expr>, negated: bool) -> Result<Expr> {
    if let Expr::Tuple(_) = &expr {
        let comparisons = list
            .into_iter()
            .map(|row| binary(expr.clone(), BinaryOperator::Eq, row))
            .collect::<Result<Vec<_>>>()?;
        let any = comparisons.into_iter().reduce(|a, b| Expr::BinaryOp {
            left: Box::new(a),
            op: BinaryOperator::Or,
            right: Box::new(b),
        });
        let any = any.ok_or_else(|| SqlError::syntax("IN needs at least one row"))?;
        return if negated { unary(UnaryOperator::Not, any) } else { Ok(any) };
    }
    Ok(marker::op(if negated { marker::NOT_IN } else { marker::IN }, expr, marker::pack(list)))
}

pub fn between(expr: Expr, negated: bool, low: Expr, high: Expr) -> Result<Expr> {
    let compare = |op, bound| {
        let mut compared = Expr::BinaryOp { left: Box::new(expr.clone()), op, right: Box::new(bound) };
        place::annotate(&mut compared, 0);
        compared
    };
    let (lower, join, upper) = if negated {
        (compare(BinaryOperator::Lt, low), BinaryOperator::Or, compare(BinaryOperator::Gt, high))
    } else {
        (compare(BinaryOperator::GtEq, low), BinaryOperator::And, compare(BinaryOperator::LtEq, high))
    };
    Ok(Expr::BinaryOp { left: Box::new(lower), op: join, right: Box::new(upper) })
}

pub fn like(op: &str, expr: Expr, pattern: Expr, escape: Option<ast::ValueWithSpan>) -> Result<Expr> {
    let pattern = match (escape, &pattern) {
        (None, _) => pattern,
        // A pattern that is known stays known.
        (
            Some(ast::ValueWithSpan { value: Value::SingleQuotedString(escape), .. }),
            Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), span }),
        ) => marker::text_at(like_escape(text, &escape)?, *span),
        (Some(escape), _) => marker::call("like_escape", vec![pattern, Expr::Value(escape)]),
    };
    Ok(marker::op(op, expr, pattern))
}

/// `t.a[1]` comes from the parser as `t` with the accesses `.a` and `[1]`; only `(t).a` asks for a field.
pub fn qualify(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let mut parts = match &**root {
        Expr::Identifier(ident) => vec![ident.clone()],
        Expr::CompoundIdentifier(parts) => parts.clone(),
        _ => return,
    };
    let names = access_chain.iter().take_while(|a| matches!(a, AccessExpr::Dot(Expr::Identifier(_)))).count();
    for access in access_chain.drain(..names) {
        if let AccessExpr::Dot(Expr::Identifier(ident)) = access {
            parts.push(ident);
        }
    }
    if parts.len() > 1 {
        **root = Expr::CompoundIdentifier(parts);
    }
}

pub fn subscripts(root: Expr, chain: Vec<AccessExpr>) -> Result<Expr> {
    chain.into_iter().try_fold(root, |expr, access| match access {
        AccessExpr::Subscript(Subscript::Index { index }) => {
            Ok(marker::call("array subscript", vec![expr, index]))
        }
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
            let null = || marker::cast(Expr::value(Value::Null), Type::new(Scalar::Int4));
            let (lower, upper) = (lower_bound.unwrap_or_else(null), upper_bound.unwrap_or_else(null));
            Ok(marker::call("array slice", vec![expr, lower, upper]))
        }
        AccessExpr::Dot(Expr::Identifier(field)) => {
            Ok(marker::call("record field", vec![expr, marker::text(name::fold(&field))]))
        }
        AccessExpr::Dot(_) => Err(SqlError::unsupported("composite types are not supported")),
    })
}

/// Constructs that are functions with a grammar of their own.
pub fn syntax_call(expr: Expr) -> Result<Expr> {
    Ok(match expr {
        Expr::Extract { field, expr, .. } => {
            let field = field.to_string().trim_matches(['\'', '"']).to_lowercase();
            marker::call("extract", vec![marker::text(field), *expr])
        }
        Expr::Position { expr, r#in } => marker::call("position", vec![*r#in, *expr]),
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let mut args = vec![*expr];
            match (substring_from, substring_for) {
                (from, None) => args.extend(from.map(|e| *e)),
                (from, Some(length)) => {
                    args.push(from.map_or_else(|| marker::literal("1", Type::new(Scalar::Int4)), |e| *e));
                    args.push(*length);
                }
            }
            marker::call("substring", args)
        }
        Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
            let function = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            };
            let mut args = vec![*expr];
            args.extend(trim_what.map(|e| *e));
            args.extend(trim_characters.into_iter().flatten());
            marker::call(function, args)
        }
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let mut args = vec![*expr, *overlay_what, *overlay_from];
            args.extend(overlay_for.map(|e| *e));
            marker::call("overlay", args)
        }
        Expr::AtTimeZone { timestamp, time_zone } => marker::call("timezone", vec![*time_zone, *timestamp]),
        Expr::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
            marker::call("ceil", vec![*expr])
        }
        Expr::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
            marker::call("floor", vec![*expr])
        }
        Expr::Collate { expr, collation } => {
            let last =
                collation.0.last().and_then(|part| part.as_ident()).map(name::fold).unwrap_or_default();
            if !matches!(last.to_lowercase().as_str(), "default" | "c" | "posix" | "ucs_basic") {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("collation \"{last}\" for encoding \"UTF8\" does not exist"),
                ));
            }
            *expr
        }
        other => other,
    })
}
