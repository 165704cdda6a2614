//! How a thread that reads files waits for those that are elsewhere.

use std::sync::Arc;

use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::watch;

use super::place::{FILES_MAX, Place};
use super::store::Stores;
use super::url::Url;

/// Told the bytes that come.
pub type Counted = Arc<dyn Fn(usize) + Send + Sync>;

/// A thread that reads files.
#[derive(Clone)]
pub struct Access {
    pub stores: Arc<Stores>,
    /// Its sender is dropped when nobody wants the files any more.
    pub wanted: watch::Receiver<()>,
    pub counted: Counted,
}

impl Access {
    /// Blocks until it is done, or nobody wants it: then it is ended.
    pub fn wait<T>(&self, asked: impl Future<Output = Result<T>>) -> Result<T> {
        let mut wanted = self.wanted.clone();
        self.stores.handle()?.block_on(async {
            tokio::select! {
                done = asked => done,
                _ = wanted.changed() => Err(SqlError::new(SqlState::QUERY_CANCELED, "nobody waits for the file")),
            }
        })
    }

    /// The files in a folder of a store whose names fit. When they are too many, no more are looked for.
    pub fn list(&self, folder: &Url, fits: &dyn Fn(&str) -> bool) -> Result<Vec<Place>> {
        let files = self.wait(self.stores.list(folder, fits, FILES_MAX))?;
        Ok(files.into_iter().map(Place::Remote).collect())
    }
}
