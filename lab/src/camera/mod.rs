//! A camera: a synthetic landscape, an H.264 encoder whose rate can be changed while it runs, RTP, and the way back.
//!
//! The picture carries its own number, so what arrives can be compared with what was sent, however badly it has been compressed. All of
//! it is sans-IO: frames are asked for, packets are handed out.

mod decoder;
mod encoder;
mod number;
mod options;
mod picture;
mod rtp;
mod scene;

#[cfg(test)]
mod tests;

pub use decoder::{DecodeError, Decoder};
pub use encoder::{EncodeError, EncodedFrame, Encoder, EncoderConfig};
pub use number::read_frame_number;
pub use picture::{Yuv, psnr_luma_db};
pub(crate) use rtp::nal_units;
pub use rtp::{AccessUnit, Depacketizer, Packetizer, PacketizerConfig};
pub use scene::Scene;
