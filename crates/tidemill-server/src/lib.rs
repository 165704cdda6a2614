//! Sessions, the PostgreSQL wire protocol, catalog, settings and system tables.

mod activity;
pub mod catalog;
pub mod copy;
mod define;
mod explain;
mod insert;
mod listen;
mod memory;
pub mod pg;
mod query;
pub mod registry;
pub mod server;
mod session;
pub mod settings;
mod system;
mod tables;
pub mod value;

pub use tidemill_sql::SqlError;
