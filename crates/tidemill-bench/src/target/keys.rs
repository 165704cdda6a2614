//! What a server knows its sessions by, so that they can be cancelled from outside.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// A server that does not even take a connection is not waited for.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Of the sessions that are open.
pub(super) struct Keys<K>(Mutex<Vec<Weak<K>>>);

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K> Keys<K> {
    /// Good for as long as the session keeps it.
    pub fn add(&self, key: K) -> Arc<K> {
        let key = Arc::new(key);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|key| key.strong_count() > 0);
        all.push(Arc::downgrade(&key));
        key
    }

    pub fn all(&self) -> Vec<Arc<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }
}
