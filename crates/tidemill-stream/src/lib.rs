//! Streams, continuous views, their state, log and windows.

pub mod clock;
pub mod disk;
pub mod engine;
pub mod error;
pub mod fold;
pub mod front;
pub mod join;
pub mod leaf;
pub mod log;
pub mod run;
pub mod stream;
pub mod transform;
pub mod ttl;
pub mod view;
pub mod window;

pub use error::{Error, Result};
