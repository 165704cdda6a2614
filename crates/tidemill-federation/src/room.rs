//! How many connections a server is asked for at the same time, and who waits until one is free.
//!
//! Whoever has one and waits for the next may wait for somebody who does the same, so what a statement cannot do without it
//! takes at once. What would only make it faster it takes while there is plenty.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of a server at most, unless its options say.
pub const CONNECTIONS_MAX: usize = 100;
/// How long whoever needs one waits, unless the server's options say.
pub const CONNECTION_WAIT: Duration = Duration::from_secs(30);
/// The share of all that is left free by whoever could do without.
const SPARE_SHARE: usize = 2;

/// The right to have so many connections.
pub type Seats = OwnedSemaphorePermit;

pub struct Room {
    server: String,
    free: Arc<Semaphore>,
    pub connections_max: usize,
    pub wait: Duration,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("free", &self.free.available_permits()).finish_non_exhaustive()
    }
}

impl Room {
    pub fn new(server: &str, connections_max: usize, wait: Duration) -> Self {
        let connections_max = connections_max.min(Semaphore::MAX_PERMITS);
        let free = Arc::new(Semaphore::new(connections_max));
        Self { server: server.to_string(), free, connections_max, wait }
    }

    /// For so many connections, as soon as they are free; who comes first gets them first.
    pub async fn take(&self, connections: usize) -> Result<Seats> {
        let Some(count) = u32::try_from(connections).ok().filter(|_| connections <= self.connections_max)
        else {
            let message =
                format!("this statement needs {connections} connections to server \"{}\"", self.server);
            return Err(self.too_many(message, String::new()));
        };
        let taken = tokio::time::timeout(self.wait, Arc::clone(&self.free).acquire_many_owned(count)).await;
        match taken {
            Ok(Ok(seats)) => Ok(seats),
            // Nobody closes it.
            Ok(Err(closed)) => Err(SqlError::internal(closed.to_string())),
            Err(_) => {
                let message = format!("too many connections to server \"{}\"", self.server);
                let waited = format!(" None has become free within {} seconds.", self.wait.as_secs());
                Err(self.too_many(message, waited))
            }
        }
    }

    /// For one connection, if it is free now.
    pub fn at_once(&self) -> Option<Seats> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// For so many connections that nobody waits for, if as many as are kept for others are free besides.
    pub fn spare(&self, connections: usize) -> Option<Seats> {
        let kept = self.connections_max / SPARE_SHARE;
        let is_free = self.free.available_permits() >= connections.saturating_add(kept);
        let count = u32::try_from(connections).ok().filter(|_| is_free)?;
        Arc::clone(&self.free).try_acquire_many_owned(count).ok()
    }

    fn too_many(&self, message: String, waited: String) -> SqlError {
        SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message)
            .with_detail(format!("There are {} at most.{waited}", self.connections_max))
            .with_hint("The server's options \"max_connections\" and \"connection_wait\" say how many, and how long.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_free_is_waited_for() {
        let room = Room::new("north", 4, Duration::ZERO);
        let mut taken = room.take(3).await.unwrap();
        let error = room.take(2).await.unwrap_err();
        assert_eq!(
            (error.state.0, error.message.as_str()),
            ("53300", "too many connections to server \"north\"")
        );
        let error = room.take(5).await.unwrap_err();
        assert_eq!(error.message, "this statement needs 5 connections to server \"north\"");
        drop(taken.split(1));
        drop(room.take(2).await.unwrap());
        let room = Room::new("north", 4, Duration::from_secs(600));
        let taken = room.take(4).await.unwrap();
        let (next, ()) = futures::join!(room.take(2), async { drop(taken) });
        assert_eq!(next.unwrap().num_permits(), 2);
    }

    #[tokio::test]
    async fn half_of_them_are_for_those_that_need_one() {
        let room = Room::new("north", 8, Duration::ZERO);
        let spare = room.spare(4).unwrap();
        assert!(room.spare(1).is_none());
        drop(room.take(4).await.unwrap());
        drop(spare);
        assert!(room.spare(5).is_none());
    }
}
