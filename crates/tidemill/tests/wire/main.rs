//! The product through the wire: a real server process, real clients.

mod client;
mod crash;
mod cursor;
mod dictionary;
mod postgres;
mod seed;
mod server;
mod session;
mod slt;
mod transaction;
