//! A query that is under way on a connection, and how it ends when nobody wants it any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::connect::{Connection, Pool};
use super::error::failed;
use crate::connector::RemoteQuery;
use crate::underway::Underway;

/// How long a query that nobody wants any more may take to come to its end by itself: what a LIMIT leaves over is less work
/// than a cancel, for which that server starts a process.
const END_MAX: Duration = Duration::from_millis(10);
/// How long it may take to end when it is canceled, before its connection is closed.
const CANCEL_MAX: Duration = Duration::from_secs(5);

/// A query that is under way there. Unless it came to its end, it is ended when this is dropped.
pub(super) struct Running {
    pub connection: Option<Connection>,
    pub pool: Arc<Pool>,
    _underway: Underway,
}

impl Running {
    pub fn new(connection: Connection, pool: &Arc<Pool>) -> Self {
        Self { connection: Some(connection), pool: Arc::clone(pool), _underway: Underway::begin() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (Some(connection), Ok(runtime)) = (self.connection.take(), Handle::try_current()) else { return };
        let (pool, underway) = (Arc::clone(&self.pool), Underway::begin());
        // It has deadlines, so it needs no owner.
        runtime.spawn(async move {
            if ends_unwanted(&connection, &pool).await {
                pool.put(connection);
            }
            drop(underway);
        });
    }
}

/// Ends a query whose rows nobody wants any more; whether the connection is free for others then.
async fn ends_unwanted(connection: &Connection, pool: &Pool) -> bool {
    // Answered when that server is done with the query.
    let mut ended = std::pin::pin!(connection.client.batch_execute("ROLLBACK"));
    if let Ok(ended) = tokio::time::timeout(END_MAX, &mut ended).await {
        return ended.is_ok();
    }
    let canceled = async {
        // If it came late it would end whatever is asked next.
        pool.cancel(connection.client.cancel_token()).await?;
        ended.await.map_err(|error| failed(&pool.server, &RemoteQuery::command("ROLLBACK"), &error))
    };
    let canceled = tokio::time::timeout(CANCEL_MAX, canceled).await;
    let is_free = matches!(canceled, Ok(Ok(())));
    if !is_free {
        tracing::debug!(?canceled, server = pool.server, "a query could not be canceled");
    }
    is_free
}
