//! Tokio drivers for the sans-IO core.

pub mod status;
pub mod video;
