//! Counters of a session.

use std::time::{Duration, Instant};

use crate::cc::Radio;
use crate::quantiles::{Quantiles, Summary};
use crate::sched::outbox::OutboxDrops;
use crate::sched::telemetry::TelemetryDrops;
use crate::{Bitrate, Class};

use super::LinkState;

/// Running counters; all since the session began.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Per class, in [`Class::ALL`] order: messages, or packets of video, that came from local applications.
    pub accepted: [u64; 4],
    /// Per class: sent to the other side (control: first copies; video: fragments).
    pub sent: [u64; 4],
    /// Per class: bytes of it.
    pub sent_bytes: [u64; 4],
    /// Per class: messages, or video frames, given to local applications.
    pub delivered: [u64; 4],
    /// Per class: bytes of it.
    pub delivered_bytes: [u64; 4],
    /// Control messages the other side has acknowledged.
    pub acknowledged: u64,
    /// Copies of control messages sent beyond the first.
    pub copies_sent: u64,
    /// Copies of messages that had been delivered already.
    pub duplicates: u64,
    /// Messages below the replay window or from a former life of the peer, refused.
    pub replayed: u64,
    /// Setpoints that arrived past their deadline.
    pub stale_setpoints: u64,
    /// Commands that arrived past their deadline.
    pub expired_commands: u64,
    /// Setpoints that arrived after a newer one of their kind.
    pub overtaken_setpoints: u64,
    /// Messages and datagrams that could not be read.
    pub malformed: u64,
    /// Packets from unknown peers, not answered.
    pub unknown_peers: u64,
    /// Handshakes that failed: by the wrong key, without a common version, or too many at a time.
    pub handshakes_refused: u64,
    /// Video frames given out more than [`LATE`](super::LATE) after the fastest of late.
    pub frames_late: u64,
    /// Connections completed, and how many of them by 0-RTT.
    pub connections: u64,
    /// By 0-RTT.
    pub resumed: u64,
    /// Recovery points asked of the other side, and wanted from our camera.
    pub recovery_requests: u64,
    /// Wanted from our camera.
    pub recovery_points_wanted: u64,
    /// Times that encoders were told to pause.
    pub holds: u64,
    /// UDP packets and bytes sent and received.
    pub packets_out: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Packets received.
    pub packets_in: u64,
    /// Bytes received.
    pub bytes_in: u64,
}

/// Latency of what arrived, over the propagation delay.
#[derive(Debug, Clone, Default)]
pub(super) struct Latencies {
    pub by_class: [Quantiles; 4],
}

/// One class now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassStats {
    /// Waiting to be sent.
    pub queued: usize,
    /// Bytes of it.
    pub queued_bytes: usize,
    /// Age of the oldest.
    pub oldest: Duration,
    /// Latency of what arrived in the last 10 to 20 s, from the other side's input to our output, over propagation.
    pub latency: Summary,
}

/// Everything a status page shows.
#[derive(Debug, Clone)]
pub struct Stats {
    /// When this was taken.
    pub at: Instant,
    /// State of the link.
    pub state: LinkState,
    /// Age of the last word from the other side; `None` before the first.
    pub silence: Option<Duration>,
    /// Round-trip time: QUIC's smoothed one, and the smallest of late.
    pub rtt: Option<Duration>,
    /// Smallest of late.
    pub rtt_min: Option<Duration>,
    /// Address of the other side.
    pub remote: Option<std::net::SocketAddr>,
    /// Counters.
    pub counters: Counters,
    /// Per class, in [`Class::ALL`] order.
    pub classes: [ClassStats; Class::ALL.len()],
    /// Control messages sent and not acknowledged.
    pub unacknowledged: usize,
    /// Control dropped.
    pub control_drops: OutboxDrops,
    /// Telemetry dropped.
    pub telemetry_drops: TelemetryDrops,
    /// Fill of the telemetry queue, 0 to 1.
    pub telemetry_fill: f64,
    /// Video frames: taken from the camera.
    pub frames_in: u64,
    /// Sent whole.
    pub frames_sent: u64,
    /// Given out late on this side.
    pub frames_late: u64,
    /// Dropped before or while being sent.
    pub frames_dropped: u64,
    /// Given out whole on this side.
    pub frames_out: u64,
    /// Known lost on the way to this side.
    pub frames_lost: u64,
    /// Come to this side, but too old to be given out.
    pub frames_stale: u64,
    /// Age over propagation of the picture given out last; the oldest of several cameras'.
    pub picture_age: Option<Duration>,
    /// What the other side says it has given out and lost.
    pub frames_shown_there: u64,
    /// Lost there.
    pub frames_lost_there: u64,
    /// Too old to be given out there.
    pub frames_stale_there: u64,
    /// Age over propagation of the picture that the other side has given out last, as far as is known here.
    pub picture_age_there: Option<Duration>,
    /// Encoders have been told to pause.
    pub held: bool,
    /// Datagrams reported received and lost by the other side.
    pub datagrams_received: u64,
    /// Lost.
    pub datagrams_lost: u64,
    /// Name of the congestion controller.
    pub controller: &'static str,
    /// What the link is believed to carry.
    pub capacity: Bitrate,
    /// What the encoder should make.
    pub target_rate: Bitrate,
    /// Window and what is in flight, bytes.
    pub window: u64,
    /// In flight.
    pub in_flight: u64,
    /// Delay in the network's queue.
    pub queue_delay: Duration,
    /// What is known of the radio and of the flight.
    pub radio: Radio,
}
