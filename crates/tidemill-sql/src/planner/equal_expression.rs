//! The physical rule by which a filter `f(c) = c` says nothing of the order of rows.
//!
//! DataFusion takes the two for one another from then on: `c` is `f(c)`, and `f(c)` then is `f(f(c))`, so that rows sorted by
//! `c` do not look sorted any more.
//!
//! ```text
//! Filter: lower(t) = t  =>  Filter: NOT lower(t) <> t
//! ```
//!
//! Blocked by: `EquivalenceGroup::normalize_expr` puts an expression in the place of a column (DataFusion 55).
//! Remove when: it puts columns in the place of expressions only.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, NotExpr};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

#[derive(Debug)]
pub(super) struct EqualExpressions;

impl PhysicalOptimizerRule for EqualExpressions {
    fn name(&self) -> &str {
        "equal_expressions"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match plan.downcast_ref::<FilterExec>().and_then(predicate) {
            Some((filter, predicate)) => {
                let filter = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
                Ok(Transformed::yes(Arc::new(filter)))
            }
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

type Expr = Arc<dyn PhysicalExpr>;

/// The filter and what it asks instead, if that is to be said in another way.
fn predicate(filter: &FilterExec) -> Option<(&FilterExec, Expr)> {
    let parts = split_conjunction(filter.predicate());
    let said: Vec<_> = parts.iter().map(|part| negated(part)).collect();
    let is_other = said.iter().any(Option::is_some);
    let all = parts.into_iter().zip(said).map(|(part, said)| said.unwrap_or_else(|| Arc::clone(part)));
    is_other.then(|| (filter, conjunction(all)))
}

fn negated(part: &Expr) -> Option<Expr> {
    let equal = part.downcast_ref::<BinaryExpr>().filter(|part| *part.op() == Operator::Eq)?;
    let (left, right) = (equal.left(), equal.right());
    let expr = match (left.is::<Column>(), right.is::<Column>()) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    let differs = || BinaryExpr::new(Arc::clone(left), Operator::NotEq, Arc::clone(right));
    (!collect_columns(expr).is_empty()).then(|| Arc::new(NotExpr::new(Arc::new(differs()))) as Expr)
}
