//! The defaults of the columns that a statement does not name.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use sqlparser::ast;
use tidemill_sql::function::cast;
use tidemill_sql::insert::Value;
use tidemill_sql::planner::{SessionVars, plan_error};
use tidemill_sql::text::Context;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};

use super::{Place, constant};
use crate::catalog::{Default, Table};
use crate::query;

/// Gives columns their defaults, in any number of batches of one statement.
#[derive(Debug)]
pub struct Fill {
    constants: Vec<(Place, Value)>,
    computed: Vec<(Place, Computed)>,
}

impl Fill {
    pub fn none() -> Self {
        Self { constants: Vec::new(), computed: Vec::new() }
    }

    /// For the columns of a table that are not `written`, and the defaults that have to be planned.
    pub fn of(table: &Table, written: impl Fn(usize) -> bool) -> (Self, Vec<(Place, &ast::Expr)>) {
        let (mut fill, mut others) = (Self::none(), Vec::new());
        for (i, column) in table.object.columns.iter().enumerate() {
            let place = (i + 1, column.ty);
            match table.default(i).filter(|_| !written(i + 1)) {
                None => {}
                Some(Default { constant: Some(value), .. }) => fill.constants.push((place, value.clone())),
                Some(default) => others.push((place, &default.expr)),
            }
        }
        (fill, others)
    }

    pub async fn with_computed(
        mut self,
        defaults: Vec<(Place, &ast::Expr)>,
        planner: &SessionState,
    ) -> Result<Self> {
        for (place, expr) in defaults {
            self.computed.push((place, Computed::plan(expr, planner).await?));
        }
        Ok(self)
    }

    /// Sets the columns of `rows` rows.
    pub fn apply(
        &self,
        arrays: &mut [Option<ArrayRef>],
        rows: usize,
        context: &Context,
        vars: impl FnOnce() -> SessionVars,
    ) -> Result<()> {
        for ((place, ty), value) in &self.constants {
            arrays[*place] = Some(constant(value, rows, *ty, &[], context)?);
        }
        if self.computed.is_empty() {
            return Ok(());
        }
        let vars = vars();
        for ((place, ty), computed) in &self.computed {
            let array = computed.evaluate(rows)?;
            arrays[*place] = Some(cast::cast(&array, computed.ty, *ty, false, &vars)?);
        }
        Ok(())
    }
}

/// An expression without columns, ready to be evaluated for each row.
#[derive(Debug)]
pub struct Computed {
    pub ty: Type,
    /// Projections, the lowest first; the planner may have split common parts off.
    steps: Vec<(SchemaRef, Vec<Arc<dyn PhysicalExpr>>)>,
}

impl Computed {
    pub async fn plan(expr: &ast::Expr, planner: &SessionState) -> Result<Self> {
        let text = format!("SELECT {expr}");
        let query = tidemill_sql::parse::select_of([expr.clone()])?;
        let statement = ast::Statement::Query(Box::new(query));
        let plan = query::plan(planner, &statement, &text).await?;
        check_plan(&plan)?;
        let ty = Type::of_field(plan.schema().field(0))?;
        let physical = planner.create_physical_plan(&plan).await.map_err(plan_error)?;
        let mut steps = Vec::new();
        let mut node = &physical;
        while let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let expressions = projection.expr().iter().map(|e| Arc::clone(&e.expr)).collect();
            steps.push((projection.schema(), expressions));
            node = projection.input();
        }
        if !node.is::<PlaceholderRowExec>() {
            return Err(SqlError::unsupported("this expression cannot be a default"));
        }
        steps.reverse();
        Ok(Self { ty, steps })
    }

    fn evaluate(&self, rows: usize) -> Result<ArrayRef> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = |schema: &SchemaRef, columns| {
            RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
                .map_err(|e| plan_error(e.into()))
        };
        let mut input = batch(&Arc::new(Schema::empty()), vec![])?;
        for (schema, expressions) in &self.steps {
            let columns = expressions.iter().map(|e| e.evaluate(&input)?.into_array(rows));
            input = batch(schema, columns.collect::<Result<_, _>>().map_err(plan_error)?)?;
        }
        Ok(Arc::clone(input.column(0)))
    }
}

/// What PostgreSQL refuses by what is called.
fn check_plan(plan: &LogicalPlan) -> Result<()> {
    let (state, what) = match plan {
        LogicalPlan::EmptyRelation(_) => return Ok(()),
        LogicalPlan::Projection(projection) => return check_plan(&projection.input),
        LogicalPlan::Aggregate(_) => (SqlState::GROUPING_ERROR, "aggregate functions"),
        LogicalPlan::Window(_) => (SqlState::WINDOWING_ERROR, "window functions"),
        _ => (SqlState::FEATURE_NOT_SUPPORTED, "set-returning functions"),
    };
    Err(SqlError::new(state, format!("{what} are not allowed in DEFAULT expressions")))
}
