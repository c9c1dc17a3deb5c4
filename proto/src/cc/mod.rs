//! Congestion control: how much may be in flight, how fast it leaves, and what the encoder should make.
//!
//! Pure: reports and time in, numbers out. No QUIC here; the reports are of our own feedback, which has the arrival time
//! of every datagram.

mod delay;

use std::fmt::Debug;
use std::time::{Duration, Instant};

pub use delay::{DelayConfig, DelayController};

use crate::{Bitrate, ByteCount};

/// What became of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketReport {
    /// Sender's clock when it left, microseconds.
    pub sent_us: u64,
    /// Bytes of UDP payload.
    pub bytes: ByteCount,
    /// Receiver's clock when it arrived, microseconds; `None` if it is taken for lost. Only differences to other arrivals
    /// and to `sent_us` have a meaning: the clocks are not synchronised.
    pub arrived_us: Option<u64>,
    /// It was marked "congestion experienced" (RFC 3168).
    pub ce: bool,
}

/// A congestion controller of one bearer.
pub trait Controller: Debug + Send {
    /// Name in configuration and logs.
    fn name(&self) -> &'static str;

    /// Datagrams whose fate has become known, in the order in which they were sent.
    fn on_reports(&mut self, now: Instant, reports: &[PacketReport]);

    /// A sample of the round-trip time.
    fn on_rtt(&mut self, now: Instant, rtt: Duration);

    /// Smallest (receive clock - send clock) of late in the other direction, in microseconds. Its sum with the same
    /// difference in ours is a round trip.
    fn on_reverse_base(&mut self, base_us: i64);

    /// The path changed: what was learned of delays no longer holds.
    fn on_path_change(&mut self, now: Instant);

    /// Bytes that may be in flight before video and bulk have to wait.
    fn window(&self, now: Instant) -> ByteCount;

    /// Rate at which packets leave while the window is open.
    fn pacing_rate(&self, now: Instant) -> Bitrate;

    /// Rate that video should have ([AQUILA eq. 7], before the encoder's own limits).
    fn target_rate(&self) -> Bitrate;

    /// What the link is believed to carry.
    fn capacity(&self) -> Bitrate;

    /// Delay in the network's queue.
    fn queue_delay(&self) -> Duration;
}
