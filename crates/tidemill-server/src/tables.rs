//! The catalog in the eyes of the planner.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use tidemill_stream::stream::read_of_stream;

use crate::catalog::{Catalog, Relation};

pub const DATABASE: &str = "tidemill";
pub const SCHEMA: &str = "public";

/// Whether a query may name a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    Refused,
    Planned,
}

/// The state with our catalog in the place of DataFusion's.
pub fn with_catalog(state: &SessionState, catalog: Arc<Catalog>, streams: Streams) -> SessionState {
    SessionStateBuilder::new_from_existing(state.clone())
        .with_catalog_list(Arc::new(Relations { catalog, streams }))
        .build()
}

/// All levels at once: there is one database and one schema.
#[derive(Debug, Clone)]
struct Relations {
    catalog: Arc<Catalog>,
    streams: Streams,
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
        vec![SCHEMA.into()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (name == SCHEMA).then(|| Arc::new(self.clone()) as Arc<dyn SchemaProvider>)
    }
}

#[async_trait]
impl SchemaProvider for Relations {
    fn table_names(&self) -> Vec<String> {
        self.catalog.relations().iter().map(|r| r.name().to_string()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.catalog.get(name) {
            None => Ok(None),
            Some(Relation::View(view)) => Ok(Some(Arc::clone(&view.table) as Arc<dyn TableProvider>)),
            Some(Relation::Stream(stream)) if self.streams == Streams::Planned => {
                Ok(Some(Arc::clone(&stream.table) as Arc<dyn TableProvider>))
            }
            Some(Relation::Stream(_)) => Err(DataFusionError::External(Box::new(read_of_stream(name)))),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog.get(name).is_some()
    }
}
