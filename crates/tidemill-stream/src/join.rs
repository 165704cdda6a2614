//! Joins of events with rows that are no events: of tables, foreign tables, and whatever a query makes of them.
//!
//! ```text
//! before                                  after
//! Join: s.sensor = t.id                   Join: s.sensor = t.id
//!   Filter: s.v > 0                         Filter: s.v > 0
//!     TableScan: s                            TableScan: s
//!   Projection: t.id, upper(t.name)         TableScan: joined           <- the query beside the stream is apart
//!     TableScan: t
//! ```
//!
//! That query is carried out like any other, by whoever is about to write events; its rows are kept in memory, by the
//! columns of the join, until the tables have changed. So folding an event waits for nobody and can't fail because of a
//! server, and a replay needs no tables: the log has the deltas of what the events joined when they came.

mod rows;
mod step;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::{Mutex, RwLock};

use crate::front::{Front, Step};
use crate::join::rows::Rows;
use crate::leaf::{Leaf, Source};
use crate::stream::as_stream;
use crate::view::{ViewId, as_view};

pub use step::{JoinStep, Kind, Side};

/// The query beside the stream.
#[derive(Debug)]
pub struct Joined {
    pub plan: LogicalPlan,
    /// The relations that it reads, as it names them.
    pub relations: Vec<String>,
    /// Those of them whose states are here.
    pub views: Vec<ViewId>,
    /// It reads something else: nobody tells when that changes.
    pub reads_elsewhere: bool,
}

impl Joined {
    fn new(plan: LogicalPlan) -> Result<Self> {
        let (mut relations, mut views, mut reads_elsewhere) = (vec![], vec![], false);
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                relations.push(scan.table_name.table().to_string());
                match as_view(source_as_provider(&scan.source)?.as_ref()) {
                    Some(view) => views.push(view.view().id),
                    None => reads_elsewhere = true,
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self { plan, relations, views, reads_elsewhere })
    }
}

/// A join: the query beside the stream, how its rows meet events, and the rows as they were last read.
#[derive(Debug)]
pub struct Join {
    pub joined: Arc<Joined>,
    pub kind: Kind,
    /// What is done with the rows before they are joined.
    prepare: Vec<Step>,
    /// Over the events, and over the rows, in the same order; without any, every row is looked at for every event.
    keys: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    /// What else must hold, over some columns of both.
    condition: Option<Condition>,
    nulls_are_equal: bool,
    /// `NOT IN`: a null among the rows is perhaps equal.
    is_null_aware: bool,
    loaded: RwLock<Option<Arc<Loaded>>>,
    /// They could not be read, and until then nobody tries again.
    postponed: Mutex<Option<Instant>>,
    /// Held by who reads the rows.
    pub loading: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Condition {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<Side>,
    schema: SchemaRef,
}

/// The rows that events are joined with.
#[derive(Debug)]
pub struct Loaded {
    rows: Rows,
    /// The states that were read, and as of which change of each.
    pub versions: Vec<(ViewId, u64)>,
    pub at: Instant,
    _memory: MemoryReservation,
}

impl Join {
    pub fn loaded(&self) -> Option<Arc<Loaded>> {
        self.loaded.read().clone()
    }

    /// Has the events that come from now on join these rows.
    pub fn set(&self, loaded: Arc<Loaded>) {
        *self.loaded.write() = Some(loaded);
        *self.postponed.lock() = None;
    }

    pub fn postpone(&self, until: Instant) {
        *self.postponed.lock() = Some(until);
    }

    pub fn is_postponed(&self) -> bool {
        self.postponed.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Puts the rows of the query in order. `versions` are from before they were read; `memory` has nothing yet.
    pub fn load(
        &self,
        batches: &[RecordBatch],
        versions: Vec<(ViewId, u64)>,
        at: Instant,
        memory: MemoryReservation,
    ) -> Result<Arc<Loaded>> {
        let schema = Arc::clone(self.joined.plan.schema().inner());
        let mut batch = arrow::compute::concat_batches(&schema, batches)?;
        for step in &self.prepare {
            batch = step.run(&batch, &JoinedRows::default())?;
        }
        let count = batch.num_rows();
        let keys = self.keys.iter().map(|(_, key)| key.evaluate(&batch)?.into_array(count));
        let keys = keys.collect::<Result<_>>()?;
        let rows = Rows::try_new(batch, keys, self.nulls_are_equal)?;
        memory.try_grow(rows.memory_bytes())?;
        Ok(Arc::new(Loaded { rows, versions, at, _memory: memory }))
    }

    /// The last thing that is done with the rows before they are joined.
    pub fn prepared(&self) -> Option<&Step> {
        self.prepare.last()
    }

    /// What must hold besides the keys.
    pub fn conditions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.condition.iter().map(|condition| &condition.expr)
    }

