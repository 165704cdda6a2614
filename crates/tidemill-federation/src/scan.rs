//! The plan node that reads a foreign table.

mod reading;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots,
};
use futures::{StreamExt, TryFutureExt, stream};

use crate::bound::Bounds;
use crate::cascade::Cascade;
use crate::connector::{Capabilities, Connector, RemoteQuery};
use crate::node::{DeadNodes, Member, Node, Nodes};
use crate::pushdown::Pushdown;
use crate::pushdown::dynamic_filter::{DynamicFilter, narrowed};
use crate::select::RemoteSelect;
use crate::snapshot::{Shared, Snapshots};
use crate::transaction::{Transaction, Transactions};
use reading::Reading;

/// Where a scan reads, and what happens if nobody is there.
#[derive(Debug, Clone)]
pub struct Place {
    pub server: String,
    pub member: Option<Member>,
    pub dead_nodes: DeadNodes,
    pub pushdown: Pushdown,
}

/// Reads the rows of a query that a foreign server runs.
pub struct ForeignScanExec {
    place: Arc<Place>,
    select: RemoteSelect,
    query: Arc<RemoteQuery>,
    connector: Arc<dyn Connector>,
    batch_rows: usize,
    /// Conditions that are known when others have run.
    dynamic_filters: Vec<DynamicFilter>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for ForeignScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignScanExec").field("query", &self.query).finish_non_exhaustive()
    }
}

impl ForeignScanExec {
    pub fn new(
        select: RemoteSelect,
        connector: Arc<dyn Connector>,
        schema: SchemaRef,
        batch_rows: usize,
        place: Arc<Place>,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let query = Arc::new(select.query(connector.capabilities()));
        let (dynamic_filters, metrics) = (vec![], ExecutionPlanMetricsSet::new());
        Self { place, select, query, connector, batch_rows, dynamic_filters, properties, metrics }
    }

    /// The same server and table, asked for something else.
    pub fn with_select(&self, select: RemoteSelect, schema: SchemaRef) -> Self {
        Self::new(select, Arc::clone(&self.connector), schema, self.batch_rows, Arc::clone(&self.place))
    }

    /// The same, which asks for rows when these filters are known too.
    pub(crate) fn with_dynamic_filters(&self, filters: impl IntoIterator<Item = DynamicFilter>) -> Self {
        let dynamic_filters = self.dynamic_filters.iter().cloned().chain(filters).collect();
        Self { dynamic_filters, ..self.with_select(self.select.clone(), self.schema()) }
    }

    /// What the server sends. With dynamic filters it is asked when they are known, while others run.
    fn rows(
        &self,
        context: &TaskContext,
        node: Option<Arc<Node>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> Result<SendableRecordBatchStream> {
        let query = self.along(context, node.as_deref())?;
        let transactions = context.session_config().get_extension::<Transactions>();
        let way = Way {
            connector: Arc::clone(&self.connector),
            written: transactions.and_then(|transactions| transactions.find(&self.connector)),
            shared: Snapshots::find(context, &self.connector),
            schema: self.schema(),
            bounds: Bounds::of_query(context, self.batch_rows),
            counted,
        };
        if self.dynamic_filters.is_empty() {
            return Ok(way.rows(query));
        }
        let (select, filters) = (self.select.clone(), self.dynamic_filters.clone());
        let (capabilities, wait) = (self.capabilities(), self.place.pushdown.dynamic_filter_wait);
        let asking = SpawnedTask::spawn(async move {
            let mut query = query;
            if let Some(select) = narrowed(&select, &filters, capabilities, wait).await {
                let cascade = query.cascade.clone();
                query = Arc::new(RemoteQuery { cascade, ..select.query(capabilities) });
            }
            if let Some(node) = node {
                node.ask(&query);
            }
            way.rows(query)
        });
        let rows = asking.join().map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows.try_flatten_stream())))
    }

    /// What others are to say of it.
    pub fn dynamic_filters(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.dynamic_filters.iter().flat_map(DynamicFilter::exprs)
    }

    pub fn server(&self) -> &str {
        &self.place.server
    }

    pub fn member(&self) -> Option<&Member> {
        self.place.member.as_ref()
    }

    pub fn dead_nodes(&self) -> DeadNodes {
        self.place.dead_nodes
    }

    pub fn query(&self) -> &Arc<RemoteQuery> {
        &self.query
    }

    pub fn connector(&self) -> &Arc<dyn Connector> {
        &self.connector
    }

    pub fn select(&self) -> &RemoteSelect {
        &self.select
    }

    pub fn capabilities(&self) -> &'static Capabilities {
        self.connector.capabilities()
    }

    /// The foreign table.
    pub fn table(&self) -> &str {
        &self.query.table
    }

    /// What the server is asked, as it is shown.
    pub fn remote_sql(&self) -> Cow<'_, str> {
        self.query.excerpt()
    }
}

