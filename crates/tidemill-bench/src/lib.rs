//! The workbench: honest load generation and measurement of any database, by its client protocol alone.

#[macro_use]
mod output;

mod catalog;
mod command;
pub mod error;
mod fiber;
pub mod figure;
mod file;
pub mod histogram;
mod interrupt;
pub mod linkbench;
mod machine;
pub mod random;
mod report;
pub mod result;
pub mod run;
pub mod script;
pub mod stats;
pub mod suite;
pub mod target;
pub mod threshold;
mod usl;

pub use command::{Arguments, main, parse};
