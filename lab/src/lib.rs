//! Experiments: simulated aircraft, camera and virtual-time runs.

pub mod aircraft;
pub mod camera;
pub mod demo;
pub mod frames;
pub mod pair;
pub mod plan;
