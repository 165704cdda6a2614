//! The catalog in the eyes of the planner: the schemas, and which of them a name without one is looked up in.

pub mod foreign;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::datasource::ViewTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use tidemill_sql::name::split_nodes;
use tidemill_sql::planner::UNQUALIFIED;
use tidemill_sql::{SqlError, SqlState};
use tidemill_stream::stream::read_of_stream;

use crate::catalog::{Catalog, ForeignTable, PlainView, Relation};
use crate::query::Planner;
use crate::system::{self, INFORMATION_SCHEMA, PG_CATALOG, PIPELINEDB, SystemTable, TIDEMILL};

pub const DATABASE: &str = "tidemill";
/// The schema of streams, views and tables.
pub const SCHEMA: &str = "public";
/// All schemas that there are.
pub const SCHEMAS: [&str; 5] = [SCHEMA, PG_CATALOG, INFORMATION_SCHEMA, PIPELINEDB, TIDEMILL];

/// Whether a query may name a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    Refused,
    Planned,
}

/// The state with our catalog in the place of DataFusion's.
pub fn with_catalog(state: &SessionState, catalog: Arc<Catalog>, streams: Streams) -> SessionState {
    SessionStateBuilder::new_from_existing(state.clone())
        .with_catalog_list(Relations::list(catalog, streams, &[SCHEMA.into()]))
        .build()
}

/// The schemas of a search path that exist.
pub fn existing(path: &[String]) -> Vec<String> {
    path.iter().filter(|name| SCHEMAS.contains(&name.as_str())).cloned().collect()
}

/// All levels at once: there is one database, and what its schemas hold is a matter of looking up.
#[derive(Debug, Clone)]
pub struct Relations {
    catalog: Arc<Catalog>,
    streams: Streams,
    /// Schemas in which unqualified names are looked up, `pg_catalog` included.
    path: Arc<[String]>,
    /// Plans the queries of plain views; `None` where they are not read.
    planner: Option<Planner>,
}

impl Relations {
    /// For a session with this search path; `pg_catalog` comes first unless the path has it.
    pub fn list(
        catalog: Arc<Catalog>,
        streams: Streams,
        search_path: &[String],
    ) -> Arc<dyn CatalogProviderList> {
        Arc::new(Self { catalog, streams, path: with_implied(search_path), planner: None })
    }

    /// As [`Relations::list`], of what a query may read.
    pub fn of_planner(planner: Planner, search_path: &[String]) -> Arc<dyn CatalogProviderList> {
        let catalog = Arc::clone(&planner.server.catalog);
        let path = with_implied(search_path);
        Arc::new(Self { catalog, streams: Streams::Refused, path, planner: Some(planner) })
    }
}

fn with_implied(search_path: &[String]) -> Arc<[String]> {
    let implied = (!search_path.iter().any(|s| s == PG_CATALOG)).then(|| PG_CATALOG.to_string());
    implied.into_iter().chain(search_path.iter().cloned()).collect()
}

impl CatalogProviderList for Relations {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![DATABASE.into()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == DATABASE).then(|| Arc::new(self.clone()) as Arc<dyn CatalogProvider>)
    }
}

impl CatalogProvider for Relations {
    fn schema_names(&self) -> Vec<String> {
        SCHEMAS.map(String::from).into()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let schemas = if name == UNQUALIFIED { Arc::clone(&self.path) } else { [name.to_string()].into() };
        let known = name == UNQUALIFIED || SCHEMAS.contains(&name);
        known.then(|| Arc::new(Lookup { relations: self.clone(), schemas }) as Arc<dyn SchemaProvider>)
    }
}

/// Relations of the first of several schemas that has one of the name.
#[derive(Debug)]
struct Lookup {
    relations: Relations,
    schemas: Arc<[String]>,
}

impl Lookup {
    async fn table_in(&self, schema: &str, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if schema != SCHEMA {
            return Ok(system::find(schema, name).map(|relation| Arc::new(SystemTable(relation)) as _));
        }
        let (name, nodes) = split_nodes(name);
        if let Some(rows) = self.relations.planner.as_ref().and_then(|planner| planner.rows_of(name)) {
            return Ok(Some(rows));
        }
        let found = self.relations.catalog.get(name);
        if let (Some(_), Some(planner)) = (&found, &self.relations.planner) {
            planner.note_read(name);
        }
        if nodes.is_some() && !matches!(found, Some(Relation::Foreign(_))) {
            return Err(DataFusionError::External(Box::new(no_nodes(name, found.is_some()))));
        }
        Ok(Some(match found {
            None => return Ok(None),
            Some(Relation::View(view)) => Arc::clone(&view.table) as Arc<dyn TableProvider>,
            Some(Relation::Table(table)) => Arc::clone(&table.table) as Arc<dyn TableProvider>,
            Some(Relation::PlainView(view)) => self.plain_view(&view).await?,
            Some(Relation::Foreign(table)) => self.foreign_table(&table, nodes.as_deref())?,
            Some(Relation::Stream(stream)) if self.relations.streams == Streams::Planned => {
                Arc::clone(&stream.table) as Arc<dyn TableProvider>
            }
            Some(Relation::Transform(transform)) => {
                return Err(DataFusionError::External(Box::new(read_of_transform(&transform.object.name))));
            }
            Some(Relation::Stream(_)) => {
                return Err(DataFusionError::External(Box::new(read_of_stream(name))));
            }
        }))
    }

    fn foreign_table(&self, table: &ForeignTable, nodes: Option<&[&str]>) -> Result<Arc<dyn TableProvider>> {
        let pushdown = self.relations.planner.as_ref().map(Planner::pushdown).unwrap_or_default();
        foreign::provider(&self.relations.catalog, table, nodes, pushdown)
            .map_err(|error| DataFusionError::External(Box::new(error)))
    }

    /// The plan of the view's query, which the planner puts in the place of the name.
    async fn plain_view(&self, view: &PlainView) -> Result<Arc<dyn TableProvider>> {
        let external = |error: SqlError| DataFusionError::External(Box::new(error));
        let Some(planner) = &self.relations.planner else {
            let message = format!("a continuous view cannot read view \"{}\"", view.object.name);
            return Err(external(SqlError::unsupported(message)));
        };
        let plan = planner.view(view).await.map_err(external)?;
        Ok(Arc::new(ViewTable::new(plan, Some(view.object.query.clone()))))
    }
}

#[async_trait]
impl SchemaProvider for Lookup {
    fn table_names(&self) -> Vec<String> {
        let of = |schema: &String| match schema.as_str() {
            SCHEMA => self.relations.catalog.relations().iter().map(|r| r.name().to_string()).collect(),
            schema => {
                let system = system::all().iter().filter(|r| r.schema == schema);
                system.map(|r| r.name.to_string()).collect::<Vec<_>>()
            }
        };
        self.schemas.iter().flat_map(of).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        for schema in self.schemas.iter() {
            if let Some(table) = self.table_in(schema, name).await? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.schemas.iter().any(|schema| match schema.as_str() {
            SCHEMA => self.relations.catalog.get(split_nodes(name).0).is_some(),
            schema => system::find(schema, name).is_some(),
        })
    }
}

fn read_of_transform(name: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is a continuous transform"))
        .with_hint("It keeps no rows: read the table that it writes to, or a view over the stream.")
}

/// The error for a node filter on what has no nodes.
pub fn no_nodes(name: &str, exists: bool) -> SqlError {
    match exists {
        true => {
            let message = format!("\"{name}\" is not a multi-tenant table");
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_hint("Only the rows of a multi-tenant table are on several nodes.")
        }
        false => SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist")),
    }
}
