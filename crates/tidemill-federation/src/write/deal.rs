//! Which node of a table gets a row: one after the other in turn, or the one that the row names in [`URL`].

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringArray};
use arrow::record_batch::RecordBatch;
use tidemill_sql::{Result, SqlError, SqlState};

use super::{Node, Target, Writing, arrow_error};
use crate::multi_tenant::URL;

impl Writing {
    /// The places of the rows that go to each node.
    pub(super) fn deal(&self, rows: &RecordBatch, first: usize) -> Result<Vec<Vec<u32>>> {
        let mut dealt = vec![Vec::new(); self.nodes.len()];
        let takes_rows = |node: &Node| node.absent.is_none() && node.target.refusal.is_none();
        let live: Vec<usize> = (0..self.nodes.len()).filter(|i| takes_rows(&self.nodes[*i])).collect();
        let url = rows.column_by_name(URL).and_then(|column| column.as_string_opt::<i32>());
        for row in 0..rows.num_rows() {
            let wanted = url.filter(|url| url.is_valid(row)).map(|url| url.value(row));
            let node = match wanted {
                Some(wanted) => self.place_of(wanted),
                None => live.get((first + row) % live.len().max(1)).copied(),
            };
            if let Some(refusal) = node.and_then(|node| self.nodes[node].target.refusal.clone()) {
                return Err(refusal);
            }
            match (node, wanted) {
                (Some(node), _) => dealt[node].push(row as u32),
                (None, Some(wanted)) => return Err(self.no_node(wanted)),
                (None, None) => {
                    let message = format!("multi-tenant table \"{}\" has no children", self.table);
                    return Err(SqlError::new(SqlState::FDW_TABLE_NOT_FOUND, message));
                }
            }
        }
        Ok(dealt)
    }

    /// The node of this name, or the one that it is below.
    fn place_of(&self, wanted: &str) -> Option<usize> {
        let is_meant = |target: &Target| target.node == wanted || target.rest(wanted, &self.table).is_some();
        self.nodes.iter().position(|node| is_meant(&node.target))
    }

    fn no_node(&self, wanted: &str) -> SqlError {
        let known: Vec<_> = self.nodes.iter().map(|node| node.target.node.as_str()).collect();
        let message = format!("table \"{}\" has no node \"{wanted}\"", self.table);
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            .with_hint(format!("Its nodes are: {}.", known.join(", ")))
    }
}

impl Target {
    /// The node that rows are on for who names this table; `None`: it is the target itself, whose columns are what they are there.
    pub(super) fn node_of(&self, table: &str) -> Option<&str> {
        (self.table.name != table).then_some(self.node.as_str())
    }

    /// What is left of a node's name for the server to find, if it has nodes: `/north/` of `/west/north/`. Rows that are
    /// written to the table by its own name have names of the server's nodes only.
    fn rest<'u>(&self, url: &'u str, table: &str) -> Option<&'u str> {
        if !self.table.columns.iter().any(|column| column.name == URL) {
            return None;
        }
        let rest = match self.node_of(table) {
            Some(node) => url.strip_prefix(node.trim_end_matches('/'))?,
            None => url,
        };
        (rest.len() > 1 && rest.starts_with('/')).then_some(rest)
    }

    /// Rows of this node with the names of the nodes below it, and whether there are any.
    pub(super) fn below(&self, rows: &RecordBatch, table: &str) -> Result<(RecordBatch, bool)> {
        let Ok(place) = rows.schema_ref().index_of(URL) else { return Ok((rows.clone(), false)) };
        let urls = rows.column(place).as_string::<i32>();
        let rests: StringArray = urls.iter().map(|url| self.rest(url?, table)).collect();
        let is_told = rests.null_count() < rests.len();
        let mut columns = rows.columns().to_vec();
        columns[place] = Arc::new(rests);
        let rows = RecordBatch::try_new(rows.schema(), columns).map_err(arrow_error)?;
        Ok((rows, is_told))
    }
}
