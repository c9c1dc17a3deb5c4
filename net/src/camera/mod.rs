//! A camera in our process: a pipeline of GStreamer's whose encoder asks before each frame.
//!
//! Needs the feature `gstreamer`, and with it Debian's `libgstreamer1.0-dev` and `libgstreamer-plugins-base1.0-dev` to build. The
//! table of encoders is there in any case.

#[cfg(feature = "gstreamer")]
mod pipeline;
mod table;

#[cfg(feature = "gstreamer")]
pub use pipeline::{CameraError, GstCamera};
/// Whether a camera in this process is possible.
pub const IS_BUILT: bool = cfg!(feature = "gstreamer");

pub use table::{ANY, CameraSetup, ENCODERS, Encoder, Unit};
