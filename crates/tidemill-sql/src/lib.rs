//! The language of Tidemill: text to statements, types and their text and binary forms, functions, SQLSTATE codes. No I/O.

pub mod aggregate;
pub mod calendar;
pub mod copy;
pub mod data_type;
pub mod error;
pub mod function;
pub mod insert;
pub mod name;
pub mod numeric;
pub mod objects;
pub mod parse;
pub mod planner;
pub mod relation;
pub mod statement;
pub mod text;
pub mod types;
pub mod value;
pub mod walk;
pub mod window_clause;

pub use error::{Result, SqlError, SqlState};
