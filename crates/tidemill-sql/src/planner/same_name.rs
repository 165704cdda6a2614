//! Filters that go down a physical plan do not take a column for another one of the same name.
//!
//! DataFusion finds the columns of a filter by their names in each node that the filter passes. Below a join two columns may
//! have one name, and the first of them is found. So a filter goes below a projection by the places of its columns, and comes
//! to nodes in which names do not tell columns apart no further:
//!
//! ```text
//! Filter: d@0 <> d@1                      Projection: d@1 as d, d@3 as d
//!   Projection: d@1 as d, d@3 as d   =>     Filter: d@1 <> d@3
//!     HashJoin: Left                          Fence, while filters are pushed down
//!       HashJoin: k, d, k, d                    HashJoin: Left
//!       rows                                      HashJoin: k, d, k, d
//!                                                 rows
//! ```
//!
//! Later filters, which DataFusion makes of what a join or a sort has found, are taken by no scan of ours.
//!
//! Blocked by: `FilterRemapper` goes by names (DataFusion 55). Remove when: it goes by places.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::union::UnionExec;

use super::pass::{Pass, PassExec};

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;
type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// The rule that pushes filters down, with this guard.
#[derive(Debug)]
pub(super) struct Guarded(pub Rule);

impl PhysicalOptimizerRule for Guarded {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> Result<Plan> {
        let lowered = plan.transform_down(|plan| {
            let lowered = plan.downcast_ref::<FilterExec>().map(lowered).transpose()?.flatten();
            Ok(lowered.map_or_else(|| Transformed::no(plan), Transformed::yes))
        });
        let pushed = self.0.optimize(fenced(&lowered.data()?, false)?, options)?;
        let open = pushed.transform_up(|plan| {
            let fence = plan.downcast_ref::<PassExec<Fence>>().map(|fence| Arc::clone(fence.input()));
            Ok(fence.map_or_else(|| Transformed::no(plan), Transformed::yes))
        });
        open.data()
    }
}

/// The filter below the projection that it is over, if names do not tell the projection's columns apart.
fn lowered(filter: &FilterExec) -> Result<Option<Plan>> {
    let projection = filter.input().downcast_ref::<ProjectionExec>();
    let Some(projection) = projection.filter(|projection| !are_distinct(&projection.schema())) else {
        return Ok(None);
    };
    let items = projection.expr();
    let Some(predicate) = below(filter.predicate(), items)? else { return Ok(None) };
    let input = FilterExecBuilder::from(filter)
        .apply_projection(None)?
        .with_predicate(predicate)
        .with_input(Arc::clone(projection.input()))
        .build()?;
    let shown = match filter.projection() {
        Some(places) => places.iter().map(|place| items[*place].clone()).collect(),
        None => items.to_vec(),
    };
    Ok(Some(Arc::new(ProjectionExec::try_new(shown, Arc::new(input))?)))
}

/// A condition over what is below a projection; `None` if it is about more than columns of that.
fn below(condition: &Expr, items: &[ProjectionExpr]) -> Result<Option<Expr>> {
    let mut are_columns = true;
    let replaced = Arc::clone(condition).transform_up(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let item = items.get(column.index()).filter(|item| item.expr.is::<Column>());
        are_columns &= item.is_some();
        Ok(item.map_or_else(|| Transformed::no(expr), |item| Transformed::yes(Arc::clone(&item.expr))))
    });
    let replaced = replaced.data()?;
    Ok(are_columns.then_some(replaced))
}

/// The plan with a fence over each node that filters come to and that would mistake their columns.
fn fenced(plan: &Plan, are_coming: bool) -> Result<Plan> {
    let is_mistaken = are_coming && mistakes_columns(plan);
    let go_on = plan.is::<FilterExec>() || are_coming && !is_mistaken;
    let children = plan.children().into_iter().map(|child| fenced(child, go_on));
    let plan = replace_children_if_necessary(Arc::clone(plan), children.collect::<Result<_>>()?)?;
    Ok(if is_mistaken { Arc::new(PassExec::try_new(plan, Fence)?) } else { plan })
}

/// Whether a column that is looked up by its name, on the way down from this node, may be another one.
fn mistakes_columns(plan: &Plan) -> bool {
    if plan.is::<ProjectionExec>() {
        return !are_distinct(&plan.schema());
    }
    let children = plan.children();
    if children.iter().any(|child| !are_distinct(&child.schema())) {
        return true;
    }
    let is_other = |schema: &Schema, name: &str, place: Option<usize>| {
        schema.index_of(name).is_ok_and(|found| Some(found) != place)
    };
    let place = |expr: &Expr| expr.downcast_ref::<Column>().map(Column::index);
    if plan.is::<UnionExec>() {
        let whole = plan.schema();
        return children.iter().any(|child| {
            let side = child.schema();
            let mut fields = whole.fields().iter().zip(side.fields()).enumerate();
            fields
                .any(|(i, (field, own))| field.name() != own.name() && is_other(&side, field.name(), Some(i)))
        });
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let (input, groups) = (aggregate.input().schema(), aggregate.group_expr().expr());
        return groups.iter().any(|(expr, name)| is_other(&input, name, place(expr)));
    }
    // A condition on a key of a semi-join goes to both sides.
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return false };
    let name = |expr: &Expr| expr.downcast_ref::<Column>().map_or(String::new(), |key| key.name().to_owned());
    join.on().iter().any(|(left, right)| match join.join_type() {
        JoinType::LeftSemi => is_other(&join.right().schema(), &name(left), place(right)),
        JoinType::RightSemi => is_other(&join.left().schema(), &name(right), place(left)),
        _ => false,
    })
}

fn are_distinct(schema: &Schema) -> bool {
    let mut names = HashSet::with_capacity(schema.fields().len());
    schema.fields().iter().all(|field| names.insert(field.name()))
}

/// What no filter passes: a node by default lets none through.
#[derive(Debug, Clone)]
struct Fence;

impl Pass for Fence {
    const NAME: &'static str = "Fence";
}
