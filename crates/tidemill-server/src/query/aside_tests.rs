use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::catalog::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Volatility, create_udf};
use datafusion::prelude::{SessionConfig, SessionContext};
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};

use super::{Aside, ROWS_MAX};

/// A context of a table `t (x)` of several partitions, with a function `here(x)` that notes which runtime computes it.
fn context(rows: usize, seen: &Arc<Mutex<HashSet<Id>>>) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(4);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let state = builder.with_physical_optimizer_rule(Arc::new(Aside::default())).build();
    let context = SessionContext::new_with_state(state);
    let column: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|x| x * 7919 % 10_007)));
    let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
    let part = |i: usize| vec![batch.slice(i * rows / 4, rows / 4)];
    let table = MemTable::try_new(batch.schema(), (0..4).map(part).collect()).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    let seen = Arc::clone(seen);
    let note = move |args: &[datafusion::logical_expr::ColumnarValue]| {
        seen.lock().insert(Handle::current().id());
        Ok(args[0].clone())
    };
    let types = vec![DataType::Int64];
    context.register_udf(create_udf("here", types, DataType::Int64, Volatility::Volatile, Arc::new(note)));
    context
}

/// Where `here` was computed: by the runtime of the sessions, by another one.
async fn places(rows: usize, sql: &str) -> (bool, bool) {
    let seen = Arc::default();
    let found = context(rows, &seen).sql(sql).await.unwrap().collect().await.unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
    let (seen, sessions) = (seen.lock(), Handle::current().id());
    (seen.contains(&sessions), seen.iter().any(|id| *id != sessions))
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_below_a_large_sort_run_on_threads_of_queries() {
    assert_eq!(places(8 * ROWS_MAX, "SELECT here(x) AS h FROM t ORDER BY h").await, (false, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_sort_runs_where_its_session_does() {
    assert_eq!(places(ROWS_MAX / 2, "SELECT here(x) AS h FROM t ORDER BY h").await, (true, false));
}
