//! Scans that block have a thread each: those of a pool would wait for each other where a plan needs all its sides at once.

use datafusion::error::DataFusionError;
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::oneshot;

/// Waits for what is done in a thread of its own. Whoever gives up waiting has to tell it by other means.
pub async fn run(work: impl FnOnce() -> Result<()> + Send + 'static) -> datafusion::error::Result<()> {
    let (done, waiting) = oneshot::channel();
    let thread = std::thread::Builder::new().name("foreign-scan".to_string());
    let ended = match thread.spawn(move || drop(done.send(work()))) {
        // It says what came of it, unless it panics.
        Ok(_) => waiting.await.unwrap_or_else(|_| Err(SqlError::internal("a foreign scan broke off"))),
        Err(error) => {
            let message = format!("could not start a thread: {error}");
            Err(SqlError::new(SqlState::OUT_OF_MEMORY, message))
        }
    };
    ended.map_err(|error| DataFusionError::External(Box::new(error)))
}
