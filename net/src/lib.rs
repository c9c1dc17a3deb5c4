//! Tokio drivers for the sans-IO core.
