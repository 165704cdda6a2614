//! Foreign servers that do not do what they should, rules that only some servers can follow, and what is said of them.

#![allow(clippy::unwrap_used)]

mod document;
mod fault;
#[path = "../../../tidemill/tests/wire/postgres.rs"]
mod postgres;
mod recorded;
mod rule;
