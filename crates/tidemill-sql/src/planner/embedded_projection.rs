//! A projection over a filter that shows some of its columns only is one over the filter as it was.
//!
//! DataFusion moves a projection below a filter if it leaves the columns of the condition. That these are numbered as the
//! filter's input is, and the projection's as what the filter shows, is not minded: of columns with the same name another
//! one is found, and the projection is over columns that it is not of.
//!
//! ```text
//! Projection: a.k@0 + b.k@1, t@2                    Projection: k@0 + k@3, t@1
//!   Filter: t@2 > '', projection=[k@0, k@3, t@1] =>   Filter: t@2 > ''
//!     HashJoin: k, t, t, k                              HashJoin: k, t, t, k
//! ```
//!
//! Blocked by: `FilterExec::try_swapping_with_projection` (DataFusion 55).
//! Remove when: it leaves a filter alone that has a projection.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;

/// The rule that moves projections, with this before it.
#[derive(Debug)]
pub(super) struct Unfolded(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for Unfolded {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            let unfolded = plan.downcast_ref::<ProjectionExec>().map(unfolded).transpose()?.flatten();
            Ok(unfolded.map_or_else(|| Transformed::no(plan), Transformed::yes))
        });
        self.0.optimize(plan.data()?, options)
    }
}

fn unfolded(projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = projection.input().downcast_ref::<FilterExec>() else { return Ok(None) };
    let Some(places) = filter.projection().as_ref() else { return Ok(None) };
    let whole = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
    let of_whole = |expr: Arc<dyn PhysicalExpr>| {
        let column = expr.downcast_ref::<Column>();
        let place = column.and_then(|column| Some((column.name(), *places.get(column.index())?)));
        Ok(match place {
            Some((name, place)) => Transformed::yes(Arc::new(Column::new(name, place)) as _),
            None => Transformed::no(expr),
        })
    };
    let items = projection.expr().iter().map(|item| {
        let expr = Arc::clone(&item.expr).transform_up(of_whole).data()?;
        Ok(ProjectionExpr { expr, alias: item.alias.clone() })
    });
    let items = items.collect::<Result<Vec<_>>>()?;
    Ok(Some(Arc::new(ProjectionExec::try_new(items, Arc::new(whole))?)))
}
