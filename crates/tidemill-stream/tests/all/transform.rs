//! Transforms: a view over what they write equals the batch query over what they select, with restarts and crashes; and
//! what can't be transformed is refused whole.

use std::sync::Arc;

use proptest::prelude::*;
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::{Level, Options, Part};
use tidemill_stream::stream::StreamId;
use tokio::runtime::Handle;

use crate::equivalence::{KeyFilter, Step, batch, in_memory, key_filter, on_disk, query, run, step};
use crate::scenario::first_count;
use crate::support::{Harness, OUTPUTS, Plans};

const A: StreamId = OUTPUTS[0].1;
const B: StreamId = OUTPUTS[1].1;
/// What transforms select of a stream.
const SELECTIONS: [&str; 6] = [
    "SELECT k, t, x, y FROM {}",
    "SELECT k + 1 AS k, t || 'c' AS t, x, y FROM {} WHERE x > 0",
    "SELECT k % 3 AS k, upper(t) AS t, -x AS x, y * 2 AS y FROM {} WHERE t LIKE 'a%' OR k IS NULL",
    "SELECT k, t, x, y FROM {} WHERE x > 100 UNION ALL SELECT k, t, x * 2, y FROM {} WHERE y > 0",
    "SELECT k, t, max AS x, y FROM (SELECT *, greatest(x, k) AS max FROM {} WHERE k > 3) q",
    "SELECT NULL::int AS k, t, x, y FROM {} WHERE x > 2000",
];

/// A transform from `s` to `a`, perhaps one from `s` to both, and one from `a` to `b`; and what the outputs are.
fn transforms() -> impl Strategy<Value = (Vec<(String, Vec<StreamId>)>, [String; 2])> {
    let selection = || prop::sample::select(SELECTIONS.to_vec());
    (selection(), prop::option::of(selection()), selection()).prop_map(|(first, both, last)| {
        let of = |selection: &str, stream: &str| selection.replace("{}", stream);
        let mut transforms = vec![(of(first, "s"), vec![A])];
        let (mut a, mut b) = (of(first, "s"), of(last, "a"));
        if let Some(both) = both {
            transforms.push((of(both, "s"), vec![B, A]));
            a = format!("{a} UNION ALL {}", of(both, "s"));
            b = format!("{b} UNION ALL {}", of(both, "s"));
        }
        transforms.push((of(last, "a"), vec![B]));
        (transforms, [a, b])
    })
}

/// The order of a union is nobody's.
fn ordered(query: &str) -> String {
    query
        .replace("array_agg(x)", "array_agg(x ORDER BY x)")
        .replace("json_agg(k)", "json_agg(k ORDER BY k)")
        .replace("jsonb_object_agg(k, x)", "max(x)")
}

