//! What a database has to offer to be a foreign server: one file a database implements this trait.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use futures::future::BoxFuture;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};

use crate::bound::Bounds;
use crate::cascade::Cascade;
use crate::dialect::{Comparison, Dialect, Operand};
use crate::fact::TableFacts;
use crate::option::Options;
pub use crate::remote_query::{Assigned, Assignment, Range, RemoteColumn, RemoteQuery};
use crate::snapshot::Shared;
use crate::table::TableDefinition;

/// What can be left to the other side, because it means there exactly what it means in PostgreSQL. Anything else is done here.
#[derive(Debug)]
pub struct Capabilities {
    pub dialect: &'static dyn Dialect,
    /// What EXPLAIN calls what the other side is asked.
    pub label: &'static str,
    pub comparisons: &'static [Comparison],
    /// `IN` and `NOT IN` of a list of constants.
    pub lists: bool,
    pub logic: &'static [Logic],
    /// Types of which two values are equal there if and only if they are equal here.
    pub equal: &'static [Scalar],
    /// Types whose values are in the same order there.
    pub ordered: &'static [Scalar],
    /// Types by whose columns rows can be grouped: what is equal looks the same, too.
    pub grouped: &'static [Scalar],
    /// Types by which rows can be grouped although what is equal may look different.
    pub grouped_by_key: &'static [Scalar],
    pub aggregates: &'static [Aggregate],
    /// Joins of two queries, as standard SQL has them.
    pub joins: bool,
    pub limit: bool,
    /// ORDER BY, with nulls where they are wanted, together with LIMIT.
    pub sort: bool,
    pub functions: &'static [Function],
    /// Those that depend on the session's time zone, and are the same there if it is UTC.
    pub functions_in_utc: &'static [Function],
    /// Casts, from and to, that are the same there.
    pub casts: &'static [(Scalar, Scalar)],
    /// … if the session's time zone is UTC.
    pub casts_in_utc: &'static [(Scalar, Scalar)],
    /// Types that are compared without casts there, as if the first were the second.
    pub mixed: &'static [(Scalar, Scalar)],
    /// `CASE WHEN`, and conditions as values.
    pub cases: bool,
    /// Whether values there are kept as the modifiers of their types say, which is checked: a `numeric(5,1)` here is one there.
    /// If not, whatever is asked of a column with a modifier is judged here, where its values are made so.
    pub modifiers: bool,
    /// Conditions are looked at to read less. Their rows are filtered here all the same.
    pub prunes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logic {
    And,
    Or,
    Not,
    /// `IS NULL` and `IS NOT NULL` of a column of any type.
    IsNull,
    /// A column or a constant of type bool.
    Truth,
    /// `LIKE` and `NOT LIKE` of a constant.
    Like,
}

/// A function or an operator with arguments of these types.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub names: &'static [&'static str],
    /// For each argument the types that it may have.
    pub arguments: &'static [&'static [Scalar]],
}

impl Function {
    pub const fn new(names: &'static [&'static str], arguments: &'static [&'static [Scalar]]) -> Self {
        Self { names, arguments }
    }

    pub fn takes(&self, name: &str, types: &[Type]) -> bool {
        let fit = || self.arguments.iter().zip(types).all(|(known, ty)| has(known, *ty));
        self.names.contains(&name) && types.len() == self.arguments.len() && fit()
    }
}

/// Aggregates whose partial states the other side can make.
#[derive(Debug, Clone, Copy)]
pub struct Aggregate {
    pub names: &'static [&'static str],
    /// The types of its argument; all if there are none.
    pub of: &'static [Scalar],
}

impl Capabilities {
    /// Everything is done here.
    pub const fn none(dialect: &'static dyn Dialect, label: &'static str) -> Self {
        Self {
            dialect,
            label,
            comparisons: &[],
            lists: false,
            logic: &[],
            equal: &[],
            ordered: &[],
            grouped: &[],
            grouped_by_key: &[],
            aggregates: &[],
            joins: false,
            limit: false,
            sort: false,
            functions: &[],
            functions_in_utc: &[],
            casts: &[],
            casts_in_utc: &[],
            mixed: &[],
            cases: false,
            modifiers: false,
            prunes: false,
        }
    }

