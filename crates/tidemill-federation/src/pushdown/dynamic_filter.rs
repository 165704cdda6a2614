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
//! reads what it would have read. Many keys are a relation in the query where the server makes one of an array; that is a
//! temporary table for which nothing has to be written there. Servers that do not get a list of some of them, and of even
//! more all get the range.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::stats::Precision;
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, Literal, lit};
use datafusion::physical_expr::utils::{collect_columns, split_conjunction};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use tidemill_sql::planner::PassExec;
use tokio::time::{Instant, timeout_at};

use super::eager::EXCHANGES;
use super::key::{GatherKeys, KEYS_MAX, Keys};
use super::rule::{NodeRule, Plan};
use super::subquery_value::with_values;
use super::{Pushdown, Source, with_columns};
use crate::connector::Capabilities;
use crate::dialect::Comparison;
use crate::scan::ForeignScanExec;
use crate::select::RemoteSelect;

/// Keys that go to a server one by one.
const LIST_MAX: usize = 2_000;
/// The text of the keys in the queries of all scans of a join.
const TEXT_MAX: usize = 64 << 20;
/// Of the values that a column has, the share from which on more keys than a list has are not worth comparing.
const SHARE_MAX: f64 = 0.5;
/// Rows of the hashed side, if that is known, from which on nobody waits for it.
const ROWS_MAX: usize = KEYS_MAX;

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
    let exprs: Vec<Expr> = join.on().iter().map(|(_, right)| Arc::clone(right)).collect();
    // DataFusion may have made one already.
    let produced = join.dynamic_expressions_produced().pop();
    let range = produced.and_then(|filter| Arc::downcast::<DynamicFilterPhysicalExpr>(filter).ok());
    let range = range.unwrap_or_else(|| Arc::new(DynamicFilterPhysicalExpr::new(exprs.clone(), lit(true))));
    let (keys, rows) = (Arc::<Keys>::default(), hashed.get_value().copied());
    let waiting = |scan: &ForeignScanExec, exprs: &[Expr]| waits_for_keys(scan, exprs, (&range, &keys), rows);
    let Some(right) = filtered(join.right(), &exprs, &waiting)? else { return Ok(None) };
    let mut left = Arc::clone(join.left());
    if left.output_partitioning().partition_count() == 1 {
        let exprs = join.on().iter().map(|(left, _)| Arc::clone(left)).collect();
        let nulls_are_equal = join.null_equality() == NullEquality::NullEqualsNull;
        left = Arc::new(PassExec::try_new(left, GatherKeys { exprs, nulls_are_equal, keys })?);
    }
    let join = join.builder().with_new_children(vec![left, right])?;
    Ok(Some(Arc::new(join.build()?.with_dynamic_filter_expr(range)?)))
}

/// What is said of the rows of a scan while others run.
#[derive(Debug, Clone)]
pub(crate) enum DynamicFilter {
    Keys(KeyFilter),
    /// A condition on values of subqueries, which have run when the scan begins.
    Values(Expr),
}

/// What a scan waits for.
#[derive(Debug, Clone)]
pub(crate) struct KeyFilter {
    /// The range, of what the scan gives. It is complete when all keys are.
    range: Expr,
    keys: Arc<Keys>,
}

/// The scan, if its server can judge the keys of the hashed side: of so many rows, if that is known.
fn waits_for_keys(
    scan: &ForeignScanExec,
    exprs: &[Expr],
    (range, keys): (&Arc<DynamicFilterPhysicalExpr>, &Arc<Keys>),
    rows: Option<usize>,
) -> Result<Option<Plan>> {
    if !takes(scan, exprs, rows) {
        return Ok(None);
    }
    keys.add_scan();
    let range = Arc::clone(range).with_new_children(exprs.to_vec())?;
    let filter = DynamicFilter::Keys(KeyFilter { range, keys: Arc::clone(keys) });
    Ok(Some(Arc::new(scan.with_dynamic_filters([filter]))))
}

/// Whether it gives all rows that come, or all that fulfil a condition, as they are.
fn keeps_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_filter = |filter: &FilterExec| filter.projection().is_none();
    EXCHANGES.contains(&plan.name())
        || plan.downcast_ref::<UnionExec>().is_some()
        || plan.downcast_ref::<FilterExec>().is_some_and(is_filter)
        || plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_none())
}

/// What becomes of a scan that gives what the expressions are over; `None`: nothing else.
type OfScan<'a> = &'a dyn Fn(&ForeignScanExec, &[Expr]) -> Result<Option<Plan>>;

/// The plan with other scans in it; `None` if there are none.
pub(super) fn filtered(plan: &Plan, exprs: &[Expr], of_scan: OfScan<'_>) -> Result<Option<Plan>> {
    if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
        return of_scan(scan, exprs);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let column = |i: usize| projection.expr().get(i).map(|item| Arc::clone(&item.expr));
        let exprs = exprs.iter().map(|expr| with_columns(expr, column)).collect::<Option<Vec<_>>>();
        let Some(exprs) = exprs else { return Ok(None) };
        let below = filtered(projection.input(), &exprs, of_scan)?;
        return below.map(|below| replace_children_if_necessary(Arc::clone(plan), vec![below])).transpose();
    }
    if !keeps_rows(plan) {
        return Ok(None);
    }
    let mut any = false;
    let sides = plan.children().into_iter().map(|side| {
        let below = filtered(side, exprs, of_scan)?;
        any |= below.is_some();
        Ok(below.unwrap_or_else(|| Arc::clone(side)))
    });
    let sides = sides.collect::<Result<Vec<_>>>()?;
    any.then(|| replace_children_if_necessary(Arc::clone(plan), sides)).transpose()
}

