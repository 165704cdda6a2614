//! A foreign table in the eyes of the planner.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{ScalarValue, ToDFSchema};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use tidemill_sql::name::quote_literal;
use tidemill_sql::types::Type;

use crate::connector::{Connector, RemoteColumn};
use crate::deparse::Conditions;
use crate::dialect::{Dialect, Operand};
use crate::fact::{TableFacts, Telling};
use crate::node::{DeadNodes, Member};
use crate::option::Options;
use crate::pushdown::Pushdown;
use crate::scan::{ForeignScanExec, Place};
use crate::select::RemoteSelect;
use crate::view_state::state_of;

/// A foreign table: what it is called and typed here, and there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableDefinition {
    pub name: String,
    pub columns: Vec<ForeignColumn>,
    /// Empty: a name without a schema.
    pub remote_schema: String,
    pub remote_table: String,
    /// Nodes of a table there that has children itself: what is below them. Empty: all.
    pub nodes: Vec<String>,
    pub options: Options,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignColumn {
    pub name: String,
    pub ty: Type,
    pub not_null: bool,
    pub remote: String,
    pub options: Options,
    /// Not what a view shows there, but the state that it is made of.
    pub is_state: bool,
}

impl ForeignColumn {
    /// In the words of the other side.
    pub fn sql<D: Dialect + ?Sized>(&self, dialect: &D) -> String {
        let name = dialect.name(&self.remote);
        if self.is_state { state_of(&name) } else { name }
    }

    /// What it is there.
    pub fn operand(&self, facts: &TableFacts, dialect: &dyn Dialect) -> Operand {
        Operand { sql: facts.column(self, dialect), ty: self.ty, value: None }
    }

    pub fn remote_column(&self) -> RemoteColumn {
        RemoteColumn { name: self.name.clone(), ty: self.ty, remote: self.remote.clone() }
    }
}

impl TableDefinition {
    /// What the other side calls it.
    pub fn relation<D: Dialect + ?Sized>(&self, dialect: &D) -> String {
        let relation = dialect.relation(&self.remote_schema, &self.remote_table);
        if self.nodes.is_empty() {
            return relation;
        }
        let nodes: Vec<_> =
            self.nodes.iter().map(|node| quote_literal(node).trim_start().to_string()).collect();
        format!("{relation} IN ({})", nodes.join(", "))
    }

    pub fn schema(&self) -> Schema {
        Schema::new(self.columns.iter().map(|column| column.ty.field(&column.name)).collect::<Vec<_>>())
    }
}

/// A foreign table and what reaches its server.
pub struct ForeignTable {
    definition: Arc<TableDefinition>,
    connector: Arc<dyn Connector>,
    schema: SchemaRef,
    pushdown: Pushdown,
    server: String,
    /// Of a child of a multi-tenant table.
    member: Option<Member>,
}

