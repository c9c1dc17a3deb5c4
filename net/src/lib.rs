//! Tokio drivers for the sans-IO core.

pub mod mavlink;
pub mod status;
pub mod video;
