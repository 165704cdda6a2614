//! VALUES: each column has the common type of its rows.

use sqlparser::ast::{self, Expr, Value};

use super::{marker, place};

/// More different expressions in one column of VALUES than this are left to DataFusion's coercion.
const VALUES_KINDS_MAX: usize = 16;

/// Each column of VALUES has the common type of its rows, or those of INSERT's column. A row is planned by itself, so where
/// the rows may differ each value is accompanied by one example of every kind in its column, in their order.
pub fn unify_columns(values: &mut ast::Values) {
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..columns {
        let cells = values.rows.iter_mut().filter_map(|row| row.content.get_mut(column));
        let target = cells.filter_map(marker::take_assigned).last();
        let mut kinds: Vec<(String, Expr)> = vec![];
        for expr in values.rows.iter().filter_map(|row| row.content.get(column)) {
            let kind = kind(expr);
            if kinds.len() <= VALUES_KINDS_MAX && !kinds.iter().any(|(k, _)| *k == kind) {
                kinds.push((kind, expr.clone()));
            }
        }
        // One literal and one computed value of a type differ in what DataFusion knows of them.
        let alike = kinds.len() < 2 && !(values.rows.len() > 1 && kinds.iter().any(|(_, e)| is_cast(e)));
        let are_many = kinds.len() > VALUES_KINDS_MAX;
        if alike || (are_many && target.is_none()) {
            continue;
        }
        let examples = if are_many { &[] } else { &kinds[..] };
        for expr in values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)) {
            let mut all = vec![std::mem::replace(expr, Expr::value(Value::Null))];
            all.extend(examples.iter().map(|(_, example)| example.clone()));
            *expr = match &target {
                Some(target) => marker::op(marker::ASSIGN, marker::pack(all), target.clone()),
                None => marker::op(marker::UNIFY, marker::pack(all), marker::text("VALUES")),
            };
            place::annotate(expr, 0);
        }
    }
}

/// Expressions of one kind have one type.
fn kind(expr: &Expr) -> String {
    match expr {
        Expr::Value(value) => match value.value {
            Value::Boolean(_) => "boolean".into(),
            Value::Placeholder(_) => expr.to_string(),
            _ => "unknown".into(),
        },
        Expr::BinaryOp { right, .. } if is_cast(expr) => right.to_string(),
        other => other.to_string(),
    }
}

fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op, .. }
        if marker::is(op, marker::LITERAL) || marker::is(op, marker::CAST))
}
