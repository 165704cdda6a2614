//! The written-out form of a sliding window: `WHERE arrival_timestamp > clock_timestamp() - interval '5 minutes'`.
//!
//! The condition is taken out of a view's query and becomes the view's window, so that the result moves with the clock.
//! What is left of the query must not ask for the time: it would be that of the view's creation for ever.

use std::ops::ControlFlow;

use sqlparser::ast::{self, BinaryOperator, Expr, Query, SetExpr, Value};

use crate::error::{Result, SqlError};
use crate::name::fold;
use crate::walk::walk_expressions;

const ARRIVAL: &str = "arrival_timestamp";
/// Functions and keywords that give the time.
const CLOCKS: [&str; 9] = [
    "clock_timestamp",
    "now",
    "current_timestamp",
    "statement_timestamp",
    "transaction_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "localtime",
];

/// Takes the window out of a query; returns its interval. `None`: there is none.
pub fn take(query: &mut Query) -> Result<Option<String>> {
    let mut interval = None;
    if let SetExpr::Select(select) = &mut *query.body
        && let Some(condition) = select.selection.take()
    {
        (interval, select.selection) = take_window(condition)?;
    }
    let asks = walk_expressions(query, |expr: &Expr| match clock_name(expr) {
        Some(name) => ControlFlow::Break(name),
        None => ControlFlow::Continue(()),
    });
    match asks {
        ControlFlow::Break(name) => Err(SqlError::unsupported(format!("a continuous view cannot use {name} here"))
            .with_hint(
                "Use arrival_timestamp, or a sliding window: WHERE arrival_timestamp > clock_timestamp() - interval '1 hour'.",
            )),
        ControlFlow::Continue(()) => Ok(interval),
    }
}

fn clock_name(expr: &Expr) -> Option<String> {
    let name = match expr {
        Expr::Function(function) => fold(function.name.0.last()?.as_ident()?),
        _ => return None,
    };
    CLOCKS.contains(&name.as_str()).then_some(name)
}

/// Takes the condition that makes a window out of a conjunction; returns its interval and what is left.
fn take_window(condition: Expr) -> Result<(Option<String>, Option<Expr>)> {
    if let Some(interval) = window_of(&condition) {
        return Ok((Some(interval), None));
    }
    match condition {
        Expr::Nested(inner) => take_window(*inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let (a, left) = take_window(*left)?;
            let (b, right) = take_window(*right)?;
            if a.is_some() && b.is_some() {
                return Err(SqlError::unsupported("a continuous view has one sliding window"));
            }
            let rest = match (left, right) {
                (Some(left), Some(right)) => Some(Expr::BinaryOp {
                    left: Box::new(left),
                    op: BinaryOperator::And,
                    right: Box::new(right),
                }),
                (left, right) => left.or(right),
            };
            Ok((a.or(b), rest))
        }
        other => Ok((None, Some(other))),
    }
}

/// `arrival_timestamp > clock_timestamp() - interval '…'`, or the other way round.
fn window_of(condition: &Expr) -> Option<String> {
    let Expr::BinaryOp { left, op, right } = condition else { return None };
    let (time, bound) = match op {
        BinaryOperator::Gt | BinaryOperator::GtEq => (left, right),
        BinaryOperator::Lt | BinaryOperator::LtEq => (right, left),
        _ => return None,
    };
    let is_arrival = match &**time {
        Expr::Identifier(ident) => fold(ident) == ARRIVAL,
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|ident| fold(ident) == ARRIVAL),
        _ => false,
    };
    let bound = if let Expr::Nested(inner) = &**bound { inner } else { bound };
    match &**bound {
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } if is_arrival && is_clock(left) => {
            interval(right)
        }
        _ => None,
    }
}

fn is_clock(expr: &Expr) -> bool {
    matches!(clock_name(expr).as_deref(), Some("clock_timestamp" | "now" | "current_timestamp"))
}

fn interval(expr: &Expr) -> Option<String> {
    let text = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    match expr {
        Expr::Interval(interval) => {
            let unit = interval.leading_field.as_ref().map(|unit| format!(" {unit}"));
            Some(text(&interval.value)? + &unit.unwrap_or_default())
        }
        Expr::TypedString(typed) if matches!(typed.data_type, ast::DataType::Interval { .. }) => {
            text(&Expr::Value(typed.value.clone()))
        }
        Expr::Cast { expr, data_type: ast::DataType::Interval { .. }, .. } => text(expr),
        Expr::Nested(inner) => interval(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_query;

    fn taken(sql: &str) -> (String, Option<String>) {
        let mut query = parse_query(sql).unwrap();
        let interval = take(&mut query).unwrap();
        (query.to_string(), interval)
    }

    #[test]
    fn a_condition_on_the_clock_is_a_window() {
        let sql = "SELECT k, sum(x) FROM s
                   WHERE y > 1 AND arrival_timestamp > clock_timestamp() - interval '5 minutes' GROUP BY k";
        let wanted =
            ("SELECT k, sum(x) FROM s WHERE y > 1 GROUP BY k".to_string(), Some("5 minutes".to_string()));
        assert_eq!(taken(sql), wanted);
        let (query, interval) = taken(
            "SELECT count(*) FROM s WHERE (clock_timestamp() - '10 s'::interval) < s.arrival_timestamp",
        );
        assert_eq!((query.as_str(), interval.as_deref()), ("SELECT count(*) FROM s", Some("10 s")));
        let (_, interval) =
            taken("SELECT count(*) FROM s WHERE arrival_timestamp >= now() - interval '2' hour");
        assert_eq!(interval.as_deref(), Some("2 HOUR"));
        assert_eq!(taken("SELECT count(*) FROM s WHERE x > 1").1, None);
    }

    #[test]
    fn the_time_has_no_other_place() {
        for sql in [
            "SELECT count(*) FROM s WHERE t > now()",
            "SELECT now(), count(*) FROM s",
            "SELECT count(*) FROM s WHERE arrival_timestamp > clock_timestamp() - interval '1 s'
             AND arrival_timestamp > clock_timestamp() - interval '2 s'",
        ] {
            assert_eq!(take(&mut parse_query(sql).unwrap()).unwrap_err().state.0, "0A000", "{sql}");
        }
    }
}
