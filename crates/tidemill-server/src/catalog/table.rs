//! A plain table: a hidden stream, and a hidden view that keeps the rows of it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use sqlparser::ast;
use tidemill_sql::insert::{Value, value};
use tidemill_sql::name::quote_literal;
use tidemill_sql::text::Context;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState, parse};
use tidemill_stream::view::{View, ViewId, ViewPlan, ViewTable};

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Stream, StreamObject, TableObject};
use tidemill_sql::value::ValueEncoder;

#[derive(Debug)]
pub struct Table {
    pub oid: u32,
    pub object: TableObject,
    /// Where rows are written to. Its number is that of the table, and nobody can name it.
    pub stream: Arc<Stream>,
    pub view: Arc<View>,
    pub table: Arc<ViewTable>,
    defaults: Vec<Option<Default>>,
    /// Shared by those who add rows, from before their commit to its end; held alone by who replaces the rows.
    writing: RwLock<()>,
}

/// What a column gets that a statement does not give a value.
#[derive(Debug)]
pub struct Default {
    pub expr: ast::Expr,
    /// Without a planner, if it is a constant.
    pub constant: Option<Value>,
    /// As written.
    text: String,
}

impl Default {
    pub fn parse(text: &str) -> Result<Self> {
        let expr = parse::parse_expr(text)?;
        Ok(Self { constant: value(&expr), expr, text: text.to_string() })
    }

    /// As PostgreSQL shows it: a string and a negative number tell their type.
    pub fn shown(&self, ty: Type) -> String {
        let ty = ty.with_typmod(-1).display();
        match &self.constant {
            Some(Value::String(text)) => format!("{}::{ty}", quote_literal(text)),
            Some(Value::Number(number)) if number.starts_with('-') => format!("'{number}'::{ty}"),
            Some(Value::Null) => format!("NULL::{ty}"),
            _ if matches!(self.expr, ast::Expr::BinaryOp { .. }) => format!("({})", self.text),
            // CURRENT_USER and the like have no parentheses.
            _ if matches!(&self.expr, ast::Expr::Function(f) if f.args == ast::FunctionArguments::None) => {
                self.text.to_uppercase()
            }
            _ => self.text.clone(),
        }
    }
}

impl Table {
    pub fn new(oid: u32, object: TableObject) -> Result<Self> {
        let columns = object.columns.iter().map(|c| (c.name.clone(), c.ty)).collect();
        let stream = StreamObject { name: object.name.clone(), columns, declared: true, server: None };
        let stream = Arc::new(Stream::new(oid, stream));
        let plan = Arc::new(ViewPlan::of_table(&stream.definition));
        let schema = plan.finish.schema();
        let view = Arc::new(
            View::new(ViewId(oid), plan, true).map_err(|e| e.into_sql(tidemill_sql::planner::plan_error))?,
        );
        let table = Arc::new(ViewTable::new(Arc::clone(&view), schema));
        let default = |text: &Option<String>| text.as_deref().map(Default::parse).transpose();
        let defaults = object.columns.iter().map(|c| default(&c.default)).collect::<Result<_>>()?;
        Ok(Self { oid, object, stream, view, table, defaults, writing: RwLock::default() })
    }

    pub fn id(&self) -> ViewId {
        ViewId(self.oid)
    }

    /// Until the guard is dropped nobody replaces the rows.
    pub async fn share(&self) -> RwLockReadGuard<'_, ()> {
        self.writing.read().await
    }

    /// The same of several tables, which come in the order of their numbers: so no two wait for each other.
    pub async fn share_all(tables: &[Arc<Table>]) -> Vec<RwLockReadGuard<'_, ()>> {
        let mut guards = Vec::with_capacity(tables.len());
        for table in tables {
            guards.push(table.share().await);
        }
        guards
    }

    /// Until the guard is dropped nobody else writes.
    pub async fn hold(&self) -> RwLockWriteGuard<'_, ()> {
        self.writing.write().await
    }

    pub fn default(&self, column: usize) -> Option<&Default> {
        self.defaults.get(column)?.as_ref()
    }

    /// The first row without a value where the table wants one, and the first such column in it. `events` are of the hidden
    /// stream.
    pub fn lacking(&self, events: &RecordBatch) -> Option<(usize, usize)> {
        let columns = self.object.columns.iter().zip(events.columns().get(1..)?).enumerate();
        let wanted = columns.filter(|(_, (column, array))| column.not_null && array.null_count() > 0);
        let first = |array: &ArrayRef| (0..array.len()).find(|row| array.is_null(*row));
        wanted.filter_map(|(column, (_, array))| Some((first(array)?, column))).min()
    }

    /// The error for what [`Table::lacking`] has found.
    pub fn not_null_violation(
        &self,
        events: &RecordBatch,
        (row, column): (usize, usize),
        context: &Context,
    ) -> Result<SqlError> {
        let (table, column) = (&self.object.name, &self.object.columns[column].name);
        let message =
            format!("null value in column \"{column}\" of relation \"{table}\" violates not-null constraint");
        let shown = self.shown_row(events.columns().get(1..).unwrap_or_default(), row, context)?;
        Ok(SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
            .with_detail(format!("Failing row contains ({shown}).")))
    }

    fn shown_row(&self, columns: &[ArrayRef], row: usize, context: &Context) -> Result<String> {
        let shown = columns.iter().zip(&self.object.columns).map(|(array, column)| {
            let encoder = ValueEncoder::new(array, column.ty, context)?;
            if encoder.is_null(row) {
                return Ok("null".to_string());
            }
            let mut text = Vec::new();
            encoder.write_text(row, &mut text)?;
            Ok(cut(&String::from_utf8_lossy(&text)))
        });
        Ok(shown.collect::<Result<Vec<_>>>()?.join(", "))
    }
}

/// Characters of a value that an error shows, as in PostgreSQL, which counts bytes.
const SHOWN_MAX: usize = 64;

fn cut(text: &str) -> String {
    if text.len() <= SHOWN_MAX {
        return text.to_string();
    }
    let mut end = SHOWN_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}
