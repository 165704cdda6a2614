//! Multi-tenant tables: tables of one shape on several servers, read as one.
//!
//! What is asked of one is asked of each child, unless a condition on [`URL`] leaves it out.

mod below;
mod relation;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, lit};
use tidemill_sql::function::{Param, call, registry};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};

use crate::connector::Connector;
use crate::node::OfTable;
use crate::option::{Check, OptionSpec, Options, Place, Support};
use crate::table::ForeignTable;

pub(crate) use relation::Relation;

/// The wrapper of the servers of multi-tenant tables, as PGSpider calls it.
pub const WRAPPER: &str = "pgspider_core_fdw";
/// The column that tells the node of a row.
pub const URL: &str = "__spd_url";
/// Children of a table at most.
pub const CHILDREN_MAX: usize = 1000;

const OWN_SERVERS: Support = Support::NoEffect("children are reached by servers of their own");

/// PGSpider's parents tell where PGSpider itself is.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("host", &[Place::Server], Check::Text, OWN_SERVERS),
    OptionSpec::new("port", &[Place::Server], Check::Port, OWN_SERVERS),
    OptionSpec::new("dbname", &[Place::Server], Check::Text, OWN_SERVERS),
    OptionSpec::new("user", &[Place::UserMapping], Check::Text, OWN_SERVERS),
    OptionSpec::new("password", &[Place::UserMapping], Check::Text, OWN_SERVERS),
    OptionSpec::new(ON_DEAD_NODE, &[Place::Table], Check::OneOf(&["error", "skip"]), Support::Yes),
    OptionSpec::new(MAX_SKIPPED_NODES, &[Place::Table], Check::Quantity, Support::Yes),
];

/// Of a child that `CREATE MULTI TENANT TABLE` names, besides those of its wrapper's tables: it has nodes itself.
pub const CHILD_OPTIONS: &[OptionSpec] =
    &[OptionSpec::new(HAS_NODES, &[Place::Table], Check::Bool, Support::Yes)];
pub const HAS_NODES: &str = "multi_tenant";

const ON_DEAD_NODE: &str = "on_dead_node";
const MAX_SKIPPED_NODES: &str = "max_skipped_nodes";

/// What the options of a multi-tenant table say about nodes that are not there.
pub fn dead_nodes(options: &Options) -> OfTable {
    OfTable {
        skip: options.get(ON_DEAD_NODE).map(|policy| policy == "skip"),
        skipped_max: options.get(MAX_SKIPPED_NODES).and_then(|max| max.trim().parse().ok()),
    }
}

/// There is nothing to connect to: the children have servers.
pub fn no_connector(name: &str, _: &Options, _: &Options) -> Result<Arc<dyn Connector>> {
    let message = format!("server \"{name}\" has multi-tenant tables only");
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        .with_hint("Name a server that has the tables, such as one of postgres_fdw."))
}

/// The server and the number in the name of a child: `table__server__0`.
pub fn child_of<'n>(table: &str, name: &'n str) -> Option<(&'n str, u32)> {
    let (server, number) = name.strip_prefix(table)?.strip_prefix("__")?.rsplit_once("__")?;
    let digits = !server.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((server, number.parse().ok().filter(|_| digits)?))
}

/// A multi-tenant table with the children that a query reads.
#[derive(Debug)]
pub struct MultiTenantTable {
    pub name: String,
    pub columns: Vec<(String, Type)>,
    pub children: Vec<ChildTable>,
}

/// A child and its node.
#[derive(Debug)]
pub struct ChildTable {
    /// As messages name it.
    pub name: String,
    /// The server's name.
    pub server: String,
    pub table: Arc<ForeignTable>,
}

impl ChildTable {
    /// What rows have in [`URL`], or what that begins with if the table has children there.
    pub fn url(&self) -> String {
        format!("/{}/", self.server)
    }

    /// What the names of nodes there have in front of them here.
    fn prefix(&self) -> String {
        format!("/{}", self.server)
    }

