//! Eager aggregation: what is aggregated above a join is folded below it, where the rows are.
//!
//! ```text
//! Aggregate(Final): name, avg(v)        Aggregate(Final): name, avg(v)
//!   Aggregate(Partial): name, avg(v) =>   Projection: name, states
//!     HashJoin: s.eid = h.eid               HashJoin: s.eid = h.eid
//!       ForeignScan: SELECT eid, name         ForeignScan: SELECT eid, name
//!       ForeignScan: SELECT eid, v            ForeignScan: SELECT eid, sum(v), count(v) … GROUP BY 1
//! ```
//!
//! A row of the one side is joined with the same rows of the other side as all rows that have its join keys, so they can
//! be folded into one state first; a state that is joined several times counts several times, as its rows would. That
//! holds for joins in which no row of the other side stands for itself alone. It is not done where there are hardly fewer
//! groups than rows.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use super::aggregate::{States, partial};
use super::rule::{NodeRule, Plan};
use super::state::is_known;
use super::{Pushdown, Source, push, with_columns};

pub(super) const RULE: NodeRule = NodeRule {
    name: "foreign_eager_aggregates",
    is_on: |pushdown| pushdown.aggregates && pushdown.eager_aggregates,
    replace: push_down,
};

fn push_down(plan: &Plan, _: &Pushdown) -> Result<Option<Plan>> {
    plan.downcast_ref::<AggregateExec>().map_or(Ok(None), eager)
}

type Expr = Arc<dyn PhysicalExpr>;

fn eager(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let group = aggregate.group_expr();
    let is_filtered = aggregate.filter_expr().iter().any(Option::is_some);
    let is_partial = *aggregate.mode() == AggregateMode::Partial;
    let is_single = *aggregate.mode() == AggregateMode::Single;
    let is_plain = !group.has_grouping_set() && !is_filtered && aggregate.limit_options().is_none();
    if !(is_partial || is_single)
        || !is_plain
        || !aggregate.aggr_expr().iter().all(|call| is_known(call) && call.expressions().len() == 1)
    {
        return Ok(None);
    }
    let Some((join, above)) = join_below(aggregate.input()) else { return Ok(None) };
    let resolve =
        |expr: &Expr| above.iter().try_fold(Arc::clone(expr), |expr, projection| replaced(&expr, projection));
    let keys = group.expr().iter().map(|(key, _)| resolve(key)).collect::<Option<Vec<_>>>();
    let arguments = aggregate.aggr_expr().iter();
    let arguments = arguments.map(|call| resolve(call.expressions().first()?)).collect::<Option<Vec<_>>>();
    let (Some(keys), Some(arguments)) = (keys, arguments) else { return Ok(None) };
    for side in [JoinSide::Right, JoinSide::Left] {
        let split = Split { aggregate, join, side, keys: &keys, arguments: &arguments };
        let Some(states) = split.rewritten()? else { continue };
        let states = in_partitions_of(aggregate, states);
        if is_partial {
            return Ok(Some(states));
        }
        let finished = AggregateExec::try_new(
            AggregateMode::Final,
            group.as_final(),
            aggregate.aggr_expr().to_vec(),
            vec![None; aggregate.aggr_expr().len()],
            states,
            aggregate.input_schema(),
        )?;
        return Ok(Some(Arc::new(finished)));
    }
    Ok(None)
}

/// What only moves rows.
pub(super) const EXCHANGES: [&str; 4] =
    ["CooperativeExec", "CoalesceBatchesExec", "CoalescePartitionsExec", "RepartitionExec"];

/// Whoever gets rows from one place goes on to do so.
fn in_partitions_of(aggregate: &AggregateExec, states: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let is_one = aggregate.input().output_partitioning().partition_count() == 1;
    match states.output_partitioning().partition_count() {
        2.. if is_one => Arc::new(CoalescePartitionsExec::new(states)),
        _ => states,
    }
}

/// The join under an aggregation, and the projections between them, the uppermost first.
fn join_below(plan: &Arc<dyn ExecutionPlan>) -> Option<(&HashJoinExec, Vec<&ProjectionExec>)> {
    let (mut plan, mut above) = (plan, Vec::new());
    loop {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Some((join, above));
        }
        plan = match plan.downcast_ref::<ProjectionExec>() {
            Some(projection) => {
                above.push(projection);
                projection.input()
            }
            None => match (plan.name(), plan.children().as_slice()) {
                (name, [below]) if EXCHANGES.contains(&name) => below,
                _ => return None,
            },
        };
    }
}

