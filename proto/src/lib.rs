//! Aquila's sans-IO core.
#![forbid(unsafe_code)]

pub mod class;
pub mod mavlink;
pub mod units;
pub mod video;
pub mod wire;

pub use class::Class;
pub use units::{Bitrate, ByteCount};
