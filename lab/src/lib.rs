//! Experiments: simulated aircraft, camera and virtual-time runs.

pub mod frames;
pub mod pair;
