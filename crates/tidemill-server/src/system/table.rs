//! A system relation as the planner's table.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use tidemill_sql::SqlError;

use super::{Snapshots, SystemRelation};

/// Rows are made when the statement is executed, so a prepared statement never shows old ones.
#[derive(Debug)]
pub struct SystemTable(pub &'static SystemRelation);

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.0.arrow_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let external = |error: SqlError| DataFusionError::External(Box::new(error));
        let Some(snapshots) = state.config().get_extension::<Snapshots>() else {
            let message = format!("a continuous view cannot read system relation \"{}\"", self.0.name);
            return Err(external(SqlError::unsupported(message)));
        };
        let batch = self.0.batch(snapshots.get()).map_err(external)?;
        let exec = MemorySourceConfig::try_new_exec(&[vec![batch]], self.schema(), projection.cloned())?;
        Ok(exec)
    }
}
