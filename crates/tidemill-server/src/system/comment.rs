//! `pg_description` and `pg_shdescription`: what PostgreSQL says about the objects that it comes with.

use tidemill_sql::Result;

use super::namespace::NAMESPACES;
use super::pipelinedb::EXTENSION_OID;
use super::{Fillers, INFORMATION_SCHEMA, PG_CATALOG, PIPELINEDB, Rows, Snapshot, find};

pub(super) const FILLERS: Fillers =
    &[(PG_CATALOG, "pg_description", descriptions), (PG_CATALOG, "pg_shdescription", shared_descriptions)];

pub const DATABASE_OID: u32 = 5;

/// Schema by schema; a comment on something else would have the catalog's name beside it.
const SCHEMAS: [(&str, &str); 3] = [
    (PG_CATALOG, "system catalog schema"),
    ("public", "standard public schema"),
    (PIPELINEDB, "streams, continuous views and what they do"),
];

const DATABASE: &str = "streams and continuous views";

/// The comment on an object of this catalog.
pub fn of(catalog: &str, oid: u32, column: i32) -> Option<String> {
    let text = match catalog {
        "pg_namespace" => {
            let (name, _) = NAMESPACES.iter().find(|(_, number)| *number == oid)?;
            SCHEMAS.iter().find(|(schema, _)| schema == name)?.1
        }
        "pg_extension" if oid == EXTENSION_OID => "streams and continuous views, built in",
        "pg_database" if oid == DATABASE_OID => DATABASE,
        _ => return None,
    };
    (column == 0).then(|| text.to_string())
}

fn descriptions(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    let catalog = find(PG_CATALOG, "pg_namespace").map_or(0, |r| r.oid);
    for (name, oid) in NAMESPACES.iter().filter(|(name, _)| *name != INFORMATION_SCHEMA) {
        let text = SCHEMAS.iter().find(|(schema, _)| schema == name).map(|(_, text)| *text);
        rows.add([("objoid", (*oid).into()), ("classoid", catalog.into()), ("description", text.into())])?;
    }
    Ok(())
}

fn shared_descriptions(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    let catalog = find(PG_CATALOG, "pg_database").map_or(0, |r| r.oid);
    rows.add([
        ("objoid", DATABASE_OID.into()),
        ("classoid", catalog.into()),
        ("description", DATABASE.into()),
    ])
}
