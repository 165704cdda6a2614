//! Rows that are written to foreign tables: an INSERT into a multi-tenant table deals its rows out to the nodes in turn.
//!
//! What one statement writes is a transaction on each node that gets any of it. They are committed when all rows have
//! been taken by all of them, so that most errors leave no node changed; one that comes while they are committed tells
//! which nodes are.

mod change;
mod deal;
mod left;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use tidemill_sql::{Result, SqlError};

use crate::cascade::{Cascade, Route};
use crate::connector::{Connector, Insertion};
use crate::health::is_absence;
use crate::multi_tenant::URL;
use crate::returned;
use crate::table::TableDefinition;
use crate::transaction::{Transaction, Transactions};

/// A table that can be written to, and its node.
#[derive(Debug, Clone)]
pub struct Target {
    pub server: String,
    /// As in the column that tells the node: `/north/`.
    pub node: String,
    pub table: Arc<TableDefinition>,
    pub connector: Arc<dyn Connector>,
    /// Why no rows can be added to it.
    pub refusal: Option<SqlError>,
}

/// The writing half of one statement.
pub struct Writing {
    /// The table that the statement names.
    table: String,
    nodes: Vec<Node>,
    /// Rows go to these nodes only, so that a dead one among them is an error.
    is_chosen: bool,
    /// Whose turn it is.
    turn: Arc<AtomicUsize>,
    transactions: Arc<Transactions>,
    /// The transactions are the statement's own and end with it.
    is_alone: bool,
    skips_conflicts: bool,
    /// The columns of the table, if the rows that are written are wanted back.
    returned: Option<SchemaRef>,
    /// Those rows.
    rows: Vec<RecordBatch>,
    /// The way that the statement has come.
    route: Route,
}

struct Node {
    target: Target,
    /// For a server that may have nodes itself.
    cascade: Option<Arc<Cascade>>,
    transaction: Option<Arc<Transaction>>,
    /// What the transaction had taken when the statement came to it.
    spent_before: Duration,
    rows: u64,
    /// Why it is passed over.
    absent: Option<SqlError>,
}

/// What a statement has written to a node so far.
#[derive(Debug)]
pub struct Written<'a> {
    pub target: &'a Target,
    pub rows: u64,
    /// What the server has taken for it; `None`: it got nothing.
    pub time: Option<Duration>,
    /// Why it is passed over.
    pub absent: Option<&'a SqlError>,
}

impl Writing {
    /// `turn` is shared by the statements that write to the table.
    pub fn new(table: &str, targets: Vec<Target>, is_chosen: bool, turn: &Arc<AtomicUsize>) -> Self {
        let node = |target| Node {
            target,
            cascade: None,
            transaction: None,
            spent_before: Duration::ZERO,
            rows: 0,
            absent: None,
        };
        let is_chosen = is_chosen || targets.len() == 1;
        Self {
            table: table.to_string(),
            nodes: targets.into_iter().map(node).collect(),
            is_chosen,
            turn: Arc::clone(turn),
            transactions: Arc::default(),
            is_alone: true,
            skips_conflicts: false,
            returned: None,
            rows: Vec::new(),
            route: Route::default(),
        }
    }

    /// For rows. They go to the nodes that take some; an error if the statement names another, or if there is none.
    pub fn adding(self) -> Result<Self> {
        let refusals = self.nodes.iter().filter_map(|node| node.target.refusal.as_ref());
        let is_refused = if self.is_chosen { 1 } else { self.nodes.len().max(1) };
        match refusals.clone().next() {
            Some(refusal) if refusals.count() >= is_refused => Err(refusal.clone()),
            _ => Ok(self),
        }
    }

    /// Of a statement that has come this way.
    pub fn along(mut self, route: Route) -> Self {
        self.route = route;
        self
    }

    /// As a part of a block, with whose end it lasts.
    pub fn within(mut self, block: Arc<Transactions>) -> Self {
        (self.transactions, self.is_alone) = (block, false);
        self
    }

    /// `ON CONFLICT DO NOTHING`
    pub fn skipping_conflicts(mut self) -> Result<Self> {
        self.check("ON CONFLICT", |connector| connector.capabilities().dialect.skips_conflicts())?;
        self.skips_conflicts = true;
        Ok(self)
    }

    /// The rows that are written are kept, with these columns.
    pub fn returning(mut self, columns: SchemaRef) -> Result<Self> {
        self.check("RETURNING", |connector| connector.capabilities().dialect.returns_rows())?;
        self.returned = Some(columns);
        Ok(self)
    }

    fn check(&self, clause: &str, can: impl Fn(&dyn Connector) -> bool) -> Result<()> {
        let mut taking = self.nodes.iter().filter(|node| node.target.refusal.is_none());
        match taking.find(|node| !can(node.target.connector.as_ref())) {
            None => Ok(()),
            Some(node) => {
                let message = format!("{clause} is not supported by the server of node {}", node.target.node);
                Err(SqlError::unsupported(message))
            }
        }
    }

