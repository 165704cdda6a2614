//! One snapshot for the scans of a statement: exported by a connection that is idle meanwhile.

use std::sync::Arc;

use futures::{FutureExt, join};
use tidemill_sql::{Result, SqlError};
use tokio_postgres::Error;

use super::connect::{Connection, Pool};
use super::error::{failed, is_lost};
use super::scan::BEGIN;
use crate::connector::RemoteQuery;
use crate::snapshot::Shared;

/// The name of the snapshot that scans share, which the first of them takes.
pub(super) async fn name(shared: &Shared, pool: &Arc<Pool>, query: &RemoteQuery) -> Result<String> {
    let found = shared.0.get_or_try_init(|| async {
        let exported = match Exported::new(pool, pool.get().await?).await {
            // A connection that was kept may be lost without anybody knowing.
            Err(error) if is_lost(&error) => Exported::new(pool, pool.connect().await?).await,
            exported => exported,
        };
        let exported = exported.map_err(|error| failed(&pool.server, query, &error))?;
        Ok::<_, SqlError>(Box::new(exported) as _)
    });
    let exported = found.await?.downcast_ref::<Exported>();
    exported
        .map(|exported| exported.name.clone())
        .ok_or_else(|| SqlError::internal("a snapshot of another kind"))
}

/// A snapshot that other connections read. It lasts as long as its transaction, which is idle.
struct Exported {
    name: String,
    connection: Option<Connection>,
    pool: Arc<Pool>,
}

impl Exported {
    async fn new(pool: &Arc<Pool>, connection: Connection) -> std::result::Result<Self, Error> {
        let client = &connection.client;
        let (begun, exported) =
            join!(client.batch_execute(BEGIN), client.query_one("SELECT pg_export_snapshot()", &[]));
        begun?;
        let name = exported?.try_get(0)?;
        Ok(Self { name, connection: Some(connection), pool: Arc::clone(pool) })
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // Sent when it is first polled; what answers comes before the answers to the next query.
            drop(connection.client.batch_execute("COMMIT").now_or_never());
            self.pool.put(connection);
        }
    }
}
