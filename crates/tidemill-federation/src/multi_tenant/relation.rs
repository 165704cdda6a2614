//! A multi-tenant table in the eyes of the planner: one relation, however many children it has. The children come in when
//! it is scanned, so that a plan over many of them is made nearly as fast as one over a single table.
//!
//! ```text
//! TableScan: t, __spd_url <> '/a/' AND x > 1  =>  Union
//!                                                   Projection: x, '/b/' AS __spd_url
//!                                                     ForeignScan: t__b__0, x > 1
//!                                                   Projection: x, '/c/' AS __spd_url
//!                                                     ForeignScan: t__c__0, x > 1
//! ```

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::ToDFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use futures::future::try_join_all;
use tidemill_sql::Result;
use tidemill_sql::aggregate::{StateForm, state_name};
use tidemill_sql::types::{Scalar, Type};

use super::below::{is_node, localized};
use super::{ChildTable, MultiTenantTable, URL};
use crate::modifier::is_within;
use crate::table::{ForeignTable, is_always, is_never};

type Plan = Arc<dyn ExecutionPlan>;

/// The rows of all children.
#[derive(Debug)]
pub struct Relation {
    schema: SchemaRef,
    children: Vec<Child>,
}

#[derive(Debug)]
struct Child {
    table: Arc<ForeignTable>,
    /// Where the child has the table's columns; `None` is the one that tells the node.
    places: Vec<Option<usize>>,
    /// The node of a row, over the child's columns.
    node: Expr,
    /// Of the nodes' names, if the child has nodes itself: `/west`.
    prefix: Option<String>,
}

impl Relation {
    /// An error if a child has not all the columns.
    pub(super) fn new(whole: &MultiTenantTable) -> Result<Self> {
        let fields = whole.columns.iter().map(|(name, ty)| ty.field(name)).collect::<Vec<_>>();
        let children = whole.children.iter().map(|child| Child::new(whole, child));
        Ok(Self { schema: Arc::new(Schema::new(fields)), children: children.collect::<Result<_>>()? })
    }
}

impl Relation {
    /// The children, and where they have a column; `None` if it is the one that tells the node.
    pub fn shown(&self, column: usize) -> Option<Vec<(&ForeignTable, usize)>> {
        let children = self.children.iter();
        children.map(|child| Some((child.table.as_ref(), child.places.get(column).copied()??))).collect()
    }

    /// The table with the states that a column shows as its last.
    pub fn with_state(&self, column: usize, form: &StateForm) -> Self {
        let name = state_name(&self.schema, self.schema.field(column).name());
        let field = Arc::new(form.encoded_type().field(name));
        let fields = self.schema.fields().iter().cloned().chain([field]).collect::<Vec<_>>();
        let children = self.children.iter().map(|child| child.with_state(column, form));
        Self { schema: Arc::new(Schema::new(fields)), children: children.collect() }
    }
}

impl Child {
    fn with_state(&self, column: usize, form: &StateForm) -> Self {
        let Self { table, places, node, prefix } = self;
        let (mut table, mut places) = (Arc::clone(table), places.clone());
        let shown = places.get(column).copied().flatten();
        if let Some(shown) = shown {
            places.push(Some(table.schema().fields().len()));
            table = Arc::new(table.with_state(shown, form));
        }
        Self { table, places, node: node.clone(), prefix: prefix.clone() }
    }

    fn new(whole: &MultiTenantTable, child: &ChildTable) -> Result<Self> {
        let schema = child.table.schema();
        let place = |(name, ty): &(String, Type)| {
            if name == URL && *ty == Type::new(Scalar::Text) {
                return Ok(None);
            }
            let place = schema.index_of(name).ok();
            match place.map(|place| Type::of_field(schema.field(place))).transpose()? {
                Some(found) if found.oid() == ty.oid() && is_within(found, *ty) => Ok(place),
                found => Err(whole.unlike(child, name, *ty, found)),
            }
        };
        let places = whole.columns.iter().map(place).collect::<Result<_>>()?;
        let (node, prefix) = (child.node()?, child.is_cascade().then(|| child.prefix()));
        Ok(Self { table: Arc::clone(&child.table), places, node, prefix })
    }

    /// The wanted columns of the rows that fulfil all filters; `None` if there can be none.
    async fn scan(
        &self,
        session: &dyn Session,
        wanted: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Option<Plan>> {
        let mut own = Vec::with_capacity(filters.len());
        for filter in filters {
            match self.localized(session, filter)? {
                filter if is_never(&filter) => return Ok(None),
                filter if is_always(&filter) => {}
                filter => own.push(filter),
            }
        }
        let places: Vec<_> = wanted.iter().filter_map(|column| self.places[*column]).collect();
        if places.len() == wanted.len() {
            return self.table.fulfilled(session, &places, &own, limit).await.map(Some);
        }
        let schema = self.table.schema();
        let of_node = self.node.column_refs().into_iter().map(|column| schema.index_of(&column.name));
        let read = places.into_iter().map(Ok).chain(of_node).collect::<std::result::Result<Vec<_>, _>>()?;
        let rows = self.table.fulfilled(session, &read, &own, limit).await?;
        let node = session.create_physical_expr(self.node.clone(), &rows.schema().to_dfschema()?)?;
        let mut next = 0;
        let items = wanted.iter().map(|column| match self.places[*column] {
            None => (Arc::clone(&node), URL.to_string()),
            Some(place) => {
                let name = schema.field(place).name();
                let column = Arc::new(Column::new(name, next)) as Arc<dyn PhysicalExpr>;
                next += 1;
                (column, name.clone())
            }
        });
        Ok(Some(Arc::new(ProjectionExec::try_new(items.collect::<Vec<_>>(), rows)?)))
    }

    /// What a filter of the table is for the rows of this child.
    fn localized(&self, session: &dyn Session, filter: &Expr) -> PlanResult<Expr> {
        if !filter.exists(|expr| Ok(is_node(expr)))? {
            return Ok(filter.clone());
        }
        let of_node = localized(filter.clone(), self.prefix.as_deref(), &self.node)?;
        let context = SimplifyContext::builder()
            .with_schema(self.table.schema().to_dfschema_ref()?)
            .with_config_options(Arc::clone(session.config().options()))
            .with_query_execution_start_time(session.execution_props().query_execution_start_time)
            .build();
        ExprSimplifier::new(context).simplify(of_node)
    }
}

#[async_trait]
impl TableProvider for Relation {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// The children see to all filters that can be told without another query.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        let supported = |filter: &&Expr| {
            Ok(match filter.exists(|expr| Ok(is_query(expr)))? {
                true => TableProviderFilterPushDown::Unsupported,
                false => TableProviderFilterPushDown::Exact,
            })
        };
        filters.iter().map(supported).collect()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Plan> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let wanted = projection.unwrap_or(&all);
        let sides = self.children.iter().map(|child| child.scan(session, wanted, filters, limit));
        let mut sides: Vec<_> = try_join_all(sides).await?.into_iter().flatten().collect();
        match sides.len() {
            0 => Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(wanted)?)))),
            1 => Ok(sides.remove(0)),
            _ => UnionExec::try_new(sides),
        }
    }
}

fn is_query(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::ScalarSubquery(_)
            | Expr::InSubquery(_)
            | Expr::Exists(_)
            | Expr::SetComparison(_)
            | Expr::OuterReferenceColumn(..)
    )
}
