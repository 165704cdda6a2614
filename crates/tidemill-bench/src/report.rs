//! Results for people.

mod chart;
pub mod html;
pub mod matrix;
mod plot;
pub mod remark;
pub mod text;
