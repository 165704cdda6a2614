//! Whether a server is there, as the background probe has found it, and what queries do about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidemill_sql::planner::vars::now_us;
use tidemill_sql::{SqlError, SqlState};
use tokio::sync::{Notify, watch};

/// A probe that takes longer is answered by a slow server.
const SLOW: Duration = Duration::from_millis(500);
/// How long a query whose server is found dead may take to find that out itself.
const GRACE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody has asked it yet, or it cannot be asked.
    Unknown,
    Up,
    /// It answers, but takes its time.
    Slow,
    Down,
}

impl State {
    pub const ALL: [State; 4] = [State::Unknown, State::Up, State::Slow, State::Down];

    pub fn as_str(self) -> &'static str {
        match self {
            State::Unknown => "unknown",
            State::Up => "up",
            State::Slow => "slow",
            State::Down => "down",
        }
    }
}

/// What is known of a server.
#[derive(Debug, Clone)]
pub struct Known {
    pub state: State,
    /// Since when it is in this state, in microseconds since 1970.
    pub since_us: i64,
    /// When it was asked the last time.
    pub checked_us: Option<i64>,
    /// How long its last answer took.
    pub latency: Option<Duration>,
    /// Why it is down, or cannot be asked.
    pub error: Option<SqlError>,
}

/// Shared by the probe, which finds out, and the queries, which do not wait for what is down.
#[derive(Debug)]
pub struct Health {
    pub server: String,
    known: Mutex<Known>,
    /// Why it is down, if it is.
    down: watch::Sender<Option<SqlError>>,
    /// Somebody wants to know before the next probe is due.
    suspected: Arc<Notify>,
}

impl Health {
    pub fn new(server: &str, suspected: Arc<Notify>) -> Self {
        let known =
            Known { state: State::Unknown, since_us: now_us(), checked_us: None, latency: None, error: None };
        Self {
            server: server.to_string(),
            known: Mutex::new(known),
            down: watch::Sender::new(None),
            suspected,
        }
    }

    pub fn known(&self) -> Known {
        self.known.lock().clone()
    }

    /// Why it is down, if it is known to be.
    pub fn down(&self) -> Option<SqlError> {
        self.down.borrow().clone()
    }

    /// Waits until it is down, and a bit: most of the time what waits for the server is told why by its connection. The
    /// error is that of a query that has waited in vain, for an answer if it had reached the server.
    pub async fn until_gone(&self, is_reached: impl Fn() -> bool) -> SqlError {
        let down = self.until_down().await;
        tokio::time::sleep(GRACE).await;
        if !is_reached() {
            return down;
        }
        SqlError::new(
            SqlState::CONNECTION_FAILURE,
            format!("lost the connection to server \"{}\"", self.server),
        )
        .with_detail(cause(&down))
    }

    async fn until_down(&self) -> SqlError {
        let mut down = self.down.subscribe();
        match down.wait_for(Option::is_some).await.map(|error| error.clone()) {
            Ok(Some(error)) => error,
            // The sender is `self`.
            _ => std::future::pending().await,
        }
    }

    /// A query could not reach it: it is probed now.
    pub fn suspect(&self) {
        self.suspected.notify_one();
    }

    /// Takes over what a probe that began at `began` has found.
    pub fn note(&self, began: Instant, found: Result<(), SqlError>) {
        let latency = began.elapsed();
        let (state, error) = match found {
            Ok(()) if latency > SLOW => (State::Slow, None),
            Ok(()) => (State::Up, None),
            Err(error) if is_absence(&error) => (State::Down, Some(error)),
            Err(error) => (State::Unknown, Some(error)),
        };
        let (before, now) = {
            let mut known = self.known.lock();
            let before = known.state;
            let now = now_us();
            if before != state {
                known.since_us = now;
            }
            known.state = state;
            known.checked_us = Some(now);
            known.latency = error.is_none().then_some(latency);
            known.error.clone_from(&error);
            (before, state)
        };
        self.down.send_replace(error.filter(|_| now == State::Down));
        if before != now {
            self.log(before, now);
        }
    }

    fn log(&self, before: State, now: State) {
        let (server, error) = (&self.server, self.known().error.map(|error| cause(&error)));
        match now {
            State::Down => tracing::warn!(server, error, "a foreign server is down"),
            State::Up | State::Slow if before == State::Down => {
                tracing::info!(server, "a foreign server is back");
            }
            _ => tracing::debug!(server, state = now.as_str(), error, "the state of a foreign server"),
        }
    }
}

/// Whether an error says that the server, and not the query, is the trouble.
pub fn is_absence(error: &SqlError) -> bool {
    error.state.0.starts_with("08")
}

/// What an error says of its cause, in one line.
pub fn cause(error: &SqlError) -> String {
    // The message of an absence is the same for all of them.
    let detail = error.detail.as_deref().filter(|_| is_absence(error));
    let cause = detail.unwrap_or(&error.message);
    cause.split("\n\t").collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_is_told() {
        let health = Arc::new(Health::new("n", Arc::default()));
        assert_eq!(health.known().state, State::Unknown);
        health.note(Instant::now(), Ok(()));
        assert_eq!((health.known().state, health.down()), (State::Up, None));
        let waiting = tokio::spawn({
            let health = Arc::clone(&health);
            async move { health.until_gone(|| true).await }
        });
        let absent = SqlError::new(SqlState::UNABLE_TO_ESTABLISH_CONNECTION, "no way").with_detail("why");
        health.note(Instant::now(), Err(absent));
        let told = waiting.await.unwrap();
        assert_eq!((told.state.0, told.detail.as_deref()), ("08006", Some("why")));
        assert_eq!(health.known().state, State::Down);
        let since = health.known().since_us;
        health.note(Instant::now(), Err(told));
        assert_eq!(health.known().since_us, since);
        health.note(Instant::now(), Ok(()));
        assert_eq!((health.known().state, health.down()), (State::Up, None));
        // What cannot be asked is not dead.
        health.note(Instant::now(), Err(SqlError::new(SqlState::UNDEFINED_OBJECT, "no mapping")));
        assert_eq!((health.known().state, health.down()), (State::Unknown, None));
    }
}
