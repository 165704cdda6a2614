//! Values that become those of columns, and what an error about one says.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field};
use sqlparser::ast::{self, SelectItem, SetExpr, Spanned};
use tidemill_sql::error::shown;
use tidemill_sql::function::cast;
use tidemill_sql::insert::{Value, value};
use tidemill_sql::planner::SessionVars;
use tidemill_sql::planner::coerce::{check_assignable, is_string};
use tidemill_sql::text::Context;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::value::ValueEncoder;
use tidemill_sql::{Result, SqlError};

use super::{Parameter, Place, Target};

/// The type of a value by itself; `None` if the column's type reads it.
pub fn own_type(value: &Value) -> Option<Type> {
    Some(match value {
        Value::Number(text) if text.parse::<i32>().is_ok() => Type::new(Scalar::Int4),
        Value::Number(text) if text.parse::<i64>().is_ok() => Type::new(Scalar::Int8),
        Value::Number(_) => Type::new(Scalar::Numeric),
        Value::Bool(_) => Type::new(Scalar::Bool),
        Value::Cast(_, ty) => *ty,
        Value::Null | Value::Default | Value::String(_) | Value::Parameter(_) => return None,
    })
}

/// Where the expression is from which a query's column `i` comes.
pub fn position_of_item(query: &ast::Query, i: usize) -> Option<usize> {
    position_in(&query.body, i)
}

fn position_in(body: &SetExpr, i: usize) -> Option<usize> {
    let span = match body {
        SetExpr::Values(values) => values.rows.first()?.content.get(i)?.span(),
        SetExpr::Select(select) => match select.projection.get(i)? {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.span(),
            _ => return None,
        },
        SetExpr::Query(query) => return position_in(&query.body, i),
        SetExpr::SetOperation { left, .. } => return position_in(left, i),
        _ => return None,
    };
    (span.start.column > 0).then_some(span.start.column as usize)
}

/// Where in the rows of an INSERT an error happened.
pub struct Spot<'a> {
    pub relation: &'a str,
    /// From 1.
    pub row: usize,
    pub column: &'a str,
}

impl Spot<'_> {
    /// What COPY says of a line, for a row.
    pub fn locate(&self, error: SqlError, value: Option<&str>) -> SqlError {
        let Self { relation, row, column } = self;
        error.within(match value {
            Some(value) => {
                format!("INSERT INTO {relation}, row {row}, column {column}: \"{}\"", shown(value.as_bytes()))
            }
            None => format!("INSERT INTO {relation}, row {row}, column {column}"),
        })
    }
}

/// A value as the statement or the client wrote it.
pub fn as_written<'a>(value: &'a Value, parameters: &[Parameter<'a>]) -> Option<&'a str> {
    match value {
        Value::Number(text) | Value::String(text) => Some(text),
        Value::Bool(value) => Some(if *value { "true" } else { "false" }),
        Value::Cast(inner, _) => as_written(inner, parameters),
        Value::Parameter(number) => match parameters.get(number - 1) {
            Some((0, Some(bytes))) => std::str::from_utf8(bytes).ok(),
            _ => None,
        },
        Value::Null | Value::Default => None,
    }
}

/// Makes the columns of a query those of the target.
pub struct Assign<'a> {
    pub relation: &'a str,
    pub context: &'a Context,
    pub vars: &'a SessionVars,
}

impl Assign<'_> {
    /// One of them; `before` are the rows that the query had before.
    pub fn column(
        &self,
        name: &str,
        array: &ArrayRef,
        (from, to): (Type, Type),
        before: usize,
    ) -> Result<ArrayRef> {
        cast::cast(array, from, to, false, self.vars).map_err(|error| {
            let alone = |row: usize| cast::cast(&array.slice(row, 1), from, to, false, self.vars).err();
            let Some((row, error)) = (0..array.len()).find_map(|row| Some((row, alone(row)?))) else {
                return error;
            };
            let mut text = Vec::new();
            let encoder = ValueEncoder::new(array, from, self.context);
            let is_shown = encoder.and_then(|encoder| encoder.write_text(row, &mut text)).is_ok();
            let text = String::from_utf8(text).ok().filter(|_| is_shown);
            let spot = Spot { relation: self.relation, row: before + row + 1, column: name };
            spot.locate(error, text.as_deref())
        })
    }
}

/// Refuses a query's column `i` that cannot be assigned to the target's. What is not known to be of a type is read by the
/// target's: a literal, and a text for a stream without declared columns.
pub fn check_item(
    target: &Target,
    query: &ast::Query,
    i: usize,
    field: &Field,
    (place, to): Place,
) -> Result<()> {
    let from = Type::of_field(field)?;
    let is_text = is_string(from.scalar) && !from.array;
    let is_open = is_text && (!target.stream().object.declared || is_literal(query, i));
    if *field.data_type() == DataType::Null || is_open {
        return Ok(());
    }
    check_assignable(target.column_name(place), to, from, position_of_item(query, i))
}

/// Whether a query's column is a literal without a type of its own. DISTINCT, UNION and VALUES have made it a text.
fn is_literal(query: &ast::Query, i: usize) -> bool {
    let select = match query.body.as_ref() {
        SetExpr::Select(select) if select.distinct.is_none() => select,
        SetExpr::Query(query) => return is_literal(query, i),
        _ => return false,
    };
    let is_open = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            matches!(value(expr), Some(Value::String(_) | Value::Null | Value::Parameter(_)))
        }
        _ => false,
    };
    let is_wildcard =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    match select.projection.iter().position(is_wildcard) {
        // It may be any number of columns.
        Some(at) if at <= i => select.projection[at..].iter().any(is_open),
        _ => select.projection.get(i).is_some_and(is_open),
    }
}
