//! The tables and views of a database, for IMPORT FOREIGN SCHEMA.

use tidemill_sql::Result;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::{Scalar, Type};

use super::Database;
use super::declared::{Affinity, affinity};
use crate::connector::{ImportedColumn, ImportedTable, RemoteQuery};
use crate::option::Options;

const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
const COLUMNS: &str =
    "SELECT name, type, \"notnull\" FROM pragma_table_xinfo(?1) WHERE hidden <> 1 ORDER BY cid";

/// Blocks.
pub fn tables(database: &Database, selection: &ImportSelection) -> Result<Vec<ImportedTable>> {
    let connection = database.open()?;
    let failed = |error: rusqlite::Error| {
        let query = RemoteQuery { sql: COLUMNS.to_string(), ..RemoteQuery::default() };
        database.failed(&query, &error)
    };
    let mut listed = connection.prepare(TABLES).map_err(failed)?;
    let names = listed.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
    let names = names.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
    let mut described = connection.prepare(COLUMNS).map_err(failed)?;
    let mut tables = Vec::new();
    for name in names.into_iter().filter(|name| selection.has(name)) {
        let column = |row: &rusqlite::Row<'_>| {
            let name = row.get::<_, String>(0)?;
            let declared = row.get::<_, Option<String>>(1)?.unwrap_or_default();
            let options = Options::of([("column_name", &name)]);
            Ok(ImportedColumn { name, ty: imported(&declared), not_null: row.get(2)?, options })
        };
        let columns = described.query_map([&name], column).map_err(failed)?;
        let columns = columns.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
        let options = Options::of([("table", &name)]);
        tables.push(ImportedTable { name, columns, options });
    }
    Ok(tables)
}

/// The type that holds what a column of a declared type has.
fn imported(declared: &str) -> Type {
    let name: String = declared.chars().take_while(|c| *c != '(').collect();
    Type::new(match name.trim().to_ascii_lowercase().as_str() {
        "bool" | "boolean" => Scalar::Bool,
        "date" => Scalar::Date,
        "time" => Scalar::Time,
        "datetime" | "timestamp" => Scalar::Timestamp,
        "uuid" => Scalar::Uuid,
        "json" => Scalar::Json,
        _ => match affinity(declared) {
            Affinity::Integer => Scalar::Int8,
            Affinity::Text => Scalar::Text,
            Affinity::Blob => Scalar::Bytea,
            Affinity::Real => Scalar::Float8,
            Affinity::Numeric => Scalar::Numeric,
        },
    })
}
