//! The analyzer rule, behind the one that resolves `grouping`, by which grouping sets are of columns.
//!
//! DataFusion gives an expression that it rewrites its former name; of keys it gives that to the sets as a whole, which are no
//! grouping sets then.
//!
//! ```text
//! Aggregate: ROLLUP (NOT k IN (1, 2))  =>  Aggregate: ROLLUP ("NOT k IN (1, 2)")
//!                                            Projection: k, NOT k IN (1, 2)
//! ```

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, Projection};
use datafusion::optimizer::analyzer::AnalyzerRule;

#[derive(Debug)]
pub(super) struct GroupingExpressions;

impl AnalyzerRule for GroupingExpressions {
    fn name(&self) -> &str {
        "postgresql_grouping_expressions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) => of_columns(aggregate),
            other => Ok(Transformed::no(other)),
        })
        .map(|transformed| transformed.data)
    }
}

fn of_columns(mut aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let unchanged = |aggregate| Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    let [Expr::GroupingSet(set)] = &aggregate.group_expr[..] else { return unchanged(aggregate) };
    let schema = aggregate.input.schema();
    let mut columns = Vec::new();
    let mut shown: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    for key in set.distinct_expr().into_iter().filter(|key| !matches!(key, Expr::Column(_))) {
        let (relation, name) = key.qualified_name();
        let column = Column::new(relation.clone(), &name);
        // Two columns of one name would be none.
        if schema.has_column(&column) {
            return unchanged(aggregate);
        }
        shown.push(key.clone().unalias().alias_qualified(relation, name));
        columns.push((key.clone(), Expr::Column(column)));
    }
    if columns.is_empty() {
        return unchanged(aggregate);
    }
    let column = |key: &Expr| {
        columns.iter().find(|(projected, _)| projected == key).map_or(key, |(_, column)| column).clone()
    };
    let all = |keys: &Vec<Expr>| keys.iter().map(column).collect();
    let set = match set {
        GroupingSet::Rollup(keys) => GroupingSet::Rollup(all(keys)),
        GroupingSet::Cube(keys) => GroupingSet::Cube(all(keys)),
        GroupingSet::GroupingSets(sets) => GroupingSet::GroupingSets(sets.iter().map(all).collect()),
    };
    let below = LogicalPlan::Projection(Projection::try_new(shown, Arc::clone(&aggregate.input))?);
    aggregate = Aggregate::try_new(Arc::new(below), vec![Expr::GroupingSet(set)], aggregate.aggr_expr)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}
