//! Sessions, the PostgreSQL wire protocol, catalog, settings and system tables.

pub mod catalog;
pub mod copy;
pub mod pg;
pub mod settings;
pub mod value;
