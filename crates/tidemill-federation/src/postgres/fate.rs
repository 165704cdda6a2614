//! What became of a transaction. PostgreSQL knows it by its number for as long as it keeps the commit log; a number means nothing in
//! another cluster, so an id says which cluster it is of.
//!
//! A host that dies in a transaction leaves it open until the server notices that nobody is there any more. Its session, which waits for a
//! client that is gone, is ended here. One that is at work ends by itself: in a COMMIT that waits for a standby, to end it would
//! leave the standby without what the server has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_sql::{Result, SqlError};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::connect::Pool;
use super::error::failed;
use crate::connector::{Fate, RemoteQuery};

const STATUS: &str = "SELECT pg_catalog.txid_status($1)";
const CLUSTER: &str = "SELECT system_identifier::text FROM pg_catalog.pg_control_system()";
/// What makes an id: where the cluster's name is not told, that of the transaction has to do.
const IDS: [&str; 2] = [
    "SELECT pg_catalog.txid_current() || ' ' || system_identifier FROM pg_catalog.pg_control_system()",
    "SELECT pg_catalog.txid_current()::text",
];
/// The session that is in a transaction: its name, whether it waits for its client, and whether it was told to end, which it is if it was
/// made by a server such as this. It shows the lower half of the number, by which nobody else goes while the transaction lasts.
const END: &str = "SELECT name, waits, CASE WHEN waits AND name = pg_catalog.current_setting('application_name') \
                          THEN pg_catalog.pg_terminate_backend(pid) END \
                   FROM (SELECT pid, application_name AS name, state LIKE 'idle in transaction%' AS waits \
                         FROM pg_catalog.pg_stat_activity \
                         WHERE backend_xid = ($1::bigint % 4294967296)::text::xid) AS holder";
/// How long a session that was told to end is waited for, and how often it is looked whether it has.
const END_MAX: Duration = Duration::from_secs(1);
const END_POLL: Duration = Duration::from_millis(10);

/// An id of the transaction that a connection is in. A server that only speaks PostgreSQL's protocol may not know such a thing, and
/// the transaction goes on without.
pub async fn id(client: &Client) -> Result<Option<String>, Error> {
    for ask in IDS {
        client.batch_execute("SAVEPOINT tidemill_id").await?;
        match client.query_one(ask, &[]).await {
            Ok(row) => {
                client.batch_execute("RELEASE SAVEPOINT tidemill_id").await?;
                return Ok(row.try_get(0).ok());
            }
            Err(error) if error.as_db_error().is_some() => {
                client.batch_execute("ROLLBACK TO SAVEPOINT tidemill_id").await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

pub async fn of(pool: &Arc<Pool>, id: &str) -> Result<Fate> {
    let (number, cluster) = id.split_once(' ').map_or((id, None), |(number, of)| (number, Some(of)));
    let number: i64 =
        number.parse().map_err(|_| SqlError::internal(format!("\"{id}\" is no transaction")))?;
    // A connection that was kept may be lost.
    let connection = pool.connect().await?;
    let told = ask(&connection.client, number, cluster).await;
    let fate = told.map_err(|error| failed(&pool.server, &RemoteQuery::command(STATUS), &error))?;
    pool.put(connection);
    Ok(fate)
}

async fn ask(client: &Client, number: i64, cluster: Option<&str>) -> Result<Fate, Error> {
    if let Some(cluster) = cluster {
        match client.query_one(CLUSTER, &[]).await {
            // Restored from a dump, upgraded, or another server at the same address: whether it has the rows, no number tells.
            Ok(row) if row.try_get(0).ok() != Some(cluster) => return Ok(Fate::Unknown),
            Ok(_) => {}
            Err(error) if is_not_told(&error) => {}
            Err(error) => return Err(error),
        }
    }
    match status(client, number).await? {
        Fate::Running(_) => end(client, number).await,
        ended => Ok(ended),
    }
}

async fn status(client: &Client, number: i64) -> Result<Fate, Error> {
    match client.query_one(STATUS, &[&number]).await {
        Ok(row) => Ok(match row.try_get::<_, Option<&str>>(0) {
            Ok(Some("committed")) => Fate::Committed,
            Ok(Some("aborted")) => Fate::RolledBack,
            Ok(Some("in progress")) => Fate::Running(String::new()),
            _ => Fate::Unknown,
        }),
        // It is ahead of all that this server knows of: a standby that was promoted without it.
        Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => Ok(Fate::RolledBack),
        Err(error) if is_not_told(&error) => Ok(Fate::Unknown),
        Err(error) => Err(error),
    }
}

/// Whether the server cannot, or may not, tell such a thing.
fn is_not_told(error: &Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::UNDEFINED_FUNCTION, SqlState::INSUFFICIENT_PRIVILEGE].contains(code))
}

/// Ends a transaction that nobody will; or tells why not.
async fn end(client: &Client, number: i64) -> Result<Fate, Error> {
    let why = match client.query_opt(END, &[&number]).await {
        Ok(Some(row)) => match (row.try_get::<_, &str>(0)?, row.try_get(1)?, row.try_get(2)?) {
            (_, _, Some(true)) => return ended(client, number).await,
            (_, _, Some(false)) => "its session there does not take the signal to end".into(),
            (name, Some(true), None) => format!("it is that of a session of \"{name}\" there"),
            (_, Some(false), None) => "its session there is at work".into(),
            (_, None, None) => "what its session there does is not shown to this user".into(),
        },
        Ok(None) => "no session there is in it".into(),
        Err(error) => match error.as_db_error() {
            Some(told) if is_not_told(&error) => {
                format!("its session there may not be ended: {}", told.message())
            }
            _ => return Err(error),
        },
    };
    // It may have ended meanwhile.
    Ok(match status(client, number).await? {
        Fate::Running(_) => Fate::Running(why),
        ended => ended,
    })
}

async fn ended(client: &Client, number: i64) -> Result<Fate, Error> {
    let deadline = Instant::now() + END_MAX;
    loop {
        match status(client, number).await? {
            Fate::Running(_) if Instant::now() < deadline => tokio::time::sleep(END_POLL).await,
            Fate::Running(_) => return Ok(Fate::Running("its session there was told to end".into())),
            ended => return Ok(ended),
        }
    }
}
