//! `has_…_privilege` and `pg_has_role`: there is one role, and it may do everything with what there is.

use super::kernel::*;
use super::{Registry, object};
use crate::error::{Result, SqlError, SqlState};
use crate::planner::vars::SessionVars;
use crate::types::Scalar;

/// A family of functions: the name, the kind of object (`None` for kinds that have no type of their names), and the
/// privileges that objects of the kind can have.
type Family = (&'static str, Option<Scalar>, &'static [&'static str]);

const TABLE: &[&str] = &["select", "insert", "update", "delete", "truncate", "references", "trigger"];
const COLUMN: &[&str] = &["select", "insert", "update", "references"];

const FAMILIES: [Family; 12] = [
    ("has_table_privilege", Some(Scalar::Regclass), TABLE),
    ("has_any_column_privilege", Some(Scalar::Regclass), COLUMN),
    ("has_sequence_privilege", Some(Scalar::Regclass), &["usage", "select", "update"]),
    ("has_schema_privilege", Some(Scalar::Regnamespace), &["create", "usage"]),
    ("has_function_privilege", Some(Scalar::Regprocedure), &["execute"]),
    ("has_type_privilege", Some(Scalar::Regtype), &["usage"]),
    ("pg_has_role", Some(Scalar::Regrole), &["usage", "member"]),
    ("has_database_privilege", None, &["create", "connect", "temporary", "temp"]),
    ("has_language_privilege", None, &["usage"]),
    ("has_tablespace_privilege", None, &["create"]),
    ("has_server_privilege", None, &["usage"]),
    ("has_foreign_data_wrapper_privilege", None, &["usage"]),
];

pub(super) fn register(r: &mut Registry) {
    for family in FAMILIES {
        let name = family.0;
        r.strict2::<Text, Text, Bool>(name, move |vars, object, privilege| {
            by_name(vars, family, object, privilege)
        });
        r.maybe2::<Oid, Text, Bool>(name, move |vars, oid, privilege| by_oid(vars, family, oid, privilege));
        r.strict3::<Text, Text, Text, Bool>(name, move |vars, role, object, privilege| {
            object::read(Scalar::Regrole, role, vars)?;
            by_name(vars, family, object, privilege)
        });
        r.maybe3::<Text, Oid, Text, Bool>(name, move |vars, role, oid, privilege| {
            object::read(Scalar::Regrole, role, vars)?;
            by_oid(vars, family, oid, privilege)
        });
        r.maybe3::<Oid, Text, Text, Bool>(name, move |vars, _, object, privilege| {
            by_name(vars, family, object, privilege).map(Some)
        });
        r.maybe3::<Oid, Oid, Text, Bool>(name, move |vars, _, oid, privilege| {
            by_oid(vars, family, oid, privilege)
        });
    }
    let column: Family = ("has_column_privilege", Some(Scalar::Regclass), COLUMN);
    r.strict3::<Text, Text, Text, Bool>(column.0, move |vars, table, _, privilege| {
        by_name(vars, column, table, privilege)
    });
    r.maybe3::<Oid, Text, Text, Bool>(column.0, move |vars, table, _, privilege| {
        by_oid(vars, column, table, privilege)
    });
    r.maybe3::<Oid, Int2, Text, Bool>(column.0, move |vars, table, _, privilege| {
        by_oid(vars, column, table, privilege)
    });
    r.strict3::<Text, Int2, Text, Bool>(column.0, move |vars, table, _, privilege| {
        by_name(vars, column, table, privilege)
    });
}

fn by_name(vars: &SessionVars, family: Family, object: &str, privilege: &str) -> Result<bool> {
    check(family, privilege)?;
    if let Some(kind) = family.1 {
        object::read(kind, object, vars)?;
    }
    Ok(true)
}

/// Null for an object that there is not.
fn by_oid(vars: &SessionVars, family: Family, oid: u32, privilege: &str) -> Result<Option<bool>> {
    check(family, privilege)?;
    Ok(match family.1 {
        Some(Scalar::Regtype) => (object::type_name(oid, None, vars) != "???").then_some(true),
        Some(kind) => vars.objects.name(kind, oid).map(|_| true),
        None => Some(true),
    })
}

/// `SELECT, INSERT WITH GRANT OPTION`: each must be a privilege of the kind.
fn check(family: Family, privileges: &str) -> Result<()> {
    for written in privileges.split(',') {
        let lower = written.trim().to_ascii_lowercase();
        let plain = [" with grant option", " with admin option"].iter().find_map(|s| lower.strip_suffix(s));
        if !family.2.contains(&plain.unwrap_or(&lower)) {
            let message = format!("unrecognized privilege type: \"{}\"", written.trim());
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    Ok(())
}
