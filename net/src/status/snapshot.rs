//! Everything that a status page shows, at one moment.
//!
//! Plain data for JSON: times in milliseconds (`_ms`) and rates in bit/s (`_bps`), each in its name. Totals count since the
//! program started. What is not known is `null`, never a number.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aquila_proto::quantiles::Summary;
use aquila_proto::{Bitrate, ByteCount, Class};
use serde::{Deserialize, Serialize};

use crate::gateway::GatewaySnapshot;

/// What one side of the link knows and does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StatusSnapshot {
    /// Version of this program.
    pub version: String,
    /// `air` or `ground`.
    pub side: String,
    /// Since the program started.
    pub uptime_s: f64,
    /// The other side.
    pub peer: PeerStatus,
    /// Each way to carry packets.
    pub bearers: Vec<BearerStatus>,
    /// Copies, and what they cost.
    #[serde(default)]
    pub replication: ReplicationStatus,
    /// Each class of traffic.
    pub classes: PerClass<ClassStatus>,
    /// Pictures.
    pub video: VideoStatus,
    /// How much is sent, and why not more.
    pub congestion: CongestionStatus,
    /// MAVLink on this machine.
    pub mavlink: MavlinkStatus,
    /// What was refused.
    pub security: SecurityStatus,
    /// The gateway that goes through this link, if there is one.
    #[serde(default)]
    pub gateway: Option<GatewaySnapshot>,
}

/// The other side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Fingerprint of the key that is pinned.
    pub fingerprint: Option<String>,
    /// Its version, once it has said so.
    pub version: Option<String>,
    /// Its address, as last seen.
    pub address: Option<String>,
}

/// One way to carry packets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BearerStatus {
    /// Its number, the same on both sides and for as long as there is such a bearer.
    #[serde(default)]
    pub number: u8,
    /// What the side that connects calls it.
    pub name: String,
    /// `normal`, `backup` or `metered`.
    #[serde(default)]
    pub usage: String,
    /// Our address, which changes with each socket, and the other side's, as last seen.
    pub local: Option<String>,
    /// The other side's.
    pub remote: Option<String>,
    /// `up`, `stalled`, `lost` or `down`.
    pub state: String,
    /// Age of the last word from the other side.
    pub silence_ms: Option<f64>,
    /// Round-trip time, smoothed.
    pub rtt_ms: Option<f64>,
    /// Smallest round-trip time of late.
    pub rtt_min_ms: Option<f64>,
    /// Share of the packets sent of late that were lost, 0 to 1.
    pub loss: Option<f64>,
    /// What it is believed to carry.
    #[serde(default)]
    pub capacity_bps: u64,
    /// Telemetry takes it.
    #[serde(default)]
    pub carries_telemetry: bool,
    /// Video takes it.
    #[serde(default)]
    pub carries_video: bool,
    /// Control messages of which a copy was sent on it.
    #[serde(default)]
    pub control_out: u64,
    /// Control messages that came by it first.
    #[serde(default)]
    pub control_won: u64,
    /// Copies that came by it after another had come.
    #[serde(default)]
    pub control_late: u64,
    /// UDP packets sent and received.
    pub packets_out: u64,
    /// Received.
    pub packets_in: u64,
    /// Bytes of UDP payload sent and received.
    pub bytes_out: u64,
    /// Received.
    pub bytes_in: u64,
    /// Connections completed.
    pub connections: u64,
    /// Of these, without waiting for a round trip (0-RTT).
    pub resumed: u64,
    /// What AeroTP says of it, if it is a radio.
    #[serde(default)]
    pub aerotp: Option<AerotpStatus>,
}

/// A radio over which AeroTP is spoken.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AerotpStatus {
    /// Rate at which its line is sent to now.
    pub rate_bps: u64,
    /// Share of wrong bits in what comes here; none if none is wrong.
    pub bit_error_rate: Option<f64>,
    /// Share of segments that come damaged beyond repair.
    pub damaged_share: f64,
    /// The same there, as the other side says.
    pub bit_error_rate_there: Option<f64>,
    /// The same there.
    pub damaged_share_there: Option<f64>,
    /// Parity in a long segment, bytes.
    pub parity_bytes: u64,
    /// Segments sent, repetitions included.
    pub segments_out: u64,
    /// Sent again.
    pub sent_again: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Damaged, and not repaired by their code.
    pub damaged: u64,
    /// Of these, whole with another damaged copy.
    pub combined: u64,
    /// Not authentic: dropped.
    pub forged: u64,
    /// Bytes on a serial line that belonged to nothing.
    pub skipped_bytes: u64,
    /// Signal here and there, as a SiK radio says, without unit.
    pub rssi: Option<[u8; 2]>,
    /// Free share of its transmit buffer in percent.
    pub txbuf: Option<u8>,
}

