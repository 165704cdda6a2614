//! The product through the wire: a real server process, real clients.

#![allow(clippy::unwrap_used)]

mod cascade;
mod cascade_write;
mod client;
mod clients;
mod combine;
mod copy;
mod crash;
mod cursor;
mod delivery;
mod demo;
mod dictionary;
mod foreign;
mod foreign_block;
mod foreign_constant;
mod foreign_write;
mod full_disk;
mod join;
mod large_table;
mod metrics;
mod migrate;
mod node;
mod postgres;
mod prepared;
mod proxy;
mod psql;
mod pushdown;
mod returning;
mod seed;
mod server;
mod session;
mod slt;
mod stress;
mod table;
mod tls;
mod tools;
mod tpch;
mod transaction;
mod transcript;
mod transform;
mod view;
mod view_join;
mod window;
mod workbench;
mod wrapper;