    /// Whether a column, or something that is made of it, is there what it is here.
    pub fn keeps(&self, operand: &Operand) -> bool {
        self.modifiers || operand.ty.typmod < 0 || operand.value.is_some()
    }

    /// Whether values of a type are compared there as they are here.
    pub fn compares(&self, sign: Comparison, ty: Type) -> bool {
        let types = if sign.is_order() { self.ordered } else { self.equal };
        self.comparisons.contains(&sign) && has(types, ty)
    }

    pub fn orders(&self, ty: Type) -> bool {
        has(self.ordered, ty)
    }

    pub fn groups(&self, ty: Type) -> bool {
        has(self.grouped, ty)
    }

    pub fn groups_by_key(&self, ty: Type) -> bool {
        has(self.grouped_by_key, ty)
    }

    pub fn aggregates(&self, name: &str, ty: Type) -> bool {
        let is_known = |known: &Aggregate| known.of.is_empty() || has(known.of, ty);
        self.aggregates.iter().any(|known| known.names.contains(&name) && is_known(known))
    }
}

fn has(types: &[Scalar], ty: Type) -> bool {
    !ty.array && types.contains(&ty.scalar)
}

/// A table that the other side has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedTable {
    pub name: String,
    pub columns: Vec<ImportedColumn>,
    /// Of the foreign table that is made of it.
    pub options: Options,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedColumn {
    pub name: String,
    pub ty: Type,
    pub not_null: bool,
    /// Of the foreign table's column.
    pub options: Options,
}

/// Rows on their way into a table there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insertion {
    /// The foreign table, with the options of it and its columns.
    pub definition: Arc<TableDefinition>,
    /// The relation of the other side, as it is written there.
    pub relation: String,
    /// The columns that get values, in the order of the batches.
    pub columns: Vec<RemoteColumn>,
    /// Rows that are there already, by a constraint of that table, are left out.
    pub skips_conflicts: bool,
    /// What is wanted of each row that was added.
    pub returned: Vec<RemoteColumn>,
    /// For servers of this kind.
    pub cascade: Option<Arc<Cascade>>,
}

impl Insertion {
    /// Into the table of a statement.
    pub fn of(statement: &RemoteQuery, columns: Vec<RemoteColumn>) -> Self {
        Self {
            definition: Arc::clone(&statement.definition),
            relation: statement.relation.clone(),
            columns,
            skips_conflicts: false,
            returned: vec![],
            cascade: None,
        }
    }
}

/// What came of a statement.
#[derive(Debug, Default)]
pub struct Answer {
    /// The rows that were added, changed or found.
    pub count: u64,
    /// The columns of them that were asked for, if any were.
    pub rows: Vec<RecordBatch>,
}

/// Rows of an answer wait in memory: so many bytes at most.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;

impl Answer {
    /// Keeps rows of the answer, unless there are too many.
    pub fn keep(&mut self, server: &str, rows: RecordBatch) -> Result<()> {
        self.rows.push(rows);
        let bytes: usize = self.rows.iter().map(RecordBatch::get_array_memory_size).sum();
        if bytes <= ANSWER_BYTES_MAX {
            return Ok(());
        }
        let message = format!("server \"{server}\" gives back more than {ANSWER_BYTES_MAX} bytes of rows");
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .with_detail("What a transaction reads of a server to which it has written waits in memory.")
            .with_hint("Read it before the first write, or after COMMIT."))
    }
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Committed,
    RolledBack,
    /// It goes on, and why it cannot be ended.
    Running(String),
    /// The server does not tell, or no longer.
    Unknown,
}

