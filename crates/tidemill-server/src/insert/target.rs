//! What an INSERT or a COPY writes to: a stream, a table, or a foreign table.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use sqlparser::ast::{self, SetExpr, Spanned};
use tidemill_sql::insert::{ColumnName, Value, is_default, value};
use tidemill_sql::name::split_nodes;
use tidemill_sql::planner;
use tidemill_sql::statement::Name;
use tidemill_sql::text::Context;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::value::ColumnBuilder;
use tidemill_sql::{Result, SqlError, SqlState, parse};
use tidemill_stream::stream::ARRIVAL;

use super::ForeignTarget;
use super::assign::Spot;
use crate::catalog::{Catalog, Relation, Stream, Table};
use crate::define::public;
use crate::tables::no_nodes;

#[derive(Debug, Clone)]
pub enum Target {
    Stream(Arc<Stream>),
    Table(Arc<Table>),
    Foreign(ForeignTarget),
}

/// The place of a column in the events, and its type.
pub type Place = (usize, Type);

impl Target {
    /// The relation of this name, or the error of INSERT.
    pub fn find(catalog: &Catalog, name: &Name) -> Result<Target> {
        let (plain, nodes) = split_nodes(public(name)?);
        let found = catalog.get(plain);
        if nodes.is_some() && !matches!(found, Some(Relation::Foreign(_))) {
            return Err(no_nodes(plain, found.is_some()).with_position(name.position));
        }
        match found {
            Some(Relation::Stream(stream)) => Ok(Target::Stream(stream)),
            Some(Relation::Table(table)) => Ok(Target::Table(table)),
            Some(Relation::View(_)) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot insert into continuous view \"{plain}\""),
            )
            .with_hint("Insert into the stream that it reads.")),
            Some(Relation::Transform(_)) => {
                let message = format!("cannot insert into continuous transform \"{plain}\"");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("Insert into the stream that it reads."))
            }
            Some(Relation::PlainView(_)) => {
                let message = format!("cannot insert into view \"{plain}\"");
                Err(SqlError::new(SqlState::INVALID_OBJECT_STATE, message)
                    .with_detail("Views are not automatically updatable.")
                    .with_hint("Insert into the stream or the table that it reads."))
            }
            Some(Relation::Foreign(table)) => {
                let nodes = nodes.map(|nodes| nodes.into_iter().map(String::from).collect());
                Ok(Target::Foreign(ForeignTarget { table, nodes }))
            }
            None => {
                let message = format!("relation \"{plain}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).with_position(name.position))
            }
        }
    }

    /// The stream that takes the rows; a table has one of its own.
    pub fn stream(&self) -> &Arc<Stream> {
        match self {
            Target::Stream(stream) => stream,
            Target::Table(table) => &table.stream,
            Target::Foreign(foreign) => &foreign.table.stream,
        }
    }

    pub fn table(&self) -> Option<&Arc<Table>> {
        match self {
            Target::Table(table) => Some(table),
            Target::Stream(_) | Target::Foreign(_) => None,
        }
    }

    /// Places of the named columns in the events, or of all. A column that an undeclared stream does not have is ignored;
    /// elsewhere it is an error.
    pub fn columns(&self, names: &[ColumnName]) -> Result<Vec<Option<Place>>> {
        let known = &self.stream().object.columns;
        if names.is_empty() {
            return Ok(known.iter().enumerate().map(|(i, (_, ty))| Some((i + 1, *ty))).collect());
        }
        let mut seen: Vec<&String> = Vec::new();
        let mut found = |name| {
            if seen.contains(&name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            seen.push(name);
            self.column(name)
        };
        let placed = |column: &ColumnName, error: SqlError| match column.position {
            Some(position) => error.with_position(position),
            None => error,
        };
        names.iter().map(|column| found(&column.name).map_err(|error| placed(column, error))).collect()
    }

    fn column(&self, name: &str) -> Result<Option<Place>> {
        if name == ARRIVAL && matches!(self, Target::Stream(_)) {
            return Ok(Some((0, Type::new(Scalar::Timestamptz))));
        }
        let object = &self.stream().object;
        match object.columns.iter().position(|(n, _)| n == name) {
            Some(i) => Ok(Some((i + 1, object.columns[i].1))),
            None if object.declared => Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" of relation \"{}\" does not exist", object.name),
            )),
            None => Ok(None),
        }
    }

    /// The name of the column at this place of the events.
    pub fn column_name(&self, place: usize) -> &str {
        let columns = &self.stream().object.columns;
        place.checked_sub(1).map_or(ARRIVAL, |i| columns[i].0.as_str())
    }

    /// The source of an INSERT: in VALUES, with the defaults of its columns in the place of DEFAULT, with literals and
    /// parameters of the columns' types, and with each value of a column of several made its own by itself.
    pub fn source<'a>(
        &self,
        source: Cow<'a, ast::Query>,
        columns: &[Option<Place>],
    ) -> Result<Cow<'a, ast::Query>> {
        let SetExpr::Values(values) = source.body.as_ref() else { return Ok(source) };
        let is_without_values = matches!(&values.rows[..], [row] if row.content.is_empty());
        let is_computed: Vec<bool> = match &values.rows[..] {
            [] | [_] => vec![false; columns.len()],
            rows => {
                let of_column = |i: usize| rows.iter().filter_map(move |row| row.content.get(i));
                (0..columns.len()).map(|i| of_column(i).any(|expr| value(expr).is_none())).collect()
            }
        };
        if !is_without_values
            && !is_computed.contains(&true)
            && !values.rows.iter().flat_map(|row| &row.content).any(|e| is_default(e) || is_untyped(e))
        {
            return Ok(source);
        }
        let mut query = source.into_owned();
        if let SetExpr::Values(values) = query.body.as_mut() {
            for row in &mut values.rows {
                if is_without_values {
                    row.content = vec![ast::Expr::Identifier(ast::Ident::new("default")); columns.len()];
                }
                for (i, expr) in row.content.iter_mut().enumerate() {
                    let column = columns.get(i).copied().flatten();
                    self.type_value(expr, column)?;
                    if let Some((place, ty)) = column.filter(|_| is_computed[i]) {
                        *expr = planner::assigned(expr.clone(), ty.with_typmod(-1), self.column_name(place));
                    }
                }
            }
        }
        Ok(Cow::Owned(query))
    }

    fn type_value(&self, value: &mut ast::Expr, column: Option<Place>) -> Result<()> {
        let default = |place: usize| self.table().and_then(|table| table.default(place - 1));
        if is_default(value) {
            *value = match column.and_then(|(place, ty)| Some((default(place)?, ty))) {
                Some((default, ty)) => parse::cast_of(default.expr.clone(), ty.with_typmod(-1))?,
                None => parse::parse_expr("NULL")?,
            };
        } else if let Some((_, ty)) = column.filter(|_| is_untyped(value)) {
            *value = parse::cast_of(value.clone(), ty.with_typmod(-1))?;
        }
        Ok(())
    }

    /// Reads the literals of VALUES by the types of their columns, to tell which of them can't be.
    pub fn check_literals(
        &self,
        source: &ast::Query,
        columns: &[Option<Place>],
        context: &Context,
    ) -> Result<()> {
        let SetExpr::Values(values) = source.body.as_ref() else { return Ok(()) };
        for (number, row) in values.rows.iter().enumerate() {
            for (expr, column) in row.content.iter().zip(columns) {
                let (Some(Value::String(text)), Some((place, ty))) = (value(expr), *column) else { continue };
                ColumnBuilder::new(ty, context, 1).append_text(text.as_bytes()).map_err(|error| {
                    let relation = &self.stream().object.name;
                    let spot = Spot { relation, row: number + 1, column: self.column_name(place) };
                    let error = error.with_position(expr.span().start.column.max(1) as usize);
                    spot.locate(error, Some(&text))
                })?;
            }
        }
        Ok(())
    }

    /// Refuses rows that a table does not take; the error comes with the number of the row, from 0.
    pub fn check(
        &self,
        events: &RecordBatch,
        context: &Context,
    ) -> std::result::Result<(), (usize, SqlError)> {
        let Some((table, lacking)) = self.table().and_then(|t| Some((t, t.lacking(events)?))) else {
            return Ok(());
        };
        let error = table.not_null_violation(events, lacking, context);
        Err((lacking.0, error.unwrap_or_else(|error| error)))
    }
}

/// Whether the column's type reads it.
fn is_untyped(expr: &ast::Expr) -> bool {
    matches!(value(expr), Some(Value::String(_) | Value::Parameter(_)))
}
