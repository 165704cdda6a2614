//! VALUES: each column has the common type of its rows, and its values may be those of subqueries.

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{self as logical, LogicalPlanBuilder, lit, when};
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

/// VALUES of which some are made of subqueries. DataFusion reads the rows while it plans, when no subquery has a value, so
/// these values are computed above the rows.
///
/// ```text
/// Values: (1, (SELECT …)), (2, 3)
/// =>
/// Projection: column1, CASE row WHEN 0 THEN (SELECT …) ELSE column2 END AS column2
///   Values: (1, NULL, 0), (2, 3, 1)
/// ```
pub(super) fn above_rows(
    values: logical::Values,
    row: &str,
    is_computed: impl Fn(&logical::Expr) -> bool,
) -> Result<logical::Projection> {
    let logical::Values { schema, values: mut rows } = values;
    let number = logical::Expr::Column(Column::new_unqualified(row));
    let mut shown = Vec::with_capacity(schema.fields().len());
    for (place, field) in schema.fields().iter().enumerate() {
        let metadata = Some(FieldMetadata::from(field.as_ref())).filter(|metadata| !metadata.is_empty());
        let mut arms = Vec::new();
        for (i, cells) in rows.iter_mut().enumerate() {
            if is_computed(&cells[place]) {
                let null = ScalarValue::try_from(field.data_type())?;
                let null = logical::Expr::Literal(null, metadata.clone());
                arms.push((i as u64, std::mem::replace(&mut cells[place], null)));
            }
        }
        let of_row = logical::Expr::Column(Column::new_unqualified(field.name()));
        let value = match (arms.len(), rows.len()) {
            (0, _) => of_row,
            (_, 1) => arms.remove(0).1,
            _ => {
                let (i, first) = arms.remove(0);
                let mut cases = when(number.clone().eq(lit(i)), first);
                for (i, value) in arms {
                    cases = cases.when(number.clone().eq(lit(i)), value);
                }
                cases.otherwise(of_row)?
            }
        };
        shown.push(value.alias_with_metadata(field.name(), metadata));
    }
    for (i, cells) in rows.iter_mut().enumerate() {
        cells.push(lit(i as u64));
    }
    let names = schema.fields().iter().map(|field| field.name().as_str()).chain([row]);
    let columns = (1..).map(|i| Column::new_unqualified(format!("column{i}")));
    let renamed = columns.zip(names).map(|(column, name)| logical::Expr::Column(column).alias(name));
    let rows = LogicalPlanBuilder::values(rows)?.project(renamed)?.build()?;
    logical::Projection::try_new(shown, rows.into())
}
