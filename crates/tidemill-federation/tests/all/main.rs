//! Foreign servers against real ones.
