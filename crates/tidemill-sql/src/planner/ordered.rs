//! The analyzer rule that hands the order of a sorted subquery to whoever minds it. DataFusion drops the sort below an
//! aggregate, and sorts rows anew, in any order of equals, for a window with partitions.
//!
//! ```text
//! Aggregate: array_agg(x.v)               =>    Aggregate: array_agg(x.v ORDER BY x.__sorted_1)
//!   SubqueryAlias: x                              SubqueryAlias: x
//!     Projection: m.v                               Projection: m.v, m.at AS __sorted_1
//!       Sort: m.at                                    TableScan: m
//!         TableScan: m
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, Sort, SortExpr, SubqueryAlias, Window,
    WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::correlated::{Names, has_subquery};

/// Window functions for which rows without an order are all equal.
const OF_PEERS: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

#[derive(Debug)]
pub struct OrderedRows;

impl AnalyzerRule for OrderedRows {
    fn name(&self) -> &str {
        "postgresql_ordered_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let names = Names::default();
        let key = || names.new_name("sorted");
        let analyzed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate, &key),
            LogicalPlan::Window(window) => of_window(window, &key),
            other => Ok(Transformed::no(other)),
        });
        analyzed.map(|transformed| transformed.data)
    }
}

/// A plan without its sort, with the columns that it is sorted by beside its own, and the order.
type Keyed = (LogicalPlan, Vec<SortExpr>);

/// Follows a plan down to the sort that its rows come in the order of.
pub(super) fn keyed(plan: &LogicalPlan, new_name: &dyn Fn() -> String) -> Result<Option<Keyed>> {
    match plan {
        LogicalPlan::Sort(sort)
            if sort.fetch.is_none() && !sort.expr.iter().any(|s| has_subquery(&s.expr)) =>
        {
            Ok(Some((sort.input.as_ref().clone(), sort.expr.clone())))
        }
        LogicalPlan::Projection(projection) => {
            let Some((input, order)) = keyed(&projection.input, new_name)? else { return Ok(None) };
            let mut exprs = projection.expr.clone();
            let shown = |SortExpr { expr, asc, nulls_first }| {
                let name = new_name();
                exprs.push(expr.alias(name.as_str()));
                Expr::Column(Column::new_unqualified(name)).sort(asc, nulls_first)
            };
            let order = order.into_iter().map(shown).collect();
            let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?);
            Ok(Some((plan, order)))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some((input, order)) = keyed(&alias.input, new_name)? else { return Ok(None) };
            let inner = Arc::clone(input.schema());
            let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
            let order = order.into_iter().map(|key| renamed(key, &inner, &alias.schema));
            let order = order.collect::<Result<_>>()?;
            Ok(Some((LogicalPlan::SubqueryAlias(alias), order)))
        }
        LogicalPlan::Filter(filter) => {
            let Some((input, order)) = keyed(&filter.input, new_name)? else { return Ok(None) };
            let filter = Filter::try_new(filter.predicate.clone(), Arc::new(input))?;
            Ok(Some((LogicalPlan::Filter(filter), order)))
        }
        LogicalPlan::Limit(limit) => {
            let Some((input, order)) = keyed(&limit.input, new_name)? else { return Ok(None) };
            let sorted = LogicalPlan::Sort(Sort { expr: order.clone(), input: Arc::new(input), fetch: None });
            let limit = Limit { input: Arc::new(sorted), ..limit.clone() };
            Ok(Some((LogicalPlan::Limit(limit), order)))
        }
        // Its rows come as it has sorted them.
        LogicalPlan::Window(window) => {
            let order = window.window_expr.last().map(sorted_for).unwrap_or_default();
            Ok((!order.is_empty()).then(|| (plan.clone(), order)))
        }
        _ => Ok(None),
    }
}

/// The key over the columns of a relation that were those of `inner`.
fn renamed(key: SortExpr, inner: &DFSchema, outer: &DFSchema) -> Result<SortExpr> {
    let expr = key.expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let place = inner.index_of_column(&column)?;
            Ok(Transformed::yes(Expr::Column(Column::from(outer.qualified_field(place)))))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(expr.data.sort(key.asc, key.nulls_first))
}

/// How rows are sorted for a window.
fn sorted_for(call: &Expr) -> Vec<SortExpr> {
    let Expr::WindowFunction(function) = unaliased(call) else { return vec![] };
    let partitions = function.params.partition_by.iter().map(|expr| expr.clone().sort(true, false));
    partitions.chain(function.params.order_by.iter().cloned()).collect()
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

fn of_aggregate(aggregate: Aggregate, new_name: &dyn Fn() -> String) -> Result<Transformed<LogicalPlan>> {
    let minds = |call: &Expr| match unaliased(call) {
        Expr::AggregateFunction(call) => {
            let params = &call.params;
            params.order_by.is_empty() && !params.distinct && call.func.order_sensitivity().is_beneficial()
        }
        _ => false,
    };
    if !aggregate.aggr_expr.iter().any(minds) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Some((input, order)) = keyed(&aggregate.input, new_name)? else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let calls = aggregate.aggr_expr.iter().map(|call| {
        if !minds(call) {
            return call.clone();
        }
        let (relation, name) = call.qualified_name();
        let mut ordered = call.clone().unalias();
        if let Expr::AggregateFunction(call) = &mut ordered {
            call.params.order_by.clone_from(&order);
        }
        ordered.alias_qualified(relation, name)
    });
    let plan = Aggregate::try_new(Arc::new(input), aggregate.group_expr.clone(), calls.collect())?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(plan)))
}

/// All calls of a window have one order.
fn of_window(window: Window, new_name: &dyn Fn() -> String) -> Result<Transformed<LogicalPlan>> {
    let (mut may, mut minds) = (true, false);
    for call in &window.window_expr {
        let Expr::WindowFunction(function) = unaliased(call) else { continue };
        let frame = &function.params.window_frame;
        may &= function.params.order_by.is_empty() && frame.units == WindowFrameUnits::Rows;
        may &= !OF_PEERS.contains(&function.fun.name());
        minds |= match &function.fun {
            WindowFunctionDefinition::AggregateUDF(call) => call.order_sensitivity().is_beneficial(),
            WindowFunctionDefinition::WindowUDF(_) => true,
        };
    }
    let found = if may && minds { keyed(&window.input, new_name)? } else { None };
    let Some((input, order)) = found else { return Ok(Transformed::no(LogicalPlan::Window(window))) };
    let calls = window.window_expr.iter().map(|call| {
        let (relation, name) = call.qualified_name();
        let mut ordered = call.clone().unalias();
        if let Expr::WindowFunction(function) = &mut ordered {
            function.params.order_by.clone_from(&order);
        }
        ordered.alias_qualified(relation, name)
    });
    let columns = window.schema.columns().into_iter().map(Expr::Column).collect();
    let plan = Window::try_new(calls.collect(), Arc::new(input))?;
    let plan = Projection::try_new(columns, Arc::new(LogicalPlan::Window(plan)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}