/// A transaction that writes on a server. It is rolled back when it is dropped before its commit.
#[async_trait]
pub trait Writer: Send {
    /// Adds rows with the columns of the insertion. What is wrong with them may come out as late as at the next flush.
    async fn insert(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<Answer>;

    /// The columns of a table, as they are called there, whose values the server makes of those of others.
    async fn generated(&mut self, _: &Insertion) -> Result<Arc<[String]>> {
        Ok(Arc::new([]))
    }

    /// A statement in the server's words: an UPDATE, a DELETE, a definition, a savepoint, or a query of what the
    /// transaction sees. It has rows if the statement names columns.
    async fn execute(&mut self, statement: &RemoteQuery) -> Result<Answer>;

    /// A statement that [execute](Writer::execute) has refused because of the transaction (25001). It lasts when this returns;
    /// an error that is not the server's own word, once it was sent, is that it is [not known](unanswered).
    async fn execute_alone(&mut self, _statement: &RemoteQuery) -> Result<Answer> {
        Err(SqlError::internal("a server has statements that cannot be in a transaction"))
    }

    /// By which the [fate](Connector::fate) of the transaction can be asked for later; `None` if the server does not tell.
    async fn id(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Gives up the rows that wait for the next flush.
    fn forget(&mut self) {}

    /// Returns when the server has taken all rows; an error if it is known to be gone.
    async fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns when the server has judged what it can of the commit; an error if it would refuse it, or does not answer.
    async fn judge(&mut self) -> Result<()> {
        self.flush().await
    }

    /// Makes it last. It is of no further use.
    async fn commit(&mut self) -> Result<()>;

    /// Ends the statement that is under way, as an error does, once it is polled; `None` if that cannot be done.
    fn stop(&self) -> Option<BoxFuture<'static, Result<()>>> {
        None
    }
}

/// A COMMIT was sent, and no answer came.
pub fn unknown(server: &str, why: impl Into<String>) -> SqlError {
    let message = format!("whether the transaction on server \"{server}\" was committed is not known");
    SqlError::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, message).with_detail(why)
}

/// A statement that cannot be in a transaction was sent, and no answer came.
pub fn unanswered(server: &str, why: impl Into<String>) -> SqlError {
    let message = format!("whether the statement was carried out on server \"{server}\" is not known");
    SqlError::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, message).with_detail(why)
}

/// One server as one user reaches it. It holds the connections that are free.
#[async_trait]
pub trait Connector: Send + Sync + fmt::Debug {
    fn capabilities(&self) -> &'static Capabilities;

    /// The rows of a query, as they come. Dropping the stream ends the query there as well. `shared` is the snapshot to read, if
    /// other scans of the statement read it too; `counted` is told the bytes that come, and 0 once the server is reached.
    fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        bounds: Bounds,
        shared: Option<Arc<Shared>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream;

    /// The tables of a schema there; `None` if there is no such schema. A column whose type there is none of here is a text or an error.
    /// `options` are those of the import.
    async fn tables(
        &self,
        schema: &str,
        selection: &ImportSelection,
        options: &Options,
    ) -> Result<Option<Vec<ImportedTable>>>;

    /// What is known of a table before it is read. It may be an error that one of the columns at these places is of another type
    /// there; what comes is checked in any case.
    async fn facts(&self, _: &TableDefinition, _used: &[usize]) -> Result<Arc<TableFacts>> {
        Ok(Arc::default())
    }

    /// One round trip to the server on a connection of its own, which is kept for the next; an error of class 08 says that
    /// the server is not there. What is local always is.
    async fn probe(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the server is, or may be, one of this kind, which may have nodes itself.
    fn is_cascade(&self) -> bool {
        false
    }

    /// Where the server is, as errors tell it: `at "10.0.0.7", port 5432`.
    fn address(&self) -> Option<String> {
        None
    }

    /// Why nothing can be asked of the server now, if that is known.
    fn absence(&self) -> Option<SqlError> {
        None
    }

    /// Whether rows can be added to its tables.
    fn is_writable(&self) -> bool {
        false
    }

    /// Whether rows of its tables can be changed and deleted.
    fn changes_rows(&self) -> bool {
        self.is_writable()
    }

    /// Connections that are open.
    fn connections(&self) -> usize {
        0
    }

    /// What became of the transaction with an [id](Writer::id), whose connection is lost: if it still waits for that, it is ended.
    async fn fate(&self, _id: &str) -> Result<Fate> {
        Ok(Fate::Unknown)
    }

    /// Begins a transaction that writes, for servers that can be written to; of a block if more statements are to come.
    async fn begin(&self, _is_block: bool) -> Result<Box<dyn Writer>> {
        Err(SqlError::unsupported("foreign tables of this kind of server are only read"))
    }
}
