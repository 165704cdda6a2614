//! Foreign tables and multi-tenant tables for the planner.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use tidemill_federation::multi_tenant::{ChildTable, child_of, dead_nodes};
use tidemill_federation::node::Member;
use tidemill_federation::pushdown::Pushdown;
use tidemill_federation::write::Target;
use tidemill_federation::{MultiTenantTable, TableDefinition};
use tidemill_sql::{Result, SqlError};

use super::no_nodes;
use crate::catalog::{Catalog, ForeignServer, ForeignTable, Relation};

/// `nodes`: those that the query asks for; `None` is all.
pub fn provider(
    catalog: &Catalog,
    table: &ForeignTable,
    nodes: Option<&[&str]>,
    pushdown: Pushdown,
) -> Result<Arc<dyn TableProvider>> {
    let server = catalog.server_of(table)?;
    if server.has_multi_tenant_tables() {
        let whole = multi_tenant(catalog, table, pushdown)?;
        return match nodes {
            Some(nodes) => whole.on_nodes(nodes)?.provider(),
            None => whole.provider(),
        };
    }
    if nodes.is_some() {
        return Err(no_nodes(&table.object.name, true));
    }
    Ok(Arc::new(foreign_table(Arc::clone(&table.definition), &server, None, pushdown)?))
}

/// What a statement that asks for these nodes writes to.
pub fn targets(catalog: &Catalog, table: &ForeignTable, nodes: Option<&[&str]>) -> Result<Vec<Target>> {
    let server = catalog.server_of(table)?;
    let name = &table.object.name;
    if !server.has_multi_tenant_tables() {
        if nodes.is_some() {
            return Err(no_nodes(name, true));
        }
        let node = format!("/{}/", server.object.name);
        return Ok(vec![Target {
            node,
            table: Arc::clone(&table.definition),
            connector: server.connector()?,
        }]);
    }
    let whole = multi_tenant(catalog, table, Pushdown::default())?;
    let whole = match nodes {
        Some(nodes) => whole.on_nodes(nodes)?,
        None => whole,
    };
    let target = |child: &ChildTable| Target {
        node: child.url(),
        table: Arc::clone(child.table.definition()),
        connector: Arc::clone(child.table.connector()),
    };
    Ok(whole.children.iter().map(target).collect())
}

fn foreign_table(
    definition: Arc<TableDefinition>,
    server: &ForeignServer,
    member: Option<Member>,
    pushdown: Pushdown,
) -> Result<tidemill_federation::ForeignTable> {
    let table = tidemill_federation::ForeignTable::new(definition, server.connector()?, pushdown);
    Ok(table.on(&server.object.name, member))
}

/// A child of a multi-tenant table.
fn member(table: &ForeignTable, server: &str) -> Option<Member> {
    Some(Member {
        table: table.object.name.clone(),
        node: format!("/{server}/"),
        dead_nodes: dead_nodes(&table.object.options),
    })
}

fn multi_tenant(catalog: &Catalog, table: &ForeignTable, pushdown: Pushdown) -> Result<MultiTenantTable> {
    let columns = table.object.columns.iter().map(|c| (c.column.name.clone(), c.column.ty)).collect();
    let children = match table.object.children.is_empty() {
        true => found_by_name(catalog, table, pushdown)?,
        false => named(catalog, table, pushdown)?,
    };
    Ok(MultiTenantTable { name: table.object.name.clone(), columns, children })
}

/// The children that `CREATE MULTI TENANT TABLE` names.
fn named(catalog: &Catalog, table: &ForeignTable, pushdown: Pushdown) -> Result<Vec<ChildTable>> {
    let child = |child: &crate::catalog::ChildObject| {
        let server = catalog.server_numbered(child.server);
        let server = server.ok_or_else(|| SqlError::internal("a child has no server"))?;
        let name = &server.object.name;
        let definition = Arc::new(table.object.child(name, child));
        Ok(ChildTable {
            name: definition.name.clone(),
            server: name.clone(),
            table: Arc::new(foreign_table(definition, &server, member(table, name), pushdown)?),
        })
    };
    table.object.children.iter().map(child).collect()
}

/// The foreign tables that are called `table__server__0`, `__1` and so on, as in PGSpider.
pub fn children_by_name(catalog: &Catalog, table: &str) -> Result<Vec<Arc<ForeignTable>>> {
    let mut found = Vec::new();
    for relation in catalog.relations() {
        let Relation::Foreign(child) = relation else { continue };
        let Some((server, number)) = child_of(table, &child.object.name) else { continue };
        if catalog.server_of(&child)?.object.name == server {
            found.push((server.to_string(), number, Arc::clone(&child)));
        }
    }
    found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    Ok(found.into_iter().map(|(_, _, child)| child).collect())
}

fn found_by_name(catalog: &Catalog, table: &ForeignTable, pushdown: Pushdown) -> Result<Vec<ChildTable>> {
    let child = |child: Arc<ForeignTable>| {
        let of = catalog.server_of(&child)?;
        if of.has_multi_tenant_tables() {
            let name = &child.object.name;
            let message =
                format!("child \"{name}\" of table \"{}\" is multi-tenant itself", table.object.name);
            return Err(SqlError::unsupported(message).with_hint("Make its children children of this table."));
        }
        let definition = Arc::clone(&child.definition);
        let server = of.object.name.clone();
        let table = Arc::new(foreign_table(definition, &of, member(table, &server), pushdown)?);
        Ok(ChildTable { name: child.object.name.clone(), server, table })
    };
    children_by_name(catalog, &table.object.name)?.into_iter().map(child).collect()
}
