//! The plan node that reads a foreign table.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};
use tidemill_sql::planner::plan_error;
use tidemill_sql::types::Type;

use crate::cascade::Cascade;
use crate::connector::{Capabilities, Connector, RemoteColumn, RemoteQuery};
use crate::dialect::{Dialect, Operand};
use crate::expression::Writer;
use crate::health::is_absence;
use crate::node::{DeadNodes, Member, Node, Nodes, State};
use crate::pushdown::Source;
use crate::snapshot::Snapshots;
use crate::table::{ForeignColumn, TableDefinition};
use crate::transaction::Transactions;

/// What is read of one foreign table.
#[derive(Debug, Clone)]
pub struct RemoteSelect {
    pub table: Arc<TableDefinition>,
    /// Places of the table's columns.
    pub columns: Vec<usize>,
    /// In the words of the other side; all have to hold.
    pub conditions: Vec<String>,
    /// What is filtered here, and may save the other side reading.
    pub pruning: Vec<Expr>,
    /// What aggregates are selected instead of the columns.
    pub aggregate: Option<RemoteAggregate>,
    pub order: Vec<String>,
    pub limit: Option<usize>,
}

/// Groups and what is selected of them, the keys first.
#[derive(Debug, Clone)]
pub struct RemoteAggregate {
    pub keys: usize,
    pub items: Vec<(String, RemoteColumn)>,
}

impl RemoteSelect {
    fn query(&self, capabilities: &Capabilities) -> RemoteQuery {
        let dialect = capabilities.dialect;
        let columns = match &self.aggregate {
            Some(aggregate) => aggregate.items.iter().map(|(_, column)| column.clone()).collect(),
            None => self.columns.iter().map(|place| self.remote(*place)).collect(),
        };
        RemoteQuery {
            sql: dialect.select(self),
            columns,
            table: self.table.name.clone(),
            relation: self.relation(dialect),
            definition: Arc::clone(&self.table),
            pruning: self.pruning.clone(),
            cascade: None,
        }
    }

    /// What is selected.
    pub fn items<D: Dialect + ?Sized>(&self, dialect: &D) -> Vec<String> {
        match &self.aggregate {
            Some(aggregate) => aggregate.items.iter().map(|(sql, _)| sql.clone()).collect(),
            None => {
                self.columns.iter().map(|place| dialect.name(&self.table.columns[*place].remote)).collect()
            }
        }
    }

    /// What it is selected from.
    pub fn relation<D: Dialect + ?Sized>(&self, dialect: &D) -> String {
        self.table.relation(dialect)
    }

    fn remote(&self, place: usize) -> RemoteColumn {
        let ForeignColumn { name, ty, remote, .. } = self.table.columns[place].clone();
        RemoteColumn { name, ty, remote }
    }

    /// What the server calls a column of the scan.
    pub fn column(&self, index: usize, capabilities: &Capabilities) -> Option<Operand> {
        let column = self.table.columns.get(*self.columns.get(index)?)?;
        Some(Operand { sql: capabilities.dialect.name(&column.remote), ty: column.ty, value: None })
    }

    /// A value of a row, as one of this type.
    pub(crate) fn value(&self, source: &Source, ty: Type, capabilities: &Capabilities) -> Option<String> {
        match source {
            Source::Column { index, keyed: false } => {
                let found = self.column(*index, capabilities)?;
                (found.ty.oid() == ty.oid()).then_some(found.sql)
            }
            Source::Constant(value) if value.data_type() == ty.arrow() => {
                capabilities.dialect.literal(value, ty)
            }
            Source::Expression(expr) => {
                let found = self.writer(capabilities).operand(expr)?;
                (found.ty.oid() == ty.oid()).then_some(found.sql)
            }
            _ => None,
        }
    }

    /// What writes expressions over the columns of the scan.
    pub fn writer<'a>(&'a self, capabilities: &'a Capabilities) -> Writer<'a> {
        let fields = self.columns.iter().filter_map(|place| self.table.columns.get(*place));
        let fields: Vec<_> = fields.map(|column| column.ty.field(&column.name)).collect();
        Writer { select: self, capabilities, schema: Arc::new(Schema::new(fields)) }
    }

