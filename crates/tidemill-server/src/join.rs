//! The rows that events are joined with: read, and read again when they have changed.
//!
//! Of tables it is known when they change, so an event joins what they hold when it comes. Rows of other servers are read
//! again when they are older than the view allows. If that fails, what was read last is joined further, with a warning: a
//! server that is down keeps no events from coming in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableScan, TableScanBuilder, TableSource};
use futures::TryStreamExt;
use tidemill_federation::node::DeadNodes;
use tidemill_sql::name::split_nodes;
use tidemill_sql::planner::plan_error;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::engine::Engine;
use tidemill_stream::join::{Join, JoinedRows, Joins, Loaded};
use tidemill_stream::stream::StreamId;
use tidemill_stream::view::ViewId;

use crate::catalog::{Catalog, Relation};
use crate::query::{self, Planner, Reads};
use crate::server::Server;

/// What could not be read is tried again after so long at the earliest.
const RETRY: Duration = Duration::from_secs(5);

/// What a statement that writes events to a stream does about joins.
pub struct Joining {
    planner: Planner,
    stream: StreamId,
    targets: Option<Arc<[ViewId]>>,
    own: JoinedRows,
    /// For the client.
    pub warnings: Vec<SqlError>,
}

impl Joining {
    /// `None` if nothing is joined with the stream, or what is joined is as it was read; `goes_on`: it may change meanwhile, or
    /// the statement's own rows are to be joined.
    pub fn begin(
        engine: &Engine,
        stream: StreamId,
        targets: Option<Arc<[ViewId]>>,
        goes_on: bool,
        planner: impl FnOnce() -> Planner,
    ) -> Option<Self> {
        let joins = engine.joins(stream, targets.as_deref());
        let is_current = |(_, joins): &(ViewId, Arc<Joins>)| {
            joins.all().iter().all(|join| is_current(engine, join, joins.refresh()))
        };
        if joins.is_empty() || !goes_on && joins.iter().all(is_current) {
            return None;
        }
        Some(Self { planner: planner(), stream, targets, own: JoinedRows::default(), warnings: vec![] })
    }

    /// Has events join what a transaction has written to these tables, and what it reads else.
    pub async fn see(&mut self, tables: &[ViewId], reads: impl Fn() -> Reads) -> Result<()> {
        for (view, joins) in self.joins() {
            let reads_own = |join: &&Arc<Join>| join.joined.views.iter().any(|read| tables.contains(read));
            for join in joins.all().iter().filter(reads_own) {
                let loaded =
                    read(&self.planner, join, reads()).await.map_err(|e| within(e, &self.planner, view))?;
                self.own.insert(Arc::clone(join), loaded);
            }
        }
        Ok(())
    }

    /// Reads what has changed, or may have.
    pub async fn refresh(&mut self) -> Result<()> {
        for (view, joins) in self.joins() {
            for join in joins.all() {
                if let Some(warning) = refresh(&self.planner, view, join, joins.refresh()).await? {
                    self.warnings.push(warning);
                }
            }
        }
        Ok(())
    }

    /// What the events of this statement join in the place of what all others do.
    pub fn rows(&self) -> &JoinedRows {
        &self.own
    }

    fn joins(&self) -> Vec<(ViewId, Arc<Joins>)> {
        self.planner.server.engine.joins(self.stream, self.targets.as_deref())
    }
}

/// For a view or a transform that is about to be.
pub async fn load(planner: &Planner, joins: &Joins) -> Result<()> {
    for join in joins.all() {
        join.set(read(planner, join, Reads::default()).await?);
    }
    Ok(())
}

/// A warning if what was read last has to do.
async fn refresh(
    planner: &Planner,
    view: ViewId,
    join: &Arc<Join>,
    age_max: Duration,
) -> Result<Option<SqlError>> {
    if is_current(&planner.server.engine, join, age_max) {
        return Ok(None);
    }
    let _loading = join.loading.lock().await;
    if is_current(&planner.server.engine, join, age_max) {
        return Ok(None);
    }
    let error = match read(planner, join, Reads::default()).await {
        Ok(loaded) => {
            join.set(loaded);
            return Ok(None);
        }
        Err(error) => error,
    };
    // Tables that are here have no excuse.
    match join
        .loaded()
        .filter(|loaded| join.joined.reads_elsewhere && same_versions(&planner.server.engine, loaded))
    {
        Some(loaded) => {
            join.postpone(Instant::now() + RETRY);
            Ok(Some(stale(planner, view, join, &loaded, &error)))
        }
        None => Err(within(error, planner, view)),
    }
}

fn is_current(engine: &Engine, join: &Join, age_max: Duration) -> bool {
    let Some(loaded) = join.loaded() else { return false };
    let is_recent = || loaded.at.elapsed() < age_max || join.is_postponed();
    same_versions(engine, &loaded) && (!join.joined.reads_elsewhere || is_recent())
}

fn same_versions(engine: &Engine, loaded: &Loaded) -> bool {
    loaded.versions.iter().all(|(view, version)| engine.version(*view) == Some(*version))
}

