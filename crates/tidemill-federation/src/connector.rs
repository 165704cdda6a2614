//! What a database has to offer to be a foreign server: one file a database implements this trait.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError};

use crate::snapshot::Shared;

/// What can be left to the other side, because it means the same there.
#[derive(Debug)]
pub struct Capabilities {
    /// Comparison, logic and tests for null of these types are pushed.
    pub comparable: fn(Type) -> bool,
    /// What makes a comparison of texts one of their bytes: ` COLLATE "C"`.
    pub byte_order: &'static str,
    pub limit: bool,
    pub order: bool,
    /// `count`, `sum`, `avg`, `min` and `max`, with PostgreSQL's types.
    pub aggregates: bool,
}

/// A query for the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteQuery {
    pub sql: String,
    pub columns: Vec<RemoteColumn>,
    /// The foreign table, as errors name it.
    pub table: String,
    /// The relation of the other side, as errors name it.
    pub relation: String,
}

/// A column of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteColumn {
    /// As it is called here.
    pub name: String,
    pub ty: Type,
    /// As it is called there.
    pub remote: String,
}

/// A table that the other side has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedTable {
    pub name: String,
    pub columns: Vec<ImportedColumn>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedColumn {
    pub name: String,
    pub ty: Type,
    pub not_null: bool,
}

/// Rows on their way into a table there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insertion {
    /// The foreign table, as errors name it.
    pub table: String,
    /// The relation of the other side, as it is written there.
    pub relation: String,
    /// The columns that get values, in the order of the batches.
    pub columns: Vec<RemoteColumn>,
}

/// A transaction that writes on a server. It is rolled back when it is dropped before its commit.
#[async_trait]
pub trait Writer: Send {
    /// Adds rows with the columns of the insertion.
    async fn insert(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<()>;

    /// An UPDATE or a DELETE in the server's words; how many rows it has changed.
    async fn execute(&mut self, statement: &RemoteQuery) -> Result<u64>;

    /// Makes it last. It is of no further use.
    async fn commit(&mut self) -> Result<()>;
}

/// One server as one user reaches it. It holds the connections that are free.
#[async_trait]
pub trait Connector: Send + Sync + fmt::Debug {
    fn capabilities(&self) -> &'static Capabilities;

    /// The rows of a query, as they come. Dropping the stream ends the query there as well. `shared` is the snapshot to read, if
    /// other scans of the statement read it too; `counted` is told the bytes that come.
    fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        batch_rows: usize,
        shared: Option<Arc<Shared>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream;

    /// The tables of a schema there; `None` if there is no such schema. A column whose type there is none of here is an error.
    async fn tables(&self, schema: &str, selection: &ImportSelection) -> Result<Option<Vec<ImportedTable>>>;

    /// One round trip to the server on a connection of its own, which is kept for the next; an error of class 08 says that
    /// the server is not there. What is local always is.
    async fn probe(&self) -> Result<()> {
        Ok(())
    }

    /// Connections that are open.
    fn connections(&self) -> usize {
        0
    }

    /// Begins a transaction that writes, for servers that can be written to.
    async fn begin(&self) -> Result<Box<dyn Writer>> {
        Err(SqlError::unsupported("foreign tables of this kind of server are only read"))
    }
}