    /// The rows that were written, if they are [wanted](Writing::returning).
    pub fn take_rows(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.rows)
    }

    /// The transactions on the nodes.
    pub fn transactions(&self) -> &Arc<Transactions> {
        &self.transactions
    }

    /// Adds rows, which have the columns of the table by name.
    pub async fn insert(&mut self, rows: &RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let first = self.turn.fetch_add(rows.num_rows(), Ordering::Relaxed);
        let dealt = loop {
            let dealt = self.deal(rows, first)?;
            if self.open(&dealt).await? {
                break dealt;
            }
        };
        let (skips_conflicts, returned) = (self.skips_conflicts, self.returned.as_ref());
        let table = self.table.as_str();
        let dealt = self.nodes.iter_mut().zip(dealt).filter(|(_, places)| !places.is_empty());
        let adding = dealt.map(|(node, places)| node.insert(table, rows, places, skips_conflicts, returned));
        self.rows.extend(self.transactions.together(adding).await?.into_iter().flatten());
        Ok(())
    }

    /// Begins transactions where rows go; false if a node turned out to be dead, and others are to get its rows.
    async fn open(&mut self, dealt: &[Vec<u32>]) -> Result<bool> {
        let live = self.nodes.iter();
        let live = live.filter(|node| node.absent.is_none() && node.target.refusal.is_none()).count();
        let wanted = self.nodes.iter_mut().zip(dealt).filter(|(_, places)| !places.is_empty());
        for (node, _) in wanted {
            if node.transaction.is_some() {
                continue;
            }
            node.cascade = node.target.cascade(&self.route, false)?;
            match self.transactions.begin(&node.target.node, &node.target.connector).await {
                Ok(transaction) => node.enter(transaction),
                Err(error) if is_absence(&error) && node.absent.is_none() && !self.is_chosen && live > 1 => {
                    node.absent = Some(error);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The tables, and what was added to each or changed.
    pub fn written(&self) -> impl Iterator<Item = Written<'_>> {
        self.nodes.iter().map(|node| Written {
            target: &node.target,
            rows: node.rows,
            time: node.transaction.as_ref().map(|open| open.spent().saturating_sub(node.spent_before)),
            absent: node.absent.as_ref(),
        })
    }

    /// By which the fate of what was written to the one server can be asked for; `None` if it does not tell.
    pub async fn id(&self) -> Result<Option<String>> {
        let mut open = self.nodes.iter().filter_map(|node| node.transaction.as_ref());
        match open.next() {
            Some(first) if open.all(|other| Arc::ptr_eq(first, other)) => first.id().await,
            _ => Ok(None),
        }
    }

    /// Returns when the servers have taken all that the statement has written, and are ready to commit unless it is part of a
    /// block; how many rows were added or changed.
    pub async fn flush(&self) -> Result<u64> {
        let open = self.nodes.iter().filter_map(|node| node.transaction.as_ref());
        self.transactions.together(open.map(|transaction| transaction.flush())).await?;
        if self.is_alone {
            self.transactions.judge().await?;
        }
        Ok(self.nodes.iter().map(|node| node.rows).sum())
    }

    /// What was written lasts, unless it is part of a block. As in [Transactions::commit] it may be given up.
    pub async fn commit(&self, given_up: impl Future<Output = &'static str>) -> Result<()> {
        if self.is_alone { self.transactions.commit(given_up).await } else { Ok(()) }
    }
}

impl Target {
    fn cascade(&self, route: &Route, skips: bool) -> Result<Option<Arc<Cascade>>> {
        route.cascade(self.connector.as_ref(), &self.table.name, self.node.trim_matches('/'), skips)
    }
}

impl Node {
    fn enter(&mut self, transaction: Arc<Transaction>) {
        self.spent_before = transaction.spent();
        self.transaction = Some(transaction);
    }

    fn transaction(&self) -> Result<&Arc<Transaction>> {
        self.transaction.as_ref().ok_or_else(|| SqlError::internal("a node has no transaction"))
    }

    /// The rows that were added, if they are wanted.
    async fn insert(
        &mut self,
        table: &str,
        rows: &RecordBatch,
        places: Vec<u32>,
        skips_conflicts: bool,
        returned: Option<&SchemaRef>,
    ) -> Result<Vec<RecordBatch>> {
        let own = match places.len() == rows.num_rows() {
            true => rows.clone(),
            false => take_record_batch(rows, &UInt32Array::from(places)).map_err(arrow_error)?,
        };
        let (own, tells_nodes) = self.target.below(&own, table)?;
        let (mut columns, mut arrays) = (Vec::new(), Vec::new());
        // Which of its nodes gets a row is for the server to say, unless the row does.
        for column in self.target.table.columns.iter().filter(|column| tells_nodes || column.name != URL) {
            let Ok(place) = own.schema_ref().index_of(&column.name) else { continue };
            columns.push(column.remote_column());
            arrays.push(place);
        }
        let into = Insertion {
            definition: Arc::clone(&self.target.table),
            relation: self.target.table.relation(self.target.connector.capabilities().dialect),
            columns,
            skips_conflicts,
            returned: returned::columns_of(&self.target.table, returned),
            cascade: self.cascade.clone(),
        };
        let own = own.project(&arrays).map_err(arrow_error)?;
        let answer = self.transaction()?.insert(&into, &own).await?;
        self.rows += answer.count;
        self.rows_of(answer.rows, table, returned)
    }

    /// As rows of the table that the statement names.
    fn rows_of(
        &self,
        rows: Vec<RecordBatch>,
        table: &str,
        returned: Option<&SchemaRef>,
    ) -> Result<Vec<RecordBatch>> {
        let Some(schema) = returned else { return Ok(vec![]) };
        let node = self.target.node_of(table);
        rows.iter().map(|rows| returned::of_table(rows, schema, node)).collect()
    }
}

fn arrow_error(error: arrow::error::ArrowError) -> SqlError {
    SqlError::internal(error.to_string())
}