/// Views over `s`, over the outputs, and over all of them.
fn queries() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec((query(), prop::sample::select(vec!["s", "a", "b"])), 2..5).prop_map(|queries| {
        let over = |(query, stream): (String, &str)| ordered(&query).replace("FROM s", &format!("FROM {stream}"));
        let mut queries: Vec<_> = queries.into_iter().map(over).collect();
        queries.push("SELECT k, t, x FROM b WHERE x > 10".into());
        queries.push(
            "SELECT k, count(*) FROM (SELECT k FROM s UNION ALL SELECT k FROM a UNION ALL SELECT k FROM b) q GROUP BY k"
                .into(),
        );
        queries
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_view_of_an_output_equals_its_batch_query(
        (transforms, [a, b]) in transforms(),
        queries in queries(),
        steps in prop::collection::vec((step(), key_filter()), 1..12),
        small in any::<bool>(),
    ) {
        crate::scenario::run(async move {
            let plans = Plans::compile(&queries).await.with_transforms(&transforms).await;
            run(plans.where_outputs_are(&[("a", a), ("b", b)]), steps, small).await;
        });
    }
}

async fn start(options: Options) -> Arc<Harness> {
    let queries = ["SELECT count(*) FROM s", "SELECT count(*) FROM a", "SELECT count(*) FROM b"];
    let transforms =
        [("SELECT k, t, 100 / x, y FROM s".to_string(), vec![A]), ("SELECT * FROM a".into(), vec![B])];
    let plans = Plans::compile(&queries.map(String::from)).await.with_transforms(&transforms).await;
    Arc::new(Harness::start(Arc::new(SimDisk::new()), options, &plans).unwrap())
}

async fn counts(harness: &Harness) -> [i64; 3] {
    let mut counts = [0; 3];
    for (view, count) in counts.iter_mut().enumerate() {
        *count = first_count(&harness.read(view).await);
    }
    counts
}

fn rows(x: &[i64]) -> Vec<(Option<i32>, Option<String>, Option<i64>, Option<i16>)> {
    x.iter().map(|x| (Some(1), None, Some(*x), None)).collect()
}

/// Of a group of writes, only the one that can't be transformed.
#[test]
fn an_error_in_a_transform_refuses_the_write_and_no_other() {
    crate::scenario::run(async {
        for options in [in_memory(), Options { runtime: Some(Handle::current()), ..on_disk() }] {
            let harness = start(options).await;
            let mut writes = Vec::new();
            for i in 0..60 {
                let harness = Arc::clone(&harness);
                writes.push(tokio::spawn(async move {
                    let numbers = if i % 6 == 0 { vec![5, 0] } else { vec![5, 7] };
                    harness.insert(batch(&rows(&numbers)), Level::SyncReceive).await.is_ok()
                }));
            }
            let mut taken = 0;
            for write in writes {
                taken += i64::from(write.await.unwrap());
            }
            assert_eq!(taken, 50);
            assert_eq!(counts(&harness).await, [100, 100, 100]);
            let mut set = harness.engine.begin(true);
            set.add(harness.stream.id, None, &batch(&rows(&[3]))).unwrap();
            set.add(harness.stream.id, None, &batch(&rows(&[0]))).unwrap_err();
            drop(set);
            assert_eq!(counts(&harness).await, [100, 100, 100]);
        }
    });
}

/// Targets are about the stream that is written to; what a transform writes is for all.
#[test]
fn targets_and_inactive_transforms() {
    crate::scenario::run(async {
        let harness = start(in_memory()).await;
        let write = async |targets: Option<Vec<_>>| {
            let targets: Option<Arc<[_]>> = targets.map(Into::into);
            let part = Part::Events { stream: harness.stream.id, targets, batch: batch(&rows(&[1])) };
            harness.engine.write(vec![part], Level::SyncReceive).await.unwrap();
        };
        write(Some(vec![Plans::id(0)])).await;
        assert_eq!(counts(&harness).await, [1, 0, 0]);
        write(Some(vec![Plans::transform_id(0)])).await;
        assert_eq!(counts(&harness).await, [1, 1, 1]);
        harness.engine.set_active(Plans::transform_id(1), false);
        write(None).await;
        assert_eq!(counts(&harness).await, [2, 2, 1]);
        harness.engine.set_active(Plans::transform_id(1), true);
        // A write that goes on has the readers that there were at its first event.
        let mut set = harness.engine.begin(false);
        set.add(harness.stream.id, None, &batch(&rows(&[1]))).unwrap();
        harness.engine.remove_transform(Plans::transform_id(0));
        set.add(harness.stream.id, None, &batch(&rows(&[1]))).unwrap();
        assert_eq!(set.outputs(), [A, B]);
        set.commit(Level::SyncCommit).await.unwrap();
        assert_eq!(counts(&harness).await, [4, 4, 3]);
        write(None).await;
        assert_eq!(counts(&harness).await, [5, 4, 3]);
    });
}

/// Spilled, published and merged as the writer's own views are.
#[test]
fn the_order_of_outputs_survives_a_crash() {
    let every = || (vec!["t"], "WHERE t IS NULL".to_string());
    let rows = |from: i64, to: i64| rows(&(from..to).collect::<Vec<_>>());
    let steps: [(Step, KeyFilter); 4] = [
        Step::Insert(rows(1, 4), Level::SyncCommit),
        Step::WriteSet(vec![rows(4, 9), rows(9, 11)], true),
        Step::Insert(rows(11, 13), Level::SyncCommit),
        Step::Crash(1),
    ]
    .map(|step| (step, every()));
    let selection = "SELECT k, t, x + 5 AS x, y FROM s".to_string();
    crate::scenario::run(async move {
        let plans = Plans::compile(&["SELECT t, json_agg(x) FROM a GROUP BY t".to_string()]).await;
        let plans = plans.with_transforms(&[(selection.clone(), vec![A])]).await;
        run(plans.where_outputs_are(&[("a", selection)]), steps.to_vec(), true).await;
    });
}
