//! Results for people.

pub mod text;