/// An expression in terms of what is below a projection.
fn replaced(expr: &Expr, projection: &ProjectionExec) -> Option<Expr> {
    let source = Source::of(expr)?;
    match source.below(projection)? {
        Source::Column { index, keyed: false } => {
            let schema = projection.input().schema();
            Some(Arc::new(Column::new(schema.fields().get(index)?.name(), index)))
        }
        Source::Constant(value) => Some(Arc::new(Literal::new(value))),
        Source::Expression { expr, keyed: false } => Some(expr),
        Source::Column { .. } | Source::Expression { .. } => None,
    }
}

/// An aggregation over a join, whose rows of one side are to be folded.
struct Split<'a> {
    aggregate: &'a AggregateExec,
    join: &'a HashJoinExec,
    side: JoinSide,
    /// In terms of what the join gives.
    keys: &'a [Expr],
    arguments: &'a [Expr],
}

impl Split<'_> {
    fn input(&self, side: JoinSide) -> &Arc<dyn ExecutionPlan> {
        if side == JoinSide::Left { self.join.left() } else { self.join.right() }
    }

    /// Whether no row of the other side is in the result without one of this side.
    fn keeps_states(&self) -> bool {
        match self.join.join_type() {
            JoinType::Inner => true,
            JoinType::Left => self.side == JoinSide::Left,
            JoinType::Right => self.side == JoinSide::Right,
            _ => false,
        }
    }

    /// The side and the place of a column of the join's result.
    fn place(&self, index: usize) -> (JoinSide, usize) {
        let index = self.join.projection.as_ref().map_or(Some(index), |kept| kept.get(index).copied());
        let (index, left) = (index.unwrap_or(usize::MAX), self.join.left().schema().fields().len());
        if index < left { (JoinSide::Left, index) } else { (JoinSide::Right, index - left) }
    }

    /// An expression over columns of this side only, in terms of this side.
    fn own(&self, expr: &Expr) -> Option<Expr> {
        let schema = self.input(self.side).schema();
        let own = |index| {
            let (side, place) = self.place(index);
            let name = schema.fields().get(place).map_or("", |field| field.name());
            (side == self.side).then(|| Arc::new(Column::new(name, place)) as Expr)
        };
        with_columns(expr, own)
    }

    /// The states of the groups, in the order of the aggregation's own.
    fn rewritten(&self) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let is_plain = self.join.filter().is_none() && self.join.fetch().is_none() && !self.join.null_aware;
        if !self.keeps_states() || !is_plain {
            return Ok(None);
        }
        let arguments = self.arguments.iter().map(|argument| self.own(argument)).collect::<Option<Vec<_>>>();
        let (Some(arguments), Some(inner_keys)) = (arguments, self.inner_keys()) else { return Ok(None) };
        let calls = self.aggregate.aggr_expr().iter().zip(&arguments);
        let calls = calls.map(|(call, argument)| {
            call.with_new_expressions(vec![Arc::clone(argument)], vec![]).map(Arc::new)
        });
        let Some(calls) = calls.collect::<Option<Vec<Arc<AggregateFunctionExpr>>>>() else { return Ok(None) };
        let input = self.input(self.side);
        let schema = input.schema();
        let named = |place: &usize| {
            let name = schema.field(*place).name();
            (Arc::new(Column::new(name, *place)) as Expr, name.clone())
        };
        let inner = AggregateExec::try_new(
            AggregateMode::Partial,
            PhysicalGroupBy::new_single(inner_keys.iter().map(named).collect()),
            calls,
            vec![None; arguments.len()],
            Arc::clone(input),
            Arc::clone(&schema),
        )?;
        let below = below_exchange(input);
        let sources = inner_keys.iter().map(|place| Some(Source::Column { index: *place, keyed: false }));
        let sources = sources.chain(arguments.iter().map(Source::of)).collect::<Option<Vec<_>>>();
        let Some(sources) = sources else { return Ok(None) };
        let inner_schema = partial(&inner, &below)?.schema();
        let target = States { aggregate: &inner, keys: inner_keys.len(), schema: inner_schema };
        let Some(folded) = push(&below, &sources, &target)? else { return Ok(None) };
        self.joined(&inner_keys, folded).map(Some)
    }

    /// The columns of this side that the join and the groups need; `None` if a group is of something else.
    fn inner_keys(&self) -> Option<Vec<usize>> {
        let mut keys = Vec::new();
        let of_join = self.join.on().iter().map(|(left, right)| {
            let own = if self.side == JoinSide::Left { left } else { right };
            own.downcast_ref::<Column>().map(Column::index)
        });
        let of_groups = self.keys.iter().flat_map(collect_columns).map(|column| self.place(column.index()));
        let of_groups = of_groups.filter(|(side, _)| *side == self.side).map(|(_, place)| Some(place));
        for place in of_join.chain(of_groups) {
            let place = place?;
            if !keys.contains(&place) {
                keys.push(place);
            }
        }
        Some(keys)
    }

    /// The join of the states with the other side, and above it the columns as the aggregation gives them.
    fn joined(&self, inner_keys: &[usize], folded: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let of_key = |place: usize| inner_keys.iter().position(|key| *key == place).unwrap_or(usize::MAX);
        let folded_schema = folded.schema();
        let key = |place: usize| {
            let at = of_key(place);
            Arc::new(Column::new(folded_schema.field(at).name(), at)) as Expr
        };
        let on = self.join.on().iter().map(|(left, right)| {
            let moved = |expr: &Expr| {
                expr.downcast_ref::<Column>().map_or_else(|| Arc::clone(expr), |c| key(c.index()))
            };
            match self.side {
                JoinSide::Left => (moved(left), Arc::clone(right)),
                _ => (Arc::clone(left), moved(right)),
            }
        });
        let on: Vec<_> = on.collect();
        let own_on = on.iter().map(|(left, right)| if self.side == JoinSide::Left { left } else { right });
        let folded = exchanged_as(self.input(self.side), folded, own_on.cloned().collect())?;
        let (left, right) = match self.side {
            JoinSide::Left => (folded, Arc::clone(self.join.right())),
            _ => (Arc::clone(self.join.left()), folded),
        };
        let left_width = left.schema().fields().len();
        let join = HashJoinExec::try_new(
            left,
            right,
            on,
            None,
            self.join.join_type(),
            None,
            *self.join.partition_mode(),
            self.join.null_equality(),
            false,
        )?;
        let join: Arc<dyn ExecutionPlan> = Arc::new(join);
        let schema = join.schema();
        let first_own = if self.side == JoinSide::Left { 0 } else { left_width };
        let column = |place: usize| Arc::new(Column::new(schema.field(place).name(), place)) as Expr;
        let outer = |index| {
            let (side, place) = self.place(index);
            Some(column(match side {
                _ if side == self.side => first_own + of_key(place),
                JoinSide::Left => place,
                _ => left_width + place,
            }))
        };
        let wanted = partial(self.aggregate, self.aggregate.input())?.schema();
        let mut exprs = Vec::with_capacity(wanted.fields().len());
        for (i, key) in self.keys.iter().enumerate() {
            let key = with_columns(key, outer).unwrap_or_else(|| Arc::clone(key));
            exprs.push((key, wanted.field(i).name().clone()));
        }
        for i in 0..wanted.fields().len() - self.keys.len() {
            let name = wanted.field(self.keys.len() + i).name().clone();
            exprs.push((column(first_own + inner_keys.len() + i), name));
        }
        Ok(Arc::new(ProjectionExec::try_new(exprs, join)?))
    }
}

/// What is below the exchanges that bring the rows of a side to where they are joined.
fn below_exchange(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.children().as_slice() {
        [below] if EXCHANGES.contains(&plan.name()) => below_exchange(below),
        _ => Arc::clone(plan),
    }
}

/// The same exchanges for other rows, which are joined by these columns.
fn exchanged_as(
    before: &Arc<dyn ExecutionPlan>,
    plan: Arc<dyn ExecutionPlan>,
    on: Vec<Expr>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut found = before;
    loop {
        let exchange = found.downcast_ref::<RepartitionExec>().map(RepartitionExec::partitioning);
        if let Some(Partitioning::Hash(_, count)) = exchange {
            return Ok(Arc::new(RepartitionExec::try_new(plan, Partitioning::Hash(on, *count))?));
        }
        match (found.name(), found.children().as_slice()) {
            ("CoalescePartitionsExec", _) if plan.output_partitioning().partition_count() > 1 => {
                return Ok(Arc::new(CoalescePartitionsExec::new(plan)));
            }
            (name, [below]) if EXCHANGES.contains(&name) => found = below,
            _ => return Ok(plan),
        }
    }
}
