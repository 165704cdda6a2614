//! After any prefix of events a view equals the batch query over those events: with random schemas of batches,
//! checkpoints, restarts and crashes in between.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;
use tidemill_stream::disk::Disk;
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::{Level, Options};
use tidemill_stream::stream::StreamDefinition;
use tokio::runtime::Handle;

use crate::support::{Harness, Plans, stream};

pub type Row = (Option<i32>, Option<String>, Option<i64>, Option<i16>);

pub fn batch(rows: &[Row]) -> RecordBatch {
    batch_at(rows, 0)
}

pub fn batch_at(rows: &[Row], arrival_us: i64) -> RecordBatch {
    let columns: Vec<Option<ArrayRef>> = vec![
        None,
        Some(Arc::new(rows.iter().map(|r| r.0).collect::<Int32Array>())),
        Some(Arc::new(rows.iter().map(|r| r.1.clone()).collect::<StringArray>())),
        Some(Arc::new(rows.iter().map(|r| r.2).collect::<Int64Array>())),
        // Multiples of a quarter add up exactly in any order.
        Some(Arc::new(rows.iter().map(|r| r.3.map(|v| f64::from(v) / 4.0)).collect::<Float64Array>())),
    ];
    StreamDefinition::event_batch(&stream().event_schema(), columns, rows.len(), arrival_us).unwrap()
}

pub fn row() -> impl Strategy<Value = Row> {
    (
        prop::option::weighted(0.9, -3..40i32),
        prop::option::weighted(0.9, "[a-c]{0,2}"),
        prop::option::weighted(0.9, -1000..1000i64),
        prop::option::weighted(0.9, any::<i16>()),
    )
}

#[derive(Debug, Clone)]
pub enum Step {
    Insert(Vec<Row>, Level),
    /// A write set, committed or abandoned; readers see it while it runs.
    WriteSet(Vec<Vec<Row>>, bool),
    Flush,
    Restart,
    Crash(u64),
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::SyncCommit), Just(Level::SyncReceive)]
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (prop::collection::vec(row(), 0..40), level()).prop_map(|(rows, level)| Step::Insert(rows, level)),
        1 => (prop::collection::vec(row(), 300..400), level()).prop_map(|(rows, level)| Step::Insert(rows, level)),
        2 => (prop::collection::vec(prop::collection::vec(row(), 0..30), 1..4), any::<bool>())
            .prop_map(|(batches, commit)| Step::WriteSet(batches, commit)),
        1 => Just(Step::Flush),
        1 => Just(Step::Restart),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

const AGGREGATES: [&str; 28] = [
    "count(*)",
    "count(x)",
    "sum(x)",
    "avg(y)",
    "min(x)",
    "max(y)",
    "min(t)",
    "max(t)",
    "bool_or(x > 500)",
    "sum(x) FILTER (WHERE y > 0)",
    "count(DISTINCT t)",
    "sum(x + k)",
    "avg(x)",
    "stddev(x)",
    "var_pop(k) FILTER (WHERE t <> 'a')",
    "bit_xor(k)",
    "every(y > 0)",
    "array_agg(x)",
    "array_agg(DISTINCT t ORDER BY t DESC)",
    "string_agg(t, ',' ORDER BY x, t)",
    "json_agg(k)",
    "jsonb_object_agg(k, x) FILTER (WHERE k IS NOT NULL)",
    "sum(DISTINCT k)",
    "avg(y::numeric(10, 3))",
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY y)",
    "percentile_disc(ARRAY[0.1, 0.9]) WITHIN GROUP (ORDER BY x DESC)",
    "mode() WITHIN GROUP (ORDER BY t) FILTER (WHERE k > 2)",
    "cume_dist(5, 'b') WITHIN GROUP (ORDER BY k, t DESC)",
];
const KEYS: [&str; 6] = ["", "k", "t", "k, t", "k % 3", "x / 100, t"];
const FILTERS: [&str; 4] = ["", "WHERE x > 0", "WHERE t LIKE 'a%' OR k IS NULL", "WHERE y < 100 AND k > 3"];

