//! `pg_namespace`: the schemas.

use tidemill_sql::{Result, SqlError};

use super::{Fillers, INFORMATION_SCHEMA, PG_CATALOG, PIPELINEDB, Rows, Snapshot, TIDEMILL};
use crate::tables::SCHEMA;

pub(super) const FILLERS: Fillers = &[(PG_CATALOG, "pg_namespace", namespaces)];

/// PostgreSQL's numbers for the schemas that it has.
pub const NAMESPACES: [(&str, u32); 5] = [
    (PG_CATALOG, 11),
    (SCHEMA, 2200),
    (INFORMATION_SCHEMA, 13_207),
    (PIPELINEDB, 14_999),
    (TIDEMILL, 14_997),
];

/// The role that owns everything.
pub const OWNER_OID: u32 = 10;

/// The number of a schema that exists.
pub fn namespace_oid(schema: &str) -> Result<u32> {
    let found = NAMESPACES.iter().find(|(name, _)| *name == schema);
    found.map(|(_, oid)| *oid).ok_or_else(|| SqlError::internal(format!("schema {schema} has no number")))
}

fn namespaces(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (name, oid) in NAMESPACES {
        rows.add([("oid", oid.into()), ("nspname", name.into()), ("nspowner", OWNER_OID.into())])?;
    }
    Ok(())
}
