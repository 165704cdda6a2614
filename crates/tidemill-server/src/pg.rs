//! The PostgreSQL frontend/backend protocol, version 3: bytes to messages and messages to bytes, no sockets.

pub mod backend;
mod bind;
mod body;
pub mod frontend;
pub mod scram;
pub mod startup;
pub mod wire_error;

/// The largest message that is taken or sent, its length word included: PostgreSQL's `MaxAllocSize - 1`.
pub const MESSAGE_BYTES_MAX: usize = 0x3fff_fffe;
