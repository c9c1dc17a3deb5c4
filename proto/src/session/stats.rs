//! Counters of a session.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::bearer::BearerCounters;
use super::{LinkState, Session};
use crate::aerotp::RadioStats;
use crate::cc::Radio;
use crate::quantiles::{Quantiles, Summary};
use crate::sched::outbox::OutboxDrops;
use crate::sched::telemetry::TelemetryDrops;
use crate::video::{Codec, QueueCounters, Reassembler, SendQueue};
use crate::wire::datagram::Heartbeat;
use crate::{BearerId, Bitrate, Class, Usage};

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
    /// Reports on what has arrived that cannot be true, and times that there were none, see [`ReportFault`](super::ReportFault).
    pub report_faults: u64,
    /// Packets from unknown peers, not answered.
    pub unknown_peers: u64,
    /// Handshakes that failed: by the wrong key, without a common version, or too many at a time.
    pub handshakes_refused: u64,
    /// Video frames given out more than [`LATE`](super::LATE) after the fastest of late.
    pub frames_late: u64,
    /// Recovery points asked of the other side, and wanted from our camera.
    pub recovery_requests: u64,
    /// Wanted from our camera, and asked of it.
    pub recovery_points_wanted: u64,
    /// Times that encoders were told to pause.
    pub holds: u64,
    /// Bytes of UDP payload of copies of control messages beyond the first, of telemetry's if that is replicated, and of receipts: what replication
    /// cost.
    pub redundant_bytes: u64,
    /// Control messages that may have left in fewer copies than loss asks for, since the budget was spent.
    pub over_budget: u64,
    /// Receipts sent.
    pub receipts: u64,
    /// Times that telemetry or video took another bearer.
    pub reroutes: u64,
    /// Repairs of video sent, parity and repetitions.
    pub repairs: u64,
    /// Bytes of them, without the datagram's header.
    pub repair_bytes: u64,
    /// Of them, those that left on another bearer than the video.
    pub repairs_beside: u64,
    /// Repairs that found no room in time.
    pub repairs_dropped: u64,
    /// Fragments of video that were reported lost and repaired again.
    pub fragments_repeated: u64,
    /// Repairs of video received.
    pub repairs_received: u64,
    /// Fragments of video that they brought back.
    pub fragments_restored: u64,
}

/// Latency of what arrived, over the propagation delay, but of video with it.
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
    /// Latency of what arrived in the last 10 to 20 s, from the other side's input to our output, over propagation; of video with it.
    pub latency: Summary,
}

/// One bearer now.
#[derive(Debug, Clone)]
pub struct BearerStats {
    /// Its number.
    pub bearer: BearerId,
    /// Its name.
    pub name: String,
    /// What it may be used for.
    pub usage: Usage,
    /// State.
    pub state: LinkState,
    /// Age of the last word from the other side; `None` before the first.
    pub silence: Option<Duration>,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Smallest of late.
    pub rtt_min: Option<Duration>,
    /// Address of the other side.
    pub remote: Option<SocketAddr>,
    /// Datagrams reported received by the other side.
    pub datagrams_received: u64,
    /// Lost.
    pub datagrams_lost: u64,
    /// Share lost of late, as the number of copies is chosen by it.
    pub loss: f64,
    /// What it is believed to carry.
    pub capacity: Bitrate,
    /// Window, bytes.
    pub window: u64,
    /// In flight, bytes.
    pub in_flight: u64,
    /// Delay in the network's queue.
    pub queue_delay: Duration,
    /// Telemetry, and video, take it.
    pub carries: [bool; 2],
    /// How it fares, if it is a radio.
    pub radio: Option<RadioStats>,
    /// Counters.
    pub counters: BearerCounters,
}

/// What came of a camera.
#[derive(Debug, Clone, Copy, Default)]
pub struct CameraStats {
    /// As configured, or found in what came.
    pub codec: Codec,
    /// Counters.
    pub counters: QueueCounters,
}

impl CameraStats {
    fn of(queue: &SendQueue) -> Self {
        Self { codec: queue.codec(), counters: *queue.counters() }
    }
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
    /// All bearers, by number.
    pub bearers: Vec<BearerStats>,
    /// Index in them of the one that video takes.
    pub video: usize,
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
    /// What came of each camera here, by flow.
    pub cameras: Vec<CameraStats>,
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
    /// Age of the picture given out last, the way itself included as far as it is known; the oldest of several cameras'.
    pub picture_age: Option<Duration>,
    /// What the other side says it has given out and lost.
    pub frames_shown_there: u64,
    /// Lost there.
    pub frames_lost_there: u64,
    /// Too old to be given out there.
    pub frames_stale_there: u64,
    /// Age of the picture that the other side has given out last, likewise, as far as is known here.
    pub picture_age_there: Option<Duration>,
    /// Encoders have been told to pause.
    pub held: bool,
    /// Name of the congestion controller.
    pub controller: &'static str,
    /// What the encoder should make.
    pub target_rate: Bitrate,
    /// What is known of the radio and of the flight.
    pub radio: Radio,
}

