//! Plain tables: CREATE TABLE, what it takes to make one of a query, TRUNCATE.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::execution::session_state::SessionState;
use sqlparser::ast;
use tidemill_sql::insert::Value;
use tidemill_sql::planner::coerce::{self, castable};
use tidemill_sql::planner::{display_name, plan_error};
use tidemill_sql::statement::{CreateTable, CreateTableAs, Name};
use tidemill_sql::text::Context;
use tidemill_sql::types::Type;
use tidemill_sql::walk::walk_expressions;
use tidemill_sql::{Result, SqlError, SqlState, parse};
use tidemill_stream::engine::{Level, Part, WriteSet};

use super::{COLUMNS_MAX, exists, public, skipped};
use crate::catalog::{Catalog, Change, Relation, Table, TableColumn, TableObject};
use crate::insert::{Computed, constant};
use crate::pg::wire_error::Notice;
use crate::server::Server;

/// `planner` and `context` are the session's: they type and read the defaults.
pub async fn create_table(
    server: &Server,
    create: CreateTable,
    planner: &SessionState,
    context: &Context,
) -> Result<Vec<Notice>> {
    let _change = server.catalog.change.lock().await;
    let name = public(&create.name)?;
    if server.catalog.get(name).is_some() {
        return if create.if_not_exists { Ok(vec![skipped(name)]) } else { Err(exists(name)) };
    }
    let oid = server.catalog.allocate_oid();
    let mut columns: Vec<TableColumn> = Vec::new();
    for written in create.columns {
        let (column, default) = (written.column, written.default);
        check_column(&columns, &column.name).map_err(|e| e.with_position(column.position))?;
        let mut default_oid = 0;
        if let Some(default) = &default {
            let checked = check_default(&column.name, column.ty, &default.text, planner, context).await;
            checked.map_err(|e| placed(e, default.position))?;
            default_oid = server.catalog.allocate_oid();
        }
        columns.push(TableColumn {
            name: column.name,
            ty: column.ty,
            not_null: written.not_null,
            default: default.map(|d| d.text),
            default_oid,
        });
    }
    let table = Table::new(oid, TableObject { name: name.to_string(), columns })?;
    server.catalog.persist(&[Change::PutTable(oid, &table.object)])?;
    install(server, Arc::new(table));
    Ok(vec![])
}

fn install(server: &Server, table: Arc<Table>) {
    server.engine.add_view(Arc::clone(&table.view));
    server.catalog.install(Relation::Table(table));
}

