//! Results for people.

pub mod matrix;
pub mod text;
