//! SCReAM-FPV as the AQUILA paper prints it: equations 4 to 6 for the window, equation 7 for the encoder.
//!
//! The paper leaves much open. [`Paper`] reads it charitably and fills in what is missing ([`PaperConfig`] says what);
//! [`Units::Bytes`] is what the printed units of equation 6 mean if they are taken by the word, `S / cwnd` bytes. Nothing is
//! repaired: the queue that equation 5 allows becomes part of the minimum that it is a multiple of (`docs/congestion.md`).
//! Its queue of video, Q_low, is the sender's, as with every other controller.

use std::time::{Duration, Instant};

use super::digest::{Digest, History, SmoothedRtt};
use super::{Controller, Reports};
use crate::{Bitrate, ByteCount};

/// Parameters, by their names in the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperConfig {
    /// W: the smallest round trip is looked for in this long (20 s in the paper).
    pub w: Duration,
    /// d_base: the target is at least this. Not in the paper; 100 ms is QDELAY_TARGET_LO of RFC 8298.
    pub d_base: Duration,
    /// κ: and at least this multiple of the smallest round trip (1.5 in the paper).
    pub kappa: f64,
    /// β: weight of an excess in the window's decrease. Not in the paper; half, as TCP.
    pub beta: f64,
    /// γ: share of what is left of the rate that the encoder gets. Not in the paper.
    pub gamma: f64,
    /// R_safe: kept free for MAVLink (15 kbit/s in the paper).
    pub r_safe: Bitrate,
    /// Packets in flight at the start. Not in the paper; as RFC 9002 §7.2.
    pub initial_window: usize,
    /// Weight of a new sample in RTT(t) of equation 4, which the paper calls smoothed. As RFC 6298 §2.
    pub rtt_gain: f64,
    /// The window is at least so many packets. Not in the paper, where it could never grow again.
    pub min_window: usize,
    /// And at most this. Not in the paper: growth asks nothing of what is in flight, so beside an encoder that has enough it goes on for
    /// ever.
    pub max_window: ByteCount,
    /// S: bytes of a full packet, headers included. Not in the paper; ours at the smallest MTU.
    pub mss: ByteCount,
    /// The round trip until one is known, by which R_tx begins. Not in the paper.
    pub initial_rtt: Duration,
}

impl Default for PaperConfig {
    fn default() -> Self {
        Self {
            w: Duration::from_secs(20),
            d_base: Duration::from_millis(100),
            kappa: 1.5,
            beta: 0.5,
            gamma: 0.9,
            r_safe: Bitrate::kbps(15),
            initial_window: 10,
            rtt_gain: 0.125,
            min_window: 2,
            max_window: ByteCount(64 << 20),
            mss: ByteCount(1240),
            initial_rtt: Duration::from_millis(100),
        }
    }
}

/// What equation 6 counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// Packets: the window grows by one in a round trip, as TCP's in congestion avoidance.
    Packets,
    /// Bytes, as printed: it grows by less than one byte with each packet.
    Bytes,
}

const MAX_RATE: Bitrate = Bitrate::mbps(1000);
/// There is no pacing in the paper.
const AT_ONCE: Bitrate = Bitrate::mbps(100_000);
/// The window of equation 4 is searched in this many parts.
const PARTS: u32 = 200;

/// The controller.
#[derive(Debug)]
pub struct Paper {
    config: PaperConfig,
    units: Units,
    /// Bytes.
    cwnd: f64,
    rtt: SmoothedRtt,
    least: History<f64>,
    /// d̂_q, seconds.
    queue: f64,
    decreased: Option<Instant>,
}

impl Paper {
    /// A controller that knows nothing yet.
    pub fn new(config: PaperConfig, units: Units) -> Self {
        Self {
            cwnd: bounded(&config, config.initial_window as f64 * mss(&config)),
            least: History::new(config.w / PARTS, PARTS as usize),
            rtt: SmoothedRtt::new(config.rtt_gain),
            queue: 0.0,
            decreased: None,
            config,
            units,
        }
    }

    /// RTT(t), seconds.
    fn rtt(&self) -> f64 {
        self.rtt.seconds().unwrap_or(self.config.initial_rtt.as_secs_f64())
    }

    /// R_tx: a window in each round trip.
    fn rate(&self) -> f64 {
        8.0 * self.cwnd / self.rtt()
    }
}

fn mss(config: &PaperConfig) -> f64 {
    config.mss.0 as f64
}

fn bounded(config: &PaperConfig, window: f64) -> f64 {
    let least = config.min_window as f64 * mss(config);
    window.clamp(least, least.max(config.max_window.0 as f64))
}

impl Controller for Paper {
    fn name(&self) -> &'static str {
        match self.units {
            Units::Packets => "paper",
            Units::Bytes => "paper-literal",
        }
    }

    fn on_reports(&mut self, now: Instant, reports: Reports<'_>) {
        let digest = Digest::of(&reports);
        let Some(sample) = digest.rtt else { return };
        self.rtt.update(sample);
        let (rtt, mss) = (self.rtt(), mss(&self.config));
        self.least.update(now, rtt);
        let least = self.least.least().unwrap_or(rtt);
        // [AQUILA eq. 4, 5]
        self.queue = rtt - least;
        let target = self.config.d_base.as_secs_f64().max(self.config.kappa * least);
        // [AQUILA eq. 6], upwards with each packet that was acknowledged, downwards once in a round trip.
        if self.queue <= target {
            for _ in 0..digest.packets {
                self.cwnd += match self.units {
                    Units::Packets => mss * mss / self.cwnd,
                    Units::Bytes => mss / self.cwnd,
                };
            }
        } else if self.decreased.is_none_or(|at| now.saturating_duration_since(at).as_secs_f64() >= rtt) {
            self.decreased = Some(now);
            self.cwnd *= 1.0 - self.config.beta * (self.queue - target) / self.queue;
        }
        self.cwnd = bounded(&self.config, self.cwnd);
    }

    /// Not in the paper: round trips of another path are none of this one.
    fn on_path_change(&mut self, _: Instant) {
        self.rtt = SmoothedRtt::new(self.config.rtt_gain);
        self.least.clear();
        self.queue = 0.0;
    }

    fn window(&self, _: Instant) -> ByteCount {
        ByteCount(self.cwnd as u64)
    }

    fn pacing_rate(&self, _: Instant) -> Bitrate {
        AT_ONCE
    }

    /// [AQUILA eq. 7]
    fn target_rate(&self) -> Bitrate {
        let rate = self.config.gamma * (self.rate() - self.config.r_safe.0 as f64);
        Bitrate(rate.max(0.0) as u64).min(MAX_RATE)
    }

    fn capacity(&self) -> Bitrate {
        Bitrate(self.rate() as u64).min(MAX_RATE)
    }

    fn queue_delay(&self) -> Duration {
        Duration::from_secs_f64(self.queue.max(0.0))
    }
}

#[cfg(test)]
mod tests;