fn check_column(columns: &[TableColumn], name: &str) -> Result<()> {
    if columns.iter().any(|c| c.name == name) {
        let message = format!("column \"{name}\" specified more than once");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    if SYSTEM_COLUMNS.contains(&name) {
        let message = format!("column name \"{name}\" conflicts with a system column name");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    if columns.len() >= COLUMNS_MAX {
        let message = format!("tables can have at most {COLUMNS_MAX} columns");
        return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    Ok(())
}

const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "cmax", "xmax", "cmin", "xmin", "ctid"];

/// The text of a default begins at `position` of the statement, and what is planned is `SELECT` and it.
fn placed(error: SqlError, position: usize) -> SqlError {
    let within = error.position.map_or(0, |p| p.saturating_sub("SELECT ".len() + 1));
    error.with_position(position + within)
}

/// A default has to be of a type that can be assigned to the column's, and to be about nothing but itself.
async fn check_default(
    column: &str,
    ty: Type,
    text: &str,
    planner: &SessionState,
    context: &Context,
) -> Result<()> {
    let expr = parse::parse_expr(text)?;
    check_expression(&expr)?;
    match tidemill_sql::insert::value(&expr) {
        // An unknown literal is read by the column's type, here and now.
        Some(value @ (Value::String(_) | Value::Null)) => {
            return constant(&value, 1, ty, &[], context).map(drop);
        }
        Some(Value::Default) => return Err(SqlError::syntax("syntax error at or near \"DEFAULT\"")),
        _ => {}
    }
    let from = Computed::plan(&expr, planner).await?.ty;
    if castable(from, ty, coerce::Context::Assignment) {
        return Ok(());
    }
    let (ty, from) = (ty.with_typmod(-1).display(), from.with_typmod(-1).display());
    let message = format!("column \"{column}\" is of type {ty} but default expression is of type {from}");
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        .with_hint("You will need to rewrite or cast the expression."))
}

/// What PostgreSQL refuses by its form.
fn check_expression(expr: &ast::Expr) -> Result<()> {
    use std::ops::ControlFlow;
    let found = walk_expressions(expr, |expr| {
        let what = match expr {
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => "subquery",
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => "column reference",
            _ => return ControlFlow::Continue(()),
        };
        ControlFlow::Break((what, ast::Spanned::span(expr).start.column as usize))
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break((what, column)) => {
            Err(SqlError::unsupported(format!("cannot use {what} in DEFAULT expression"))
                .with_position(column.max(1)))
        }
    }
}

/// A table in the making: its rows come from a query. Nobody sees it before [`NewTable::install`], and if that is never
/// called it is as if it had never been.
pub struct NewTable<'a> {
    server: &'a Server,
    pub table: Arc<Table>,
    rows: WriteSet,
    installed: bool,
}

/// Whether CREATE TABLE AS has something to do: not if there is such a table and the statement takes that.
pub fn is_new(catalog: &Catalog, create: &CreateTableAs) -> Result<bool> {
    let name = public(&create.name)?;
    match catalog.get(name) {
        None => Ok(true),
        Some(_) if create.if_not_exists => Ok(false),
        Some(_) => Err(exists(name)),
    }
}

impl<'a> NewTable<'a> {
    /// With the columns that a query gives.
    pub fn new(server: &'a Server, create: &CreateTableAs, schema: &Schema) -> Result<Self> {
        if create.columns.len() > schema.fields().len() {
            return Err(SqlError::syntax("too many column names were specified"));
        }
        let mut columns = Vec::new();
        for (i, field) in schema.fields().iter().enumerate() {
            let name = match create.columns.get(i) {
                Some(name) => name.clone(),
                None => display_name(field.name()).to_string(),
            };
            check_column(&columns, &name)?;
            let ty = Type::of_field(field)?;
            columns.push(TableColumn { name, ty, not_null: false, default: None, default_oid: 0 });
        }
        if columns.is_empty() {
            return Err(SqlError::unsupported("a table without columns is not supported"));
        }
        let oid = server.catalog.allocate_oid();
        // The number must not be given out again after a crash: the rows are in the log before the table is in the catalog.
        server.catalog.persist(&[])?;
        let name = public(&create.name)?.to_string();
        let table = Arc::new(Table::new(oid, TableObject { name, columns })?);
        server.engine.add_view(Arc::clone(&table.view));
        Ok(Self { rows: server.engine.begin(false), server, table, installed: false })
    }

    pub fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = std::iter::once(None).chain(rows.columns().iter().cloned().map(Some)).collect();
        let events = self.table.stream.events(columns, rows.num_rows(), 0)?;
        self.rows.add(self.table.stream.id(), None, &events).map_err(|e| e.into_sql(plan_error))
    }

    /// Makes the rows durable, then the table.
    pub async fn install(mut self, if_not_exists: bool) -> Result<bool> {
        let rows = std::mem::replace(&mut self.rows, self.server.engine.begin(false));
        rows.commit(Level::SyncCommit).await.map_err(|e| e.into_sql(plan_error))?;
        let catalog = &self.server.catalog;
        let _change = catalog.change.lock().await;
        // Another session may have made one meanwhile.
        let name = &self.table.object.name;
        if catalog.get(name).is_some() {
            return if if_not_exists { Ok(false) } else { Err(exists(name)) };
        }
        catalog.persist(&[Change::PutTable(self.table.oid, &self.table.object)])?;
        catalog.install(Relation::Table(Arc::clone(&self.table)));
        self.installed = true;
        Ok(true)
    }
}

impl Drop for NewTable<'_> {
    fn drop(&mut self) {
        if !self.installed {
            self.server.engine.remove_view(self.table.id());
        }
    }
}

/// Empties tables, all at one commit.
pub async fn truncate(server: &Server, names: &[Name]) -> Result<Vec<Notice>> {
    let tables = names.iter().map(|name| server.catalog.table(public(name)?));
    let mut tables = tables.collect::<Result<Vec<_>>>()?;
    tables.sort_by_key(|table| table.oid);
    tables.dedup_by_key(|table| table.oid);
    let _shared = Table::share_all(&tables).await;
    let parts = tables.iter().map(|table| Part::Truncate { view: table.id() }).collect();
    server.engine.write(parts, Level::SyncCommit).await.map_err(|e| e.into_sql(plan_error))?;
    Ok(vec![])
}
