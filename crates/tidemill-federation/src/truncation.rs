//! TRUNCATE as statements that the servers carry out: of all tables of one server together, where that can be.

use std::sync::Arc;

use tidemill_sql::{Result, SqlError};

use crate::change::Change;
use crate::connector::RemoteQuery;
use crate::node::DeadNodes;
use crate::write::Target;

/// What else than the rows of the named tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// `RESTART IDENTITY`
    pub restarts: bool,
    /// `CASCADE`: tables that refer to them.
    pub cascades: bool,
}

impl Truncation {
    pub const PLAIN: Self = Self { restarts: false, cascades: false };
}

/// The tables of one server.
struct Group {
    first: Target,
    dead_nodes: DeadNodes,
    relations: Vec<String>,
}

/// What the servers of these tables are told.
pub fn on_servers(tables: Vec<(Target, DeadNodes)>, how: Truncation) -> Result<Vec<Change>> {
    let mut groups: Vec<Group> = Vec::new();
    for (target, dead_nodes) in tables {
        if let Some(refusal) = &target.refusal {
            return Err(refusal.clone());
        }
        let relation = target.table.relation(target.connector.capabilities().dialect);
        match groups.iter_mut().find(|group| Arc::ptr_eq(&group.first.connector, &target.connector)) {
            Some(group) => {
                group.dead_nodes.skip &= dead_nodes.skip;
                if !group.relations.contains(&relation) {
                    group.relations.push(relation);
                }
            }
            None => groups.push(Group { first: target, dead_nodes, relations: vec![relation] }),
        }
    }
    let changes = groups.iter().map(|group| group.changes(how));
    Ok(changes.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

impl Group {
    fn changes(&self, how: Truncation) -> Result<Vec<Change>> {
        let Target { server, table, connector, .. } = &self.first;
        let dialect = connector.capabilities().dialect;
        let Some(statements) = dialect.truncate(&self.relations, how) else {
            let message =
                format!("TRUNCATE … RESTART IDENTITY or CASCADE is not supported by server \"{server}\"");
            return Err(SqlError::unsupported(message).with_hint("TRUNCATE without them is."));
        };
        let change = |sql| Change {
            server: server.clone(),
            member: None,
            dead_nodes: self.dead_nodes,
            table: Arc::clone(table),
            connector: Arc::clone(connector),
            statement: RemoteQuery {
                sql,
                table: table.name.clone(),
                relation: self.relations.join(", "),
                definition: Arc::clone(table),
                empties: true,
                ..RemoteQuery::default()
            },
        };
        Ok(statements.into_iter().map(change).collect())
    }
}
