//! States that go from one view to another of the same columns, or that come in the place of others: nothing is lost or doubled,
//! whatever comes in between.

use std::sync::Arc;

use proptest::prelude::*;
use tidemill_stream::disk::Disk;
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::{Level, Part};
use tidemill_stream::view::ViewId;

use crate::equivalence::{Row, batch, in_memory, on_disk, row};
use crate::support::{Harness, Plans, printed};

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<Row>),
    /// Events of a write set that began before the state goes over, and is committed after it.
    Overtaken(Vec<Row>),
    HandOver,
    /// Events in the place of all that the view has.
    Replace(Vec<Row>),
    Clear,
    Restart,
    Crash(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let rows = || prop::collection::vec(row(), 0..40);
    prop_oneof![
        6 => rows().prop_map(Step::Insert),
        1 => prop::collection::vec(row(), 300..500).prop_map(Step::Insert),
        1 => rows().prop_map(Step::Overtaken),
        4 => Just(Step::HandOver),
        1 => rows().prop_map(Step::Replace),
        1 => prop::collection::vec(row(), 300..500).prop_map(Step::Replace),
        2 => Just(Step::Clear),
        1 => Just(Step::Restart),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

/// The first view reads the stream; the second one gets what it is handed.
const SOURCE: usize = 0;
const TAKER: usize = 1;

async fn run(query: &str, steps: Vec<Step>, small: bool) {
    let options = if small { on_disk() } else { in_memory() };
    let queries = [query.to_string(), query.to_string()];
    let only_source: Arc<[ViewId]> = [Plans::id(SOURCE)].into();
    let mut disk = Arc::new(SimDisk::new());
    let mut harness = Harness::open(disk.clone() as Arc<dyn Disk>, options.clone(), &queries).await;
    let (mut waiting, mut taken) = (vec![batch(&[])], vec![batch(&[])]);
    for (i, step) in steps.into_iter().enumerate() {
        match step {
            Step::Insert(rows) => {
                waiting.push(batch(&rows));
                let targets = Some(Arc::clone(&only_source));
                let part = Part::Events { stream: harness.stream.id, targets, batch: batch(&rows) };
                harness.engine.write(vec![part], Level::SyncCommit).await.unwrap();
            }
            Step::Overtaken(rows) => {
                let mut set = harness.engine.begin(true);
                set.add(harness.stream.id, Some(&only_source), &batch(&rows)).unwrap();
                harness.engine.hand_over(Plans::id(SOURCE), Plans::id(TAKER)).await.unwrap();
                taken.append(&mut waiting);
                waiting = vec![batch(&[]), batch(&rows)];
                set.commit(Level::SyncCommit).await.unwrap();
            }
            Step::HandOver => {
                harness.engine.hand_over(Plans::id(SOURCE), Plans::id(TAKER)).await.unwrap();
                taken.append(&mut waiting);
                waiting = vec![batch(&[])];
            }
            Step::Replace(rows) => {
                let mut set = harness.engine.begin(false);
                set.replace(Plans::id(SOURCE));
                for part in rows.chunks(100) {
                    set.add(harness.stream.id, Some(&only_source), &batch(part)).unwrap();
                }
                set.commit(Level::SyncCommit).await.unwrap();
                waiting = vec![batch(&[]), batch(&rows)];
            }
            Step::Clear => {
                harness.engine.truncate(Plans::id(TAKER)).await.unwrap();
                taken = vec![batch(&[])];
            }
            restart => {
                match restart {
                    Step::Crash(seed) => disk = Arc::new(disk.crash(seed)),
                    _ => harness.engine.shutdown(),
                }
                harness = Harness::open(disk.clone() as Arc<dyn Disk>, options.clone(), &queries).await;
            }
        }
        for (view, events) in [(SOURCE, &waiting), (TAKER, &taken)] {
            let ours = printed(&harness.read(view).await);
            let theirs = printed(&harness.batch_query(view, events).await);
            assert_eq!(ours, theirs, "after step {i}: view {view} of {query}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_handed_over_is_there_once(
        query in prop::sample::select(vec![
            "SELECT k, t, x FROM s",
            "SELECT k, count(*), sum(x), max(t) FROM s GROUP BY k",
            "SELECT count(*), sum(x) FROM s",
        ]),
        steps in prop::collection::vec(step(), 1..16),
        small in any::<bool>(),
    ) {
        crate::scenario::run(run(query, steps, small));
    }
}
