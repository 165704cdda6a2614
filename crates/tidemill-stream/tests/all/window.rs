//! Sliding windows: at any time a view equals the batch query over the events of the panes that reach into it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use proptest::prelude::*;
use tidemill_stream::clock::{Clock, ManualClock};
use tidemill_stream::disk::Disk;
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::{Level, Options};
use tidemill_stream::window::Window;

use crate::combine::assert_combined;
use crate::equivalence::{Row, batch, batch_at, row};
use crate::support::{Harness, Plans, everything, printed};

const QUERIES: [&str; 6] = [
    "SELECT count(*), sum(x), min(t) FROM s",
    "SELECT k, count(*), avg(y), count(DISTINCT t) FROM s GROUP BY k",
    "SELECT k, t, sum(x) FILTER (WHERE y > 0) FROM s WHERE x > -500 GROUP BY k, t HAVING count(*) > 1",
    "SELECT t, x * 2, k FROM s WHERE x > 0",
    "SELECT DISTINCT t FROM s",
    "SELECT k, t, count(*), avg(x), count(DISTINCT t) FROM s GROUP BY k, t",
];
/// The last of the queries' aggregates.
const COMBINED: [&str; 3] = ["count(*)", "avg(x)", "count(DISTINCT t)"];

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<Row>),
    Advance(i64),
    Restart,
    Crash(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(row(), 1..60).prop_map(Step::Insert),
        4 => (0..400i64).prop_map(Step::Advance),
        1 => (400..3000i64).prop_map(Step::Advance),
        1 => Just(Step::Restart),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

/// Arrival times and batches, and what the definition of a window says about them.
struct Oracle {
    span_us: i64,
    pane_us: i64,
    events: Vec<(i64, RecordBatch)>,
}

impl Oracle {
    fn in_window(&self, now_us: i64) -> Vec<RecordBatch> {
        let end_of_pane = |us: i64| (us.div_euclid(self.pane_us) + 1) * self.pane_us;
        let counts = self.events.iter().filter(|(us, _)| end_of_pane(*us) > now_us - self.span_us);
        std::iter::once(batch(&[])).chain(counts.map(|(_, b)| b.clone())).collect()
    }
}

async fn run(span_us: i64, percent: u8, memory_bytes: usize, steps: Vec<Step>) {
    let window = Window::new(span_us, percent);
    let plans = Plans::compile_windowed(&QUERIES.map(String::from), Some(window)).await;
    let clock = Arc::new(ManualClock::at(1_000_000));
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
    let start = |disk: &Arc<SimDisk>| {
        Harness::start(Arc::clone(disk) as Arc<dyn Disk>, options.clone(), &plans).unwrap()
    };
    let mut harness = start(&disk);
    let pane_us = (span_us * i64::from(percent) / 100).max(1);
    let mut oracle = Oracle { span_us, pane_us, events: Vec::new() };
    for step in steps {
        match &step {
            Step::Insert(rows) => {
                let events = batch_at(rows, clock.now_us());
                harness.insert(events.clone(), Level::SyncCommit).await.unwrap();
                oracle.events.push((clock.now_us(), events));
            }
            Step::Advance(us) => clock.advance(*us),
            Step::Restart => {
                drop(harness);
                harness = start(&disk);
            }
            Step::Crash(seed) => {
                let after = Arc::new(disk.crash(*seed));
                disk = after;
                harness = start(&disk);
            }
        }
        let events = oracle.in_window(clock.now_us());
        for (view, query) in QUERIES.iter().enumerate() {
            let ours = printed(&harness.read(view).await);
            let theirs = printed(&plans.batch_query(view, &events, "").await);
            assert_eq!(ours, theirs, "after {step:?}: {query}");
        }
        assert_combined(&harness, QUERIES.len() - 1, &COMBINED, &["t"], &events).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if everything() { 200 } else { 8 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_window_equals_the_batch_query_over_its_panes(
        span_us in 1..2000i64,
        percent in 1..=50u8,
        memory_bytes in prop::sample::select(vec![1usize, 20_000, 1 << 20]),
        steps in prop::collection::vec(step(), 1..25),
    ) {
        tokio::runtime::Runtime::new().unwrap().block_on(run(span_us, percent, memory_bytes, steps));
    }
}
