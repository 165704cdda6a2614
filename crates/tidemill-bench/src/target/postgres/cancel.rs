//! Asks the server to give up what its sessions do: each on a connection of its own, by the key that its session was given.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::target::channel::Socket;

/// In the place of a protocol's version.
const CANCEL_REQUEST: u32 = 80_877_102;
/// A server that does not even take a connection is not waited for.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of BackendKeyData: the server's process, and a secret.
pub(super) type Key = Vec<u8>;

/// Of the sessions that are open.
#[derive(Default)]
pub(super) struct Keys(Mutex<Vec<Weak<Key>>>);

impl Keys {
    /// Good for as long as the session keeps it.
    pub fn add(&self, key: Key) -> Arc<Key> {
        let key = Arc::new(key);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|key| key.strong_count() > 0);
        all.push(Arc::downgrade(&key));
        key
    }

    pub fn all(&self) -> Vec<Arc<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }
}

/// There is no answer to it. It goes without TLS, which the server asks of sessions only.
pub(super) fn request(socket: &Socket, key: &Key) -> std::io::Result<()> {
    let mut message = (key.len() as u32 + 8).to_be_bytes().to_vec();
    message.extend_from_slice(&CANCEL_REQUEST.to_be_bytes());
    message.extend_from_slice(key);
    (&*socket).write_all(&message)
}
