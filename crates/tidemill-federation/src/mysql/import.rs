//! The tables of a database, for IMPORT FOREIGN SCHEMA.

use mysql_async::prelude::Queryable;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::{Result, SqlError, SqlState};

use super::connect::Pool;
use super::kind;
use crate::connector::{ImportedColumn, ImportedTable, RemoteQuery};
use crate::option::Options;

const SCHEMA: &str = "SELECT 1 FROM information_schema.schemata WHERE schema_name = ?";
const COLUMNS: &str = "\
SELECT table_name, column_name, lower(data_type), lower(column_type), is_nullable = 'NO', numeric_precision, numeric_scale
FROM information_schema.columns WHERE table_schema = ? ORDER BY table_name, ordinal_position";

type Row = (String, String, String, String, bool, Option<u64>, Option<u64>);

/// `None` if there is no such database.
pub async fn tables(
    pool: &Pool,
    schema: &str,
    selection: &ImportSelection,
) -> Result<Option<Vec<ImportedTable>>> {
    let mut connection = pool.connect().await?;
    let failed = |error: mysql_async::Error| {
        let query = RemoteQuery { sql: COLUMNS.to_string(), ..RemoteQuery::default() };
        pool.failed(&query, &error)
    };
    let found: Option<i64> = connection.conn()?.exec_first(SCHEMA, (schema,)).await.map_err(failed)?;
    let rows: Vec<Row> = connection.conn()?.exec(COLUMNS, (schema,)).await.map_err(failed)?;
    pool.put(connection);
    if found.is_none() {
        return Ok(None);
    }
    let mut tables: Vec<ImportedTable> = Vec::new();
    for (table, name, data_type, column_type, not_null, precision, scale) in rows {
        if !selection.has(&table) {
            continue;
        }
        if tables.last().is_none_or(|last| last.name != table) {
            let options = Options::of([("dbname", schema), ("table_name", &table)]);
            tables.push(ImportedTable { name: table.clone(), columns: vec![], options });
        }
        let Some(ty) = kind::imported(&data_type, &column_type, precision, scale) else {
            let message = format!(
                "column \"{name}\" of table \"{table}\" is of type {data_type}, which there is none of here"
            );
            return Err(SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
                .with_hint(format!("Leave the table out: EXCEPT ({table}).")));
        };
        let options = Options::of([("column_name", &name)]);
        if let Some(last) = tables.last_mut() {
            last.columns.push(ImportedColumn { name, ty, not_null, options });
        }
    }
    Ok(Some(tables))
}