/// Carries out the query beside the stream. Others join these rows too, so the session's settings do not count: nodes that are
/// dead are an error.
async fn read(planner: &Planner, join: &Join, reads: Reads) -> Result<Arc<Loaded>> {
    let server = &planner.server;
    let at = Instant::now();
    let version = |view: &ViewId| Some((*view, server.engine.version(*view)?));
    let versions = join.joined.views.iter().filter_map(version).collect();
    let mut state = planner.for_all().state();
    state.config_mut().set_extension(Arc::new(DeadNodes::default()));
    let plan = as_of_now(&join.joined.plan, &state).await?;
    let running = query::run(server, state, plan, vec![], reads, planner.memory_limit_bytes()).await?;
    let batches: Vec<RecordBatch> = running.stream.try_collect().await.map_err(plan_error)?;
    let memory = MemoryConsumer::new("joined rows").register(&server.memory);
    join.load(&batches, versions, at, memory).map_err(plan_error)
}

/// A plan over the relations as they are now: their servers, options and columns may have changed.
async fn as_of_now(plan: &LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let mut names: Vec<TableReference> = vec![];
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            names.push(scan.table_name.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(plan_error)?;
    let mut found = HashMap::new();
    for name in names {
        let schema = state.schema_for_ref(name.clone()).map_err(plan_error)?;
        if let Some(table) = schema.table(name.table()).await.map_err(plan_error)? {
            found.insert(name, provider_as_source(table));
        }
    }
    let renewed = plan.clone().transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) => match found.get(&scan.table_name) {
            Some(source) => Ok(Transformed::yes(LogicalPlan::TableScan(over(scan, source)?))),
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        },
        node => Ok(Transformed::no(node)),
    });
    Ok(renewed.map_err(plan_error)?.data)
}

/// The same columns of a relation that may have got others.
fn over(scan: TableScan, source: &Arc<dyn TableSource>) -> datafusion::error::Result<TableScan> {
    let (old, new) = (scan.source.schema(), source.schema());
    let columns = scan.projection.clone().unwrap_or_else(|| (0..old.fields().len()).collect());
    let place = |column: usize| {
        let field = old.field(column);
        let found = new.column_with_name(field.name());
        let same = found.filter(|(_, now)| Type::of_field(now).ok() == Type::of_field(field).ok());
        same.map(|(at, _)| at).ok_or_else(|| changed(scan.table_name.table(), field.name()))
    };
    let columns = columns.into_iter().map(place).collect::<datafusion::error::Result<Vec<_>>>()?;
    TableScanBuilder::new(scan.table_name.clone(), Arc::clone(source))
        .with_projection(Some(columns))
        .with_filters(scan.filters)
        .with_fetch(scan.fetch)
        .build()
}

/// The continuous views and transforms whose events join rows of a relation.
pub fn joining(catalog: &Catalog, name: &str) -> Vec<Relation> {
    let reads = |relation: &Relation| {
        let joins = joins_of(relation).map_or(&[][..], Joins::all);
        joins.iter().flat_map(|join| &join.joined.relations).any(|read| split_nodes(read).0 == name)
    };
    catalog.relations().into_iter().filter(reads).collect()
}

fn joins_of(relation: &Relation) -> Option<&Joins> {
    match relation {
        Relation::View(view) => Some(view.view.joins()),
        Relation::Transform(transform) => Some(transform.transform.joins()),
        Relation::Stream(_) | Relation::Table(_) | Relation::PlainView(_) | Relation::Foreign(_) => None,
    }
}

/// The views that join a relation must find the columns that they read.
pub async fn check_readers(server: &Server, name: &str) -> Result<()> {
    for reader in joining(&server.catalog, name) {
        for join in joins_of(&reader).map_or(&[][..], Joins::all) {
            as_of_now(&join.joined.plan, &server.defining).await.map_err(|error| {
                error.with_hint(format!(
                    "Drop {} \"{}\", which joins it, first.",
                    reader.kind(),
                    reader.name()
                ))
            })?;
        }
    }
    Ok(())
}

fn changed(relation: &str, column: &str) -> DataFusionError {
    let name = split_nodes(relation).0;
    let message =
        format!("column \"{column}\" of relation \"{name}\" is joined by a continuous view or transform");
    DataFusionError::External(Box::new(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)))
}

/// As messages name who joins: `continuous view "v"`.
fn described(planner: &Planner, reader: ViewId) -> String {
    let relations = planner.server.catalog.relations();
    let known = relations.iter().find(|known| known.oid() == reader.0);
    known.map_or_else(String::new, |known| format!("{} \"{}\"", known.kind(), known.name()))
}

fn within(error: SqlError, planner: &Planner, reader: ViewId) -> SqlError {
    error.with_context(format!("reading what {} joins", described(planner, reader)))
}

fn stale(planner: &Planner, reader: ViewId, join: &Join, loaded: &Loaded, error: &SqlError) -> SqlError {
    let mut relations: Vec<_> = join.joined.relations.iter().map(|name| split_nodes(name).0).collect();
    relations.sort_unstable();
    relations.dedup();
    let message = format!(
        "{} joins rows of \"{}\" that were read {} s ago",
        described(planner, reader),
        relations.join("\", \""),
        loaded.at.elapsed().as_secs()
    );
    tracing::warn!(%error, "{message}");
    SqlError::new(SqlState::WARNING, message).with_detail(error.message.clone())
}
