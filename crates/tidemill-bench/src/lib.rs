//! The workbench: honest load generation and measurement of any database, by its client protocol alone.

mod command;
pub mod error;
pub mod histogram;
mod interrupt;
pub mod linkbench;
pub mod random;
pub mod run;
pub mod script;
pub mod suite;
pub mod target;

pub use command::{Arguments, main};
