//! What became of a transaction: PostgreSQL knows it by its number for as long as it keeps the commit log.

use std::sync::Arc;

use tidemill_sql::{Result, SqlError};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::connect::Pool;
use super::error::failed;
use crate::connector::{Fate, RemoteQuery};

const STATUS: &str = "SELECT pg_catalog.txid_status($1)";
const CURRENT: &str = "SELECT pg_catalog.txid_current()";

/// The number of the transaction that a connection is in. A server that only speaks PostgreSQL's protocol may not know such a thing, and
/// the transaction goes on without.
pub async fn id(client: &Client) -> Result<Option<String>, Error> {
    client.batch_execute("SAVEPOINT tidemill_id").await?;
    match client.query_one(CURRENT, &[]).await {
        Ok(row) => {
            client.batch_execute("RELEASE SAVEPOINT tidemill_id").await?;
            Ok(row.try_get::<_, i64>(0).ok().map(|id| id.to_string()))
        }
        Err(error) if error.as_db_error().is_some() => {
            client.batch_execute("ROLLBACK TO SAVEPOINT tidemill_id").await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub async fn of(pool: &Arc<Pool>, id: &str) -> Result<Fate> {
    let id: i64 = id.parse().map_err(|_| SqlError::internal(format!("\"{id}\" is no transaction")))?;
    // A connection that was kept may be lost.
    let connection = pool.connect().await?;
    let fate = match connection.client.query_one(STATUS, &[&id]).await {
        Ok(row) => match row.try_get::<_, Option<&str>>(0) {
            Ok(Some("committed")) => Fate::Committed,
            Ok(Some("aborted")) => Fate::RolledBack,
            Ok(Some("in progress")) => Fate::Running,
            _ => Fate::Unknown,
        },
        // It is ahead of all that this server knows of: a standby that was promoted without it.
        Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => Fate::RolledBack,
        Err(error) if error.as_db_error().is_some() => Fate::Unknown,
        Err(error) => return Err(failed(&pool.server, &RemoteQuery::command(STATUS), &error)),
    };
    pool.put(connection);
    Ok(fate)
}
