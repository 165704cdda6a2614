//! Sessions, the PostgreSQL wire protocol, catalog, settings and system tables.

mod activity;
mod allocator;
pub mod catalog;
mod define;
mod delivery;
mod explain;
mod http;
mod insert;
mod join;
mod listen;
mod memory;
mod metrics;
pub mod pg;
mod query;
pub mod registry;
pub mod server;
mod session;
pub mod settings;
mod system;
mod tables;

pub use tidemill_sql::SqlError;