/// What replication did and cost, on this side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReplicationStatus {
    /// Copies of control messages sent beyond the first.
    pub copies: u64,
    /// Bytes of these copies, of telemetry's if that is replicated, and of receipts.
    pub redundant_bytes: u64,
    /// Their share of all that was sent, 0 to 1.
    pub share: Option<f64>,
    /// Control messages that may have left in fewer copies than loss asks for, since the budget was spent.
    pub over_budget: u64,
    /// Receipts sent.
    pub receipts: u64,
    /// Copies that came here after another had been delivered.
    pub duplicates: u64,
    /// Times that telemetry or video took another bearer.
    pub reroutes: u64,
}

/// One value for each traffic class.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PerClass<T> {
    /// [`Class::Control`].
    pub control: T,
    /// [`Class::Telemetry`].
    pub telemetry: T,
    /// [`Class::Video`].
    pub video: T,
    /// [`Class::Bulk`].
    pub bulk: T,
}

/// One class of traffic on this side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Messages, or frames of video, that wait to be sent.
    pub queued: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// How long the oldest has waited.
    pub oldest_ms: f64,
    /// From the other side.
    pub rate_in_bps: u64,
    /// To the other side.
    pub rate_out_bps: u64,
    /// Taken from applications on this machine.
    pub accepted: u64,
    /// Sent to the other side.
    pub sent: u64,
    /// Given to applications on this machine.
    pub delivered: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Latency of late of what arrived here, from the other side's input to our output, over propagation; of video with it.
    pub latency_ms: Option<LatencyStatus>,
}

/// Quantiles of a latency, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencyStatus {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// Pictures, in both directions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct VideoStatus {
    /// Frames that came from cameras here.
    pub frames_in: u64,
    /// Frames sent to the other side, whole.
    pub frames_sent: u64,
    /// Frames from cameras here that were not sent, or not whole, by reason.
    pub frames_dropped: BTreeMap<String, u64>,
    /// Frames from the other side given to viewers here.
    pub frames_shown: u64,
    /// Of these, frames that came too late to be of use.
    pub frames_late: u64,
    /// Frames from the other side that did not arrive, or not whole.
    pub frames_lost: u64,
    /// Frames from the other side that arrived, but too old to be given to viewers.
    #[serde(default)]
    pub frames_stale: u64,
    /// Age of the newest picture given to viewers here, the way itself included as far as it is known, and what a viewer takes to show it not; with several
    /// cameras, of the oldest of them.
    #[serde(default)]
    pub picture_age_ms: Option<f64>,
    /// Frames that the other side says it has shown.
    pub frames_shown_there: u64,
    /// Frames that the other side says were lost.
    pub frames_lost_there: u64,
    /// Frames that the other side says came too late.
    #[serde(default)]
    pub frames_stale_there: u64,
    /// Age of the newest picture that the other side has shown, as far as is known here.
    #[serde(default)]
    pub picture_age_there_ms: Option<f64>,
    /// Cameras here have been told to pause, since the link does not carry their pictures.
    #[serde(default)]
    pub held: bool,
    /// Recovery points that we asked the other side for.
    pub recovery_requests: u64,
    /// Recovery points that cameras here were asked for.
    pub recovery_points_wanted: u64,
    /// Cameras.
    pub inputs: Vec<VideoInputStatus>,
    /// Viewers.
    pub outputs: Vec<VideoOutputStatus>,
}

/// One camera.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct VideoInputStatus {
    /// Its number on the link.
    pub flow: u8,
    /// Where it is listened to.
    pub address: String,
    /// As configured or found in what came; `auto` while it is neither.
    pub codec: String,
    /// Packets received.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, packets that the session had no room for.
    pub dropped: u64,
    /// Packets of others than the camera, dropped.
    pub foreign: u64,
    /// Packets that the session did not get though others behind them came, from gaps in their numbers: lost on their way here, or dropped.
    pub missing: u64,
    /// Packets that are no RTP.
    #[serde(default)]
    pub not_rtp: u64,
}

/// One viewer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct VideoOutputStatus {
    /// The camera's number.
    pub flow: u8,
    /// Where its packets go.
    pub address: String,
    /// Packets sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the system refused to send.
    pub errors: u64,
}

/// How much is sent, and why not more.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CongestionStatus {
    /// Name of the controller.
    pub controller: String,
    /// What the link is believed to carry.
    pub capacity_bps: u64,
    /// What the encoder should make.
    pub target_bps: u64,
    /// Most bytes in flight.
    pub window_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Waiting time in the network's queue.
    pub queue_delay_ms: f64,
    /// What is known of the radio and of the flight.
    #[serde(default)]
    pub radio: RadioStatus,
}

