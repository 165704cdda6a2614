//! The engine as a whole: views equal batch queries, restarts and crashes lose nothing that was acknowledged.

#![allow(clippy::unwrap_used)]

mod combine;
mod damage;
mod equivalence;
mod hand_over;
mod join;
mod pressure;
mod scenario;
mod support;
mod transform;
mod trouble;
mod ttl;
mod whole;
mod window;