    /// Whether the table has children there, and tells their nodes.
    pub fn is_cascade(&self) -> bool {
        self.table.definition().columns.iter().any(|column| column.name == URL)
    }

    /// With the rows of a node only, or of what is below it; `None` if it has none.
    fn on_nodes(self, nodes: &[&str]) -> Option<Self> {
        let url = self.url();
        if nodes.contains(&url.as_str()) {
            return Some(self);
        }
        let below = nodes.iter().filter_map(|node| node.strip_prefix(&url)).map(|rest| format!("/{rest}"));
        let below: Vec<_> = below.filter(|_| self.is_cascade()).collect();
        if below.is_empty() {
            return None;
        }
        let table = Arc::new(self.table.on_nodes(below));
        Some(Self { table, ..self })
    }

    /// The node of a row.
    fn node(&self) -> Result<Expr> {
        if !self.is_cascade() {
            return Ok(lit(ScalarValue::Utf8(Some(self.url()))));
        }
        let text = Param::Is(Type::new(Scalar::Text));
        let mut known = registry().operator("||").iter().copied();
        let concatenate = known.find(|known| known.params == [text, text]);
        let concatenate = concatenate.ok_or_else(|| SqlError::internal("there is no || of texts"))?;
        let there = Expr::Column(Column::new_unqualified(URL));
        call(concatenate, vec![lit(ScalarValue::Utf8(Some(self.prefix()))), there])
    }
}

impl MultiTenantTable {
    /// With the children on these nodes only.
    pub fn on_nodes(mut self, nodes: &[&str]) -> Result<Self> {
        let known: Vec<_> = self.children.iter().map(ChildTable::url).collect();
        let is_known = |node: &str| {
            self.children
                .iter()
                .any(|child| node == child.url() || (child.is_cascade() && node.starts_with(&child.url())))
        };
        if let Some(unknown) = nodes.iter().find(|node| !is_known(node)) {
            let message = format!("table \"{}\" has no node \"{unknown}\"", self.name);
            let mut known = known;
            known.dedup();
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                .with_hint(format!("Its nodes are: {}.", known.join(", "))));
        }
        self.children = self.children.into_iter().filter_map(|child| child.on_nodes(nodes)).collect();
        Ok(self)
    }

    /// The table for the planner.
    pub fn provider(&self) -> Result<Arc<dyn TableProvider>> {
        if self.children.is_empty() {
            let message = format!("multi-tenant table \"{}\" has no children", self.name);
            let hint = format!("A child is a foreign table \"{}__server__0\" of that server.", self.name);
            return Err(SqlError::new(SqlState::FDW_TABLE_NOT_FOUND, message).with_hint(hint));
        }
        Ok(Arc::new(Relation::new(self)?))
    }

    fn unlike(&self, child: &ChildTable, name: &str, wanted: Type, found: Option<Type>) -> SqlError {
        let ChildTable { name: table, server, .. } = child;
        let what = format!("column \"{name}\" of table \"{}\"", self.name);
        let of_child = format!("its child \"{table}\" of server \"{server}\"");
        match found {
            None => SqlError::new(SqlState::UNDEFINED_COLUMN, format!("{what} is not in {of_child}")),
            Some(found) => {
                let is_modifier = wanted.oid() == found.oid();
                let shown = |ty: Type| if is_modifier { ty } else { ty.with_typmod(-1) }.display();
                let (wanted, found) = (shown(wanted), shown(found));
                let message = format!("{what} is of type {wanted}, in {of_child} of type {found}");
                SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_by_name() {
        assert_eq!(child_of("t", "t__pg1__0"), Some(("pg1", 0)));
        assert_eq!(child_of("t", "t__a__b__12"), Some(("a__b", 12)));
        for other in ["t", "t__pg1", "t__pg1__x", "t__pg1__+1", "t____0", "u__pg1__0", "t_pg1__0", "t__pg1__"]
        {
            assert_eq!(child_of("t", other), None, "{other}");
        }
    }
}
