//! Foreign tables and multi-tenant tables for the planner.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use tidemill_federation::multi_tenant::{ChildTable, child_of, dead_nodes};
use tidemill_federation::node::Member;
use tidemill_federation::option::parse_bool;
use tidemill_federation::pushdown::Pushdown;
use tidemill_federation::write::Target;
use tidemill_federation::{MultiTenantTable, Options, TableDefinition};
use tidemill_sql::objects::{DELETABLE, INSERTABLE, UPDATABLE};
use tidemill_sql::{Result, SqlError, SqlState};

use super::no_nodes;
use crate::catalog::{Catalog, ForeignServer, ForeignTable, Relation};
use crate::insert::ForeignTarget;

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
pub fn targets(
    catalog: &Catalog,
    table: &ForeignTable,
    nodes: Option<&[&str]>,
    verb: &str,
) -> Result<Vec<Target>> {
    let server = catalog.server_of(table)?;
    let name = &table.object.name;
    if !server.has_multi_tenant_tables() {
        if nodes.is_some() {
            return Err(no_nodes(name, true));
        }
        return Ok(vec![target(format!("/{}/", server.object.name), &table.definition, &server, verb)?]);
    }
    let whole = multi_tenant(catalog, table, Pushdown::default())?;
    let whole = match nodes {
        Some(nodes) => whole.on_nodes(nodes)?,
        None => whole,
    };
    let servers = catalog.servers().into_iter().map(|server| (server.object.name.clone(), server));
    let servers: HashMap<_, _> = servers.collect();
    let of_child = |child: &ChildTable| {
        let server = servers.get(&child.server);
        let server = server.ok_or_else(|| SqlError::internal("a child has no server"))?;
        target(child.url(), child.table.definition(), server, verb)
    };
    whole.children.iter().map(of_child).collect()
}

/// Which statements change rows of a table, on one of its servers at least. A table whose servers cannot be asked has no such rows.
pub fn changes(catalog: &Catalog, table: &ForeignTable) -> i32 {
    let targets = targets(catalog, table, None, "INSERT").unwrap_or_default();
    targets.iter().filter(|target| target.refusal.is_none()).fold(0, |changes, target| {
        let of_rows = if target.connector.changes_rows() { UPDATABLE | DELETABLE } else { 0 };
        changes | INSERTABLE | of_rows
    })
}

fn target(node: String, table: &Arc<TableDefinition>, server: &ForeignServer, verb: &str) -> Result<Target> {
    let connector = server.connector()?;
    let message = match verb {
        "TRUNCATE" if !connector.changes_rows() => {
            Some(format!("cannot truncate foreign table \"{}\"", table.name))
        }
        _ if !connector.is_writable() => {
            Some("foreign tables of this kind of server are only read".to_string())
        }
        _ => None,
    };
    let refusal = match message {
        None => not_allowed(&table.name, &table.options, server, verb),
        Some(message) => Some(SqlError::unsupported(message).with_detail(format!(
            "Foreign table \"{}\" is on server \"{}\".",
            table.name, server.object.name
        ))),
    };
    let server = server.object.name.clone();
    Ok(Target { server, node, table: Arc::clone(table), connector, refusal })
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

/// Refuses to change rows where `updatable` is false, on the nodes that the statement asks for.
pub fn check_updatable(catalog: &Catalog, target: &ForeignTarget, verb: &str) -> Result<()> {
    let table = &target.table;
    let mut tables = vec![Arc::clone(table)];
    if catalog.server_of(table)?.has_multi_tenant_tables() {
        tables.extend(children_by_name(catalog, &table.object.name)?);
    }
    let is_asked = |server: &ForeignServer| {
        let url = format!("/{}/", server.object.name);
        target.nodes.as_ref().is_none_or(|nodes| nodes.iter().any(|node| node.starts_with(&url)))
    };
    for child in &table.object.children {
        let server = catalog.server_numbered(child.server);
        let server = server.ok_or_else(|| SqlError::internal("a child has no server"))?;
        if !is_asked(&server) {
            continue;
        }
        let name = format!("{}.{}", server.object.name, child.table);
        if let Some(refusal) = not_allowed(&name, &child.options, &server, verb) {
            return Err(refusal);
        }
    }
    for member in tables {
        let server = catalog.server_of(&member)?;
        if member.oid != table.oid && !is_asked(&server) {
            continue;
        }
        let (table, options) = (&member.object.name, &member.object.options);
        if let Some(refusal) = not_allowed(table, options, &server, verb) {
            return Err(refusal);
        }
    }
    Ok(())
}

/// Why a statement may not write where `updatable`, or `truncatable`, is false, an option of a table or of its server.
fn not_allowed(table: &str, options: &Options, server: &ForeignServer, verb: &str) -> Option<SqlError> {
    let (option, work) = match verb {
        "UPDATE" => ("updatable", "updates"),
        "DELETE" => ("updatable", "deletes"),
        "TRUNCATE" => ("truncatable", "truncates"),
        _ => ("updatable", "inserts"),
    };
    let said = options.get(option).or(server.object.options.get(option));
    let message = format!("foreign table \"{table}\" does not allow {work}");
    (said.and_then(parse_bool) == Some(false)).then(|| SqlError::new(SqlState::INVALID_OBJECT_STATE, message))
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
