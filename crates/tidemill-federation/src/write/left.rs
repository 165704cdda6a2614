//! The nodes that an UPDATE or a DELETE leaves as they are, because they are not there: a warning names them. One of a server
//! that has nodes itself names those of its own, as that server calls them.

use tidemill_sql::{SqlError, SqlState};

use super::Writing;
use crate::health::cause;

/// In front of the names, in the message.
const NOT_CHANGED: &str = " not changed: ";

/// A node, and why it is left.
type Left = (String, String);

impl Writing {
    /// A warning about the nodes that were left as they are, and what else the servers of others have said.
    pub fn warnings(&self) -> Vec<SqlError> {
        let (mut left, mut others) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            left.extend(node.absent.iter().map(|error| (node.target.node.clone(), cause(error))));
            let told = node.cascade.iter().flat_map(|cascade| cascade.take_warnings());
            for warning in told {
                match below(&warning, &node.target.node) {
                    Some(below) => left.extend(below),
                    None => others.push(warning),
                }
            }
        }
        warning(&self.table, &left).into_iter().chain(others).collect()
    }
}

fn warning(table: &str, left: &[Left]) -> Option<SqlError> {
    if left.is_empty() {
        return None;
    }
    let names: Vec<_> = left.iter().map(|(node, _)| node.as_str()).collect();
    let details: Vec<_> = left.iter().map(|(node, cause)| format!("{node}: {cause}")).collect();
    let noun = if names.len() == 1 { "node" } else { "nodes" };
    let message = format!("{noun} of table \"{table}\"{NOT_CHANGED}{}", names.join(", "));
    Some(SqlError::new(SqlState::WARNING, message).with_detail(details.join("\n")))
}

/// What such a warning of the server of this node tells, with the names that its nodes have here; `None`: it is another one.
fn below(warning: &SqlError, node: &str) -> Option<Vec<Left>> {
    let (_, names) = warning.message.split_once(NOT_CHANGED)?;
    let prefix = node.trim_end_matches('/');
    // A cause is one line.
    let mut lines = warning.detail.as_deref()?.lines();
    let left = names.split(", ").map(|name| {
        let cause = lines.next()?.strip_prefix(name)?.strip_prefix(": ")?;
        Some((format!("{prefix}{name}"), cause.to_string()))
    });
    left.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_below_are_called_as_they_are_here() {
        let left = |nodes: &[(&str, &str)]| -> Vec<Left> {
            nodes.iter().map(|(node, cause)| (node.to_string(), cause.to_string())).collect()
        };
        let told = warning("there", &left(&[("/a/", "refused"), ("/b/c/", "gone")])).unwrap();
        assert_eq!(told.message, "nodes of table \"there\" not changed: /a/, /b/c/");
        let wanted = left(&[("/west/a/", "refused"), ("/west/b/c/", "gone")]);
        assert_eq!(below(&told, "/west/"), Some(wanted));
        let other = SqlError::new(SqlState::WARNING, "something else").with_detail("/a/: gone");
        assert_eq!(below(&other, "/west/"), None);
        assert!(warning("there", &[]).is_none());
    }
}
