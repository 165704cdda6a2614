//! Foreign servers: connectors, pushdown, execution.

pub mod cell;
pub mod change;
pub mod connector;
pub mod deparse;
pub mod dialect;
pub mod expression;
pub mod file;
pub mod health;
pub mod influx;
pub mod keepalive;
pub mod multi_tenant;
pub mod mysql;
pub mod node;
pub mod option;
pub mod postgres;
pub mod pushdown;
pub mod scan;
pub mod select;
pub mod server;
pub mod snapshot;
pub mod sqlite;
pub mod table;
mod thread;
pub mod watched;
pub mod wrapper;
pub mod write;

pub use multi_tenant::MultiTenantTable;
pub use option::{Options, Place};
pub use server::Server;
pub use table::{ForeignColumn, ForeignTable, TableDefinition};
pub use wrapper::Wrapper;
