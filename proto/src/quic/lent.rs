//! QUIC's own congestion controllers behind our trait: `noq-proto`'s BBR and CUBIC, fed with our reports.
//!
//! They were made for a window that QUIC enforces on its own packets and its own acknowledgements. Here the gate enforces it
//! on video, telemetry and bulk, and a report of ours stands for an acknowledgement: a datagram is a packet, numbered as it
//! leaves. They want an estimator of the round-trip time with each acknowledgement, whose constructor `noq-proto` keeps to
//! itself; but it is copied freely, so they get the one that the connection in use has been given last ([`RttSlot`]). It is
//! QUIC's measurement of the same path. Persistent congestion (RFC 9002 §7.6) is not told: our reports do not say when a
//! probe time-out was.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use noq_proto::RttEstimator;
use noq_proto::congestion::{self, Bbr3Config, ControllerFactory, CubicConfig};

use crate::cc::{Borrowed, BorrowedKind, Controller, Load, Reports, SentPacket};
use crate::{Bitrate, ByteCount};

/// Where a connection leaves its estimator of the round-trip time.
#[derive(Debug, Clone, Default)]
pub(super) struct RttSlot(Arc<Mutex<Option<RttEstimator>>>);

impl RttSlot {
    pub fn put(&self, rtt: &RttEstimator) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(*rtt);
    }

    fn look(&self) -> Option<RttEstimator> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until a round trip is known.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// Datagrams remembered; older ones are taken for lost.
const MEMORY: usize = 1 << 14;
/// A controller without a pacing rate is paced like this (RFC 9002 §7.7).
const PACING: f64 = 1.25;
/// BBRStartupPacingGain: 4 ln 2.
const STARTUP_GAIN: f64 = 2.77;
/// Bounds of what it says.
const MAX_WINDOW: u64 = 1 << 26;
const RATES: (f64, f64) = (10_000.0, 1e9);

#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u64,
    sent_us: u64,
    at: Instant,
    bytes: u16,
    known: bool,
}

/// One of them as a controller of ours.
#[derive(Debug)]
pub(super) struct Lent {
    borrowed: Borrowed,
    mtu: u16,
    inner: Box<dyn congestion::Controller>,
    rtt: RttSlot,
    sent: VecDeque<Sent>,
    next: u64,
    /// The window holds something back.
    blocked: bool,
    /// Least and latest round trip, by our clock.
    least: Option<Duration>,
    latest: Option<Duration>,
}

impl Lent {
    pub fn new(borrowed: Borrowed, mtu: u16, now: Instant, rtt: RttSlot) -> Self {
        Self {
            inner: make(borrowed, mtu, now),
            borrowed,
            mtu,
            rtt,
            sent: VecDeque::new(),
            next: 0,
            blocked: false,
            least: None,
            latest: None,
        }
    }

    fn round_trip(&self) -> Duration {
        self.rtt.look().map_or(INITIAL_RTT, |rtt| rtt.get()).max(Duration::from_micros(100))
    }

    fn bounded_window(&self) -> u64 {
        self.inner.window().clamp(2 * u64::from(self.mtu), MAX_WINDOW)
    }

    /// The window in a round trip, bits a second.
    fn window_rate(&self) -> f64 {
        self.bounded_window() as f64 * 8.0 / self.round_trip().as_secs_f64()
    }

    /// The rate at which BBR sends, once it has measured something: its pacing rate, which `noq-proto` leaves at that of a round
    /// trip of 1 ms throughout Startup, so at most Startup's gain times what arrives.
    fn own_rate(&self) -> Option<f64> {
        let metrics = self.inner.metrics();
        let (arrives, pacing) = metrics.bandwidth_estimate.zip(metrics.pacing_rate)?;
        Some((pacing as f64 * 8.0).min(arrives as f64 * STARTUP_GAIN))
    }

    /// The rate at which its packets leave.
    fn own_pacing(&self) -> Option<f64> {
        self.inner.metrics().pacing_rate.map(|bytes| bytes as f64 * 8.0)
    }

    /// The datagram of a report: the first of that time and size of which nothing is known.
    fn take(&mut self, sent_us: u64, bytes: ByteCount) -> Option<Sent> {
        let from = self.sent.partition_point(|sent| sent.sent_us < sent_us);
        let bytes = clip(bytes);
        let same = self.sent.iter_mut().skip(from).take_while(|sent| sent.sent_us == sent_us);
        let sent = same.into_iter().find(|sent| !sent.known && sent.bytes == bytes)?;
        sent.known = true;
        Some(*sent)
    }

