//! Rows that are written to foreign tables: an INSERT into a multi-tenant table deals its rows out to the nodes in turn.
//!
//! What one statement writes is a transaction on each node that gets any of it. They are committed when all rows have
//! been taken by all of them, so that most errors leave no node changed; one that comes while they are committed tells
//! which nodes are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, AsArray, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::record_batch::RecordBatch;
use futures::future::try_join_all;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::change::Change;
use crate::connector::{Connector, Insertion, RemoteColumn, RemoteQuery, Writer};
use crate::health::{cause, is_absence};
use crate::multi_tenant::URL;
use crate::table::TableDefinition;

/// A table that can be written to, and its node.
#[derive(Debug, Clone)]
pub struct Target {
    /// As in the column that tells the node: `/north/`.
    pub node: String,
    pub table: Arc<TableDefinition>,
    pub connector: Arc<dyn Connector>,
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
}

struct Node {
    target: Target,
    writer: Option<Box<dyn Writer>>,
    rows: u64,
    /// Why it is passed over.
    absent: Option<SqlError>,
}

impl Writing {
    /// `turn` is shared by the statements that write to the table.
    pub fn new(table: &str, targets: Vec<Target>, is_chosen: bool, turn: &Arc<AtomicUsize>) -> Self {
        let node = |target| Node { target, writer: None, rows: 0, absent: None };
        let is_chosen = is_chosen || targets.len() == 1;
        let nodes = targets.into_iter().map(node).collect();
        Self { table: table.to_string(), nodes, is_chosen, turn: Arc::clone(turn) }
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
        let dealt = self.nodes.iter_mut().zip(dealt).filter(|(_, places)| !places.is_empty());
        let adding = dealt.map(|(node, places)| node.insert(rows, places));
        try_join_all(adding).await.map(drop)
    }

    /// The places of the rows that go to each node.
    fn deal(&self, rows: &RecordBatch, first: usize) -> Result<Vec<Vec<u32>>> {
        let mut dealt = vec![Vec::new(); self.nodes.len()];
        let live: Vec<usize> = (0..self.nodes.len()).filter(|i| self.nodes[*i].absent.is_none()).collect();
        let url = rows.column_by_name(URL).and_then(|column| column.as_string_opt::<i32>());
        for row in 0..rows.num_rows() {
            let wanted = url.filter(|url| url.is_valid(row)).map(|url| url.value(row));
            let node = match wanted {
                Some(wanted) => self.nodes.iter().position(|node| node.target.node == wanted),
                None => live.get((first + row) % live.len().max(1)).copied(),
            };
            match (node, wanted) {
                (Some(node), _) => dealt[node].push(row as u32),
                (None, Some(wanted)) => return Err(self.no_node(wanted)),
                (None, None) => return Err(self.no_children()),
            }
        }
        Ok(dealt)
    }

    fn no_node(&self, wanted: &str) -> SqlError {
        let known: Vec<_> = self.nodes.iter().map(|node| node.target.node.as_str()).collect();
        let message = format!("table \"{}\" has no node \"{wanted}\"", self.table);
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            .with_hint(format!("Its nodes are: {}.", known.join(", ")))
    }

    fn no_children(&self) -> SqlError {
        let message = format!("multi-tenant table \"{}\" has no children", self.table);
        SqlError::new(SqlState::FDW_TABLE_NOT_FOUND, message)
    }

