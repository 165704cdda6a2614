//! Against real databases: PostgreSQL and MariaDB where they are installed, SQLite always.

#![allow(clippy::unwrap_used)]

mod bench;
mod browser;
mod fault;
mod federation;
mod interrupt;
mod linkbench;
mod mariadb;
mod mysql;
mod pgbench;
mod postgres;
mod questdb;
mod record;
mod refusal;
mod streams;
mod suite;
mod target;
mod tls;
