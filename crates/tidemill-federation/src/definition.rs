//! CREATE and DROP of the tables on the other side, after the foreign tables that stand for them.

use std::sync::Arc;

use tidemill_sql::{Result, SqlError, SqlState};

use crate::connector::{Connector, RemoteQuery};
use crate::dialect::Dialect;
use crate::table::{ForeignColumn, TableDefinition};

/// `CREATE TABLE`; an error if a column's type has no counterpart there.
pub fn create(table: &TableDefinition, dialect: &dyn Dialect, if_not_exists: bool) -> Result<RemoteQuery> {
    let column = |column: &ForeignColumn| {
        let ty = dialect.column_type(column.ty).ok_or_else(|| no_counterpart(table, column))?;
        let not_null = if column.not_null { " NOT NULL" } else { dialect.nullable() };
        Ok(format!("{} {ty}{not_null}", dialect.name(&column.remote)))
    };
    let columns = table.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    let existing = if if_not_exists { "IF NOT EXISTS " } else { "" };
    let relation = table.relation(dialect);
    let sql = format!("CREATE TABLE {existing}{relation} ({})", columns.join(", "));
    Ok(of_table(table, relation, sql))
}

pub fn drop(table: &TableDefinition, dialect: &dyn Dialect, if_exists: bool) -> RemoteQuery {
    let relation = table.relation(dialect);
    let existing = if if_exists { "IF EXISTS " } else { "" };
    let sql = format!("DROP TABLE {existing}{relation}");
    of_table(table, relation, sql)
}

/// Carries out a definition in a transaction of its own, or without.
pub async fn carry_out(connector: &Arc<dyn Connector>, definition: &RemoteQuery) -> Result<()> {
    let mut writer = connector.begin(false).await?;
    match writer.execute(definition).await {
        Err(error) if error.state == SqlState::ACTIVE_SQL_TRANSACTION => {
            writer.execute_alone(definition).await.map(std::mem::drop)
        }
        executed => {
            executed?;
            writer.commit().await
        }
    }
}

fn of_table(table: &TableDefinition, relation: String, sql: String) -> RemoteQuery {
    RemoteQuery { sql, table: table.name.clone(), relation, ..RemoteQuery::default() }
}

fn no_counterpart(table: &TableDefinition, column: &ForeignColumn) -> SqlError {
    let (name, ty) = (&column.name, column.ty.display());
    let message = format!(
        "type {ty} of column \"{name}\" of foreign table \"{}\" has no counterpart on its server",
        table.name
    );
    SqlError::unsupported(message)
}
