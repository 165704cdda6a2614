//! Events that are joined with rows of a table which changes: a view has what its events joined when they came, whatever
//! became of the table, of the server, and of the events beside them.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use proptest::prelude::*;
use tidemill_stream::clock::{Clock, SystemClock};
use tidemill_stream::disk::Disk;
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::{Level, Options};
use tidemill_stream::stream::StreamTable;
use tidemill_stream::view::{self, View};
use tidemill_stream::window::Window;

use crate::equivalence::{Row, batch_at, in_memory, on_disk, row};
use crate::support::{Harness, Plans, context, plan, printed, stream};

/// What is selected of events and rows: `k`, `x` and `n`.
const JOINS: [&str; 17] = [
    "SELECT s.k, s.x, d.n FROM s JOIN d ON s.k = d.k",
    "SELECT s.k, s.x, d.n FROM s LEFT JOIN d ON s.k = d.k AND d.n > s.x",
    "SELECT d.k, s.x, d.n FROM d RIGHT JOIN s ON s.k = d.k",
    "SELECT s.k, s.x, d.n FROM s JOIN d ON s.k IS NOT DISTINCT FROM d.k",
    "SELECT s.k, s.x, d.n FROM s JOIN d ON s.k = d.k AND s.t = d.t WHERE d.n > 10",
    "SELECT s.k, s.x, d.n FROM s JOIN d ON s.k % 5 = d.k % 5 WHERE s.x > 0",
    "SELECT s.k, s.x, d.n FROM s, d WHERE s.x > d.n AND s.t = 'a'",
    "SELECT k, x, 1::bigint AS n FROM s WHERE k IN (SELECT k FROM d)",
    "SELECT k, x, 1::bigint AS n FROM s WHERE k NOT IN (SELECT k FROM d WHERE n > 0)",
    "SELECT k, x, 1::bigint AS n FROM s WHERE NOT EXISTS (SELECT FROM d WHERE d.k = s.k AND d.n > s.x)",
    "SELECT k, x, 1::bigint AS n FROM s WHERE k IN (SELECT k FROM d) OR x > 500",
    "SELECT s.k, s.x, d.n FROM s JOIN (SELECT k, max(n) AS n FROM d GROUP BY k) d USING (k)",
    "SELECT s.k, s.x, m AS n FROM s, (SELECT max(n) AS m FROM d) d",
    "SELECT k, x, (SELECT min(n) FROM d) AS n FROM s",
    "SELECT s.k, s.x, e.n FROM s JOIN d ON s.k = d.k LEFT JOIN d e ON e.k = d.n % 7",
    "SELECT u.k, u.x, d.n FROM (SELECT k, x FROM s UNION ALL SELECT x::int, k FROM s WHERE x > 0) u JOIN d USING (k)",
    "SELECT s.k, s.x, count AS n FROM s LEFT JOIN (SELECT t, count(*) FROM d GROUP BY t) d USING (t)",
];
const OVER: [&str; 3] = [
    "SELECT n, count(*), sum(x), max(k) FROM j GROUP BY n",
    "SELECT count(*), count(DISTINCT k), sum(n) FROM j",
    "SELECT k, x + n AS m FROM j WHERE x IS NOT NULL",
];

type TableRow = (Option<i32>, Option<String>, Option<i64>);

fn table_row() -> impl Strategy<Value = TableRow> {
    (
        prop::option::weighted(0.9, -3..12i32),
        prop::option::weighted(0.9, "[a-c]{0,1}"),
        prop::option::weighted(0.9, -100..100i64),
    )
}

fn table_schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        field("k", DataType::Int32),
        field("t", DataType::Utf8),
        field("n", DataType::Int64),
    ]))
}

fn table_batch(rows: &[TableRow]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.0).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|r| r.1.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|r| r.2).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(table_schema(), columns).unwrap()
}

