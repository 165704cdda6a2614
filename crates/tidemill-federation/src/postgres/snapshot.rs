//! What the scans of a statement share: one snapshot, exported by a connection that is idle meanwhile, and the right to have
//! the connections that they need.

use std::sync::Arc;

use futures::{FutureExt, join};
use parking_lot::Mutex;
use tidemill_sql::{Result, SqlError};
use tokio_postgres::Error;

use super::connect::{Connection, Pool};
use super::error::{failed, is_lost};
use super::scan::BEGIN;
use crate::connector::RemoteQuery;
use crate::room::Seats;
use crate::snapshot::Shared;

/// What scans share, which the first of them takes.
pub(super) async fn shared<'s>(
    shared: &'s Shared,
    pool: &Arc<Pool>,
    query: &RemoteQuery,
) -> Result<&'s Exported> {
    let found = shared.taken.get_or_try_init(|| async {
        let exported = Exported::new(shared, pool, query).await?;
        Ok::<_, SqlError>(Box::new(exported) as _)
    });
    let exported = found.await?.downcast_ref::<Exported>();
    exported.ok_or_else(|| SqlError::internal("a snapshot of another kind"))
}

/// A snapshot that other connections read. It lasts as long as its transaction, which is idle.
pub(super) struct Exported {
    /// Its name, and the connection that has it. `None`: one scan reads what there is, or the server is another Tidemill.
    exported: Option<(String, Connection)>,
    /// Whether parts of tables are read by connections of their own.
    pub is_divided: bool,
    /// Of the scans that have not begun.
    seats: Mutex<Seats>,
    /// For parts of tables.
    spare: Mutex<Vec<Connection>>,
    pool: Arc<Pool>,
}

impl Exported {
    async fn new(shared: &Shared, pool: &Arc<Pool>, query: &RemoteQuery) -> Result<Self> {
        // One scan of a table can do without the others, and without a snapshot then.
        let is_alone = shared.scans == 1;
        // Of more scans than there may be connections some wait until others have ended.
        let wanted = if is_alone { 1 } else { (shared.scans + 1).min(pool.room.connections_max).max(2) };
        let mut seats = pool.room.take(wanted).await?;
        let mut spare = match shared.spare_scans {
            0 => None,
            scans => pool.spare(scans + usize::from(is_alone)).await,
        };
        let own = match is_alone {
            true => spare.as_mut().and_then(Vec::pop),
            false => {
                let seat = seats.split(1).ok_or_else(|| SqlError::internal("a seat is missing"))?;
                Some(pool.seated(seat, false).await?)
            }
        };
        let exported = match own {
            Some(own) => match exported(pool, own).await {
                // A connection that was kept may be lost without anybody knowing.
                Err(error) if is_lost(&error) => exported(pool, pool.connect().await?).await,
                exported => exported,
            }
            .map_err(|error| failed(&pool.server, query, &error))?,
            None => None,
        };
        Ok(Self {
            is_divided: spare.is_some(),
            exported,
            seats: Mutex::new(seats),
            spare: Mutex::new(spare.unwrap_or_default()),
            pool: Arc::clone(pool),
        })
    }

    /// What the server calls the snapshot.
    pub fn name(&self) -> Option<&str> {
        self.exported.as_ref().map(|(name, _)| name.as_str())
    }

    /// A connection for a scan; for one of a part of a table that need not be, if `is_spare`.
    pub async fn connection(&self, is_spare: bool) -> Result<Connection> {
        let spare = if is_spare { self.spare.lock().pop() } else { None };
        if let Some(connection) = spare {
            return Ok(connection);
        }
        let seat = self.seats.lock().split(1);
        match seat {
            Some(seat) => self.pool.seated(seat, false).await,
            None => self.pool.get().await,
        }
    }
}

async fn exported(
    pool: &Pool,
    connection: Connection,
) -> std::result::Result<Option<(String, Connection)>, Error> {
    if connection.is_tidemill {
        pool.put(connection);
        return Ok(None);
    }
    let client = &connection.client;
    let (begun, exported) =
        join!(client.batch_execute(BEGIN), client.query_one("SELECT pg_export_snapshot()", &[]));
    begun?;
    Ok(Some((exported?.try_get(0)?, connection)))
}

impl Drop for Exported {
    fn drop(&mut self) {
        for unused in self.spare.get_mut().drain(..) {
            self.pool.put(unused);
        }
        if let Some((_, connection)) = self.exported.take() {
            // Sent when it is first polled; what answers comes before the answers to the next query.
            drop(connection.client.batch_execute("COMMIT").now_or_never());
            self.pool.put(connection);
        }
    }
}