    /// Begins transactions where rows go; false if a node turned out to be dead, and others are to get its rows.
    async fn open(&mut self, dealt: &[Vec<u32>]) -> Result<bool> {
        let live = self.nodes.iter().filter(|node| node.absent.is_none()).count();
        let wanted = self.nodes.iter_mut().zip(dealt).filter(|(_, places)| !places.is_empty());
        for (node, _) in wanted {
            if node.writer.is_some() {
                continue;
            }
            match node.target.connector.begin().await {
                Ok(writer) => node.writer = Some(writer),
                Err(error) if is_absence(&error) && node.absent.is_none() && !self.is_chosen && live > 1 => {
                    node.absent = Some(error);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// For statements that change rows.
    pub fn changing(table: &str, changes: &[Change]) -> Self {
        let target = |change: &Change| Target {
            node: change.node(),
            table: Arc::clone(&change.table),
            connector: Arc::clone(&change.connector),
        };
        Self::new(table, changes.iter().map(target).collect(), true, &Arc::default())
    }

    /// Carries out statements, one on each node, all at the same time. Where it may be, a node that is not there is left
    /// as it is.
    pub async fn execute(&mut self, changes: Vec<Change>) -> Result<()> {
        let all = changes.len();
        let mut skipped = 0;
        for (node, change) in self.nodes.iter_mut().zip(&changes) {
            match node.target.connector.begin().await {
                Ok(writer) => node.writer = Some(writer),
                Err(error) if is_absence(&error) && change.dead_nodes.skip => {
                    skipped += 1;
                    if !change.dead_nodes.allows(skipped, all) {
                        return Err(error);
                    }
                    node.absent = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        let working =
            self.nodes.iter_mut().zip(&changes).map(|(node, change)| node.execute(&change.statement));
        try_join_all(working).await.map(drop)
    }

    /// A warning about the nodes that were left as they are.
    pub fn missing(&self) -> Option<SqlError> {
        let absent = self.nodes.iter().filter_map(|node| Some((&node.target.node, node.absent.as_ref()?)));
        let (names, details): (Vec<_>, Vec<_>) =
            absent.map(|(node, error)| (node.as_str(), format!("{node}: {}", cause(error)))).unzip();
        if names.is_empty() {
            return None;
        }
        let noun = if names.len() == 1 { "node" } else { "nodes" };
        let message = format!("{noun} of table \"{}\" not changed: {}", self.table, names.join(", "));
        Some(SqlError::new(SqlState::WARNING, message).with_detail(details.join("\n")))
    }

    /// How many rows were added or changed.
    pub async fn commit(mut self) -> Result<u64> {
        for place in 0..self.nodes.len() {
            let node = &mut self.nodes[place];
            let Some(mut writer) = node.writer.take() else { continue };
            if let Err(error) = writer.commit().await {
                return Err(self.half_committed(place, error));
            }
        }
        Ok(self.nodes.iter().map(|node| node.rows).sum())
    }

    /// Some nodes have their part, others do not.
    fn half_committed(&self, failed: usize, error: SqlError) -> SqlError {
        let of = |nodes: &[Node]| -> Vec<String> {
            let written = nodes.iter().filter(|node| node.rows > 0);
            written.map(|node| format!("{} ({} rows)", node.target.node, node.rows)).collect()
        };
        let (done, undone) = (of(&self.nodes[..failed]), of(&self.nodes[failed..]));
        if done.is_empty() && undone.len() <= 1 {
            return error;
        }
        let none = |nodes: Vec<String>| if nodes.is_empty() { "none".into() } else { nodes.join(", ") };
        let detail = format!("Nodes that are changed: {}; not: {}.", none(done), none(undone));
        let before = error.detail.as_ref().map(|before| format!("{before}\n")).unwrap_or_default();
        error.with_detail(before + &detail)
    }
}

impl Node {
    async fn insert(&mut self, rows: &RecordBatch, places: Vec<u32>) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(SqlError::internal("a node has no transaction"));
        };
        let count = places.len();
        let own = match count == rows.num_rows() {
            true => rows.clone(),
            false => take_record_batch(rows, &UInt32Array::from(places))
                .map_err(|error| SqlError::internal(error.to_string()))?,
        };
        let (mut columns, mut arrays) = (Vec::new(), Vec::new());
        // Which of its nodes gets a row is for the server to say.
        for column in self.target.table.columns.iter().filter(|column| column.name != URL) {
            let Ok(place) = own.schema_ref().index_of(&column.name) else { continue };
            columns.push(RemoteColumn {
                name: column.name.clone(),
                ty: column.ty,
                remote: column.remote.clone(),
            });
            arrays.push(place);
        }
        let dialect = self.target.connector.capabilities().dialect;
        let into = Insertion {
            table: self.target.table.name.clone(),
            relation: self.target.table.relation(dialect),
            columns,
        };
        let own = own.project(&arrays).map_err(|error| SqlError::internal(error.to_string()))?;
        writer.insert(&into, &own).await?;
        self.rows += count as u64;
        Ok(())
    }

    async fn execute(&mut self, statement: &RemoteQuery) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            self.rows += writer.execute(statement).await?;
        }
        Ok(())
    }
}
