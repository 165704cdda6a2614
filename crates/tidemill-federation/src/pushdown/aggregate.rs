//! Aggregates: each server folds its rows into partial states, which are merged and finished here.
//!
//! ```text
//! Aggregate(Final): g, avg(x)          Aggregate(Final): g, avg(x)
//!   Aggregate(Partial): g, avg(x)  =>    Union
//!     Union                                ForeignScan: SELECT g, coalesce(sum(x), 0), count(x) … GROUP BY 1
//!       ForeignScan: SELECT g, x
//! ```
//!
//! A side of the union that cannot do that is folded here, and so is one that has not many rows a group, as far as that is
//! known: it would send more than its rows.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::rule::{NodeRule, Plan};
use super::state::{Call, Part, is_known, received, state};
use super::{Pushdown, Source, Target, push};
use crate::scan::ForeignScanExec;
use crate::select::RemoteSelect;

/// Of the rows of a table, the share up to which there may be groups of them that are worth folding there. A state is about
/// as large as two rows, and a server makes many of them on disk.
const GROUPS_MAX: f64 = 0.25;

pub(super) const RULE: NodeRule = NodeRule {
    name: "foreign_partial_aggregates",
    is_on: |pushdown| pushdown.aggregates,
    replace: push_down,
};

fn push_down(plan: &Plan, _: &Pushdown) -> Result<Option<Plan>> {
    plan.downcast_ref::<AggregateExec>().map_or(Ok(None), pushed)
}

fn pushed(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_single = match aggregate.mode() {
        AggregateMode::Partial => false,
        AggregateMode::Single => true,
        _ => return Ok(None),
    };
    let group = aggregate.group_expr();
    if group.has_grouping_set() || !aggregate.aggr_expr().iter().all(|call| is_known(call)) {
        return Ok(None);
    }
    let keys = group.expr().iter().map(|(key, _)| Arc::clone(key));
    let arguments = aggregate.aggr_expr().iter().flat_map(|call| call.expressions());
    let filters = aggregate.filter_expr().iter().flatten().cloned();
    let exprs: Vec<_> = keys.chain(arguments).chain(filters).collect();
    let Some(sources) = exprs.iter().map(Source::of).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let states = Arc::new(partial(aggregate, aggregate.input())?);
    let target = States { aggregate, keys: group.expr().len(), schema: states.schema() };
    let Some(pushed) = push(aggregate.input(), &sources, &target)? else { return Ok(None) };
    if !is_single {
        return Ok(Some(pushed));
    }
    if pushed.output_partitioning().partition_count() != 1 {
        return Ok(None);
    }
    let finished = AggregateExec::try_new(
        AggregateMode::Final,
        group.as_final(),
        aggregate.aggr_expr().to_vec(),
        vec![None; aggregate.aggr_expr().len()],
        pushed,
        aggregate.input_schema(),
    )?;
    Ok(Some(Arc::new(finished.with_limit_options(aggregate.limit_options()))))
}

/// The partial states of other rows, folded here.
pub(super) fn partial(aggregate: &AggregateExec, input: &Arc<dyn ExecutionPlan>) -> Result<AggregateExec> {
    AggregateExec::try_new(
        AggregateMode::Partial,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(input),
        aggregate.input_schema(),
    )
}

pub(super) struct States<'a> {
    pub aggregate: &'a AggregateExec,
    pub keys: usize,
    /// Of the keys and the states.
    pub schema: SchemaRef,
}

impl Target for States<'_> {
    fn scan(&self, scan: &ForeignScanExec, sources: &[Source]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !scan.select().is_of_rows() || has_many_groups(scan.select(), &sources[..self.keys]) {
            return Ok(None);
        }
        let Some(parts) = self.parts(scan, sources) else { return Ok(None) };
        // A state that consists of something else is made here.
        let types = parts.iter().map(Part::data_type);
        if !types.eq(self.schema.fields().iter().map(|field| field.data_type().clone())) {
            return Ok(None);
        }
        let items = parts.iter().map(|part| part.item.clone()).collect();
        let select = RemoteSelect { keys: Some(self.keys), ..scan.select().with_items(items) };
        received(scan, select, &parts, &self.schema).map(Some)
    }

    fn other(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(partial(self.aggregate, plan)?))
    }

    fn keeps_projections(&self) -> bool {
        false
    }
}

/// Whether there are at least so many groups that to send all rows, which several connections do, takes less than to fold
/// them there. A condition is thought to leave as many rows of each.
fn has_many_groups(select: &RemoteSelect, keys: &[Source]) -> bool {
    let Some(size) = select.size() else { return false };
    let groups = keys.iter().filter_map(|key| select.distinct(key)).max();
    groups.is_some_and(|groups| groups as f64 > GROUPS_MAX * size.rows as f64)
}

impl States<'_> {
    /// What the server is to select, column by column. The sources are keys, the arguments of each aggregate, and the
    /// conditions of those that have one.
    fn parts(&self, scan: &ForeignScanExec, sources: &[Source]) -> Option<Vec<Part>> {
        let (keys, rest) = sources.split_at(self.keys);
        let calls = self.aggregate.aggr_expr();
        let (mut arguments, filters) = rest.split_at(calls.iter().map(|call| call.expressions().len()).sum());
        let keys = keys.iter().map(|key| Part::key(key, scan));
        let keys = keys.collect::<Option<Vec<_>>>()?;
        let mut filters = filters.iter();
        let filters =
            self.aggregate.filter_expr().iter().map(|filter| filter.as_ref().and_then(|_| filters.next()));
        let states = calls.iter().zip(filters).map(|(call, filter)| {
            let (own, others) = arguments.split_at(call.expressions().len());
            arguments = others;
            state(&Call { function: call.fun().name(), arguments: own, filter }, &keys, scan)
        });
        let states = states.collect::<Option<Vec<_>>>()?;
        Some(keys.into_iter().chain(states.into_iter().flatten()).collect())
    }
}
