//! Video: RTP packets are grouped to frames, frames are cut to datagram-sized fragments, and put together again at the
//! far side, byte-identical.
//!
//! The unit of dropping is the frame: half a frame costs the link as much as the half is large and shows nothing. A
//! camera's packets go into a [`SendQueue`], which gives out fragments when the scheduler has room; the fragments of one
//! flow go into a [`Reassembler`], which gives out whole frames, in order, or says which were lost.
//!
//! Where losses are repaired ([`VideoParity`]), a [`Protector`] beside the queue remembers what left and makes repairs, and a
//! [`Restorer`] before the reassembler gets back what was lost.
//!
//! Nothing here looks into the picture itself. What RTP carries is read only far enough to tell recovery points and
//! disposable frames ([`Classifier`]), and any other payload passes through as it is.

mod classify;
mod fragment;
mod frame;
mod nal;
mod parity;
mod queue;
mod reassembly;
mod rtp;
mod streams;

pub use classify::{Classifier, Codec, ParseCodecError};
pub use fragment::{FragmentError, FragmentFlags, FragmentHeader, MAX_FRAGMENTS, MAX_FRAME_BYTES, MIN_PAYLOAD};
pub use frame::{Packets, VideoFrame};
pub use nal::PacketKind;
pub use parity::{Protector, Repair, Restorer, VideoParity};
pub use queue::{DropReason, FragmentInfo, PushOutcome, QueueCounters, SendQueue, SendQueueConfig};
pub use reassembly::{Reassembler, ReassemblerConfig, ReassemblyCounters, VideoEvent};
pub use rtp::{Datagram, RtpPacket};

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::epoch as test_epoch;
