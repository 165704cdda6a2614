//! The shape of an INSERT that needs no planner: rows of literals and parameters, or series.

use sqlparser::ast::{
    self, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, TableObject,
    UnaryOperator, Value as Literal,
};

use crate::data_type::type_of;
use crate::name::{fold, resolve};
use crate::statement::Name;
use crate::types::Type;

#[derive(Debug, Clone)]
pub struct InsertShape {
    pub name: Name,
    /// Empty: all columns of the relation.
    pub columns: Vec<String>,
    pub rows: InsertRows,
}

#[derive(Debug, Clone)]
pub enum InsertRows {
    Values(Vec<Vec<Value>>),
    /// `SELECT generate_series(a, b), literal, …`: one row a number of the longest series.
    Series(Vec<SeriesColumn>),
}

#[derive(Debug, Clone)]
pub enum SeriesColumn {
    Series { start: i64, stop: i64, step: i64 },
    Value(Value),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Default,
    Bool(bool),
    /// As written, with its sign.
    Number(String),
    String(String),
    Cast(Box<Value>, Type),
    /// `$n`, from 1.
    Parameter(usize),
}

/// The target and source of an INSERT into a relation, if nothing but columns and a source are given.
pub fn insert_parts(insert: &ast::Insert) -> Option<(Name, Vec<String>, &ast::Query)> {
    let plain = insert.on.is_none()
        && insert.returning.is_none()
        && insert.assignments.is_empty()
        && insert.table_alias.is_none()
        && insert.partitioned.is_none()
        && !insert.overwrite;
    let TableObject::TableName(name) = &insert.table else { return None };
    let source = insert.source.as_deref().filter(|_| plain)?;
    let columns = insert.columns.iter().map(|c| c.0.last()?.as_ident().map(fold)).collect::<Option<_>>()?;
    Some((resolve(name, 1).ok()?, columns, source))
}

/// Recognises inserts that can be executed without planning.
pub fn insert_shape(insert: &ast::Insert) -> Option<InsertShape> {
    let (name, columns, source) = insert_parts(insert)?;
    if source.with.is_some()
        || source.order_by.is_some()
        || source.limit_clause.is_some()
        || source.fetch.is_some()
    {
        return None;
    }
    let rows = match source.body.as_ref() {
        SetExpr::Values(values) => {
            let row =
                |row: &ast::Parens<Vec<Expr>>| row.content.iter().map(value).collect::<Option<Vec<_>>>();
            InsertRows::Values(values.rows.iter().map(row).collect::<Option<_>>()?)
        }
        SetExpr::Select(select) => InsertRows::Series(series(select)?),
        _ => return None,
    };
    Some(InsertShape { name, columns, rows })
}

fn series(select: &ast::Select) -> Option<Vec<SeriesColumn>> {
    let plain = select.from.is_empty()
        && select.selection.is_none()
        && select.distinct.is_none()
        && select.having.is_none()
        && matches!(&select.group_by, ast::GroupByExpr::Expressions(e, _) if e.is_empty());
    if !plain {
        return None;
    }
    let columns = select
        .projection
        .iter()
        .map(|item| {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
                return None;
            };
            series_column(expr).or_else(|| Some(SeriesColumn::Value(value(expr)?)))
        })
        .collect::<Option<Vec<_>>>()?;
    columns.iter().any(|c| matches!(c, SeriesColumn::Series { .. })).then_some(columns)
}

fn series_column(expr: &Expr) -> Option<SeriesColumn> {
    let Expr::Function(function) = expr else { return None };
    if function.name.0.len() != 1 || fold(function.name.0[0].as_ident()?) != "generate_series" {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let numbers = list
        .args
        .iter()
        .map(|a| match a {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => match value(e)? {
                Value::Number(text) => text.parse::<i64>().ok(),
                _ => None,
            },
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    let (start, stop, step) = match numbers.as_slice() {
        [start, stop] => (*start, *stop, 1),
        [start, stop, step] if *step != 0 => (*start, *stop, *step),
        _ => return None,
    };
    Some(SeriesColumn::Series { start, stop, step })
}

/// A literal, a cast of one, DEFAULT or a parameter.
pub fn value(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::Value(value) => literal(&value.value),
        Expr::Nested(inner) => value(inner),
        Expr::Identifier(ident)
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
        {
            Some(Value::Default)
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match value(expr)? {
            Value::Number(text) if !text.starts_with('-') => Some(Value::Number(format!("-{text}"))),
            _ => None,
        },
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None, ..
        } => {
            let inner = value(expr)?;
            Some(Value::Cast(Box::new(inner), type_of(data_type).ok()?))
        }
        Expr::TypedString(typed) => {
            let inner = literal(&typed.value.value)?;
            Some(Value::Cast(Box::new(inner), type_of(&typed.data_type).ok()?))
        }
        _ => None,
    }
}

fn literal(literal: &Literal) -> Option<Value> {
    match literal {
        Literal::Number(text, _) => Some(Value::Number(text.to_string())),
        Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text) => {
            Some(Value::String(text.clone()))
        }
        Literal::DollarQuotedString(text) => Some(Value::String(text.value.clone())),
        Literal::Boolean(value) => Some(Value::Bool(*value)),
        Literal::Null => Some(Value::Null),
        Literal::Placeholder(text) => Some(Value::Parameter(text.strip_prefix('$')?.parse().ok()?)),
        _ => None,
    }
}
