//! `(a, b) IN (SELECT x, y …)` as a condition, for which null is as good as false, over rows that are the same for every
//! (a, b): a semi-join by all of its columns.
//!
//! ```text
//! (a, b) IN (SELECT x, y FROM u)    =>    EXISTS (SELECT FROM u WHERE a = x AND b = y)
//! ```

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, SetComparison, SetQuantifier};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, Operator, lit};

use super::correlated::{free_columns, referred, unpacked};
use super::marker;

/// Whether a comparison is of this kind.
pub(super) fn is(of: &SetComparison) -> bool {
    let is_any = of.op == Operator::Eq && of.quantifier == SetQuantifier::Any;
    let is_row = matches!(&*of.expr, Expr::ScalarFunction(call) if call.func.name() == marker::PACK);
    is_any && is_row && free_columns(&of.subquery.subquery).is_empty()
}

/// What it is over rows of this schema.
pub(super) fn exists(of: SetComparison, schema: &DFSchema) -> Result<Expr> {
    let mut outer = of.subquery.outer_ref_columns;
    let tested = referred(*of.expr, schema, &mut outer)?;
    let (plan, items) = unpacked(&of.subquery.subquery)?;
    let equal = marker::unpack(tested).into_iter().zip(items).map(|(x, y)| x.eq(y));
    let equal = equal.reduce(Expr::and).unwrap_or_else(|| lit(true));
    let plan = LogicalPlanBuilder::from(plan).filter(equal)?.build()?;
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns: outer, spans: of.subquery.spans };
    Ok(Expr::Exists(Exists::new(subquery, false)))
}
