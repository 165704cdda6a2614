//! The types that a table's columns declare, and what SQLite makes of values by them.

use std::sync::Arc;

use rusqlite::Connection;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};

use super::Database;
use crate::connector::RemoteQuery;
use crate::table::ForeignColumn;

/// What SQLite makes of values by the declared type of their column: <https://www.sqlite.org/datatype3.html#determination_of_column_affinity>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    Integer,
    Text,
    Blob,
    Real,
    Numeric,
}

pub fn affinity(declared: &str) -> Affinity {
    let declared = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if has(&["INT"]) {
        Affinity::Integer
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        Affinity::Text
    } else if declared.is_empty() || has(&["BLOB"]) {
        Affinity::Blob
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        Affinity::Real
    } else {
        Affinity::Numeric
    }
}

/// Whether a column that is declared so keeps values of a type as they are.
fn fits(ty: Type, declared: &str) -> bool {
    use Scalar::*;
    match (ty.scalar, affinity(declared)) {
        _ if ty.array => true,
        (Bool | Int2 | Int4 | Int8 | Oid, affinity) => !matches!(affinity, Affinity::Text | Affinity::Real),
        (Float4 | Float8, affinity) => affinity != Affinity::Text,
        (Text | Varchar | Name, affinity) => matches!(affinity, Affinity::Text | Affinity::Blob),
        (Bytea, affinity) => affinity == Affinity::Blob,
        _ => true,
    }
}

/// Whether integers of a column are seconds since 1970.
pub fn is_epoch(query: &RemoteQuery, remote: &str) -> bool {
    let column = query.definition.columns.iter().find(|column| column.remote == remote);
    column.is_some_and(|column| column.options.get("column_type") == Some("INT"))
}

/// What SQLite does with values in each column of the query's table. A value of another kind is no error there, so the
/// columns' declared types have to fit; a column that is not there is left to the query.
pub fn check_columns(
    database: &Database,
    connection: &Connection,
    query: &RemoteQuery,
) -> Result<Vec<Option<Affinity>>> {
    let failed = |error: rusqlite::Error| database.failed(query, &error);
    let mut listed = connection.prepare("SELECT name, type FROM pragma_table_xinfo(?1)").map_err(failed)?;
    let declared = listed
        .query_map([&query.definition.remote_table], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?.unwrap_or_default()))
        })
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .map_err(failed)?;
    let check = |column: &ForeignColumn| {
        let found = declared.iter().find(|(name, _)| name.eq_ignore_ascii_case(&column.remote));
        match found {
            Some((_, declared)) if !fits(column.ty, declared) => {
                Err(mismatch(database, query, column, declared))
            }
            found => Ok(found.map(|(_, declared)| affinity(declared))),
        }
    };
    query.definition.columns.iter().map(check).collect()
}

fn mismatch(database: &Database, query: &RemoteQuery, column: &ForeignColumn, declared: &str) -> SqlError {
    let (table, relation, server) = (&query.table, &query.relation, &database.name);
    let message = format!(
        "column \"{}\" of foreign table \"{table}\" is of type {}, but column \"{}\" of {relation} on server \"{server}\" is of type {declared}",
        column.name,
        column.ty.with_typmod(-1).display(),
        column.remote,
    );
    SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
        .with_hint("Give the foreign table's column the type that it has there.")
}

/// The columns of a table that SQLite makes of others.
pub fn generated(database: &Database, connection: &Connection, query: &RemoteQuery) -> Result<Arc<[String]>> {
    const GENERATED: &str = "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden IN (2, 3)";
    let failed = |error: rusqlite::Error| database.failed(query, &error);
    let mut listed = connection.prepare_cached(GENERATED).map_err(failed)?;
    let names = listed.query_map([&query.definition.remote_table], |row| row.get::<_, String>(0));
    let names = names.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>).map_err(failed)?;
    let is_generated = |remote: &String| names.iter().any(|name| name.eq_ignore_ascii_case(remote));
    let columns = query.definition.columns.iter().map(|column| column.remote.clone());
    Ok(columns.filter(is_generated).collect())
}
