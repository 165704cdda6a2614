//! The product through the wire: a real server process, real clients.

mod crash;
mod seed;
mod server;
mod stress;
