//! The analyzer rule by which the value of a subquery may be null, as it is when there is no row.
//!
//! ```text
//! (SELECT 'b' FROM t WHERE a = 100)  =>  (SELECT __nullable('b') FROM t WHERE a = 100)
//! ```
//!
//! Blocked by: DataFusion 55 takes the value of a subquery for never null when its column is. Remove when:
//! `SELECT (SELECT 'b' FROM t WHERE false)` is null without this rule.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::correlated::is_constant;
use super::opaque::{self, Opaque};

#[derive(Debug)]
pub(super) struct NullableSubqueries;

impl AnalyzerRule for NullableSubqueries {
    fn name(&self) -> &str {
        "postgresql_nullable_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let nullable = plan.transform_up_with_subqueries(|plan| {
            plan.map_expressions(|expr| {
                expr.transform_up(|expr| match expr {
                    Expr::ScalarSubquery(subquery) if is_never_null(&subquery) => {
                        Ok(Transformed::yes(Expr::ScalarSubquery(with_null(subquery)?)))
                    }
                    other => Ok(Transformed::no(other)),
                })
            })
        })?;
        if !nullable.transformed {
            return Ok(nullable.data);
        }
        // What says of its columns whether they may be null has to look again.
        let again =
            nullable.data.transform_up_with_subqueries(|plan| plan.recompute_schema().map(Transformed::yes));
        again.map(|plan| plan.data)
    }
}

/// As DataFusion has it. What refers to the plan around it is joined, and null where there is no row.
fn is_never_null(subquery: &Subquery) -> bool {
    let plan = subquery.subquery.as_ref();
    !plan.schema().field(0).is_nullable() && is_constant(subquery) && !has_row(plan)
}

/// Whether there is one, whatever is in the tables.
fn has_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => has_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_row(&alias.input),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

fn with_null(subquery: Subquery) -> Result<Subquery> {
    let plan = subquery.subquery.as_ref().clone();
    let (relation, field) = plan.schema().qualified_field(0);
    let (relation, name) = (relation.cloned(), field.name().clone());
    let value = Expr::Column(plan.schema().columns().swap_remove(0));
    let value = opaque::call(&Opaque::nullable("__nullable").function(), value);
    let plan = LogicalPlanBuilder::from(plan).project([value.alias_qualified(relation, name)])?.build()?;
    Ok(Subquery { subquery: Arc::new(plan), ..subquery })
}