pub fn query() -> impl Strategy<Value = String> {
    let aggregates = prop::sample::subsequence(AGGREGATES.to_vec(), 1..5);
    let keys = prop::sample::select(KEYS.to_vec());
    let filters = prop::sample::select(FILTERS.to_vec());
    let having = prop::sample::select(vec!["", "HAVING count(*) > 2"]);
    (aggregates, keys, filters, having).prop_map(|(aggregates, keys, filter, having)| {
        let select = aggregates.join(", ");
        match keys {
            "" => format!("SELECT {select} FROM s {filter} {having}"),
            _ => format!("SELECT {keys}, {select} FROM s {filter} GROUP BY {keys} {having}"),
        }
    })
}

/// Queries of more than one layer. Where they cut rows off, their order leaves no choice.
const SHAPES: [&str; 12] = [
    "SELECT DISTINCT ON (t) t, k, x, y FROM s ORDER BY t, x DESC, k, y",
    "SELECT DISTINCT ON (k % 3) k, t FROM s ORDER BY k % 3, t NULLS FIRST, k",
    "SELECT k, sum(x), max(t) FROM (SELECT * FROM s WHERE y > 0) q WHERE x > 0 GROUP BY k",
    "WITH w AS (SELECT k, x * 2 AS z FROM s WHERE x > 100) SELECT k % 3 AS r, count(*), max(z) FROM w GROUP BY r",
    "SELECT k, count(*) FROM (SELECT k FROM s UNION ALL SELECT x::int FROM s WHERE t = 'a') q GROUP BY k",
    "SELECT k, count(*) AS c FROM s GROUP BY k ORDER BY c DESC, k LIMIT 3",
    "SELECT t, min(x) FROM s GROUP BY t ORDER BY t OFFSET 2",
    "SELECT k, t, x, y FROM s ORDER BY k, t, x, y LIMIT 5",
    "SELECT k, x FROM s UNION ALL SELECT k, -x FROM s WHERE x > 0",
    "SELECT k FROM s UNION SELECT x::int FROM s",
    "SELECT k, t, x, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM s WHERE y > 0",
    "SELECT k, sum(c) OVER (ORDER BY k) FROM (SELECT k, count(*) AS c FROM s GROUP BY k) q",
];

fn queries() -> impl Strategy<Value = Vec<String>> {
    let shapes = prop::sample::subsequence(SHAPES.to_vec(), 1..3);
    (prop::collection::vec(query(), 1..4), shapes).prop_map(|(mut queries, shapes)| {
        queries.extend(shapes.into_iter().map(String::from));
        queries.push("SELECT k, t, x * 2 FROM s WHERE x > 10".into());
        queries.push("SELECT DISTINCT t FROM s".into());
        queries
    })
}