/// A table somewhere else.
#[derive(Debug, Clone, Default)]
struct Table(Arc<Mutex<Vec<TableRow>>>);

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        table_schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = table_batch(&self.0.lock());
        MemTable::try_new(table_schema(), vec![vec![rows]])?.scan(session, projection, filters, limit).await
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<Row>),
    /// A write set, committed or abandoned; readers see it while it runs.
    WriteSet(Vec<Vec<Row>>, bool),
    Change(Vec<TableRow>),
    Restart,
    Crash(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let rows = || prop::collection::vec(row(), 0..30);
    prop_oneof![
        5 => rows().prop_map(Step::Insert),
        2 => (prop::collection::vec(rows(), 1..4), any::<bool>())
            .prop_map(|(batches, commit)| Step::WriteSet(batches, commit)),
        3 => prop::collection::vec(table_row(), 0..20).prop_map(Step::Change),
        1 => Just(Step::Restart),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

struct Joined {
    table: Table,
    joins: Vec<&'static str>,
    over: &'static str,
    window: Option<Window>,
    memory: Arc<dyn MemoryPool>,
}

impl Joined {
    async fn plans(&self) -> Plans {
        let mut plans = Vec::new();
        for join in &self.joins {
            let context = context();
            context.register_table("s", Arc::new(StreamTable::new(&stream()))).unwrap();
            context.register_table("d", Arc::new(self.table.clone())).unwrap();
            let query = self.over.replace("FROM j", &format!("FROM ({join}) j"));
            let plan = plan(&context, &query).await.unwrap();
            let view = view::compile(&context.state(), &plan, self.window).await;
            plans.push((query.clone(), Arc::new(view.unwrap_or_else(|error| panic!("{query}: {error}")))));
        }
        Plans(plans, vec![])
    }

    /// As a server does before it writes events.
    async fn load(&self, views: &[Arc<View>]) {
        for join in views.iter().flat_map(|view| view.joins().all()) {
            let rows = context().execute_logical_plan(join.joined.plan.clone()).await.unwrap();
            let batches = rows.collect().await.unwrap();
            let memory = MemoryConsumer::new("joined rows").register(&self.memory);
            join.set(join.load(&batches, vec![], Instant::now(), memory).unwrap());
        }
    }

    /// The rows that some events make with the table as it is now, for each view.
    async fn rows(&self, events: &[RecordBatch]) -> Vec<Vec<RecordBatch>> {
        let mut rows = Vec::new();
        for join in &self.joins {
            let context = context();
            let table = MemTable::try_new(stream().event_schema(), vec![events.to_vec()]).unwrap();
            context.register_table("s", Arc::new(table)).unwrap();
            context.register_table("d", Arc::new(self.table.clone())).unwrap();
            let plan = plan(&context, join).await.unwrap();
            rows.push(context.execute_logical_plan(plan).await.unwrap().collect().await.unwrap());
        }
        rows
    }

    async fn assert_equal(&self, harness: &Harness, wanted: &[Vec<RecordBatch>], note: &str) {
        for (i, rows) in wanted.iter().enumerate() {
            let context = context();
            let schema = Arc::new(Schema::new(vec![
                Field::new("k", DataType::Int32, true),
                Field::new("x", DataType::Int64, true),
                Field::new("n", DataType::Int64, true),
            ]));
            let cast = |batch: &RecordBatch| {
                RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()).unwrap()
            };
            let table =
                MemTable::try_new(Arc::clone(&schema), vec![rows.iter().map(cast).collect()]).unwrap();
            context.register_table("j", Arc::new(table)).unwrap();
            let plan = plan(&context, self.over).await.unwrap();
            let theirs = context.execute_logical_plan(plan).await.unwrap().collect().await.unwrap();
            let ours = harness.read(i).await;
            assert_eq!(printed(&ours), printed(&theirs), "{note}: {} over {}", self.over, self.joins[i]);
        }
    }
}

async fn run(joined: Joined, steps: Vec<Step>, options: Options) {
    let now_us = SystemClock.now_us();
    let batch = |rows: &[Row]| batch_at(rows, now_us);
    let mut disk = Arc::new(SimDisk::new());
    let mut harness =
        Harness::start(disk.clone() as Arc<dyn Disk>, options.clone(), &joined.plans().await).unwrap();
    joined.load(harness.views()).await;
    // What the events so far have joined, of each view.
    let mut wanted = joined.rows(&[batch(&[])]).await;
    for (i, step) in steps.into_iter().enumerate() {
        match step {
            Step::Insert(rows) => {
                for (all, new) in wanted.iter_mut().zip(joined.rows(&[batch(&rows)]).await) {
                    all.extend(new);
                }
                harness.insert(batch(&rows), Level::SyncCommit).await.unwrap();
            }
            Step::WriteSet(batches, commit) => {
                let before = wanted.clone();
                let mut set = harness.engine.begin(true);
                for rows in &batches {
                    for (all, new) in wanted.iter_mut().zip(joined.rows(&[batch(rows)]).await) {
                        all.extend(new);
                    }
                    set.add(harness.stream.id, None, &batch(rows)).unwrap();
                    joined.assert_equal(&harness, &wanted, "a running write").await;
                }
                if commit {
                    set.commit(Level::SyncCommit).await.unwrap();
                } else {
                    drop(set);
                    wanted = before;
                }
            }
            Step::Change(rows) => {
                *joined.table.0.lock() = rows;
                joined.load(harness.views()).await;
            }
            restart => {
                // The replay must not look at the table.
                let rows = std::mem::replace(&mut *joined.table.0.lock(), vec![(Some(1), None, Some(1)); 3]);
                match restart {
                    Step::Crash(seed) => disk = Arc::new(disk.crash(seed)),
                    _ => harness.engine.shutdown(),
                }
                let plans = joined.plans().await;
                harness = Harness::start(disk.clone() as Arc<dyn Disk>, options.clone(), &plans).unwrap();
                *joined.table.0.lock() = rows;
                joined.assert_equal(&harness, &wanted, "before anything is read").await;
                joined.load(harness.views()).await;
            }
        }
        joined.assert_equal(&harness, &wanted, &format!("after step {i}")).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn events_join_what_a_table_holds_when_they_come(
        joins in prop::sample::subsequence(JOINS.to_vec(), 1..6),
        over in prop::sample::select(OVER.to_vec()),
        rows in prop::collection::vec(table_row(), 0..20),
        steps in prop::collection::vec(step(), 1..10),
        is_windowed in any::<bool>(),
        small in any::<bool>(),
    ) {
        let joined = Joined {
            table: Table(Arc::new(Mutex::new(rows))),
            joins,
            over,
            window: is_windowed.then(|| Window::new(86_400_000_000, 5)),
            memory: Arc::new(GreedyMemoryPool::new(64 << 20)),
        };
        crate::scenario::run(run(joined, steps, if small { on_disk() } else { in_memory() }));
    }
}

/// Every kind once, so that a change of the planner can't hide behind the choice of the others.
#[test]
fn every_kind_of_join_is_one() {
    let rows = |from: i32| {
        (from..from + 9).map(|i| (Some(i), Some("a".to_string()), Some(i64::from(i) * 100), None))
    };
    for over in OVER {
        let joined = Joined {
            table: Table(Arc::new(Mutex::new(vec![
                (Some(1), Some("a".into()), Some(3)),
                (Some(1), Some("b".into()), Some(-30)),
                (Some(4), None, Some(90)),
                (None, Some("a".into()), None),
            ]))),
            joins: JOINS.to_vec(),
            over,
            window: None,
            memory: Arc::new(GreedyMemoryPool::new(64 << 20)),
        };
        let steps = vec![
            Step::Insert(rows(0).collect()),
            Step::Change(vec![(Some(2), Some("a".into()), Some(15))]),
            Step::Insert(rows(1).collect()),
            Step::Change(vec![]),
            Step::Insert(rows(2).collect()),
            Step::Restart,
        ];
        crate::scenario::run(run(joined, steps, in_memory()));
    }
}

async fn harness_of(join: &'static str, rows: Vec<TableRow>, memory_bytes: usize) -> (Joined, Harness) {
    let joined = Joined {
        table: Table(Arc::new(Mutex::new(rows))),
        joins: vec![join],
        over: OVER[1],
        window: None,
        memory: Arc::new(GreedyMemoryPool::new(memory_bytes)),
    };
    let plans = joined.plans().await;
    (joined, Harness::start(Arc::new(SimDisk::new()), in_memory(), &plans).unwrap())
}

#[test]
fn what_would_become_too_many_rows_is_refused() {
    crate::scenario::run(async {
        let many = (0..2_500).map(|i| (Some(1), None, Some(i))).collect();
        let (joined, harness) = harness_of(JOINS[0], many, 64 << 20).await;
        joined.load(harness.views()).await;
        let rows: Vec<Row> = (0..2_000).map(|i| (Some(1), None, Some(i), None)).collect();
        let error = harness.insert(batch_at(&rows, 0), Level::SyncCommit).await.unwrap_err();
        assert_eq!(error.to_string().split(" joins ").next(), Some("External error: a batch of 2000 events"));
        assert!(error.to_string().contains("joins more than 4000000 rows"), "{error}");
        harness.insert(batch_at(&rows[..10], 0), Level::SyncCommit).await.unwrap();
        assert!(printed(&harness.read(0).await)[0].contains("25000"));
    });
}

#[test]
fn pairs_without_a_key_are_not_looked_at_without_end() {
    crate::scenario::run(async {
        let many = (0..10_000).map(|i| (Some(1), None, Some(i))).collect();
        let join = "SELECT s.k, s.x, d.n FROM s JOIN d ON s.x > d.n + 20000";
        let (joined, harness) = harness_of(join, many, 64 << 20).await;
        joined.load(harness.views()).await;
        let rows: Vec<Row> = (0..2_001).map(|i| (Some(1), None, Some(i), None)).collect();
        let error = harness.insert(batch_at(&rows, 0), Level::SyncCommit).await.unwrap_err();
        assert!(error.to_string().contains("more than 20000000 pairs"), "{error}");
    });
}

#[test]
fn rows_that_do_not_fit_are_an_error_and_those_before_stay() {
    crate::scenario::run(async {
        let (joined, harness) = harness_of(JOINS[0], vec![(Some(1), None, Some(7))], 100_000).await;
        joined.load(harness.views()).await;
        let join = &harness.views()[0].joins().all()[0];
        let many: Vec<TableRow> = (0..100_000).map(|i| (Some(1), None, Some(i))).collect();
        let memory = MemoryConsumer::new("joined rows").register(&joined.memory);
        let batch = table_batch(&many).project(&[0, 2]).unwrap();
        let schema = Arc::clone(join.joined.plan.schema().inner());
        let batch = RecordBatch::try_new(schema, batch.columns().to_vec()).unwrap();
        assert!(join.load(&[batch], vec![], Instant::now(), memory).is_err());
        assert_eq!(join.loaded().unwrap().row_count(), 1);
        assert!(joined.memory.reserved() < 100_000);
    });
}

#[test]
fn events_are_refused_until_the_rows_were_read() {
    crate::scenario::run(async {
        let (joined, harness) = harness_of(JOINS[0], vec![(Some(1), None, Some(7))], 1 << 20).await;
        let rows: Vec<Row> = vec![(Some(1), None, Some(5), None)];
        let error = harness.insert(batch_at(&rows, 0), Level::SyncCommit).await.unwrap_err();
        assert!(error.to_string().contains("became active"), "{error}");
        joined.load(harness.views()).await;
        harness.insert(batch_at(&rows, 0), Level::SyncCommit).await.unwrap();
    });
}
