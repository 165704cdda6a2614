//! The tables of a schema there, for IMPORT FOREIGN SCHEMA.

use tidemill_sql::Result;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::{Scalar, Type};
use tokio_postgres::{Error, Row};

use super::connect::Pool;
use super::error::failed;
use crate::connector::{ImportedColumn, ImportedTable, RemoteQuery};
use crate::option::Options;

const SCHEMA: &str = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
/// A domain is what it is made of. Partitions come with their table, unless they are named.
const COLUMNS: &str = "\
SELECT c.relname::text, c.relispartition, a.attname::text,
       coalesce(nullif(t.typbasetype, 0), a.atttypid)::oid,
       CASE WHEN t.typbasetype = 0 THEN a.atttypmod ELSE t.typtypmod END, a.attnotnull
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE n.nspname = $1 AND c.relkind IN ('r', 'v', 'f', 'm', 'p')
ORDER BY c.relname, a.attnum";

/// `None` if there is no such schema.
pub async fn tables(
    pool: &Pool,
    schema: &str,
    selection: &ImportSelection,
) -> Result<Option<Vec<ImportedTable>>> {
    let connection = pool.get().await?;
    let asked = |error: Error| {
        let query = RemoteQuery {
            sql: COLUMNS.to_string(),
            table: schema.to_string(),
            relation: schema.to_string(),
            ..RemoteQuery::default()
        };
        failed(&pool.server, &query, &error)
    };
    let found = connection.client.query(SCHEMA, &[&schema]).await.map_err(asked)?;
    let rows = connection.client.query(COLUMNS, &[&schema]).await.map_err(asked)?;
    pool.put(connection);
    if found.is_empty() {
        return Ok(None);
    }
    let mut tables: Vec<ImportedTable> = Vec::new();
    for row in rows {
        let (name, is_partition): (String, bool) =
            (row.try_get(0).map_err(asked)?, row.try_get(1).map_err(asked)?);
        let is_named = matches!(selection, ImportSelection::LimitTo(_));
        if !selection.has(&name) || (is_partition && !is_named) {
            continue;
        }
        if tables.last().is_none_or(|table| table.name != name) {
            let options = Options::of([("schema_name", schema), ("table_name", &name)]);
            tables.push(ImportedTable { name: name.clone(), columns: vec![], options });
        }
        if let (Some(table), Some(column)) = (tables.last_mut(), column(&row).map_err(asked)?) {
            table.columns.push(column);
        }
    }
    Ok(Some(tables))
}

/// `None` for a table without columns.
fn column(row: &Row) -> std::result::Result<Option<ImportedColumn>, Error> {
    let Some(name) = row.try_get::<_, Option<String>>(2)? else { return Ok(None) };
    let (oid, typmod, not_null): (u32, i32, bool) = (row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
    // What there is none of here is read as a text.
    let ty = Type::from_oid(oid).map_or(Type::new(Scalar::Text), |ty| ty.with_typmod(typmod));
    let options = Options::of([("column_name", &name)]);
    Ok(Some(ImportedColumn { name, ty, not_null, options }))
}
