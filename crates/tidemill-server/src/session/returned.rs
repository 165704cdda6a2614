//! RETURNING: a query over the rows that a statement has written to a foreign table.
//!
//! ```text
//! UPDATE t AS a SET … RETURNING x + 1, __spd_url  =>  SELECT x + 1, __spd_url FROM "those rows" AS a
//! ```

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use sqlparser::ast::{self, SelectItem, TableFactor};
use tidemill_sql::insert::InsertParts;
use tidemill_sql::name::quote_ident;
use tidemill_sql::planner::plan_error;
use tidemill_sql::{Result, SqlError, parse, planner};

use super::Session;
use super::execute::Outcome;
use super::rows::{Rows, Tag};
use crate::catalog::ForeignTable;
use crate::insert::ForeignTarget;
use crate::query;

/// The name of the relation that has the rows; nobody can type it.
const ROWS: &str = "\u{2}rows";

/// What is wanted of the rows that are written.
pub(super) struct Returned<'a> {
    pub table: Arc<ForeignTable>,
    /// By which the items know the table.
    pub alias: Option<ast::TableAlias>,
    pub items: &'a [SelectItem],
}

impl<'a> Returned<'a> {
    pub(super) fn of_insert(parts: &InsertParts<'a>, target: &ForeignTarget) -> Option<Self> {
        let table = Arc::clone(&target.table);
        parts.returning.map(|items| Self { table, alias: None, items })
    }

    /// The columns of the table.
    pub(super) fn columns(&self) -> SchemaRef {
        let columns = self.table.object.columns.iter();
        let fields = columns.map(|known| known.column.ty.field(&known.column.name));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn query(&self) -> Result<ast::Statement> {
        let name = quote_ident(&self.table.object.name);
        let mut query = parse::parse_query(&format!("SELECT 1 FROM public.\"{ROWS}\" AS {name}"))?;
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            select.projection = self.items.to_vec();
            for from in &mut select.from {
                if let (TableFactor::Table { alias, .. }, Some(named)) = (&mut from.relation, &self.alias) {
                    *alias = Some(named.clone());
                }
            }
        }
        Ok(ast::Statement::Query(query))
    }
}

impl Session {
    async fn plan_returned(
        &mut self,
        returned: &Returned<'_>,
        rows: Vec<RecordBatch>,
        text: &str,
    ) -> Result<(SessionState, LogicalPlan)> {
        let table = MemTable::try_new(returned.columns(), vec![rows]).map_err(plan_error)?;
        let state = self.planning().with_rows(ROWS, Arc::new(table)).state();
        planner::check_returning(returned.items, &state)?;
        let plan = query::plan(&state, &returned.query()?, text).await?;
        if !plan.get_parameter_fields().map_err(plan_error)?.is_empty() {
            return Err(SqlError::unsupported("parameters in RETURNING are not supported"));
        }
        Ok((state, plan))
    }

    /// The columns of what comes back, if anything does.
    pub(super) async fn returned_schema(
        &mut self,
        returned: Option<&Returned<'_>>,
        text: &str,
    ) -> Result<Option<SchemaRef>> {
        let Some(returned) = returned else { return Ok(None) };
        let (_, plan) = self.plan_returned(returned, vec![], text).await?;
        Ok(Some(Arc::new(plan.schema().as_arrow().clone())))
    }

    /// The answer to a statement that has written these rows. It is complete before they last, so that an error undoes them.
    pub(super) async fn returned(
        &mut self,
        returned: &Returned<'_>,
        rows: Vec<RecordBatch>,
        verb: &'static str,
        text: &str,
    ) -> Result<Outcome> {
        let (state, plan) = self.plan_returned(returned, rows, text).await?;
        let running = self.run_plan(state, plan, vec![]).await?;
        let batches = running.stream.try_collect::<Vec<_>>().await.map_err(plan_error)?;
        Ok(Outcome::Rows(Rows::of_batches(running.schema, batches, Tag::Counted(verb)), vec![]))
    }
}
