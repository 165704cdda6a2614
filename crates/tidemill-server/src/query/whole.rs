//! All that a table has.

use std::sync::Arc;

use datafusion::datasource::provider_as_source;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlanBuilder;
use tidemill_sql::Result;
use tidemill_sql::planner::plan_error;

use super::{Reads, run};
use crate::catalog::Table;
use crate::server::Server;

/// The rows of a table as of now, in the order in which they came.
pub async fn rows(server: &Server, table: &Table) -> Result<SendableRecordBatchStream> {
    let source = provider_as_source(Arc::clone(&table.table) as _);
    let plan = LogicalPlanBuilder::scan("rows", source, None).and_then(LogicalPlanBuilder::build);
    let plan = plan.map_err(plan_error)?;
    let state = server.reading.clone();
    Ok(run(server, state, plan, vec![], Reads::default(), usize::MAX).await?.stream)
}
