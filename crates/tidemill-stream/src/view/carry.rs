//! The finish plan of a view with the states of aggregates behind the columns that it shows.

use std::ops::Range;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::view::exec::StateExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The column of the view's state that a column of the plan shows as it is.
pub fn shown(plan: &Plan, column: usize) -> Option<usize> {
    if plan.is::<StateExec>() {
        return Some(column);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expr = projection.expr().get(column)?.expr.downcast_ref::<Column>()?;
        return shown(projection.input(), expr.index());
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let below = match filter.projection() {
            Some(projection) => *projection.get(column)?,
            None => column,
        };
        return shown(filter.input(), below);
    }
    shown(plan.downcast_ref::<CooperativeExec>()?.input(), column)
}

/// A fresh copy of the plan over the leaf that `leaf` makes of its own. The last `count` columns of that become the last of
/// the plan, which consists then of the nodes that [`shown`] looks through.
pub fn carry(plan: &Plan, leaf: &dyn Fn(&StateExec) -> StateExec, count: usize) -> Result<Plan> {
    if let Some(own) = plan.downcast_ref::<StateExec>() {
        return Ok(Arc::new(leaf(own)));
    }
    let children = plan.children();
    let below = children.into_iter().map(|child| carry(child, leaf, count)).collect::<Result<Vec<_>>>()?;
    if count > 0
        && let [input] = below.as_slice()
    {
        let width = input.schema().fields().len();
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            return carry_over(projection, input, width - count..width);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let added = width - count..width;
            let shown =
                filter.projection().as_ref().map(|shown| shown.iter().copied().chain(added).collect());
            let builder = FilterExecBuilder::new(Arc::clone(filter.predicate()), Arc::clone(input));
            return Ok(Arc::new(builder.apply_projection(shown)?.build()?));
        }
    }
    // Nodes keep what one execution did: each read gets fresh ones.
    replace_children_if_necessary(Arc::clone(plan), below)?.reset_state()
}

fn carry_over(projection: &ProjectionExec, input: &Plan, added: Range<usize>) -> Result<Plan> {
    let schema = input.schema();
    let carried = added.map(|i| {
        let name = schema.field(i).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, i)) as Arc<dyn PhysicalExpr>, alias: name.clone() }
    });
    let expressions = projection.expr().iter().cloned().chain(carried).collect::<Vec<_>>();
    Ok(Arc::new(ProjectionExec::try_new(expressions, Arc::clone(input))?))
}