impl fmt::Debug for ForeignTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignTable").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl ForeignTable {
    pub fn new(definition: Arc<TableDefinition>, connector: Arc<dyn Connector>, pushdown: Pushdown) -> Self {
        let schema = Arc::new(definition.schema());
        Self { definition, connector, schema, pushdown, server: String::new(), member: None }
    }

    /// On a server of this name, and the child of a multi-tenant table if it is one.
    pub fn on(mut self, server: &str, member: Option<Member>) -> Self {
        (self.server, self.member) = (server.to_string(), member);
        self
    }

    /// The same table, of whose children there only some are wanted.
    pub fn on_nodes(&self, nodes: Vec<String>) -> Self {
        self.with_definition(TableDefinition { nodes, ..TableDefinition::clone(&self.definition) })
    }

    pub(crate) fn with_definition(&self, definition: TableDefinition) -> Self {
        Self {
            schema: Arc::new(definition.schema()),
            definition: Arc::new(definition),
            connector: Arc::clone(&self.connector),
            pushdown: self.pushdown,
            server: self.server.clone(),
            member: self.member.clone(),
        }
    }

    pub fn definition(&self) -> &Arc<TableDefinition> {
        &self.definition
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    pub fn connector(&self) -> &Arc<dyn Connector> {
        &self.connector
    }

    fn sends_limit(&self) -> bool {
        self.pushdown.filters && self.connector.capabilities().limit
    }

    pub(crate) fn prunes(&self) -> bool {
        self.pushdown.filters && self.connector.capabilities().prunes
    }

    fn judged(&self, filters: &[Expr], facts: &TableFacts, wanted: Wanted) -> Result<Judged> {
        let mut judged = Judged::default();
        if filters.is_empty() {
            return Ok(judged);
        }
        let conditions = self.conditions(facts)?;
        for filter in filters.iter().filter(|filter| !is_always(filter)) {
            match conditions.write(filter) {
                Some(condition) if self.pushdown.filters => judged.conditions.push(condition),
                None if self.prunes() => {
                    judged.pruning.push(filter.clone());
                    judged.rest.extend((wanted == Wanted::Fulfilled).then(|| filter.clone()));
                }
                _ => judged.rest.push(filter.clone()),
            }
        }
        Ok(judged)
    }

    /// In the words of the server.
    fn conditions(&self, facts: &TableFacts) -> Result<Conditions<'_>> {
        Conditions::on(&self.definition, &self.schema, facts, self.connector.capabilities())
    }

    /// The rows that fulfil all filters, also those for which a scan only reads less.
    pub(crate) async fn fulfilled(
        &self,
        session: &dyn Session,
        columns: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.plan(session, columns, filters, limit, Wanted::Fulfilled).await
    }

    async fn plan(
        &self,
        session: &dyn Session,
        columns: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
        wanted: Wanted,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if filters.iter().any(is_never) {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(columns)?))));
        }
        let used = self.used(columns, filters)?;
        let facts = self.connector.facts(&self.definition, &used).await;
        let facts = facts.map_err(|error| DataFusionError::External(Box::new(error)))?;
        if let Some(telling) = session.config().get_extension::<Telling>() {
            telling.note(&self.connector, &self.definition, used, &facts);
        }
        let Judged { conditions, pruning, rest } = self.judged(filters, &facts, wanted)?;
        let read = if rest.is_empty() { columns.to_vec() } else { self.used(columns, &rest)? };
        let dialect = self.connector.capabilities().dialect;
        let limit = limit.filter(|_| self.sends_limit() && rest.is_empty());
        let of_table = RemoteSelect::of(Arc::clone(&self.definition), &read, facts, dialect);
        let select = RemoteSelect { conditions, pruning, limit, ..of_table };
        let schema = Arc::new(self.schema.project(&read)?);
        let batch_rows = session.config().batch_size();
        let of_session = session.config().get_extension::<DeadNodes>();
        let of_table = self.member.as_ref().map(|member| member.dead_nodes).unwrap_or_default();
        let place = Place {
            server: self.server.clone(),
            member: self.member.clone(),
            dead_nodes: of_session.map(|dead_nodes| *dead_nodes).unwrap_or_default().of_table(of_table),
            pushdown: self.pushdown,
        };
        let connector = Arc::clone(&self.connector);
        let scan = ForeignScanExec::new(select, connector, Arc::clone(&schema), batch_rows, Arc::new(place));
        let Some(predicate) = conjunction(rest) else { return Ok(Arc::new(scan)) };
        let predicate = session.create_physical_expr(predicate, &Arc::clone(&schema).to_dfschema()?)?;
        let filtered = Arc::new(FilterExec::try_new(predicate, Arc::new(scan))?);
        let shown = columns.iter().filter_map(|column| {
            let place = read.binary_search(column).ok()?;
            let name = self.schema.field(*column).name();
            Some((Arc::new(Column::new(name, place)) as Arc<dyn PhysicalExpr>, name.clone()))
        });
        Ok(Arc::new(ProjectionExec::try_new(shown.collect::<Vec<_>>(), filtered)?))
    }

    /// The places of the columns that a scan has to do with.
    fn used(&self, wanted: &[usize], filters: &[Expr]) -> Result<Vec<usize>> {
        let mut used = wanted.to_vec();
        for column in filters.iter().flat_map(Expr::column_refs) {
            used.push(self.schema.index_of(&column.name)?);
        }
        used.sort_unstable();
        used.dedup();
        Ok(used)
    }
}

/// What becomes of filters for which a scan only reads less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The planner judges them above the scan.
    Fewer,
    Fulfilled,
}

/// By whom filters are judged.
#[derive(Default)]
struct Judged {
    /// In the words of the server.
    conditions: Vec<String>,
    pruning: Vec<Expr>,
    /// Here: the optimizer may have written them anew since they were found to mean the same there.
    rest: Vec<Expr>,
}

#[async_trait]
impl TableProvider for ForeignTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// What means the same there is left to the server; the rest is filtered here.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let conditions = self.conditions(&TableFacts::default())?;
        let supported = |filter: &&Expr| match conditions.write(filter) {
            Some(_) if self.pushdown.filters => TableProviderFilterPushDown::Exact,
            None if self.prunes() => TableProviderFilterPushDown::Inexact,
            _ => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(supported).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.definition.columns.len()).collect();
        self.plan(session, projection.unwrap_or(&all), filters, limit, Wanted::Fewer).await
    }
}

/// A condition that no row fulfils: what a condition on the node of a multi-tenant table is to its other children.
pub(crate) fn is_never(filter: &Expr) -> bool {
    matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(false) | None), _))
}

pub(crate) fn is_always(filter: &Expr) -> bool {
    matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(true)), _))
}
