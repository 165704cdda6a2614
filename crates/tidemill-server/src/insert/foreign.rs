//! A foreign table, or nodes of a multi-tenant one, as what an INSERT or a COPY writes to.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use tidemill_federation::write::Writing;
use tidemill_sql::{Result, SqlError};

use crate::catalog::{Catalog, ForeignTable};
use crate::tables::foreign::targets;

#[derive(Debug, Clone)]
pub struct ForeignTarget {
    pub table: Arc<ForeignTable>,
    /// Those that the statement asks for; `None` is all.
    pub nodes: Option<Vec<String>>,
}

impl ForeignTarget {
    /// The writing half of a statement.
    pub fn writing(&self, catalog: &Catalog) -> Result<Writing> {
        let nodes: Option<Vec<&str>> =
            self.nodes.as_ref().map(|nodes| nodes.iter().map(String::as_str).collect());
        let targets = targets(catalog, &self.table, nodes.as_deref())?;
        Writing::new(&self.table.object.name, targets, nodes.is_some(), &self.table.turn).adding()
    }
}

/// Events of the stream that stands for a foreign table, without their time of arrival.
pub fn rows_of(events: &RecordBatch) -> Result<RecordBatch> {
    let places: Vec<_> = (1..events.num_columns()).collect();
    events.project(&places).map_err(|error| SqlError::internal(error.to_string()))
}
