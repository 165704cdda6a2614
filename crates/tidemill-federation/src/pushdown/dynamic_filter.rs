//! Dynamic filters: the keys of the side of a join that is hashed go to the servers of the other side as a condition.
//!
//! ```text
//! HashJoin: h.eid = s.eid            =>  HashJoin: h.eid = s.eid
//!   Filter: name = 'inlet'                 Filter: name = 'inlet'
//!     …                                      …
//!   ForeignScan: SELECT eid, v             ForeignScan: SELECT eid, v … WHERE eid = ANY('{…}')
//! ```
//!
//! The scan waits for the keys before it asks its server, but not for long (`foreign_dynamic_filter_wait`): without them it
//! reads what it would have read. Many keys are a range.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::JoinType;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, InListExpr, Literal, lit};
use datafusion::physical_expr::utils::{collect_columns, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;

use tokio::time::{Instant, timeout_at};

use super::eager::EXCHANGES;
use super::rule::{NodeRule, Plan};
use super::{Pushdown, with_columns};
use crate::connector::Capabilities;
use crate::dialect::Comparison;
use crate::expression::Writer;
use crate::scan::ForeignScanExec;
use crate::select::RemoteSelect;

/// Rows of the hashed side whose keys go to the servers one by one.
pub(super) const KEYS_MAX: usize = 2_000;
/// Rows of the hashed side, if that is known, from which on nobody waits for it.
const ROWS_MAX: usize = 50_000;

pub(super) const RULE: NodeRule = NodeRule {
    name: "foreign_dynamic_filters",
    is_on: |pushdown| pushdown.dynamic_filters,
    replace: filter_by_keys,
};

fn filter_by_keys(plan: &Plan, _: &Pushdown) -> Result<Option<Plan>> {
    plan.downcast_ref::<HashJoinExec>().map_or(Ok(None), filtered_join)
}

/// `x IN (SELECT …)` over a foreign table: the keys of the subquery are those that are wanted, so they are hashed. The rule
/// comes before DataFusion's, which turns the join again where statistics say that it is the larger side.
pub(super) const HASHED_SUBQUERIES: NodeRule = NodeRule {
    name: "foreign_hashed_subqueries",
    is_on: |pushdown| pushdown.dynamic_filters,
    replace: hash_subquery,
};

fn hash_subquery(plan: &Plan, _: &Pushdown) -> Result<Option<Plan>> {
    let join = plan.downcast_ref::<HashJoinExec>();
    let join = join.filter(|join| *join.join_type() == JoinType::LeftSemi && reads_foreign(join.left()));
    join.map(|join| join.swap_inputs(*join.partition_mode())).transpose()
}

fn reads_foreign(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<ForeignScanExec>().is_some() || plan.children().into_iter().any(reads_foreign)
}

type Expr = Arc<dyn PhysicalExpr>;

fn filtered_join(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // Whether a row of the other side without a partner may be left out.
    let (_, drops_others) = join.join_type().on_lr_is_preserved();
    let hashed = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new())?.num_rows;
    let is_large = matches!(hashed, Precision::Exact(rows) | Precision::Inexact(rows) if rows > ROWS_MAX);
    if !drops_others || join.null_aware || is_large {
        return Ok(None);
    }
    let keys: Vec<Expr> = join.on().iter().map(|(_, right)| Arc::clone(right)).collect();
    // DataFusion may have made one already.
    let produced = join.dynamic_expressions_produced().pop();
    let filter = produced.and_then(|filter| Arc::downcast::<DynamicFilterPhysicalExpr>(filter).ok());
    let filter = filter.unwrap_or_else(|| Arc::new(DynamicFilterPhysicalExpr::new(keys.clone(), lit(true))));
    let Some(right) = filtered(join.right(), &keys, &filter)? else { return Ok(None) };
    let join = join.builder().with_new_children(vec![Arc::clone(join.left()), right])?;
    Ok(Some(Arc::new(join.build()?.with_dynamic_filter_expr(filter)?)))
}

