//! Foreign servers that do not do what they should, and rules that only some servers can follow.

#![allow(clippy::unwrap_used)]

mod fault;
#[path = "../../../tidemill/tests/wire/postgres.rs"]
mod postgres;
mod recorded;
mod rule;
