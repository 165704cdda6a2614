//! Whether a table there fits its definition, and which of its columns are compared there as something else than here.

use std::sync::Arc;

use mysql_async::Column;
use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use tidemill_sql::{Result, SqlError, SqlState};

use super::connect::{Connection, Pool};
use super::dialect::MysqlDialect;
use super::kind;
use crate::connector::{RemoteColumn, RemoteQuery};
use crate::dialect::{Dialect, is_integer, is_text};
use crate::fact::TableFacts;
use crate::table::TableDefinition;

/// What is known of a table. Whoever reads it is told why nothing is.
pub async fn facts(pool: &Pool, definition: &TableDefinition) -> Result<Arc<TableFacts>> {
    if definition.columns.is_empty() {
        return Ok(Arc::default());
    }
    if let Some(known) = pool.known(definition) {
        return Ok(known);
    }
    let query = RemoteQuery {
        sql: described(definition),
        table: definition.name.clone(),
        relation: definition.relation(&MysqlDialect),
        definition: Arc::new(definition.clone()),
        ..RemoteQuery::default()
    };
    match start(pool, &query).await {
        Ok(connection) => {
            pool.put(connection);
            Ok(pool
                .known(definition)
                .unwrap_or_else(|| Arc::new(TableFacts::unknown(definition, &MysqlDialect))))
        }
        Err(error) if error.state == SqlState::FDW_INVALID_DATA_TYPE => Err(error),
        Err(_) => Ok(Arc::new(TableFacts::unknown(definition, &MysqlDialect))),
    }
}

/// A connection for a query, whose table is known to fit. One that was kept may be lost without anybody knowing: then a new one
/// is made.
pub async fn start(pool: &Pool, query: &RemoteQuery) -> Result<Connection> {
    let mut connection = pool.get().await?;
    match table(pool, query, &mut connection).await {
        Err(error) if connection.is_used && error.state == SqlState::CONNECTION_FAILURE => {
            tracing::debug!(%error, "a kept connection was lost");
            let mut connection = pool.connect().await?;
            table(pool, query, &mut connection).await.map(|()| connection)
        }
        checked => checked.map(|()| connection),
    }
}

/// A comparison with a value of another type is no error there, so the columns have to be of the right types.
async fn table(pool: &Pool, query: &RemoteQuery, connection: &mut Connection) -> Result<()> {
    let definition = &query.definition;
    let failed = |error: mysql_async::Error| pool.failed(query, &error);
    if definition.columns.is_empty() || pool.known(definition).is_some() {
        return connection.conn()?.ping().await.map_err(failed);
    }
    let statement = connection.conn()?.prep(described(definition)).await.map_err(failed)?;
    let mut facts = TableFacts::default();
    for (column, found) in definition.columns.iter().zip(statement.columns()) {
        if !kind::fits(found, column.ty) {
            return Err(mismatch(pool, query, &column.remote_column(), found));
        }
        match found.column_type() {
            ColumnType::MYSQL_TYPE_YEAR if is_integer(column.ty) => facts.years.push(column.remote.clone()),
            // MySQL compares documents with texts that are none, and MariaDB has texts of that name.
            ColumnType::MYSQL_TYPE_JSON if is_text(column.ty) => {
                facts.equal_otherwise.push(column.remote.clone());
            }
            _ => {}
        }
    }
    connection.conn()?.close(statement).await.map_err(failed)?;
    pool.set_known(definition, facts);
    Ok(())
}

/// A column has another type there.
pub fn mismatch(pool: &Pool, query: &RemoteQuery, column: &RemoteColumn, found: &Column) -> SqlError {
    let (table, relation, server) = (&query.table, &query.relation, &pool.server);
    let message = format!(
        "column \"{}\" of foreign table \"{table}\" is of type {}, but column \"{}\" of {relation} on server \"{server}\" is of type {}",
        column.name,
        column.ty.with_typmod(-1).display(),
        column.remote,
        kind::shown(found),
    );
    SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
        .with_hint("Give the foreign table's column the type that it has there.")
}

/// A query for the types of all columns, which is not carried out.
fn described(definition: &TableDefinition) -> String {
    let columns: Vec<_> = definition.columns.iter().map(|column| MysqlDialect.name(&column.remote)).collect();
    format!("SELECT {} FROM {}", columns.join(", "), definition.relation(&MysqlDialect))
}
