//! Asks the server to give up what a session does: on a connection of its own, by the key that the session was given.

use std::io::Write;

use crate::target::channel::Socket;

/// In the place of a protocol's version.
const CANCEL_REQUEST: u32 = 80_877_102;

/// The body of BackendKeyData: the server's process, and a secret.
pub(super) type Key = Vec<u8>;

/// There is no answer to it. It goes without TLS, which the server asks of sessions only.
pub(super) fn request(socket: &Socket, key: &Key) -> std::io::Result<()> {
    let mut message = (key.len() as u32 + 8).to_be_bytes().to_vec();
    message.extend_from_slice(&CANCEL_REQUEST.to_be_bytes());
    message.extend_from_slice(key);
    (&*socket).write_all(&message)
}
