//! The product through the wire: a real server process, real clients.

mod crash;
mod psql;
mod seed;
mod server;
