//! Pictures as they are seen: content, encoders called picture by picture, what of it a pilot sees, and how good that is.
//!
//! docs/quality.md says what is measured and how. Only `bench` knows of runs; the rest is told when each picture arrived.

pub mod alignment;
pub mod bench;
pub mod codec;
pub mod content;
pub mod judge;
pub mod oracle;
mod programs;
mod scale;
mod shown;
mod ssim;
mod vmaf;

pub use scale::scaled;
pub use shown::{Encoded, Fate, FatesError, Timing, View, decodable, shown, timing};
pub use ssim::ssim_luma;
pub use vmaf::{Vmaf, VmafError};
