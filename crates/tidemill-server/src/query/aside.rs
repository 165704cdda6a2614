//! What may compute for long without a pause has a thread of its own, and ends when nobody wants its rows any more.
//!
//! A nested loop, a sort, or a join with a further condition looks for rows until it has a batch of them, in one poll: the
//! session would neither see its time limit nor a cancel meanwhile, and its thread would serve nobody else. What is below
//! it starts tasks of its own, each of which may be one long poll as well: these run on threads that no session waits for
//! ([`QueryThreads`]). The rule comes after all others.
//!
//! ```text
//! AggregateExec                  AggregateExec
//!   NestedLoopJoinExec     =>      AsideExec
//!     left                           NestedLoopJoinExec, whose filter fails once nobody reads
//!     right                            left
//!                                      right
//! ```

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{EvaluationType, replace_children_if_necessary};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use futures::StreamExt;
use tidemill_sql::planner::{Pass, PassExec};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::threads::QueryThreads;

/// Pairs of rows that a join may compare, and rows that may be sorted, on the session's thread: some milliseconds.
const PAIRS_MAX: usize = 200_000;
const ROWS_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub struct Aside {
    threads: Arc<QueryThreads>,
}

impl Aside {
    /// The plan with what takes long aside, or as a part of what is already.
    fn plan(&self, plan: Arc<dyn ExecutionPlan>, outer: Option<&Readers>) -> Result<Arc<dyn ExecutionPlan>> {
        let own = (outer.is_none() && takes_long(&plan)).then(Readers::default);
        let readers = own.as_ref().or(outer);
        // The rows below are asked for by tasks of their own.
        let below = readers.filter(|_| plan.properties().evaluation_type == EvaluationType::Lazy);
        let children = plan.children().into_iter().map(|child| self.plan(Arc::clone(child), below));
        let children = children.collect::<Result<Vec<_>>>()?;
        let plan = replace_children_if_necessary(plan, children)?;
        let plan = readers.map_or_else(|| Ok(Arc::clone(&plan)), |readers| interruptible(&plan, readers))?;
        Ok(match own {
            Some(readers) => {
                let aside = OnThreads { readers, threads: Arc::clone(&self.threads) };
                Arc::new(PassExec::try_new(plan, aside)?)
            }
            // It has many batches for one of its input, and what is above may ask for all of them at once.
            None if plan.is::<HashJoinExec>() && readers.is_none() => Arc::new(CooperativeExec::new(plan)),
            None => plan,
        })
    }
}

impl PhysicalOptimizerRule for Aside {
    fn name(&self) -> &str {
        "aside"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.plan(plan, None)
    }
}

fn takes_long(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let rows = |plan: &Arc<dyn ExecutionPlan>| {
        let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
        statistics.ok().and_then(|statistics| statistics.num_rows.get_value().copied()).unwrap_or(usize::MAX)
    };
    let pairs = || plan.children().into_iter().map(rows).fold(1, usize::saturating_mul);
    if plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>() {
        return pairs() > PAIRS_MAX;
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return join.filter().is_some() && pairs() > PAIRS_MAX;
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return sort.fetch().is_none() && rows(sort.input()) > ROWS_MAX;
    }
    plan.is::<WindowAggExec>() && plan.children().into_iter().all(|child| rows(child) > ROWS_MAX)
}

/// A join whose condition fails once nobody reads.
fn interruptible(plan: &Arc<dyn ExecutionPlan>, readers: &Readers) -> Result<Arc<dyn ExecutionPlan>> {
    let filter = |filter: &JoinFilter| {
        let expr = Interruptible { expr: Arc::clone(filter.expression()), readers: readers.clone() };
        let columns = filter.column_indices().to_vec();
        Some(JoinFilter::new(Arc::new(expr), columns, Arc::clone(filter.schema())))
    };
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(found) = join.filter()
    {
        return Ok(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter(found)).build()?));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && let Some(found) = join.filter()
    {
        return join.builder().with_filter(filter(found)).build_exec();
    }
    Ok(Arc::clone(plan))
}

/// How many streams of a node are read.
#[derive(Debug, Clone, Default)]
struct Readers(Arc<AtomicUsize>);

impl Readers {
    fn start(&self) -> (Reader, Gone) {
        self.0.fetch_add(1, Ordering::AcqRel);
        let (here, gone) = oneshot::channel();
        (Reader { readers: self.clone(), _here: here }, gone)
    }

    fn are_gone(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

/// As long as a stream is read.
struct Reader {
    readers: Readers,
    _here: oneshot::Sender<()>,
}

/// Comes when the reader goes.
type Gone = oneshot::Receiver<()>;

impl Drop for Reader {
    fn drop(&mut self) {
        self.readers.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Debug, Clone)]
struct OnThreads {
    readers: Readers,
    threads: Arc<QueryThreads>,
}

impl Pass for OnThreads {
    const NAME: &'static str = "AsideExec";

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let threads = Arc::clone(&self.threads);
        let handle = threads.handle().map_err(DataFusionError::IoError)?;
        let rows = {
            // Tasks that are spawned meanwhile run there.
            let _tasks = handle.enter();
            input.execute(partition, context)?
        };
        let (reader, gone) = self.readers.start();
        let batches = futures::stream::unfold(Some((rows, gone)), move |rows| {
            // It goes with the stream, whichever thread the rows are with then.
            let _here = (&reader, &threads);
            next(rows, handle.clone())
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), batches)))
    }
}

type Input = (SendableRecordBatchStream, Gone);

/// The next batch, which a thread of the pool computes: it is taken for no longer than that.
async fn next(input: Option<Input>, threads: Handle) -> Option<(Result<RecordBatch>, Option<Input>)> {
    let (mut rows, mut gone) = input?;
    let computed = SpawnedTask::spawn_blocking(move || {
        let batch = threads.block_on(async {
            tokio::select! {
                biased;
                _ = &mut gone => None,
                batch = rows.next() => batch,
            }
        });
        batch.map(|batch| (batch, Some((rows, gone))))
    });
    match computed.join().await {
        Ok(next) => next,
        Err(error) => Some((Err(DataFusionError::External(Box::new(error))), None)),
    }
}

/// A condition that is an error once nobody reads.
#[derive(Debug, Clone)]
pub struct Interruptible {
    expr: Arc<dyn PhysicalExpr>,
    readers: Readers,
}

impl Interruptible {
    pub fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }
}

impl PartialEq for Interruptible {
    fn eq(&self, other: &Self) -> bool {
        self.expr.eq(&other.expr)
    }
}

impl Eq for Interruptible {}

impl Hash for Interruptible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
    }
}

impl fmt::Display for Interruptible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl PhysicalExpr for Interruptible {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.expr.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.expr.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.readers.are_gone() {
            return Err(DataFusionError::Execution("the rows of a join are not wanted any more".into()));
        }
        self.expr.evaluate(batch)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.expr.return_field(schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.expr]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(match children.pop() {
            Some(expr) => Arc::new(Self { expr, readers: self.readers.clone() }),
            None => self,
        })
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt_sql(f)
    }
}

#[cfg(test)]
#[path = "aside_tests.rs"]
mod tests;
