//! Roles: the one that may log in, and what it owns.

use tidemill_sql::Result;

use super::namespace::OWNER_OID;
use super::{Fillers, PG_CATALOG, Rows, Snapshot};
use crate::session::SUPERUSER;

pub(super) const FILLERS: Fillers = &[
    (PG_CATALOG, "pg_authid", authids),
    (PG_CATALOG, "pg_roles", roles),
    (PG_CATALOG, "pg_user", users),
    (PG_CATALOG, "pg_shadow", users),
];

#[derive(Debug)]
pub struct Role {
    pub oid: u32,
    pub name: &'static str,
}

pub const ROLES: [Role; 1] = [Role { oid: OWNER_OID, name: SUPERUSER }];

fn authids(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for role in &ROLES {
        rows.add([
            ("oid", role.oid.into()),
            ("rolname", role.name.into()),
            ("rolsuper", true.into()),
            ("rolinherit", true.into()),
            ("rolcreaterole", true.into()),
            ("rolcreatedb", true.into()),
            ("rolcanlogin", true.into()),
            ("rolreplication", true.into()),
            ("rolbypassrls", true.into()),
            ("rolconnlimit", (-1).into()),
        ])?;
    }
    Ok(())
}

/// As `pg_authid`, with the password hidden.
fn roles(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for role in &ROLES {
        rows.add([
            ("rolname", role.name.into()),
            ("rolsuper", true.into()),
            ("rolinherit", true.into()),
            ("rolcreaterole", true.into()),
            ("rolcreatedb", true.into()),
            ("rolcanlogin", true.into()),
            ("rolreplication", true.into()),
            ("rolconnlimit", (-1).into()),
            ("rolpassword", "********".into()),
            ("rolbypassrls", true.into()),
            ("oid", role.oid.into()),
        ])?;
    }
    Ok(())
}

fn users(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for role in &ROLES {
        rows.add([
            ("usename", role.name.into()),
            ("usesysid", role.oid.into()),
            ("usecreatedb", true.into()),
            ("usesuper", true.into()),
            ("userepl", true.into()),
            ("usebypassrls", true.into()),
            ("passwd", "********".into()),
        ])?;
    }
    Ok(())
}