impl Stats {
    /// The bearer that video takes: the one that a single figure is about where there is room for one only.
    pub fn main(&self) -> &BearerStats {
        &self.bearers[self.video]
    }
}

impl Session {
    /// Counters and states for a status page.
    pub fn stats(&mut self, now: Instant) -> Stats {
        let mut classes = [ClassStats::default(); 4];
        for (class, stats) in classes.iter_mut().enumerate() {
            stats.latency = self.latencies.by_class[class].summary(now);
        }
        (classes[0].queued, classes[0].queued_bytes) = self.outbox.waiting();
        (classes[1].queued, classes[1].queued_bytes) = self.telemetry.waiting();
        classes[1].queued_bytes += self.transactions.bytes();
        classes[1].oldest = self.telemetry.oldest_age(now);
        for queue in &self.video_out {
            classes[2].queued += queue.queued_frames();
            classes[2].queued_bytes += queue.queued_bytes().as_usize();
            classes[2].oldest = classes[2].oldest.max(queue.oldest_age(now).unwrap_or_default());
        }
        let (bulk_waiting, bulk_under_way) = self.bulk_out.bytes();
        classes[3].queued_bytes = bulk_waiting + bulk_under_way;
        let video_in = || self.video_in.iter().flatten().map(Reassembler::counters);
        let (told_at, there) = self.inbound.peer_sees.unwrap_or((now, Heartbeat::default()));
        let told = now.saturating_duration_since(told_at);
        let video = self.video_bearer();
        Stats {
            at: now,
            state: self.state,
            silence: self.bearers.iter().filter_map(|bearer| bearer.silence.age(now)).min(),
            bearers: (0..self.bearers.len()).map(|index| self.bearer_stats(now, index)).collect(),
            video,
            classes,
            unacknowledged: self.outbox.unacknowledged(),
            control_drops: self.outbox.drops(),
            telemetry_drops: self.telemetry_drops(),
            telemetry_fill: self.telemetry.fill(),
            cameras: self.video_out.iter().map(CameraStats::of).collect(),
            frames_in: self.video_out.iter().map(|queue| queue.counters().frames_in).sum(),
            frames_sent: self.video_out.iter().map(|queue| queue.counters().frames_sent).sum(),
            frames_late: self.counters.frames_late,
            frames_dropped: self.video_out.iter().map(|queue| queue.counters().dropped_total()).sum(),
            frames_out: video_in().map(|counters| counters.frames_out).sum(),
            frames_lost: video_in().map(|counters| counters.frames_lost).sum(),
            frames_stale: video_in().map(|counters| counters.frames_stale).sum(),
            picture_age: self.inbound.pictures.age(now),
            frames_shown_there: there.frames_received,
            frames_lost_there: there.frames_lost,
            frames_stale_there: there.frames_stale,
            picture_age_there: there.picture_age_ms.map(|ms| Duration::from_millis(ms) + told),
            held: self.held.is_some_and(|held| held.told),
            controller: self.bearers[video].controller.name(),
            target_rate: self.target_rate(),
            radio: self.radio.known(now),
            counters: self.counters_with_repairs(),
        }
    }

    fn bearer_stats(&self, now: Instant, index: usize) -> BearerStats {
        let bearer = &self.bearers[index];
        let (datagrams_received, datagrams_lost) = bearer.sent.received_and_lost();
        BearerStats {
            bearer: bearer.id,
            name: bearer.name.clone(),
            usage: bearer.usage(),
            state: bearer.silence.state(),
            silence: bearer.silence.age(now),
            rtt: bearer.measured_rtt(),
            rtt_min: bearer.heard.rtt_min,
            remote: bearer.carrier.remote(),
            datagrams_received,
            datagrams_lost,
            loss: bearer.candidate().loss,
            capacity: bearer.controller.capacity(),
            window: bearer.controller.window(now).0,
            in_flight: bearer.sent.in_flight().0,
            queue_delay: bearer.controller.queue_delay(),
            carries: [Class::Telemetry, Class::Video].map(|class| self.way_of(class) == Some(index)),
            radio: bearer.carrier.radio_stats(),
            counters: bearer.counters,
        }
    }
}