/// What is known of the radio and of the flight.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RadioStatus {
    /// Height above home, from the autopilot.
    pub altitude_m: Option<f32>,
    /// A number for the serving cell.
    pub cell: Option<u64>,
    /// Reference signal received power.
    pub rsrp_dbm: Option<f32>,
    /// Reference signal received quality.
    pub rsrq_db: Option<f32>,
    /// Signal to interference and noise.
    pub sinr_db: Option<f32>,
}

/// MAVLink on this machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MavlinkStatus {
    /// Each endpoint.
    pub endpoints: Vec<MavlinkEndpointStatus>,
    /// Frames that went nowhere, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// One MAVLink endpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MavlinkEndpointStatus {
    /// As configured.
    pub name: String,
    /// `up`, `listening`, `down` or `closed`.
    pub state: String,
    /// Frames from it and to it.
    pub frames_in: u64,
    /// To it.
    pub frames_out: u64,
    /// Bytes from it and to it.
    pub bytes_in: u64,
    /// To it.
    pub bytes_out: u64,
    /// Bytes from it that were no frame.
    pub garbage_bytes: u64,
    /// Frames to it that it had no room for.
    pub dropped: u64,
    /// Failed reads and writes.
    pub errors: u64,
}

/// What was refused.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SecurityStatus {
    /// Messages refused since they had been delivered before or are of a former life of the other side.
    pub replayed: u64,
    /// Handshakes refused.
    pub handshakes_refused: u64,
    /// Packets and handshakes of peers that are not ours.
    pub unknown_peers: u64,
    /// Messages and datagrams that could not be read.
    pub malformed: u64,
    /// Reports on what has arrived that cannot be true, and times that there were none.
    #[serde(default)]
    pub report_faults: u64,
}

/// Turns a growing total into a rate.
#[derive(Debug, Clone, Default)]
pub struct RateMeter {
    last: Option<(Instant, u64)>,
    rate: Bitrate,
}

impl<T> PerClass<T> {
    /// The value for `class`.
    pub fn of(&self, class: Class) -> &T {
        match class {
            Class::Control => &self.control,
            Class::Telemetry => &self.telemetry,
            Class::Video => &self.video,
            Class::Bulk => &self.bulk,
        }
    }

    /// The value for `class`, to change.
    pub fn of_mut(&mut self, class: Class) -> &mut T {
        match class {
            Class::Control => &mut self.control,
            Class::Telemetry => &mut self.telemetry,
            Class::Video => &mut self.video,
            Class::Bulk => &mut self.bulk,
        }
    }

    /// All values, in [`Class::ALL`] order.
    pub fn iter(&self) -> impl Iterator<Item = (Class, &T)> {
        Class::ALL.into_iter().map(|class| (class, self.of(class)))
    }
}

impl LatencyStatus {
    /// The quantiles in milliseconds; `None` of no samples.
    pub fn from_summary(summary: &Summary) -> Option<Self> {
        (summary.count > 0).then(|| Self {
            p50: millis(summary.p50),
            p95: millis(summary.p95),
            p99: millis(summary.p99),
            max: millis(summary.max),
        })
    }
}

impl RateMeter {
    /// Takes the total now and gives the mean rate since the last sample that was at least [`RATE_WINDOW`] ago.
    pub fn sample(&mut self, now: Instant, total: ByteCount) -> Bitrate {
        let (at, before) = *self.last.get_or_insert((now, total.0));
        let elapsed = now.saturating_duration_since(at);
        if elapsed >= RATE_WINDOW {
            self.rate = Bitrate::from_transfer(ByteCount(total.0.saturating_sub(before)), elapsed);
            self.last = Some((now, total.0));
        }
        self.rate
    }
}

/// A duration in milliseconds.
fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Shorter windows would show frames rather than rates.
const RATE_WINDOW: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_mean_of_at_least_a_second() {
        let start = Instant::now();
        let mut meter = RateMeter::default();
        assert_eq!(meter.sample(start, ByteCount(1000)), Bitrate::ZERO);
        assert_eq!(meter.sample(start + RATE_WINDOW / 2, ByteCount(2000)), Bitrate::ZERO);
        assert_eq!(meter.sample(start + 2 * RATE_WINDOW, ByteCount(3000)), Bitrate::kbps(8));
        assert_eq!(meter.sample(start + RATE_WINDOW * 5 / 2, ByteCount(9000)), Bitrate::kbps(8));
        assert_eq!(meter.sample(start + 3 * RATE_WINDOW, ByteCount(3000)), Bitrate::ZERO);
    }

    #[test]
    fn classes_are_addressed_by_name() {
        let mut values = PerClass::default();
        for class in Class::ALL {
            *values.of_mut(class) = class.name();
        }
        assert!(values.iter().all(|(class, name)| class.name() == *name));
    }
}
