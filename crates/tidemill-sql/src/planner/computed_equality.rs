//! The physical rule, before all of DataFusion's, by which a condition says nothing about the order of rows if it makes a
//! column equal to what is computed of columns.
//!
//! DataFusion takes the two for each other from there on. If the column is part of the other side, it puts the one in the
//! place of the other within itself, each time to another result, and then no longer finds the order that it has made.
//!
//! ```text
//! Filter: lower(t) = t    =>    Filter: (lower(t) = t)::boolean
//! ```
//!
//! Blocked by: equivalences that contain themselves (DataFusion 55). Remove when: a window over `PARTITION BY t` of the rows
//! with `lower(t) = t` is planned without this rule.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

#[derive(Debug)]
pub struct ComputedEquality;

impl PhysicalOptimizerRule for ComputedEquality {
    fn name(&self) -> &str {
        "computed_equality"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(plan)) };
            let conditions = split_conjunction(filter.predicate());
            if !conditions.iter().any(|condition| is_of_computed(condition)) {
                return Ok(Transformed::no(plan));
            }
            let conditions = conditions.into_iter().map(|condition| match is_of_computed(condition) {
                true => Arc::new(CastExpr::new(Arc::clone(condition), DataType::Boolean, None)),
                false => Arc::clone(condition),
            });
            let filter = FilterExecBuilder::from(filter).with_predicate(conjunction(conditions)).build()?;
            Ok(Transformed::yes(Arc::new(filter)))
        })
        .data()
    }
}

/// Whether it is an equality of a column and an expression over columns.
fn is_of_computed(condition: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(equality) = condition.downcast_ref::<BinaryExpr>().filter(|b| *b.op() == Operator::Eq) else {
        return false;
    };
    let is_computed = |expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Column>().is_none() && !collect_columns(expr).is_empty()
    };
    is_computed(equality.left()) || is_computed(equality.right())
}
