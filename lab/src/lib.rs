//! Experiments: simulated aircraft, camera and virtual-time runs.
