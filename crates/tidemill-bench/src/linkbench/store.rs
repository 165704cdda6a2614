//! What the benchmark asks of a store of links and nodes.

mod node_deletion;
mod sql;
mod statement;

pub use sql::{SqlStore, data_value};

use crate::error::Result;

/// An edge of the graph. The first three fields are its key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    pub id1: i64,
    pub link_type: i64,
    pub id2: i64,
    /// Hidden links stay in the table, and out of lists and counts.
    pub is_visible: bool,
    pub data: Vec<u8>,
    pub version: i64,
    /// ms since 1970.
    pub time: i64,
}

/// An object of the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub id: i64,
    pub node_type: i64,
    pub version: i64,
    /// s since 1970.
    pub time: i64,
    pub data: Vec<u8>,
}

/// The type of all nodes of the benchmark.
pub const NODE_TYPE: i64 = 2048;
/// The first link type; the others follow.
pub const FIRST_LINK_TYPE: i64 = 123_456_789;

/// A list of links of one id and type, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    pub id1: i64,
    pub link_type: i64,
    /// Both inclusive.
    pub time_min: i64,
    pub time_max: i64,
    pub offset: i64,
    pub limit: i64,
}

/// How a link is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "the contract has both, the benchmark only hides"))]
pub enum Removal {
    /// It is there, but in no list and no count: what the benchmark does.
    Hide,
    Expunge,
}

/// What became of a link that was added or updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Inserted,
    Updated,
}

/// The contract: every method is one transaction, and the count of an id and type is always the number of its visible
/// links. Rows that came back are kept until the next call.
#[cfg_attr(not(test), expect(dead_code, reason = "rows are read back by the contract's tests only"))]
pub trait Store {
    /// Adds, or updates the link that has this key.
    fn add_link(&mut self, link: &Link) -> Result<Written>;
    /// Updates, or adds when there is no such link.
    fn update_link(&mut self, link: &Link) -> Result<Written>;
    /// False when there was nothing (left) to remove.
    fn delete_link(&mut self, id1: i64, link_type: i64, id2: i64, removal: Removal) -> Result<bool>;
    /// Links with these second ids, hidden ones too, in any order: how many came back.
    fn multiget(&mut self, id1: i64, link_type: i64, id2s: &[i64]) -> Result<usize>;
    /// Visible links: how many came back.
    fn list_links(&mut self, query: &ListQuery) -> Result<usize>;
    /// Visible links of an id and type.
    fn count_links(&mut self, id1: i64, link_type: i64) -> Result<i64>;
    /// An error if the count of an id and type is not the number of its visible links.
    fn check_count(&mut self, id1: i64, link_type: i64) -> Result<()>;
    /// A row of the last MULTIGET or list.
    fn link(&self, row: usize) -> Link;
    /// When the row's link was written.
    fn link_time(&self, row: usize) -> i64;

    /// The id is the store's to give.
    fn add_node(&mut self, node: &Node) -> Result<()>;
    /// The id that the last added node was given.
    fn last_node_id(&mut self) -> Result<i64>;
    /// True when there is such a node of this type.
    fn get_node(&mut self, node_type: i64, id: i64) -> Result<bool>;
    /// The node of the last `get_node` that was true.
    fn node(&self) -> Node;
    /// Writes all but id and type; false when there is no such node.
    fn update_node(&mut self, node: &Node) -> Result<bool>;
    fn delete_node(&mut self, node_type: i64, id: i64) -> Result<bool>;

    /// Detours and failures so far.
    fn detours(&self) -> Detours;
}

/// Writes that met something else than they expected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Detours {
    pub add_to_update: u64,
    pub update_to_add: u64,
}

#[cfg(test)]
mod tests;
