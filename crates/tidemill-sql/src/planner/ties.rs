//! The analyzer rule that carries out `FETCH FIRST n ROWS WITH TIES`: with the n-th row come those of the same rank.
//! [`with_ties`] marks the number of rows, as DataFusion's LIMIT has no place for more.
//!
//! ```text
//! Limit: skip=m, fetch=__pack(n)    =>    Projection: a
//!   Sort: b                                 Sort: b
//!     Input: a, b                             Filter: rank() <= m + n AND row_number() > m
//!                                               Window: rank() OVER (ORDER BY b), row_number() OVER (ORDER BY b)
//!                                                 Input: a, b
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::{rank, row_number};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Filter, Limit, LogicalPlan, Projection, Sort, Window, cast, lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use sqlparser::ast;

use super::marker;
use crate::error::SqlError;
use crate::function::external;

/// A number of rows after which those of the same rank as the last one come.
pub fn with_ties(rows: ast::Expr) -> ast::Expr {
    marker::pack(vec![rows])
}

#[derive(Debug)]
pub struct WithTies;

impl AnalyzerRule for WithTies {
    fn name(&self) -> &str {
        "postgresql_with_ties"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Limit(limit) => match marked(&limit) {
                Some(rows) => by_rank(&limit.input, limit.skip.as_deref(), &rows).map(Transformed::yes),
                None => Ok(Transformed::no(LogicalPlan::Limit(limit))),
            },
            other => Ok(Transformed::no(other)),
        });
        analyzed.map(|transformed| transformed.data)
    }
}

fn marked(limit: &Limit) -> Option<Expr> {
    match limit.fetch.as_deref() {
        Some(Expr::ScalarFunction(ScalarFunction { func, args })) if func.name() == marker::PACK => {
            args.first().cloned()
        }
        _ => None,
    }
}

/// The sort may be below a projection, which takes its columns away.
fn by_rank(plan: &LogicalPlan, skip: Option<&Expr>, rows: &Expr) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let input = Arc::new(by_rank(&projection.input, skip, rows)?);
            Projection::try_new(projection.expr.clone(), input).map(LogicalPlan::Projection)
        }
        LogicalPlan::Sort(sort) => ranked(sort, skip, rows),
        _ => Err(external(SqlError::internal("WITH TIES without an order"))),
    }
}

fn ranked(sort: &Sort, skip: Option<&Expr>, rows: &Expr) -> Result<LogicalPlan> {
    let ranks = [rank(), row_number()].into_iter().map(|f| f.order_by(sort.expr.clone()).build());
    let window = Window::try_new(ranks.collect::<Result<_>>()?, Arc::clone(&sort.input))?;
    let mut columns: Vec<Expr> = window.schema.columns().into_iter().map(Expr::Column).collect();
    let numbers = columns.split_off(sort.input.schema().fields().len());
    let number = |i: usize| cast(numbers[i].clone(), DataType::Int64);
    let skip = cast(skip.cloned().unwrap_or(lit(0i64)), DataType::Int64);
    let rows = cast(rows.clone(), DataType::Int64);
    let wanted = number(0).lt_eq(skip.clone() + rows.clone()).and(number(1).gt(skip)).and(rows.gt(lit(0i64)));
    let filter = Filter::try_new(wanted, Arc::new(LogicalPlan::Window(window)))?;
    let input = Arc::new(LogicalPlan::Filter(filter));
    let sorted = LogicalPlan::Sort(Sort { expr: sort.expr.clone(), input, fetch: None });
    Projection::try_new(columns, Arc::new(sorted)).map(LogicalPlan::Projection)
}
