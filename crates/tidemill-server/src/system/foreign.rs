//! Foreign servers, user mappings and foreign tables. Streams are foreign tables of the server `pipelinedb`, as PipelineDB 1.x
//! had them. Passwords are hidden.

use tidemill_federation::Options;
use tidemill_federation::wrapper::WRAPPERS;
use tidemill_sql::{Result, SqlError};

use super::namespace::OWNER_OID;
use super::role::ROLES;
use super::{Fillers, PG_CATALOG, Rows, Snapshot};
use crate::catalog::{ForeignTable, Relation};

pub(super) const FILLERS: Fillers = &[
    (PG_CATALOG, "pg_foreign_data_wrapper", wrappers),
    (PG_CATALOG, "pg_foreign_server", servers),
    (PG_CATALOG, "pg_foreign_table", tables),
    (PG_CATALOG, "pg_user_mapping", mappings),
    (PG_CATALOG, "pg_user_mappings", named_mappings),
];

/// The wrapper and the server of all streams.
pub const WRAPPER: &str = "stream_fdw";
pub const SERVER: &str = "pipelinedb";
const WRAPPER_OID: u32 = 14_990;
const SERVER_OID: u32 = 14_991;
/// The number of the first other wrapper; they are numbered on in their order.
const FIRST_WRAPPER_OID: u32 = 14_900;

/// Wrappers with their numbers.
pub fn all_wrappers() -> impl Iterator<Item = (u32, &'static str)> {
    let others = WRAPPERS.iter().enumerate();
    let others = others.map(|(i, wrapper)| (FIRST_WRAPPER_OID + i as u32, wrapper.name));
    std::iter::once((WRAPPER_OID, WRAPPER)).chain(others)
}

/// Servers and their wrappers.
pub fn all_servers(snapshot: &Snapshot) -> Vec<(String, String)> {
    let own = snapshot.servers.iter().map(|s| (s.object.name.clone(), s.object.wrapper.clone()));
    std::iter::once((SERVER.to_string(), WRAPPER.to_string())).chain(own).collect()
}

pub fn table_of(relation: &Relation) -> Option<&ForeignTable> {
    match relation {
        Relation::Foreign(table) => Some(table),
        _ => None,
    }
}

/// The name of a foreign table's server.
pub fn server_of(snapshot: &Snapshot, relation: &Relation) -> Option<String> {
    match relation {
        Relation::Stream(_) => Some(SERVER.to_string()),
        Relation::Foreign(table) => {
            let server = snapshot.servers.iter().find(|server| server.oid == table.object.server)?;
            Some(server.object.name.clone())
        }
        _ => None,
    }
}

fn shown(options: &Options) -> Option<Vec<String>> {
    (!options.is_empty()).then(|| options.shown())
}

fn wrappers(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (oid, name) in all_wrappers() {
        rows.add([("oid", oid.into()), ("fdwname", name.into()), ("fdwowner", OWNER_OID.into())])?;
    }
    Ok(())
}

fn servers(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    rows.add([
        ("oid", SERVER_OID.into()),
        ("srvname", SERVER.into()),
        ("srvowner", OWNER_OID.into()),
        ("srvfdw", WRAPPER_OID.into()),
    ])?;
    for server in &snapshot.servers {
        let object = &server.object;
        let wrapper = all_wrappers().find(|(_, name)| *name == object.wrapper).map(|(oid, _)| oid);
        rows.add([
            ("oid", server.oid.into()),
            ("srvname", (&object.name).into()),
            ("srvowner", OWNER_OID.into()),
            ("srvfdw", wrapper.ok_or_else(|| SqlError::internal("a server has no wrapper"))?.into()),
            ("srvtype", object.kind.clone().into()),
            ("srvversion", object.version.clone().into()),
            ("srvoptions", shown(&object.options).into()),
        ])?;
    }
    Ok(())
}

fn tables(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for relation in &snapshot.relations {
        let (server, options) = match relation {
            Relation::Stream(_) => (SERVER_OID, None),
            Relation::Foreign(table) => (table.object.server, shown(&table.object.options)),
            _ => continue,
        };
        rows.add([
            ("ftrelid", relation.oid().into()),
            ("ftserver", server.into()),
            ("ftoptions", options.into()),
        ])?;
    }
    Ok(())
}

fn mappings(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (oid, mapping) in snapshot.servers.iter().flat_map(|server| &server.mappings) {
        rows.add([
            ("oid", (*oid).into()),
            // PUBLIC is 0.
            ("umuser", mapping.user.as_deref().and_then(role).unwrap_or(0).into()),
            ("umserver", mapping.server.into()),
            ("umoptions", shown(&mapping.options).into()),
        ])?;
    }
    Ok(())
}

fn named_mappings(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for server in &snapshot.servers {
        for (oid, mapping) in &server.mappings {
            rows.add([
                ("umid", (*oid).into()),
                ("srvid", server.oid.into()),
                ("srvname", (&server.object.name).into()),
                ("umuser", mapping.user.as_deref().and_then(role).unwrap_or(0).into()),
                ("usename", mapping.user().into()),
                ("umoptions", shown(&mapping.options).into()),
            ])?;
        }
    }
    Ok(())
}

fn role(name: &str) -> Option<u32> {
    ROLES.iter().find(|role| role.name == name).map(|role| role.oid)
}
