//! One query over the same batches, answered by a view's fold and by DataFusion's batch aggregation.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch};
use arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use tidemill_sql::planner;
use tidemill_sql::types::{Scalar, Type};
use tidemill_stream::fold::Fold;
use tidemill_stream::join::JoinedRows;
use tidemill_stream::stream::{StreamDefinition, StreamId, StreamTable};
use tidemill_stream::view::{self, ViewPlan};
use tokio::runtime::Runtime;

pub const ROWS: usize = 10_000_000;
/// DataFusion's own.
const BATCH_ROWS: usize = 8192;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Tidemill,
    DataFusion,
}

impl Side {
    pub const BOTH: [Side; 2] = [Side::Tidemill, Side::DataFusion];

    pub fn name(self) -> &'static str {
        match self {
            Side::Tidemill => "tidemill",
            Side::DataFusion => "datafusion",
        }
    }
}

pub struct Case {
    batches: Vec<RecordBatch>,
    view: ViewPlan,
    context: SessionContext,
    batch_plan: Arc<dyn ExecutionPlan>,
    runtime: Runtime,
}

impl Case {
    pub fn new(groups: usize) -> Case {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let query = match groups {
            1 => "SELECT count(*), sum(i), avg(x) FROM s",
            _ => "SELECT k, count(*), sum(i), avg(x) FROM s GROUP BY k",
        };
        let batches = batches(groups);
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        let table = MemTable::try_new(batches[0].schema(), vec![batches.clone()]).unwrap();
        context.register_table("s", Arc::new(table)).unwrap();
        let batch_plan = runtime
            .block_on(async { context.sql(query).await.unwrap().create_physical_plan().await.unwrap() });
        let view = runtime.block_on(view_plan(query));
        Case { batches, view, context, batch_plan, runtime }
    }

    /// From the batches to the rows of the answer.
    pub fn answer(&self, side: Side) -> Vec<RecordBatch> {
        match side {
            Side::Tidemill => vec![self.fold()],
            Side::DataFusion => {
                let work = collect(Arc::clone(&self.batch_plan), self.context.task_ctx());
                self.runtime.block_on(work).unwrap()
            }
        }
    }

    /// As the engine folds what comes in, freezes it and finishes it for a reader.
    fn fold(&self) -> RecordBatch {
        let (aggregation, front) = (&self.view.aggregation, &self.view.front);
        let mut fold = Fold::new(aggregation).unwrap();
        for batch in &self.batches {
            for branch in &front.branches {
                let input =
                    aggregation.evaluate(&branch.run(batch, &JoinedRows::default()).unwrap()).unwrap();
                fold.update(aggregation, &input).unwrap();
            }
        }
        aggregation.finish_unique(&fold.freeze(aggregation).unwrap()).unwrap()
    }

    /// Both sides give the same rows.
    pub fn check(&self) {
        let [ours, theirs] = Side::BOTH.map(|side| sorted(&self.answer(side)));
        assert_eq!(ours.columns(), theirs.columns(), "the answers differ");
    }
}

fn sorted(batches: &[RecordBatch]) -> RecordBatch {
    let rows = concat_batches(&batches[0].schema(), batches).unwrap();
    let order = sort_to_indices(rows.column(0), None, None).unwrap();
    take_record_batch(&rows, &order).unwrap()
}

async fn view_plan(query: &str) -> ViewPlan {
    let context = SessionContext::new_with_state(planner::session_state_builder().build());
    context.register_table("s", Arc::new(StreamTable::new(&stream()))).unwrap();
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, query).unwrap().remove(0);
    let state = context.state();
    planner::prepare(&mut statement, &state).unwrap();
    let plan = state.statement_to_plan(Statement::Statement(Box::new(statement))).await.unwrap();
    view::compile(&state, &plan, None).await.unwrap()
}

fn stream() -> StreamDefinition {
    let column = |name: &str, scalar| (name.to_string(), Type::new(scalar));
    let columns = vec![column("k", Scalar::Int4), column("i", Scalar::Int4), column("x", Scalar::Float8)];
    StreamDefinition { id: StreamId(1), name: "s".into(), columns }
}

/// Keys in scattered order.
fn batches(groups: usize) -> Vec<RecordBatch> {
    let schema = stream().event_schema();
    let mut state = 0u64;
    // The generator of Knuth's MMIX; its high bits are good.
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 32
    };
    let mut batch = |rows: usize| {
        let keys: Int32Array = (0..rows).map(|_| Some((random() % groups as u64) as i32)).collect();
        let integers: Int32Array = (0..rows).map(|_| Some(random() as i32 % 1000)).collect();
        // Multiples of a quarter add up exactly in any order.
        let floats: Float64Array = (0..rows).map(|_| Some((random() % 4000) as f64 / 4.0)).collect();
        let columns: [ArrayRef; 3] = [Arc::new(keys), Arc::new(integers), Arc::new(floats)];
        let columns = std::iter::once(None).chain(columns.into_iter().map(Some)).collect();
        StreamDefinition::event_batch(&schema, columns, rows, 0).unwrap()
    };
    (0..ROWS).step_by(BATCH_ROWS).map(|first| batch(BATCH_ROWS.min(ROWS - first))).collect()
}