/// Columns of a filter, and the filter.
pub type KeyFilter = (Vec<&'static str>, String);

pub fn in_memory() -> Options {
    Options {
        checkpoint_log_bytes: 2048,
        segment_bytes: 4096,
        reserve_bytes: 0,
        publish_delay: Duration::ZERO,
        ..Options::default()
    }
}

/// Everything goes to runs as soon as it can, and hardly anything is cached.
pub fn on_disk() -> Options {
    Options { checkpoint_log_bytes: 512, memory_bytes: 0, inline_bytes: 0, cache_bytes: 4096, ..in_memory() }
}

/// Looked up by key, by the beginning of the key, or filtered.
pub fn key_filter() -> impl Strategy<Value = KeyFilter> {
    let number = || -4..41i32;
    prop_oneof![
        number().prop_map(|k| (vec!["k"], format!("WHERE k = {k}"))),
        prop::collection::vec(number(), 1..6).prop_map(|k| {
            let list: Vec<_> = k.iter().map(i32::to_string).collect();
            (vec!["k"], format!("WHERE k IN ({})", list.join(", ")))
        }),
        "[a-c]{0,2}".prop_map(|t| (vec!["t"], format!("WHERE t = '{t}'"))),
        (number(), "[a-c]{0,2}", number())
            .prop_map(|(k, t, l)| { (vec!["k", "t"], format!("WHERE (k = {k} OR k = {l}) AND t = '{t}'")) }),
        number().prop_map(|k| (vec!["k"], format!("WHERE k > {k} OR k IS NULL"))),
        (number(), number())
            .prop_map(|(k, l)| (vec!["k"], format!("WHERE k BETWEEN {k} AND {l} AND k <> 5"))),
        "[a-c]{0,2}".prop_map(|t| (vec!["k", "t"], format!("WHERE t <> '{t}' AND k IS NOT NULL"))),
    ]
}

/// Every step is checked against the batch query over what was acknowledged so far.
pub async fn run(plans: Plans, steps: Vec<(Step, KeyFilter)>, small: bool) {
    let options = match small {
        true => on_disk(),
        // Sessions lead the commits.
        false => Options { runtime: Some(Handle::current()), ..in_memory() },
    };
    let mut disk = Arc::new(SimDisk::new());
    let mut harness = Harness::start(disk.clone() as Arc<dyn Disk>, options.clone(), &plans).unwrap();
    let mut events: Vec<RecordBatch> = vec![batch(&[])];
    let mut durable = events.len();
    for (i, (step, (columns, filter))) in steps.into_iter().enumerate() {
        match step {
            Step::Insert(rows, level) => {
                events.push(batch(&rows));
                harness.insert(batch(&rows), level).await.unwrap();
                if level == Level::SyncCommit && !rows.is_empty() {
                    durable = events.len();
                }
            }
            Step::WriteSet(batches, commit) => {
                let before = events.len();
                let mut set = harness.engine.begin(true);
                for rows in &batches {
                    events.push(batch(rows));
                    set.add(harness.stream.id, None, &batch(rows)).unwrap();
                    harness.assert_equal(&events, "a running write").await;
                }
                if commit {
                    set.commit(Level::SyncCommit).await.unwrap();
                    durable = events.len();
                } else {
                    drop(set);
                    events.truncate(before);
                }
            }
            Step::Flush => {
                harness.engine.flush().await.unwrap();
                durable = events.len();
            }
            Step::Restart => {
                harness.engine.shutdown();
                harness = Harness::start(disk.clone() as Arc<dyn Disk>, options.clone(), &plans).unwrap();
                durable = events.len();
            }
            Step::Crash(seed) => {
                // The lazy sync may or may not have come: make what was acknowledged early durable first, so that
                // what must be there is known exactly.
                harness.engine.flush().await.unwrap();
                disk = Arc::new(disk.crash(seed));
                harness = Harness::start(disk.clone() as Arc<dyn Disk>, options.clone(), &plans).unwrap();
                durable = events.len();
            }
        }
        let note = format!("after step {i}, {durable} durable");
        harness.assert_equal(&events, &note).await;
        harness.assert_equal_where(&events, &columns, &filter, &note).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_view_equals_its_batch_query(
        queries in queries(),
        steps in prop::collection::vec((step(), key_filter()), 1..16),
        small in any::<bool>(),
    ) {
        crate::scenario::run(async move { run(Plans::compile(&queries).await, steps, small).await });
    }
}

/// Spilled states are younger than what was in memory when they were committed, at the next start too.
#[test]
fn the_order_of_writes_survives_a_crash() {
    let rows = |from: i32, to: i32| (from..to).map(|k| (Some(k), None, None, None)).collect::<Vec<Row>>();
    let every = || (vec!["t"], "WHERE t IS NULL".to_string());
    let steps = [
        Step::Insert(rows(0, 3), Level::SyncCommit),
        Step::WriteSet(vec![rows(3, 8), rows(8, 10)], true),
        Step::Insert(rows(10, 12), Level::SyncCommit),
        Step::Crash(1),
        Step::Restart,
    ];
    let queries = vec!["SELECT t, json_agg(k) FROM s GROUP BY t".to_string()];
    let steps = steps.map(|step| (step, every())).to_vec();
    crate::scenario::run(async move { run(Plans::compile(&queries).await, steps, true).await });
}
