//! Subqueries of UPDATE and DELETE of a foreign table: they are carried out first, and its servers are told their values.

use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::StreamExt;
use tidemill_sql::planner::{constant_subqueries, exists_as_values, plan_error, with_values};
use tidemill_sql::{Result, SqlError, SqlState};

use super::Session;

impl Session {
    /// The plan with the values of those subqueries that do not depend on its rows.
    pub(super) async fn with_subqueries(
        &mut self,
        state: &SessionState,
        plan: LogicalPlan,
        parameters: &[ScalarValue],
    ) -> Result<LogicalPlan> {
        let plan = exists_as_values(plan)?;
        let subqueries = constant_subqueries(&plan)?;
        if subqueries.is_empty() {
            return Ok(plan);
        }
        self.start_query()?;
        let mut values = Vec::with_capacity(subqueries.len());
        for subquery in subqueries {
            let value = self.value_of(state, LogicalPlan::clone(&subquery.subquery), parameters).await?;
            values.push((subquery, value));
        }
        with_values(plan, &values)
    }

    /// The value of a subquery; NULL if it has no row.
    async fn value_of(
        &mut self,
        state: &SessionState,
        plan: LogicalPlan,
        parameters: &[ScalarValue],
    ) -> Result<ScalarValue> {
        let empty = ScalarValue::try_from(plan.schema().field(0).data_type()).map_err(plan_error)?;
        let mut running = self.run_plan(state.clone(), plan, parameters.to_vec()).await?;
        let mut found = None;
        while let Some(batch) = running.stream.next().await {
            let batch = batch.map_err(plan_error)?;
            if batch.num_rows() > usize::from(found.is_none()) {
                let message = "more than one row returned by a subquery used as an expression";
                return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message));
            }
            if batch.num_rows() > 0 {
                found = Some(ScalarValue::try_from_array(batch.column(0), 0).map_err(plan_error)?);
            }
        }
        Ok(found.unwrap_or(empty))
    }
}
