//! The shape of an INSERT that needs no planner: rows of literals and parameters, or series.

use std::borrow::Cow;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    self, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, Spanned,
    TableObject, UnaryOperator, Value as Literal,
};
use sqlparser::tokenizer::Span;

use crate::data_type::column_type;
use crate::error::{Result, SqlError, SqlState};
use crate::name::{fold, resolve};
use crate::planner::query_of;
use crate::statement::Name;
use crate::types::Type;

#[derive(Debug, Clone)]
pub struct InsertShape {
    pub name: Name,
    /// Empty: all columns of the relation.
    pub columns: Vec<ColumnName>,
    pub rows: InsertRows,
}

/// A column as a statement names it.
#[derive(Debug, Clone)]
pub struct ColumnName {
    pub name: String,
    /// Where; `None`: errors do not tell.
    pub position: Option<usize>,
}

#[derive(Debug, Clone)]
pub enum InsertRows {
    Values(Vec<Vec<Placed>>),
    /// `SELECT generate_series(a, b), literal, …`: one row a number of the longest series.
    Series(Vec<SeriesColumn>),
}

#[derive(Debug, Clone)]
pub enum SeriesColumn {
    Series { start: i64, stop: i64, step: i64 },
    Value(Placed),
}

/// A value and where it is written: a character of the statement's text, from 1.
#[derive(Debug, Clone)]
pub struct Placed {
    pub value: Value,
    pub position: usize,
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

/// What an INSERT is made of.
#[derive(Debug)]
pub struct InsertParts<'a> {
    pub name: Name,
    /// Those that are written. Empty: all of the relation.
    pub columns: Vec<ColumnName>,
    pub source: Cow<'a, ast::Query>,
    pub conflict: Option<&'a ast::OnConflict>,
    pub returning: Option<&'a [SelectItem]>,
}

impl InsertParts<'_> {
    /// Refuses what only foreign tables have.
    pub fn refuse_clauses(&self) -> Result<()> {
        if let Some(conflict) = self.conflict {
            return Err(refused("ON CONFLICT", conflict.span())
                .with_hint("Leave out what is there already with INSERT … SELECT … WHERE NOT EXISTS."));
        }
        refuse_returning(self.returning)
    }

    /// Whether rows that are there already are left out, which is all that a foreign table can do about them.
    pub fn skips_conflicts(&self) -> Result<bool> {
        let Some(conflict) = self.conflict else { return Ok(false) };
        let position = conflict.span().start.column.max(1) as usize;
        let error = match (&conflict.conflict_target, &conflict.action) {
            (None, ast::OnConflictAction::DoNothing) => return Ok(true),
            (None, ast::OnConflictAction::DoUpdate(_)) => {
                let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                SqlError::syntax(message).with_hint("For example, ON CONFLICT (column_name).")
            }
            (Some(_), _) => {
                let message =
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                    .with_hint("Of a foreign table, ON CONFLICT DO NOTHING is what there is.")
            }
        };
        Err(error.with_position(position))
    }
}

/// RETURNING is of foreign tables.
pub fn refuse_returning(returning: Option<&[SelectItem]>) -> Result<()> {
    match returning {
        None => Ok(()),
        Some(items) => {
            let place = items.first().map_or(Span::empty(), |item| item.span());
            Err(refused("RETURNING", place).with_hint("Read the rows with a SELECT."))
        }
    }
}

/// The parts of an INSERT; a form of it that there is not is refused.
pub fn insert_parts(insert: &ast::Insert) -> Result<InsertParts<'_>> {
    let conflict = match &insert.on {
        None => None,
        Some(ast::OnInsert::OnConflict(conflict)) => Some(conflict),
        Some(_) => return Err(unsupported_form()),
    };
    let plain = insert.assignments.is_empty()
        && insert.table_alias.is_none()
        && insert.partitioned.is_none()
        && !insert.overwrite;
    let TableObject::TableName(name) = &insert.table else { return Err(unsupported_form()) };
    if !plain {
        return Err(unsupported_form());
    }
    let column = |c: &ast::ObjectName| {
        let name = c.0.last().and_then(|part| part.as_ident()).map(fold)?;
        Some(ColumnName { name, position: Some(c.span().start.column.max(1) as usize) })
    };
    let columns = insert.columns.iter().map(column).collect::<Option<_>>().ok_or_else(unsupported_form)?;
    let source = match insert.source.as_deref() {
        Some(source) => Cow::Borrowed(source),
        None => Cow::Owned(default_values()),
    };
    let position = name.span().start.column.max(1) as usize;
    let returning = insert.returning.as_deref();
    Ok(InsertParts { name: resolve(name, position)?, columns, source, conflict, returning })
}

fn refused(clause: &str, place: Span) -> SqlError {
    let error = SqlError::unsupported(format!("{clause} is not supported"));
    error.with_position(place.start.column.max(1) as usize)
}

fn unsupported_form() -> SqlError {
    SqlError::unsupported("this form of INSERT is not supported")
        .with_position(1)
        .with_hint("INSERT INTO name (columns) VALUES …, SELECT … or DEFAULT VALUES is.")
}

/// `DEFAULT VALUES`: a row that names no value.
fn default_values() -> ast::Query {
    let (opening_token, closing_token) = (AttachedToken::empty(), AttachedToken::empty());
    let row = ast::Parens { opening_token, content: vec![], closing_token };
    let values = ast::Values { explicit_row: false, value_keyword: false, rows: vec![row] };
    query_of(SetExpr::Values(values))
}

/// Whether an expression is the word DEFAULT, which stands for the default of a column.
pub fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Recognises inserts that can be executed without planning.
pub fn insert_shape(insert: &ast::Insert) -> Result<Option<InsertShape>> {
    let InsertParts { name, columns, source, conflict, returning } = insert_parts(insert)?;
    let rows = if conflict.is_some() || returning.is_some() { None } else { plain_rows(&source) };
    Ok(rows.map(|rows| InsertShape { name, columns, rows }))
}

fn plain_rows(source: &ast::Query) -> Option<InsertRows> {
    if source.with.is_some()
        || source.order_by.is_some()
        || source.limit_clause.is_some()
        || source.fetch.is_some()
    {
        return None;
    }
    match source.body.as_ref() {
        SetExpr::Values(values) => {
            let row =
                |row: &ast::Parens<Vec<Expr>>| row.content.iter().map(placed).collect::<Option<Vec<_>>>();
            Some(InsertRows::Values(values.rows.iter().map(row).collect::<Option<_>>()?))
        }
        SetExpr::Select(select) => Some(InsertRows::Series(series(select)?)),
        _ => None,
    }
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
            series_column(expr).or_else(|| Some(SeriesColumn::Value(placed(expr)?)))
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

fn placed(expr: &Expr) -> Option<Placed> {
    Some(Placed { value: value(expr)?, position: expr.span().start.column.max(1) as usize })
}

/// A literal, a cast of one, DEFAULT or a parameter.
pub fn value(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::Value(value) => literal(&value.value),
        Expr::Nested(inner) => value(inner),
        expr if is_default(expr) => Some(Value::Default),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match value(expr)? {
            Value::Number(text) if !text.starts_with('-') => Some(Value::Number(format!("-{text}"))),
            _ => None,
        },
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None, ..
        } => {
            let inner = value(expr)?;
            Some(Value::Cast(Box::new(inner), column_type(data_type).ok()?))
        }
        Expr::TypedString(typed) => {
            let inner = literal(&typed.value.value)?;
            Some(Value::Cast(Box::new(inner), column_type(&typed.data_type).ok()?))
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