/// Whether it gives all rows that come, or all that fulfil a condition, as they are.
fn keeps_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_filter = |filter: &FilterExec| filter.projection().is_none();
    EXCHANGES.contains(&plan.name())
        || plan.downcast_ref::<UnionExec>().is_some()
        || plan.downcast_ref::<FilterExec>().is_some_and(is_filter)
        || plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_none())
}

/// The plan with scans that wait for the filter; `None` if there are none.
fn filtered(
    plan: &Arc<dyn ExecutionPlan>,
    keys: &[Expr],
    filter: &Arc<DynamicFilterPhysicalExpr>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
        if !takes(scan, keys) {
            return Ok(None);
        }
        let filter = Arc::clone(filter).with_new_children(keys.to_vec())?;
        return Ok(Some(Arc::new(scan.with_dynamic_filter(filter))));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let column = |i: usize| projection.expr().get(i).map(|item| Arc::clone(&item.expr));
        let Some(keys) = keys.iter().map(|key| with_columns(key, column)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let below = filtered(projection.input(), &keys, filter)?;
        return below.map(|below| replace_children_if_necessary(Arc::clone(plan), vec![below])).transpose();
    }
    if !keeps_rows(plan) {
        return Ok(None);
    }
    let mut any = false;
    let sides = plan.children().into_iter().map(|side| {
        let below = filtered(side, keys, filter)?;
        any |= below.is_some();
        Ok(below.unwrap_or_else(|| Arc::clone(side)))
    });
    let sides = sides.collect::<Result<Vec<_>>>()?;
    any.then(|| replace_children_if_necessary(Arc::clone(plan), sides)).transpose()
}

/// Whether a scan's server can judge one of the keys.
fn takes(scan: &ForeignScanExec, keys: &[Expr]) -> bool {
    let (select, capabilities) = (scan.select(), scan.capabilities());
    // Of groups it is one of what they are grouped by.
    let groups_by = |key: &Expr| {
        let keys = select.keys.unwrap_or(usize::MAX);
        collect_columns(key).iter().all(|column| column.index() < keys)
    };
    let writer = select.writer(capabilities);
    let is_known = |key: &Expr| {
        let operand = writer.compared(key).filter(|_| groups_by(key));
        operand.is_some_and(|operand| capabilities.compares(Comparison::Equal, operand.ty))
    };
    select.limit.is_none() && capabilities.lists && keys.iter().any(is_known)
}

/// What is asked for with what the filters say; `None` if they say nothing before the wait is over.
pub(crate) async fn narrowed(
    select: &RemoteSelect,
    filters: &[Expr],
    capabilities: &Capabilities,
    wait: Duration,
) -> Option<RemoteSelect> {
    let (deadline, mut conditions) = (Instant::now() + wait, Vec::new());
    for filter in filters.iter().filter_map(|filter| filter.downcast_ref::<DynamicFilterPhysicalExpr>()) {
        if timeout_at(deadline, filter.wait_complete()).await.is_ok() {
            conditions.extend(said(filter, &select.writer(capabilities)));
        }
    }
    let is_narrower = !conditions.is_empty();
    conditions.splice(0..0, select.conditions.iter().cloned());
    is_narrower.then(|| RemoteSelect { conditions, ..select.clone() })
}

/// What a server can judge of a filter that is complete: a row that does not fulfil it has no partner.
fn said(filter: &DynamicFilterPhysicalExpr, writer: &Writer) -> Vec<String> {
    let Ok(current) = filter.current() else { return vec![] };
    let parts: Vec<&Expr> = split_conjunction(&current);
    let lists = parts.iter().filter(|part| part.downcast_ref::<InListExpr>().is_some());
    let lists: Vec<_> = lists.filter_map(|part| writer.condition(part)).collect();
    // A list says all that a range does.
    if !lists.is_empty() {
        return lists;
    }
    let ranges = parts.into_iter().filter(|part| part.downcast_ref::<Literal>().is_none());
    ranges.filter_map(|part| writer.condition(part)).collect()
}
