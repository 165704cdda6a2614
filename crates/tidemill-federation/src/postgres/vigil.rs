//! Whether a server is still at work for a connection on which nothing comes. A question, or an answer, that a machine between them has
//! swallowed looks like a query that takes its time; only the server can tell, which is asked over the connection of the probe.

use std::time::Duration;

use tidemill_sql::SqlError;
use tokio_postgres::SimpleQueryMessage;

use super::connect::{Connection, Pool};
use super::error::lost;

/// How long nothing comes before the server is asked, and how long its session has been idle then, at least: as long as a server
/// may take to answer a probe, by default.
const SILENCE_MAX: Duration = Duration::from_secs(5);

impl Pool {
    /// What a connection was asked for, unless the server turns out not to know of it.
    pub async fn attended<T, E: From<SqlError>>(
        &self,
        connection: &Connection,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::select! {
            biased;
            done = work => done,
            lost = self.until_forgotten(connection) => Err(lost.into()),
        }
    }

    /// Returns when a connection that waits for an answer will get none.
    pub async fn until_forgotten(&self, connection: &Connection) -> SqlError {
        loop {
            tokio::time::sleep(SILENCE_MAX).await;
            if connection.rows.silent_for() < SILENCE_MAX {
                continue;
            }
            // Whether a server is there that does not tell, the probe finds out.
            let told = tokio::time::timeout(SILENCE_MAX, self.has_forgotten(connection)).await;
            if matches!(told, Ok(Some(true))) {
                return lost(&self.server, "its session there is idle, and has not answered");
            }
        }
    }

    /// `None`: the server does not tell.
    async fn has_forgotten(&self, connection: &Connection) -> Option<bool> {
        let question = question(connection.rows.backend()?, connection.since.elapsed());
        let of_probe = self.take_probe()?;
        let told = of_probe.client.simple_query(&question).await.ok()?;
        self.put(of_probe);
        Some(told.iter().any(|message| matches!(message, SimpleQueryMessage::Row(_))))
    }
}

/// A row if the session with this number is idle. It is known by its age, too, because whoever listens at the address may not be the
/// same for every connection.
fn question(backend: u32, age: Duration) -> String {
    let (age, silence) = (age.as_secs(), SILENCE_MAX.as_secs());
    format!(
        "SELECT 1 FROM pg_catalog.pg_stat_activity \
         WHERE pid = {backend} AND state LIKE 'idle%' \
           AND clock_timestamp() - state_change > interval '{silence} seconds' \
           AND abs(extract(epoch FROM clock_timestamp() - backend_start)::float8 - {age}) <= {silence}"
    )
}
