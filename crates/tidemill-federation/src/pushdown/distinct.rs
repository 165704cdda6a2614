//! DISTINCT in aggregates: of rows that agree in all that is grouped by and aggregated, a server sends one.
//!
//! ```text
//! Aggregate: g, count(DISTINCT k)      Aggregate: g, count(DISTINCT k)
//!   Union                          =>    Union
//!     ForeignScan: SELECT g, k             ForeignScan: SELECT g, k … GROUP BY 1, 2
//! ```
//!
//! What two servers both send comes twice, which is all the same to these aggregates.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::aggregate::States;
use super::rule::{NodeRule, Plan};
use super::{Pushdown, Source, push};

/// Aggregates for which it is all the same how often a value comes, with DISTINCT and without.
const IDEMPOTENT: [&str; 7] = ["min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or"];

pub(super) const RULE: NodeRule =
    NodeRule { name: "foreign_distinct", is_on: |pushdown| pushdown.aggregates, replace: push_down };

fn push_down(plan: &Plan, _: &Pushdown) -> Result<Option<Plan>> {
    let aggregate = plan.downcast_ref::<AggregateExec>().filter(|aggregate| is_idempotent(aggregate));
    aggregate.map_or(Ok(None), over_distinct_rows)
}

fn is_idempotent(aggregate: &AggregateExec) -> bool {
    let calls = aggregate.aggr_expr();
    let is_idempotent = |call: &Arc<AggregateFunctionExpr>| {
        let is_plain = call.order_bys().is_empty() && !call.expressions().is_empty();
        is_plain && (call.is_distinct() || IDEMPOTENT.contains(&call.fun().name()))
    };
    matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single)
        && !aggregate.group_expr().has_grouping_set()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && calls.iter().any(|call| call.is_distinct())
        && calls.iter().all(is_idempotent)
}

fn over_distinct_rows(aggregate: &AggregateExec) -> Result<Option<Plan>> {
    let keys = aggregate.group_expr().expr();
    let mut wanted: Vec<Arc<dyn PhysicalExpr>> = keys.iter().map(|(key, _)| Arc::clone(key)).collect();
    // The place of each argument among them.
    let mut places = Vec::new();
    for argument in aggregate.aggr_expr().iter().flat_map(|call| call.expressions()) {
        let known = wanted[keys.len()..].iter().position(|wanted| wanted == &argument);
        places.push(known.map_or(wanted.len(), |known| keys.len() + known));
        if known.is_none() {
            wanted.push(argument);
        }
    }
    let sources = wanted.iter().map(Source::of).collect::<Option<Vec<_>>>();
    let is_column = |source: &Source| !matches!(source, Source::Constant(_));
    let Some(sources) = sources.filter(|sources| sources[keys.len()..].iter().all(is_column)) else {
        return Ok(None);
    };
    let named = wanted.iter().enumerate().map(|(place, expr)| (Arc::clone(expr), format!("value {place}")));
    let rows = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(named.collect()),
        vec![],
        vec![],
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let target = States { aggregate: &rows, keys: wanted.len(), schema: rows.schema() };
    let Some(pushed) = push(aggregate.input(), &sources, &target)? else { return Ok(None) };
    if pushed.output_partitioning().partition_count()
        != aggregate.input().output_partitioning().partition_count()
    {
        return Ok(None);
    }
    over(aggregate, &places, pushed).map(Some)
}

/// The aggregation of rows that have the keys, and the arguments at their places.
fn over(aggregate: &AggregateExec, places: &[usize], rows: Plan) -> Result<Plan> {
    let schema = rows.schema();
    let column =
        |place: usize| Arc::new(Column::new(schema.field(place).name(), place)) as Arc<dyn PhysicalExpr>;
    let keys = aggregate.group_expr().expr();
    let group = keys.iter().enumerate().map(|(place, (_, name))| (column(place), name.clone()));
    let mut places = places.iter();
    let call = |call: &Arc<AggregateFunctionExpr>| {
        let arguments = call.expressions();
        let arguments = arguments.iter().zip(&mut places).map(|(_, place)| column(*place)).collect();
        AggregateExprBuilder::new(Arc::new(call.fun().clone()), arguments)
            .schema(Arc::clone(&schema))
            .alias(call.name())
            .with_distinct(call.is_distinct())
            .with_ignore_nulls(call.ignore_nulls())
            .build()
            .map(Arc::new)
    };
    let calls = aggregate.aggr_expr().iter().map(call).collect::<Result<Vec<_>>>()?;
    let conditions = vec![None; calls.len()];
    let group = PhysicalGroupBy::new_single(group.collect());
    let over =
        AggregateExec::try_new(*aggregate.mode(), group, calls, conditions, rows, Arc::clone(&schema))?;
    Ok(Arc::new(over.with_limit_options(aggregate.limit_options())))
}
