//! Results for people.

pub mod html;
pub mod matrix;
mod plot;
pub mod text;
