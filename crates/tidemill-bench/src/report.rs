//! Results for people.

mod chart;
pub mod difference;
pub mod html;
pub mod matrix;
pub mod noise;
mod plot;
pub mod remark;
pub mod text;

pub(crate) use plot::escaped;
