//! Video endpoints: RTP from cameras in on UDP, and out to any number of viewers.
//!
//! A [`VideoInput`] is a task that reads one UDP port and hands datagrams to the session through a bounded channel. A
//! [`VideoOutput`] is a task that takes whole frames and sends their packets, from one socket that does not change, to all
//! viewers of the flow. Neither blocks the session: what does not fit is dropped and counted.
//!
//! RTCP on the next port up (RFC 3550 §11) is not carried; RTCP on the same port is.

mod input;
mod output;
mod refusals;
mod spec;

pub use input::{InputCounters, VideoDatagram, VideoInput};
pub use output::{ConsumerCounters, OutputCounters, VideoOutput};
pub use spec::{Flow, MAX_FLOWS, ParseVideoError, VideoSpec};

#[cfg(test)]
mod tests;
