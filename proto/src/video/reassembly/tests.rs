//! Boundaries of reassembly.
