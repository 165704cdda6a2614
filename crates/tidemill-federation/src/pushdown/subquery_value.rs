//! Conditions on the values of subqueries: a subquery that has one value runs before what is around it, so the value goes to
//! the servers, too.
//!
//! ```text
//! ScalarSubquery                     =>  ScalarSubquery
//!   Filter: id = scalar_subquery           Filter: id = scalar_subquery
//!     ForeignScan: SELECT id, v              ForeignScan: SELECT id, v … WHERE id = 7
//!   … max(id)                              … max(id)
//! ```
//!
//! The filter stays: what a value is, and whether a server can judge it, is known when the scan begins.

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;

use super::Pushdown;
use super::dynamic_filter::{DynamicFilter, filtered, is_of_rows};
use super::rule::{NodeRule, Plan};
use crate::scan::ForeignScanExec;

type Expr = Arc<dyn PhysicalExpr>;

pub(super) const RULE: NodeRule = NodeRule {
    name: "foreign_subquery_values",
    is_on: |pushdown| pushdown.dynamic_filters && pushdown.filters,
    replace: tell_scans,
};

fn tell_scans(plan: &Plan, _: &Pushdown) -> Result<Option<Plan>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(None) };
    let conditions = split_conjunction(filter.predicate()).into_iter();
    let conditions: Vec<_> = conditions.filter(|part| has_subquery(part)).cloned().collect();
    if conditions.is_empty() {
        return Ok(None);
    }
    let below = filtered(filter.input(), &conditions, &told)?;
    below.map(|below| replace_children_if_necessary(Arc::clone(plan), vec![below])).transpose()
}

fn told(scan: &ForeignScanExec, conditions: &[Expr]) -> Result<Option<Plan>> {
    let select = scan.select();
    let conditions = conditions.iter().filter(|condition| is_of_rows(select, condition));
    let filters: Vec<_> = conditions.cloned().map(DynamicFilter::Values).collect();
    let is_told = select.limit.is_none() && !filters.is_empty();
    Ok(is_told.then(|| Arc::new(scan.with_dynamic_filters(filters)) as Plan))
}

fn has_subquery(expr: &Expr) -> bool {
    expr.downcast_ref::<ScalarSubqueryExpr>().is_some() || expr.children().into_iter().any(has_subquery)
}

/// A condition with the values of its subqueries; `None` if one has not run.
pub(super) fn with_values(condition: &Expr) -> Option<Expr> {
    let (no_rows, are_known) = (RecordBatch::new_empty(Arc::new(Schema::empty())), Cell::new(true));
    let replaced = Arc::clone(condition).transform_up(|expr| {
        if expr.downcast_ref::<ScalarSubqueryExpr>().is_none() {
            return Ok(Transformed::no(expr));
        }
        Ok(match expr.evaluate(&no_rows) {
            Ok(ColumnarValue::Scalar(value)) => Transformed::yes(lit(value)),
            _ => {
                are_known.set(false);
                Transformed::no(expr)
            }
        })
    });
    replaced.data().ok().filter(|_| are_known.get())
}
