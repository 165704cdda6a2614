//! From a physical plan to a view's plan: front, aggregation, finish.
//!
//! ```text
//! before                                after
//! ProjectionExec: k, c + 1              ProjectionExec: k, c + 1      } finish: runs at each read
//!   FilterExec: c > 10   (HAVING)         FilterExec: c > 10
//!     AggregateExec: Final                  StateExec                 } the view's state
//!       AggregateExec: Partial                Aggregation
//!         FilterExec: x > 0                     Front: x > 0          } runs at each event
//!           StreamExec                            stream
//! ```

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::error::{Result, unsupported};
use crate::fold::Aggregation;
use crate::front::{Branch, Front};
use crate::join::set_apart;
use crate::stream::{StreamDefinition, StreamId};
use crate::view::exec::StateExec;
use crate::window::Window;

/// Everything that a view needs to run, and nothing that depends on its name.
#[derive(Debug)]
pub struct ViewPlan {
    pub front: Front,
    /// What is kept: with a window, that of the query apart for each pane.
    pub aggregation: Arc<Aggregation>,
    pub window: Option<Window>,
    /// The plan above the aggregate, over a [`StateExec`].
    pub finish: Arc<dyn ExecutionPlan>,
}

impl ViewPlan {
    /// A plain table: it keeps what is written to its stream, row by row.
    pub fn of_table(stream: &StreamDefinition) -> ViewPlan {
        let front = Front::of_columns(stream);
        let rows = front.branches.first().map_or_else(|| Arc::new(Schema::empty()), Branch::output_schema);
        let aggregation = Arc::new(Aggregation::of_rows(rows));
        let finish = Arc::new(StateExec::new(Arc::clone(&aggregation)));
        ViewPlan { front, aggregation, window: None, finish }
    }

    /// The streams that the view reads, each once.
    pub fn streams(&self) -> Vec<StreamId> {
        let mut streams: Vec<_> = self.front.branches.iter().map(|b| b.stream).collect();
        streams.sort();
        streams.dedup();
        streams
    }
}

/// Plans `query`, an analysed plan over [`crate::stream::StreamTable`]s, as a continuous view
/// of the events that arrived in `window`, or of all.
pub async fn compile(
    session: &SessionState,
    query: &LogicalPlan,
    window: Option<Window>,
) -> Result<ViewPlan> {
    let state = view_session(session);
    let optimized = set_apart(state.optimize(query)?)?;
    let physical = DefaultPhysicalPlanner::default().create_physical_plan(&optimized, &state).await?;
    let (front, aggregation, finish) = split(&physical)?;
    let Some(window) = window else { return Ok(ViewPlan { front, aggregation, window, finish }) };
    let front = front.with_window(window);
    let input = front.branches.first().map_or_else(|| Arc::new(Schema::empty()), Branch::output_schema);
    let aggregation = Arc::new(aggregation.with_panes(&input));
    Ok(ViewPlan { front, aggregation, window: Some(window), finish })
}

/// The session's functions and planners with only those rules that keep an aggregate in one piece:
/// `single_distinct_aggregation_to_group_by` splits `count(DISTINCT x)` into two aggregates whose states do not merge,
/// and the physical rules are there for sources that a view does not have.
pub(crate) fn view_session(session: &SessionState) -> SessionState {
    let rules = Optimizer::new()
        .rules
        .into_iter()
        .filter(|r| r.name() != "single_distinct_aggregation_to_group_by")
        .collect();
    let mut config = session.config().clone();
    config.options_mut().execution.target_partitions = 1;
    // A subquery's value is a row to join, as it may change.
    config.options_mut().optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    SessionStateBuilder::new_from_existing(session.clone())
        .with_config(config)
        .with_optimizer_rules(rules)
        .with_physical_optimizer_rules(vec![])
        .build()
}

type Parts = (Front, Arc<Aggregation>, Arc<dyn ExecutionPlan>);

fn split(plan: &Arc<dyn ExecutionPlan>) -> Result<Parts> {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return split_at_aggregate(aggregate);
    }
    if let Some(front) = Front::compile(plan) {
        let aggregation = Arc::new(Aggregation::of_rows(plan.schema()));
        let leaf = Arc::new(StateExec::new(Arc::clone(&aggregation)));
        return Ok((front, aggregation, leaf));
    }
    let children = plan.children();
    let [child] = children.as_slice() else {
        return Err(unsupported(format!(
            "a continuous view cannot have {} above its aggregates",
            plan.name().trim_end_matches("Exec").to_lowercase()
        )));
    };
    let (front, aggregation, below) = split(child)?;
    let finish = datafusion::physical_plan::replace_children_if_necessary(Arc::clone(plan), vec![below])?;
    Ok((front, aggregation, finish))
}

fn split_at_aggregate(aggregate: &AggregateExec) -> Result<Parts> {
    let output_schema = aggregate.schema();
    let raw = match aggregate.mode() {
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned => aggregate,
        _ => partial_below(aggregate.input())
            .ok_or_else(|| unsupported("a continuous view cannot have this kind of aggregate"))?,
    };
    if raw.group_expr().has_grouping_set() {
        return Err(unsupported("a continuous view cannot have GROUPING SETS, ROLLUP or CUBE yet"));
    }
    if contains_aggregate(raw.input()) {
        return Err(unsupported("a continuous view cannot aggregate the result of another aggregate")
            .with_hint("Make the inner query a continuous view and read it with the outer query."));
    }
    let keys = raw.group_expr().expr().iter().map(|(e, _)| Arc::clone(e)).collect();
    let aggregation = Arc::new(Aggregation::try_new(
        keys,
        raw.aggr_expr(),
        raw.filter_expr(),
        raw.input_schema().as_ref(),
        output_schema,
    )?);
    let front = Front::try_compile(raw.input())?;
    let leaf = Arc::new(StateExec::new(Arc::clone(&aggregation)));
    Ok((front, aggregation, leaf))
}

/// The Partial aggregate under a Final one, past repartitioning and coalescing.
fn partial_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return matches!(aggregate.mode(), AggregateMode::Partial).then_some(aggregate);
    }
    match plan.children().as_slice() {
        [child] => partial_below(child),
        _ => None,
    }
}

fn contains_aggregate(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<AggregateExec>() || plan.children().into_iter().any(contains_aggregate)
}
