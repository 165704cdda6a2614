//! Deleting a node with the links that go out from it, which the original leaves behind.

use super::SqlStore;
use super::statement::Which;
use crate::error::Result;
use crate::linkbench::now_ms;
use crate::target::Value;
use std::ops::Range;

impl SqlStore {
    /// In one transaction the node goes, and its visible links of these types are hidden and no longer counted. Links
    /// that lead to it stay: no index finds them. False when there was no such node.
    pub fn delete_node_and_links(&mut self, node_type: i64, id: i64, types: Range<i64>) -> Result<bool> {
        let result = self.delete_all(node_type, id, types);
        self.closed(result)
    }

    fn delete_all(&mut self, node_type: i64, id: i64, types: Range<i64>) -> Result<bool> {
        if self.begin(Which::DeleteNode, &[id, node_type].map(Value::Int))?.affected == 0 {
            self.rollback()?;
            return Ok(false);
        }
        for link_type in types {
            let hidden = self.run(Which::HideLinks, &[id, link_type].map(Value::Int))?.affected;
            if hidden > 0 {
                // Links before counts, as all others that write take their locks.
                let change = [-(hidden as i64), now_ms(), id, link_type].map(Value::Int);
                let done = self.run(Which::ChangeCount, &change)?;
                self.must_affect(done, 1..=1, "changing a count")?;
            }
        }
        self.commit()?;
        Ok(true)
    }
}