    /// A column or an expression as what it is there.
    pub(crate) fn operand(&self, source: &Source, capabilities: &Capabilities) -> Option<Operand> {
        match source {
            Source::Column { index, keyed: false } => self.column(*index, capabilities),
            Source::Expression(expr) => self.writer(capabilities).operand(expr),
            _ => None,
        }
    }

    /// A column as something to sort by; `None` if it is sorted in another way there.
    pub fn ordered(&self, index: usize, capabilities: &Capabilities) -> Option<Operand> {
        self.column(index, capabilities).filter(|operand| capabilities.orders(operand.ty))
    }

    /// A column as something to group by; `None` if other values are equal there.
    pub fn key(&self, index: usize, capabilities: &Capabilities) -> Option<(String, RemoteColumn)> {
        let operand = self.column(index, capabilities).filter(|operand| capabilities.groups(operand.ty))?;
        Some((capabilities.dialect.grouped(&operand), self.remote(*self.columns.get(index)?)))
    }
}

/// Where a scan reads, and what happens if nobody is there.
#[derive(Debug, Clone)]
pub struct Place {
    pub server: String,
    pub member: Option<Member>,
    pub dead_nodes: DeadNodes,
}

/// Reads the rows of a query that a foreign server runs.
pub struct ForeignScanExec {
    place: Arc<Place>,
    select: RemoteSelect,
    query: Arc<RemoteQuery>,
    connector: Arc<dyn Connector>,
    batch_rows: usize,
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
        let metrics = ExecutionPlanMetricsSet::new();
        Self { place, select, query, connector, batch_rows, properties, metrics }
    }

    /// The same server and table, asked for something else.
    pub fn with_select(&self, select: RemoteSelect, schema: SchemaRef) -> Self {
        Self::new(select, Arc::clone(&self.connector), schema, self.batch_rows, Arc::clone(&self.place))
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

    /// What the server is asked.
    pub fn remote_sql(&self) -> &str {
        &self.query.sql
    }
}

impl ForeignScanExec {
    /// The query, for a server that is told the way that the statement has come, and may have something to say.
    fn along(&self, context: &TaskContext, node: Option<&Node>) -> Result<Arc<RemoteQuery>> {
        let (table, server) = (&self.query.table, &self.place.server);
        let cascade = Cascade::of_scan(context, self.connector.as_ref(), table, server)
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
        write!(f, "ForeignScanExec: table={}, remote_sql=[{}]", self.query.table, self.query.sql)
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

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
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
        let transactions = context.session_config().get_extension::<Transactions>();
        let written = transactions.and_then(|transactions| transactions.find(&self.connector));
        let (query, reader) = (self.along(&context, node.as_deref())?, Arc::clone(&schema));
        let rows = match written {
            Some(transaction) => transaction.rows(query, reader, counted),
            None => Arc::clone(&self.connector).rows(
                query,
                reader,
                self.batch_rows,
                Snapshots::find(&context, &self.connector),
                Box::new(counted),
            ),
        };
        let reading = nodes.zip(node).map(|(nodes, node)| Reading { nodes, node });
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

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A scan that the statement's report follows to its end.
struct Reading {
    nodes: Arc<Nodes>,
    node: Arc<Node>,
}

impl Reading {
    /// A server that is not there may be left out: then its rows end here.
    fn note(&self, batch: Option<Result<RecordBatch>>) -> Option<Result<RecordBatch>> {
        match batch {
            Some(Ok(batch)) => {
                self.node.count_rows(batch.num_rows());
                Some(Ok(batch))
            }
            Some(Err(error)) => {
                let error = plan_error(error);
                let ended = match is_absence(&error) {
                    true => self.nodes.skip(&self.node, error),
                    false => {
                        self.node.end(State::Failed, Some(error.clone()));
                        Err(error)
                    }
                };
                ended.err().map(|error| Err(DataFusionError::External(Box::new(error))))
            }
            None => {
                self.node.end(State::Complete, None);
                None
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.node.end(State::Stopped, None);
    }
}
