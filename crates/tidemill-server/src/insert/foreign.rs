//! A foreign table, or nodes of a multi-tenant one, as what an INSERT or a COPY writes to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::record_batch::RecordBatch;
use tidemill_federation::multi_tenant::URL;
use tidemill_federation::write::Writing;
use tidemill_sql::{Result, SqlError};

use crate::catalog::{Catalog, ForeignServer, ForeignTable};
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
        let targets = targets(catalog, &self.table, nodes.as_deref(), "INSERT")?;
        Writing::new(&self.table.object.name, targets, nodes.is_some(), &self.table.turn).adding()
    }

    /// The columns that a COPY without a list has: those of a multi-tenant table without the one that tells the node. Nothing: all.
    pub fn copied(&self, catalog: &Catalog) -> Result<Vec<String>> {
        if !catalog.server_of(&self.table)?.has_multi_tenant_tables() {
            return Ok(vec![]);
        }
        let columns = self.table.object.columns.iter().map(|known| &known.column.name);
        Ok(columns.filter(|name| *name != URL).cloned().collect())
    }

    /// The one server that gets the next rows, if all of them are to be in one transaction: of a multi-tenant table the next one in
    /// turn that takes rows and is not known to be down.
    pub fn next(&self, catalog: &Catalog) -> Result<(Self, u32)> {
        let server = catalog.server_of(&self.table)?;
        if !server.has_multi_tenant_tables() {
            return Ok((self.clone(), server.oid));
        }
        let targets = targets(catalog, &self.table, None, "INSERT")?;
        let mut nodes = Vec::with_capacity(targets.len());
        for target in targets.iter().filter(|target| target.refusal.is_none()) {
            nodes.push((&target.node, catalog.server(&target.server)?));
        }
        let is_up = |server: &ForeignServer| server.reached().health().is_none_or(|h| h.down().is_none());
        if nodes.iter().any(|(_, server)| is_up(server)) {
            nodes.retain(|(_, server)| is_up(server));
        }
        let turn = self.table.turn.fetch_add(1, Ordering::Relaxed);
        match nodes.get(turn % nodes.len().max(1)) {
            Some((node, server)) => {
                let nodes = Some(vec![(*node).clone()]);
                Ok((Self { table: Arc::clone(&self.table), nodes }, server.oid))
            }
            // An error tells why nobody takes any.
            None => Ok((self.clone(), server.oid)),
        }
    }
}

/// Events of the stream that stands for a foreign table, without their time of arrival.
pub fn rows_of(events: &RecordBatch) -> Result<RecordBatch> {
    let places: Vec<_> = (1..events.num_columns()).collect();
    events.project(&places).map_err(|error| SqlError::internal(error.to_string()))
}
