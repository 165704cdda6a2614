//! `pg_description` and `pg_shdescription`: what PostgreSQL says about the objects that it comes with, and users about
//! theirs.

use tidemill_sql::Result;

use super::class::column_names;
use super::namespace::NAMESPACES;
use super::pipelinedb::EXTENSION_OID;
use super::{Fillers, INFORMATION_SCHEMA, PG_CATALOG, PIPELINEDB, Rows, Snapshot, TIDEMILL, find};
use crate::catalog::Relation;

pub(super) const FILLERS: Fillers =
    &[(PG_CATALOG, "pg_description", descriptions), (PG_CATALOG, "pg_shdescription", shared_descriptions)];

pub const DATABASE_OID: u32 = 5;

/// Schema by schema; a comment on something else would have the catalog's name beside it.
const SCHEMAS: [(&str, &str); 4] = [
    (PG_CATALOG, "system catalog schema"),
    ("public", "standard public schema"),
    (PIPELINEDB, "streams, continuous views and what they do"),
    (TIDEMILL, "foreign servers and what came from them"),
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

/// What COMMENT has set, of a relation or of the column of this number.
pub fn of_relation(snapshot: &Snapshot, oid: u32, column: i32) -> Option<String> {
    if snapshot.comments.is_empty() {
        return None;
    }
    let relation = snapshot.relations.iter().find(|relation| relation.oid() == oid)?;
    let name = match usize::try_from(column).ok()?.checked_sub(1) {
        None => String::new(),
        Some(index) => column_names(relation).ok()?.into_iter().nth(index)?,
    };
    snapshot.comments.get(&(oid, name)).cloned()
}

/// The number of a column; that of the relation itself is 0.
fn number(relation: &Relation, column: &str) -> Result<Option<usize>> {
    if column.is_empty() {
        return Ok(Some(0));
    }
    Ok(column_names(relation)?.iter().position(|name| name == column).map(|index| index + 1))
}

fn descriptions(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    let class = find(PG_CATALOG, "pg_class").map_or(0, |r| r.oid);
    for ((oid, column), text) in snapshot.comments.iter() {
        let Some(relation) = snapshot.relations.iter().find(|relation| relation.oid() == *oid) else {
            continue;
        };
        if let Some(number) = number(relation, column)? {
            rows.add([
                ("objoid", (*oid).into()),
                ("classoid", class.into()),
                ("objsubid", number.into()),
                ("description", text.into()),
            ])?;
        }
    }
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