/// Whether a scan's server can judge one of the keys, and so many of them are worth it, if that is known.
fn takes(scan: &ForeignScanExec, exprs: &[Expr], rows: Option<usize>) -> bool {
    let (select, capabilities) = (scan.select(), scan.capabilities());
    let writer = select.writer(capabilities);
    let is_known = |expr: &Expr| {
        let operand = writer.compared(expr).filter(|_| is_of_rows(select, expr));
        operand.is_some_and(|operand| capabilities.compares(Comparison::Equal, operand.ty))
    };
    let is_worth_it = rows.is_none_or(|rows| leaves_rows_out(select, exprs, rows));
    select.limit.is_none() && capabilities.lists && is_worth_it && exprs.iter().any(is_known)
}

/// Whether it can be asked before rows are grouped: of groups it is of what they are grouped by.
pub(super) fn is_of_rows(select: &RemoteSelect, expr: &Expr) -> bool {
    let keys = select.keys.unwrap_or(usize::MAX);
    collect_columns(expr).iter().all(|column| column.index() < keys)
}

/// Whether rows that have one of so many keys are, as far as anybody knows, so few that it is worth comparing.
fn leaves_rows_out(select: &RemoteSelect, exprs: &[Expr], keys: usize) -> bool {
    let [expr] = exprs else { return true };
    let distinct = Source::of(expr).and_then(|source| select.distinct(&source));
    let share = distinct.map(|distinct| keys as f64 / distinct as f64);
    keys <= LIST_MAX || share.is_none_or(|share| share < SHARE_MAX)
}

/// What is asked for with what the filters say; `None` if they say nothing before the wait is over.
pub(crate) async fn narrowed(
    select: &RemoteSelect,
    filters: &[DynamicFilter],
    capabilities: &Capabilities,
    wait: Duration,
) -> Option<RemoteSelect> {
    let (deadline, mut conditions) = (Instant::now() + wait, Vec::new());
    for filter in filters {
        let filter = match filter {
            DynamicFilter::Keys(filter) => filter,
            DynamicFilter::Values(condition) => {
                let said = with_values(condition);
                conditions.extend(said.and_then(|said| select.writer(capabilities).condition(&said)));
                continue;
            }
        };
        let Some(range) = filter.range.downcast_ref::<DynamicFilterPhysicalExpr>() else { continue };
        if timeout_at(deadline, range.wait_complete()).await.is_ok() {
            let said = filter.keys_said(select, capabilities);
            // They say all that a range does.
            conditions.extend(said.unwrap_or_else(|| range_said(range, select, capabilities)));
        }
    }
    let is_narrower = !conditions.is_empty();
    conditions.splice(0..0, select.conditions.iter().cloned());
    is_narrower.then(|| RemoteSelect { conditions, ..select.clone() })
}

/// What a server can judge of the range: a row that is not in it has no partner.
fn range_said(
    range: &DynamicFilterPhysicalExpr,
    select: &RemoteSelect,
    capabilities: &Capabilities,
) -> Vec<String> {
    let (Ok(current), writer) = (range.current(), select.writer(capabilities)) else { return vec![] };
    let parts = split_conjunction(&current).into_iter();
    let parts = parts.filter(|part| part.downcast_ref::<Literal>().is_none() && is_of_rows(select, part));
    parts.filter_map(|part| writer.condition(part)).collect()
}

impl DynamicFilter {
    /// What is compared with the keys, or the condition.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            DynamicFilter::Keys(filter) => filter.range.children(),
            DynamicFilter::Values(condition) => vec![condition],
        }
    }

    pub fn root(&self) -> &Expr {
        match self {
            DynamicFilter::Keys(filter) => &filter.range,
            DynamicFilter::Values(condition) => condition,
        }
    }
}

impl KeyFilter {
    /// What a server can judge of the keys; `None`: it cannot, or there are too many.
    fn keys_said(&self, select: &RemoteSelect, capabilities: &Capabilities) -> Option<Vec<String>> {
        let (keys, writer) = (self.keys.found()?, select.writer(capabilities));
        let exprs: Vec<_> = self.range.children().into_iter().cloned().collect();
        let count = keys.first().filter(|keys| !keys.is_empty())?.len();
        if !leaves_rows_out(select, &exprs, count) {
            return None;
        }
        let members = exprs.iter().zip(keys.iter()).filter(|(expr, _)| is_of_rows(select, expr));
        let members: Vec<_> = members.filter_map(|(expr, keys)| writer.member(expr, keys)).collect();
        let text_max = TEXT_MAX / self.keys.scans().max(1);
        if let Some(all) = capabilities.dialect.among(&members, &select.facts, text_max) {
            return Some(vec![all]);
        }
        let listed = |member| writer.listed(member).filter(|list| list.len() <= text_max);
        let lists: Vec<_> = members.iter().filter(|_| count <= LIST_MAX).filter_map(listed).collect();
        (!lists.is_empty()).then_some(lists)
    }
}