    /// What is compared of events and of rows.
    pub fn keys(&self) -> &[(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)] {
        &self.keys
    }
}

impl Loaded {
    pub fn row_count(&self) -> usize {
        self.rows.count()
    }

    pub fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes()
    }
}

/// The joins of a view or a transform.
#[derive(Debug)]
pub struct Joins {
    joins: Vec<Arc<Join>>,
    refresh: Mutex<Duration>,
}

/// Unless a view says otherwise.
pub const REFRESH: Duration = Duration::from_secs(60);

impl Joins {
    pub(crate) fn of(front: &Front) -> Arc<Self> {
        Arc::new(Self { joins: front.joins(), refresh: Mutex::new(REFRESH) })
    }

    pub fn all(&self) -> &[Arc<Join>] {
        &self.joins
    }

    /// How old rows may be of which nobody tells when they change.
    pub fn refresh(&self) -> Duration {
        *self.refresh.lock()
    }

    pub fn set_refresh(&self, refresh: Duration) {
        *self.refresh.lock() = refresh;
    }
}

/// Rows that some events join in the place of those that all others do: what their transaction has written is among them.
#[derive(Debug, Default)]
pub struct JoinedRows(Vec<(Arc<Join>, Arc<Loaded>)>);

impl JoinedRows {
    pub fn insert(&mut self, join: Arc<Join>, loaded: Arc<Loaded>) {
        self.0.push((join, loaded));
    }

    fn of(&self, join: &Arc<Join>) -> Option<Arc<Loaded>> {
        let own = self.0.iter().find(|(known, _)| Arc::ptr_eq(known, join));
        own.map(|(_, loaded)| Arc::clone(loaded)).or_else(|| join.loaded())
    }
}

/// Puts a scan of kept rows in the place of every query that is joined with a stream and reads none.
pub fn set_apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let apart = plan.transform_down(|node| {
        let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
        let sides = [&join.left, &join.right];
        let reads = [reads_stream(&join.left)?, reads_stream(&join.right)?];
        if reads[0] == reads[1] {
            return Ok(Transformed::no(node));
        }
        let joined = sides.into_iter().zip(reads).map(|(side, reads_stream)| match reads_stream {
            true => Ok(side.as_ref().clone()),
            false => kept_rows(side.as_ref()),
        });
        let inputs = joined.collect::<Result<Vec<_>>>()?;
        let expressions = node.expressions();
        Ok(Transformed::yes(node.with_new_exprs(expressions, inputs)?))
    })?;
    Ok(apart.data)
}

/// A scan of the rows of a query, under the names that its columns have.
fn kept_rows(query: &LogicalPlan) -> Result<LogicalPlan> {
    let columns: Vec<_> =
        query.schema().iter().map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
    let numbered = columns.iter().enumerate().map(|(i, (table, field))| {
        let column = datafusion::common::Column::new(table.clone(), field.name());
        Expr::Column(column).alias(format!("c{i}"))
    });
    let numbered = numbered.collect::<Vec<_>>();
    let plan = LogicalPlanBuilder::from(query.clone()).project(numbered)?.build()?;
    let table =
        JoinedTable { schema: Arc::clone(plan.schema().inner()), joined: Arc::new(Joined::new(plan)?) };
    let scan =
        LogicalPlanBuilder::scan(TableReference::bare(JOINED), provider_as_source(Arc::new(table)), None)?;
    let named = columns.iter().enumerate().map(|(i, (table, field))| {
        let kept = Expr::Column(datafusion::common::Column::new(Some(JOINED), format!("c{i}")));
        kept.alias_qualified(table.clone(), field.name())
    });
    scan.project(named.collect::<Vec<_>>())?.build()
}

const JOINED: &str = "joined";

fn reads_stream(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(false) };
        Ok(as_stream(source_as_provider(&scan.source)?.as_ref()).is_some())
    })
}

/// What [`set_apart`] has set apart, in the eyes of the planner.
#[derive(Debug)]
struct JoinedTable {
    joined: Arc<Joined>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for JoinedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let source = JoinedSource(Arc::clone(&self.joined));
        Ok(Arc::new(JoinedExec::try_new(source, &self.schema, projection)?))
    }
}

/// Where the kept rows enter the plan of a view. [`JoinStep`] replaces it.
type JoinedExec = Leaf<JoinedSource>;

#[derive(Debug)]
struct JoinedSource(Arc<Joined>);

impl fmt::Display for JoinedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.relations.join(", "))
    }
}

impl Source for JoinedSource {
    const NAME: &'static str = "JoinedExec";

    fn unreadable(&self) -> DataFusionError {
        DataFusionError::Internal("kept rows are read by a plan".into())
    }
}
