//! The engine as a whole: views equal batch queries, restarts and crashes lose nothing that was acknowledged.

mod equivalence;
mod support;
mod trouble;
