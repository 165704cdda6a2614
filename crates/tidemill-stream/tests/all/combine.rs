//! States of groups that are combined: what the aggregates are over the events of all of them, whether states are in memory,
//! on disk or in panes, and whether they come as columns or as bytes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::logical_expr::{Expr, ExprSchemable, col};
use datafusion::prelude::SessionContext;
use proptest::prelude::*;
use tidemill_sql::aggregate::combine::{Combination, merged};
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::Level;
use tidemill_stream::view::{ViewTable, state_views};

use crate::equivalence::{Row, batch, in_memory, on_disk, row};
use crate::support::{Harness, Plans, context, printed};

/// Those that don't show the order of events.
const AGGREGATES: [&str; 18] = [
    "count(*)",
    "count(x)",
    "sum(x)",
    "avg(y)",
    "min(t)",
    "max(y)",
    "sum(x) FILTER (WHERE y > 0)",
    "count(DISTINCT t)",
    "avg(x)",
    "stddev(x)",
    "bit_xor(k)",
    "every(y > 0)",
    "array_agg(DISTINCT t ORDER BY t DESC)",
    "string_agg(t, ',' ORDER BY t)",
    "avg(y::numeric(10, 3))",
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY y)",
    "percentile_disc(ARRAY[0.1, 0.9]) WITHIN GROUP (ORDER BY x DESC)",
    "rank(5) WITHIN GROUP (ORDER BY k)",
];

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<Row>),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => prop::collection::vec(row(), 0..60).prop_map(Step::Insert),
        1 => Just(Step::Restart),
    ]
}

/// What a view of `k`, `t` and aggregates shows combined by the columns `by`, which equals the batch query over the events.
pub async fn assert_combined(
    harness: &Harness,
    view: usize,
    aggregates: &[&str],
    by: &[&str],
    events: &[RecordBatch],
) {
    let named = aggregates.iter().enumerate().map(|(i, aggregate)| format!("{aggregate} AS v{i}"));
    let select: Vec<_> = by.iter().map(ToString::to_string).chain(named).collect();
    let group = if by.is_empty() { String::new() } else { format!("GROUP BY {}", by.join(", ")) };
    let query = format!("SELECT {} FROM s {group}", select.join(", "));
    let wanted = printed(&Plans::compile(&[query]).await.batch_query(0, events, "").await);
    for is_encoded in [false, true] {
        let ours = printed(&combined(harness, view, by, is_encoded).await);
        assert_eq!(ours, wanted, "{aggregates:?} by {by:?}, as bytes: {is_encoded}");
    }
}

async fn combined(harness: &Harness, view: usize, by: &[&str], is_encoded: bool) -> Vec<RecordBatch> {
    let view = harness.view(view);
    let shown = view.plan.finish.schema();
    let mut table = ViewTable::new(Arc::clone(view), Arc::clone(&shown));
    let mut forms = Vec::new();
    for place in 0..shown.fields().len() {
        if let Some((with_state, form)) = table.with_state(place).unwrap() {
            table = with_state;
            forms.push((place, form));
        }
    }
    let context: SessionContext = context();
    context.register_table("v", Arc::new(table)).unwrap();
    let rows = context.table("v").await.unwrap();
    let schema = rows.schema().clone();
    let width = shown.fields().len();
    let keys = by.iter().map(|key| col(*key));
    let column = |place: usize| Expr::Column(schema.columns()[place].clone());
    let states = forms.iter().enumerate().map(|(i, (_, form))| {
        let states = column(width + i);
        if is_encoded { form.encoding().call(vec![states]) } else { states }.alias(format!("state {i}"))
    });
    let rows = rows.select(keys.clone().chain(states).collect::<Vec<_>>()).unwrap();
    let calls = forms.iter().enumerate().map(|(i, (place, form))| {
        let (_, returns) = column(*place).to_field(&schema).unwrap();
        let state = Expr::Column(datafusion::common::Column::new_unqualified(format!("state {i}")));
        merged(form, is_encoded, Combination::Value, &returns).call(vec![state]).alias(format!("v{i}"))
    });
    let plan = rows.aggregate(keys.collect(), calls.collect()).unwrap().create_physical_plan().await.unwrap();
    let snapshot = harness.engine.snapshot(&state_views(&plan)).unwrap();
    let mut state = context.state();
    let config = state.config().clone().with_extension(Arc::new(snapshot));
    *state.config_mut() = config;
    datafusion::physical_plan::collect(plan, state.task_ctx()).await.unwrap()
}

async fn run(aggregates: Vec<&str>, steps: Vec<Step>, small: bool) {
    let options = if small { on_disk() } else { in_memory() };
    let disk = Arc::new(SimDisk::new());
    let query = format!("SELECT k, t, {} FROM s GROUP BY k, t", aggregates.join(", "));
    let ungrouped = format!("SELECT {} FROM s", aggregates.join(", "));
    let queries = [query, ungrouped];
    let mut harness = Harness::open(disk.clone() as _, options.clone(), &queries).await;
    let mut events = vec![batch(&[])];
    for step in steps {
        match step {
            Step::Insert(rows) => {
                events.push(batch(&rows));
                harness.insert(batch(&rows), Level::SyncCommit).await.unwrap();
            }
            Step::Restart => {
                harness.engine.shutdown();
                harness = Harness::open(disk.clone() as _, options.clone(), &queries).await;
            }
        }
        for by in [&[][..], &["t"], &["k", "t"]] {
            assert_combined(&harness, 0, &aggregates, by, &events).await;
        }
        assert_combined(&harness, 1, &aggregates, &[], &events).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn combined_groups_are_the_aggregate_over_their_events(
        aggregates in prop::sample::subsequence(AGGREGATES.to_vec(), 1..5),
        steps in prop::collection::vec(step(), 1..8),
        small in any::<bool>(),
    ) {
        crate::scenario::run(run(aggregates, steps, small));
    }
}
