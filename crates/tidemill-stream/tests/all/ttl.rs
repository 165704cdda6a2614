//! Time to live: at any time a view equals the batch query over what has not expired, and what has goes away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use proptest::prelude::*;
use tidemill_stream::clock::{Clock, ManualClock};
use tidemill_stream::disk::Disk;
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::{Level, Options};
use tidemill_stream::ttl::TimeToLive;

use crate::equivalence::{Row, batch, batch_at, row};
use crate::support::{Harness, Plans, everything, printed};

/// Each shows the time of a group or a row as its first column.
const QUERIES: [&str; 4] = [
    "SELECT arrival_timestamp, count(*), sum(x) FROM s GROUP BY arrival_timestamp",
    "SELECT arrival_timestamp, k, min(t) FROM s GROUP BY k, arrival_timestamp HAVING count(*) > 1",
    "SELECT arrival_timestamp, t, x * 2 FROM s WHERE x > 0",
    "SELECT DISTINCT arrival_timestamp, t FROM s",
];
const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
enum Step {
    /// Events, and how long ago they were.
    Insert(Vec<Row>, i64),
    Advance(i64),
    Restart,
    Crash(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (prop::collection::vec(row(), 1..60), 0..4_000_000i64).prop_map(|(rows, ago)| Step::Insert(rows, ago)),
        4 => (0..2_000_000i64).prop_map(Step::Advance),
        1 => Just(Step::Restart),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

fn start(disk: &Arc<SimDisk>, options: &Options, plans: &Plans, us: i64) -> Harness {
    let harness = Harness::start(Arc::clone(disk) as Arc<dyn Disk>, options.clone(), plans).unwrap();
    for view in 0..QUERIES.len() {
        let view = harness.view(view);
        let table = tidemill_stream::view::ViewTable::new(Arc::clone(view), view.plan.finish.schema());
        let column = table.given(0).expect("the time is a column of the groups");
        view.set_time_to_live(Some(TimeToLive { column, us }));
    }
    harness
}

async fn run(us: i64, memory_bytes: usize, steps: Vec<Step>) {
    let plans = Plans::compile(&QUERIES.map(String::from)).await;
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let options = Options {
        checkpoint_log_bytes: 2048,
        segment_bytes: 4096,
        memory_bytes,
        inline_bytes: memory_bytes,
        reserve_bytes: 0,
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..Options::default()
    };
    let mut disk = Arc::new(SimDisk::new());
    let mut harness = start(&disk, &options, &plans, us);
    let mut events: Vec<(i64, RecordBatch)> = Vec::new();
    for step in steps {
        match &step {
            Step::Insert(rows, ago_us) => {
                let at_us = clock.now_us() - ago_us;
                events.push((at_us, batch_at(rows, at_us)));
                harness.insert(batch_at(rows, at_us), Level::SyncCommit).await.unwrap();
            }
            Step::Advance(us) => clock.advance(*us),
            Step::Restart => {
                drop(harness);
                harness = start(&disk, &options, &plans, us);
            }
            Step::Crash(seed) => {
                disk = Arc::new(disk.crash(*seed));
                harness = start(&disk, &options, &plans, us);
            }
        }
        let alive = events.iter().filter(|(at_us, _)| *at_us >= clock.now_us() - us);
        let alive: Vec<_> = std::iter::once(batch(&[])).chain(alive.map(|(_, b)| b.clone())).collect();
        for (view, query) in QUERIES.iter().enumerate() {
            let ours = printed(&harness.read(view).await);
            let theirs = printed(&plans.batch_query(view, &alive, "").await);
            assert_eq!(ours, theirs, "after {step:?}: {query}");
        }
    }
    // All of it is gone: at once if somebody asks, otherwise after a while.
    clock.advance(us + 120_000_000);
    let asked = harness.view(0).id;
    harness.engine.expire(asked).await.unwrap();
    assert_eq!(harness.view(0).size().0, 0);
    assert_eq!(harness.engine.expire(asked).await.unwrap(), 0);
    let started = Instant::now();
    while (0..QUERIES.len()).any(|view| harness.view(view).size().0 > 0) {
        assert!(started.elapsed() < DEADLINE, "what has expired is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if everything() { 200 } else { 8 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_view_equals_the_batch_query_over_what_is_alive(
        us in 1_000_000..5_000_000i64,
        memory_bytes in prop::sample::select(vec![0usize, 20_000, 1 << 20]),
        steps in prop::collection::vec(step(), 1..20),
    ) {
        tokio::runtime::Runtime::new().unwrap().block_on(run(us, memory_bytes, steps));
    }
}