    fn forget(&mut self, now: Instant) {
        while let Some(front) = self.sent.front().copied().filter(|sent| sent.known || self.sent.len() > MEMORY) {
            self.sent.pop_front();
            if !front.known {
                self.inner.on_packet_lost(front.bytes, front.number, now);
            }
        }
    }
}

impl Controller for Lent {
    fn name(&self) -> &'static str {
        self.borrowed.kind.name()
    }

    fn on_sent(&mut self, now: Instant, packet: SentPacket) {
        let last = self.sent.back().map_or(0, |last| last.sent_us);
        let (number, bytes) = (self.next, clip(packet.bytes));
        self.next += 1;
        // A clock that went back would break the order in which they are found.
        let sent_us = packet.sent_us.max(last);
        self.sent.push_back(Sent { number, sent_us, at: now, bytes, known: false });
        self.inner.on_packet_sent(now, bytes, number);
        self.inner.on_sent(now, u64::from(bytes), number);
        self.forget(now);
    }

    fn on_reports(&mut self, now: Instant, reports: Reports<'_>) {
        let Some(rtt) = self.rtt.look() else { return };
        let app_limited = !self.blocked;
        let (mut largest, mut newest, mut marked, mut lost) = (None, None, None, Vec::new());
        for packet in reports.packets {
            let Some(sent) = self.take(packet.sent_us, packet.bytes) else { continue };
            if packet.arrived_us.is_none() {
                lost.push(sent);
                continue;
            }
            self.inner.on_ack(now, sent.at, u64::from(sent.bytes), sent.number, app_limited, &rtt);
            largest = largest.max(Some(sent.number));
            newest = newest.max(Some(sent.at));
            if packet.ce {
                marked = Some(sent);
            }
        }
        if let Some(at) = newest {
            let round_trip = now.saturating_duration_since(at);
            self.latest = Some(round_trip);
            self.least = Some(self.least.map_or(round_trip, |least| least.min(round_trip)));
        }
        self.inner.on_end_acks(now, reports.load.in_flight.0, app_limited, largest);
        if let Some(sent) = marked {
            self.inner.on_congestion_event(now, sent.at, false, true, 0, sent.number);
        }
        if let Some(last) = lost.last() {
            for sent in &lost {
                self.inner.on_packet_lost(sent.bytes, sent.number, now);
            }
            let bytes = lost.iter().map(|sent| u64::from(sent.bytes)).sum();
            self.inner.on_congestion_event(now, last.at, false, false, bytes, last.number);
        }
        self.blocked = false;
        self.forget(now);
    }

    fn on_path_change(&mut self, now: Instant) {
        self.inner = make(self.borrowed, self.mtu, now);
        self.sent.clear();
        (self.least, self.latest) = (None, None);
    }

    fn poll(&mut self, _: Instant, load: Load) {
        let full = load.in_flight.0.saturating_add(u64::from(self.mtu)) > self.bounded_window();
        if full && load.queued > ByteCount::ZERO {
            self.blocked = true;
            self.inner.on_cwnd_limited();
        }
    }

    fn window(&self, _: Instant) -> ByteCount {
        ByteCount(self.bounded_window())
    }

    fn pacing_rate(&self, _: Instant) -> Bitrate {
        bounded(self.own_pacing().unwrap_or_else(|| PACING * self.window_rate()))
    }

    fn target_rate(&self) -> Bitrate {
        bounded(self.borrowed.config.gamma * self.own_rate().unwrap_or_else(|| self.window_rate()))
    }

    fn capacity(&self) -> Bitrate {
        let estimate = self.inner.metrics().bandwidth_estimate.map(|bits| bits as f64);
        bounded(estimate.unwrap_or_else(|| self.window_rate()))
    }

    /// What the latest round trip took beyond the least.
    fn queue_delay(&self) -> Duration {
        self.latest.zip(self.least).map_or(Duration::ZERO, |(latest, least)| latest.saturating_sub(least))
    }
}

fn make(borrowed: Borrowed, mtu: u16, now: Instant) -> Box<dyn congestion::Controller> {
    let window = borrowed.config.initial_window.0.clamp(2 * u64::from(mtu), MAX_WINDOW);
    match borrowed.kind {
        BorrowedKind::Bbr => {
            let mut config = Bbr3Config::default();
            config.initial_window(window);
            Arc::new(config).build(now, mtu)
        }
        BorrowedKind::Cubic => {
            let mut config = CubicConfig::default();
            config.initial_window(window);
            Arc::new(config).build(now, mtu)
        }
    }
}

fn clip(bytes: ByteCount) -> u16 {
    u16::try_from(bytes.0).unwrap_or(u16::MAX)
}

fn bounded(rate: f64) -> Bitrate {
    Bitrate(rate.clamp(RATES.0, RATES.1) as u64)
}

#[cfg(test)]
mod tests;