impl ForeignScanExec {
    /// The query, for a server that is told the way that the statement has come, and may have something to say.
    fn along(&self, context: &TaskContext, node: Option<&Node>) -> Result<Arc<RemoteQuery>> {
        let (table, server) = (&self.query.table, &self.place.server);
        let cascade =
            Cascade::of_scan(context, self.connector.as_ref(), table, server, self.place.dead_nodes.skip)
                .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let Some(cascade) = cascade else { return Ok(Arc::clone(&self.query)) };
        if let Some(node) = node {
            node.listen(Arc::clone(&cascade));
        }
        Ok(Arc::new(RemoteQuery { cascade: Some(cascade), ..RemoteQuery::clone(&self.query) }))
    }
}

impl DisplayAs for ForeignScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignScanExec: table={}, remote_sql=[{}]", self.query.table, self.remote_sql())
    }
}

impl ExecutionPlan for ForeignScanExec {
    fn name(&self) -> &str {
        "ForeignScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    /// Columns that nobody wants are not asked for.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if self.select.keys.is_some() {
            return Ok(None);
        }
        let columns =
            projection.expr().iter().map(|item| item.expr.downcast_ref::<Column>().map(Column::index));
        let Some(columns) = columns.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let is_repeated = |(i, column): (usize, &usize)| columns[..i].contains(column);
        if columns.iter().enumerate().any(is_repeated) {
            return Ok(None);
        }
        let items = columns.iter().filter_map(|column| self.select.items.get(*column).cloned()).collect();
        Ok(Some(Arc::new(self.with_select(self.select.with_items(items), projection.schema()))))
    }

    /// What a filter above it asks for goes to the server, too, if it means the same there.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let is_asked = phase == FilterPushdownPhase::Pre && !result.parent_filters.is_empty();
        if !is_asked || !self.select.is_of_rows() || !self.place.pushdown.filters {
            return Ok(FilterPushdownPropagation::all_unsupported(result));
        }
        let writer = self.select.writer(self.capabilities());
        let mut select = self.select.clone();
        let judged = result.parent_filters.iter().map(|filter| match writer.condition(&filter.filter) {
            Some(condition) => {
                select.conditions.push(condition);
                PushedDown::Yes
            }
            None => PushedDown::No,
        });
        let judged = FilterPushdownPropagation::with_parent_pushdown_result(judged.collect());
        Ok(judged.with_updated_node(Arc::new(self.with_select(select, self.schema()))))
    }

    fn fetch(&self) -> Option<usize> {
        self.select.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let sends_limit = self.place.pushdown.filters && self.capabilities().limit;
        let is_less = match (limit, self.select.limit) {
            (Some(limit), Some(before)) => limit <= before,
            (limit, before) => limit.is_some() && before.is_none(),
        };
        let select = RemoteSelect { limit, ..self.select.clone() };
        (sends_limit && is_less).then(|| Arc::new(self.with_select(select, self.schema())) as _)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.dynamic_filters.iter().map(DynamicFilter::root), f)
    }

    /// A join that starts anew has another filter.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let dynamic_filters = vec![];
        let query = match self.dynamic_filters.is_empty() {
            true => Arc::clone(&self.query),
            false => Arc::new(self.select.query(self.capabilities())),
        };
        Ok(Arc::new(Self {
            place: Arc::clone(&self.place),
            select: self.select.clone(),
            query,
            connector: Arc::clone(&self.connector),
            batch_rows: self.batch_rows,
            dynamic_filters,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let bytes = MetricBuilder::new(&self.metrics).counter("remote_bytes", partition);
        let schema = self.schema();
        let nodes = context.session_config().get_extension::<Nodes>();
        let node = nodes.as_ref().and_then(|nodes| nodes.find(&self.query)).cloned();
        let counting = node.clone();
        let counted = move |count| {
            bytes.add(count);
            if let Some(node) = &counting {
                node.count_bytes(count);
            }
        };
        if let Some(node) = &node {
            node.begin();
        }
        let rows = self.rows(&context, node.clone(), Box::new(counted))?;
        let limit = self.select.limit;
        let reading = nodes.zip(node).map(|(nodes, node)| Reading::new(nodes, node, limit));
        let reported =
            stream::unfold((rows, reading, baseline), |(mut rows, reading, baseline)| async move {
                let batch = rows.next().await;
                if let Some(Ok(batch)) = &batch {
                    baseline.record_output(batch.num_rows());
                }
                let batch = match &reading {
                    Some(reading) => reading.note(batch),
                    None => batch,
                };
                Some((batch?, (rows, reading, baseline)))
            });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, reported)))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let num_rows = self.select.rows().map_or(Precision::Absent, Precision::Inexact);
        Ok(Arc::new(Statistics { num_rows, ..Statistics::new_unknown(&self.schema()) }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// How a query gets to the server: by the transaction that has written to it, if there is one.
struct Way {
    connector: Arc<dyn Connector>,
    written: Option<Arc<Transaction>>,
    shared: Option<Arc<Shared>>,
    schema: SchemaRef,
    bounds: Bounds,
    counted: Box<dyn Fn(usize) + Send + Sync>,
}

impl Way {
    fn rows(self, query: Arc<RemoteQuery>) -> SendableRecordBatchStream {
        let Self { connector, written, shared, schema, bounds, counted } = self;
        match written {
            Some(transaction) => transaction.rows(query, schema, counted),
            None => connector.rows(query, schema, bounds, shared, counted),
        }
    }
}
