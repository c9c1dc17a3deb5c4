//! Tokio drivers for the sans-IO core.

pub mod video;
