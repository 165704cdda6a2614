//! A condition hands on the rows of each batch that fulfil it, however few, where their values may be long.
//!
//! It would gather them until there are enough for a batch, which is counted in rows: 8192 texts of a megabyte. Who reads
//! rows cuts their batches by bytes as well; so what comes through a condition has no more of them.
//!
//! ```text
//! Filter: md5(t) <> 'x', batch_size=8192      Filter: md5(t) <> 'x', batch_size=1
//!   ForeignScan: SELECT t                 =>    ForeignScan: SELECT t
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

/// Batches with more rows than half of this are handed on as they are: all of them.
const GATHERED_ROWS: usize = 1;

#[derive(Debug)]
pub struct WideRows;

impl PhysicalOptimizerRule for WideRows {
    fn name(&self) -> &str {
        "wide_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match plan.downcast_ref::<FilterExec>() {
            Some(filter) if may_be_wide(&filter.schema()) => {
                Ok(Transformed::yes(Arc::new(filter.with_batch_size(GATHERED_ROWS)?) as _))
            }
            _ => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

fn may_be_wide(schema: &SchemaRef) -> bool {
    let is_fixed = |ty: &DataType| match ty {
        DataType::Boolean | DataType::FixedSizeBinary(_) => true,
        ty => ty.primitive_width().is_some(),
    };
    !schema.fields().iter().all(|field| is_fixed(field.data_type()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn batches(name: &str, values: ArrayRef) -> Vec<usize> {
        let n = Arc::new(Int32Array::from_iter_values(0..4)) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("n", n), (name, values)]).unwrap();
        let schema = batch.schema();
        let memory = MemorySourceConfig::try_new_exec(&[vec![batch; 3]], Arc::clone(&schema), None).unwrap();
        let few = BinaryExpr::new(col("n", &schema).unwrap(), Operator::Gt, lit(1));
        let filter = Arc::new(FilterExec::try_new(Arc::new(few), memory).unwrap());
        let plan = WideRows.optimize(filter, &ConfigOptions::new()).unwrap();
        let rows = collect(plan, SessionContext::new().task_ctx()).await.unwrap();
        rows.iter().map(RecordBatch::num_rows).collect()
    }

    #[tokio::test]
    async fn only_short_rows_are_gathered() {
        assert_eq!(batches("t", Arc::new(StringArray::from(vec!["x"; 4]))).await, [2, 2, 2]);
        assert_eq!(batches("i", Arc::new(Int32Array::from(vec![7; 4]))).await, [6]);
    }
}
