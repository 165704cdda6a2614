//! A view in the eyes of the planner.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use tidemill_sql::aggregate::{StateForm, state_name};

use crate::view::View;
use crate::view::carry::{carry, shown};
use crate::view::exec::StateExec;
use crate::view::lookup::{KeyFilter, key_columns, over_keys};

/// A view under the names and types of its columns.
#[derive(Debug)]
pub struct ViewTable {
    view: Arc<View>,
    schema: SchemaRef,
    /// Aggregates whose states are the last columns.
    states: Vec<(usize, Arc<StateForm>)>,
}

impl ViewTable {
    /// `schema` names and types the columns as users see them; the finish plan gives them in the same order.
    pub fn new(view: Arc<View>, schema: SchemaRef) -> Self {
        Self { view, schema, states: vec![] }
    }

    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The column of the view's groups (or rows) that this column of the table shows, if it is not computed.
    pub fn given(&self, column: usize) -> Option<usize> {
        let is_given = |shown: &usize| self.view.plan.aggregation.keeps_rows() || *shown < self.key_count();
        shown(&self.view.plan.finish, column).filter(is_given)
    }

    /// How many columns rows are grouped by.
    fn key_count(&self) -> usize {
        let aggregation = &self.view.plan.aggregation;
        aggregation.key_count().saturating_sub(usize::from(aggregation.has_panes()))
    }

    /// The table with one column more, the state of the aggregate that a column shows; `None` if it shows something else.
    pub fn with_state(&self, column: usize) -> Result<Option<(Self, Arc<StateForm>)>> {
        let plan = &self.view.plan;
        if plan.aggregation.keeps_rows() || column >= self.schema.fields().len() - self.states.len() {
            return Ok(None);
        }
        let aggregate = shown(&plan.finish, column).and_then(|shown| shown.checked_sub(self.key_count()));
        let Some((aggregate, layout)) = aggregate.and_then(|i| Some((i, plan.aggregation.layout(i)?))) else {
            return Ok(None);
        };
        let states = Arc::new(StateForm::try_new(layout.clone())?);
        let name = state_name(&self.schema, self.schema.field(column).name());
        let field = Arc::new(Field::new(name, states.data_type(), false));
        let fields = self.schema.fields().iter().cloned().chain([field]).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let of_table = self.states.iter().cloned().chain([(aggregate, Arc::clone(&states))]).collect();
        Ok(Some((Self { view: Arc::clone(&self.view), schema, states: of_table }, states)))
    }

    /// The columns that show the keys of GROUP BY; none if a key is not shown, or if there are no groups.
    pub fn key(&self) -> Vec<&str> {
        let aggregation = &self.view.plan.aggregation;
        let count = match aggregation.keeps_rows() {
            true => 0,
            false => self.key_count(),
        };
        let shown = |key: usize| (0..self.schema.fields().len()).find(|i| self.given(*i) == Some(key));
        let columns: Option<Vec<usize>> = (0..count).map(shown).collect();
        columns.unwrap_or_default().into_iter().map(|i| self.schema.field(i).name().as_str()).collect()
    }

    /// `filter` over the keys of the state, if that is all that it is about. Panes of a window have keys of their own.
    fn over_keys(&self, filter: &Expr) -> Option<Expr> {
        let plan = &self.view.plan;
        let key = |name: &str| self.given(self.schema.index_of(name).ok()?);
        if plan.window.is_some() || plan.aggregation.keeps_rows() { None } else { over_keys(filter, &key) }
    }

    fn key_filter(&self, session: &dyn Session, filters: &[Expr]) -> Result<Option<Arc<KeyFilter>>> {
        let Some(filter) = conjunction(filters.iter().filter_map(|f| self.over_keys(f))) else {
            return Ok(None);
        };
        let keys = key_columns(self.view.plan.aggregation.key_schema())?;
        let predicate = session.create_physical_expr(filter, &keys)?;
        Ok(Some(self.view.key_filter(predicate)?))
    }
}

#[async_trait]
impl TableProvider for ViewTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let supported = |filter: &&Expr| match self.over_keys(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(supported).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filter = self.key_filter(session, filters)?;
        let leaf = |found: &StateExec| found.with_states(&self.states).of_view(&self.view, filter.clone());
        let finish = carry(&self.view.plan.finish, &leaf, self.states.len())?;
        let produced = finish.schema();
        let columns: Vec<usize> =
            projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let expressions = columns.iter().map(|&i| ProjectionExpr {
            expr: Arc::new(Column::new(produced.field(i).name(), i)) as Arc<dyn PhysicalExpr>,
            alias: self.schema.field(i).name().clone(),
        });
        Ok(Arc::new(ProjectionExec::try_new(expressions.collect::<Vec<_>>(), finish)?))
    }
}

/// The view behind a table of the planner, if it is one.
pub fn as_view(table: &dyn TableProvider) -> Option<&ViewTable> {
    (table as &dyn Any).downcast_ref::<ViewTable>()
}
