//! RADIO_STATUS as a telemetry radio sends it, so that the autopilot slows its streams before we have to drop them.
//!
//! Autopilots know nothing of our queues, but they know the `txbuf` of a SiK radio, the percentage of its buffer that is
//! free, and pace themselves by it (research from their sources):
//!
//! | txbuf | ArduPilot, per report: stream interval | PX4, per report: stream rate |
//! |---|---|---|
//! | > 95 | -40 ms while more than 200 ms were added | x 1.025 |
//! | > 90 | -20 ms | x 1.025 |
//! | > 50 | same | x 1.025 |
//! | 35..=50 | +20 ms below 50 | same |
//! | 25..35 | +20 ms | x 0.975 |
//! | 20..25 | +20 ms | x 0.80 |
//! | < 20 | +60 ms | x 0.80 |
//!
//! So a handful of values says all there is to say, see [`Pace`]. Both act on each report, so the rate of reports is the
//! gain of the loop, see [`RadioReporter`].

use std::time::{Duration, Instant};

use super::frame::{Address, Frame, MessageId, Version};
use crate::ByteCount;

/// The content of RADIO_STATUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadioStatus {
    /// Signal on our side, 0 to 254 without unit; 255 unknown.
    pub rssi: u8,
    /// Signal at the other side. Zero means to ArduPilot's Plane that the ground station hears nothing, and may start a
    /// failsafe (FS_GCS_ENABL 2), so it is sent as 1.
    pub remrssi: u8,
    /// Free share of the transmit buffer in percent, 0 to 100.
    pub txbuf: u8,
    /// Noise on our side, without unit; 255 unknown.
    pub noise: u8,
    /// Noise at the other side, without unit; 255 unknown.
    pub remnoise: u8,
    /// Packets received damaged; wraps.
    pub rxerrors: u16,
    /// Packets repaired; wraps.
    pub fixed: u16,
}

impl RadioStatus {
    /// The address SiK radios use. Autopilots take RADIO_STATUS from any, ground stations know this one.
    pub const SOURCE: Address = Address::new(51, 68);

    /// The message as a frame from [`RadioStatus::SOURCE`]; unsigned, as autopilots accept it even where they want
    /// signatures.
    pub fn frame(&self, version: Version, seq: u8) -> Frame {
        Frame::build(version, seq, Self::SOURCE, ID, &self.payload()).expect("RADIO_STATUS is in the table")
    }

    /// The content of a frame, from whatever address; `None` if it is another message.
    pub fn from_frame(frame: &Frame) -> Option<Self> {
        if frame.message_id() != ID {
            return None;
        }
        let [errors_low, errors_high, fixed_low, fixed_high, rssi, remrssi, txbuf, noise, remnoise] =
            frame.field::<PAYLOAD_LEN>(0);
        let rxerrors = u16::from_le_bytes([errors_low, errors_high]);
        let fixed = u16::from_le_bytes([fixed_low, fixed_high]);
        Some(Self { rssi, remrssi, txbuf, noise, remnoise, rxerrors, fixed })
    }

    fn payload(&self) -> [u8; PAYLOAD_LEN] {
        let [errors_low, errors_high] = self.rxerrors.to_le_bytes();
        let [fixed_low, fixed_high] = self.fixed.to_le_bytes();
        let remrssi = self.remrssi.max(1);
        let txbuf = self.txbuf.min(100);
        [errors_low, errors_high, fixed_low, fixed_high, self.rssi, remrssi, txbuf, self.noise, self.remnoise]
    }
}

/// The telemetry queue on the way to the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueState {
    /// Bytes waiting.
    pub queued: ByteCount,
    /// Bytes at which messages are dropped.
    pub limit: ByteCount,
    /// How long the oldest has waited.
    pub oldest: Duration,
    /// Age at which messages are dropped.
    pub max_age: Duration,
    /// Messages dropped since the session began, for whatever reason.
    pub dropped: u64,
}

impl QueueState {
    /// How near the queue is to dropping, 0.0 to 1.0: by bytes or by age, whichever is nearer.
    pub fn load(&self) -> f64 {
        let bytes = ratio(self.queued.0 as f64, self.limit.0 as f64);
        let age = ratio(self.oldest.as_secs_f64(), self.max_age.as_secs_f64());
        bytes.max(age)
    }
}

/// What the autopilot is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// Speed up as fast as it can.
    Faster,
    /// Speed up gently.
    Ease,
    /// Stay as it is, both kinds of autopilot.
    Hold,
    /// Slow down gently.
    Slow,
    /// Slow down as fast as it can.
    Brake,
}

impl Pace {
    /// The `txbuf` that says so to ArduPilot and to PX4.
    pub const fn txbuf(self) -> u8 {
        match self {
            Self::Faster => 100,
            Self::Ease => 93,
            Self::Hold => 50,
            Self::Slow => 30,
            Self::Brake => 10,
        }
    }

    /// Load from which on this is asked for.
    const fn threshold(self) -> f64 {
        match self {
            Self::Faster => 0.0,
            Self::Ease => 0.05,
            Self::Hold => 0.15,
            Self::Slow => 0.35,
            Self::Brake => 0.60,
        }
    }

    /// The strongest request whose threshold times `factor` is reached.
    fn for_load(load: f64, factor: f64) -> Self {
        [Self::Brake, Self::Slow, Self::Hold, Self::Ease]
            .into_iter()
            .find(|pace| load >= pace.threshold() * factor)
            .unwrap_or(Self::Faster)
    }
}

/// Turns queue states into [`Pace`], with hysteresis: a request is kept until the load is clearly below what caused it.
#[derive(Debug, Clone)]
pub struct TxbufEstimator {
    pace: Pace,
    dropped: u64,
}

impl TxbufEstimator {
    /// Starts with an empty queue.
    pub fn new() -> Self {
        Self { pace: Pace::Faster, dropped: 0 }
    }

    /// The request after this state of the queue. Anything dropped since the last call is full load.
    pub fn update(&mut self, queue: &QueueState) -> Pace {
        let load = if queue.dropped > self.dropped { 1.0 } else { queue.load() };
        self.dropped = queue.dropped;
        self.pace = self.pace.clamp(Pace::for_load(load, 1.0), Pace::for_load(load, RELEASE));
        self.pace
    }

    /// The last request.
    pub fn pace(&self) -> Pace {
        self.pace
    }
}

impl Default for TxbufEstimator {
    fn default() -> Self {
        Self::new()
    }
}

/// Decides when a RADIO_STATUS is due and makes it.
///
/// One per second when all is well, as SiK radios do (ArduPilot takes values older than 5 s for stale). Four per second
/// while the autopilot is asked to slow down, and for a minute after: PX4 recovers by 2.5 % per report, so at one per second
/// it would take minutes to get back from a tenth of its rate.
#[derive(Debug, Clone)]
pub struct RadioReporter {
    estimator: TxbufEstimator,
    version: Version,
    seq: u8,
    due: Option<Instant>,
    hurry_until: Option<Instant>,
}

impl RadioReporter {
    /// Reports in frames of this version: the one the autopilot speaks.
    pub fn new(version: Version) -> Self {
        Self { estimator: TxbufEstimator::new(), version, seq: 0, due: None, hurry_until: None }
    }

    /// Changes the version, once the autopilot's is known.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// The report that is due, for the endpoint of the autopilot. `signal` and `remote_signal` are as
    /// [`RadioStatus::rssi`].
    pub fn poll_report(&mut self, now: Instant, queue: &QueueState, signal: u8, remote_signal: u8) -> Option<Frame> {
        if self.due.is_some_and(|due| now < due) {
            return None;
        }
        let pace = self.estimator.update(queue);
        if pace >= Pace::Slow {
            self.hurry_until = Some(now + RECOVERY);
        }
        let hurry = self.hurry_until.is_some_and(|until| now < until);
        self.due = Some(now + if hurry { HURRIED_INTERVAL } else { INTERVAL });
        let status = RadioStatus {
            rssi: signal,
            remrssi: remote_signal,
            txbuf: pace.txbuf(),
            noise: UNKNOWN,
            remnoise: UNKNOWN,
            rxerrors: 0,
            fixed: 0,
        };
        let frame = status.frame(self.version, self.seq);
        self.seq = self.seq.wrapping_add(1);
        Some(frame)
    }

    /// When to call [`RadioReporter::poll_report`] next; `None` means now.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// What the autopilot was last asked to do.
    pub fn pace(&self) -> Pace {
        self.estimator.pace()
    }
}

/// `part / whole` within 0..=1; anything of nothing is all.
fn ratio(part: f64, whole: f64) -> f64 {
    if part <= 0.0 {
        0.0
    } else if part < whole {
        part / whole
    } else {
        1.0
    }
}

/// A request is released below this share of its threshold.
const RELEASE: f64 = 0.6;
const INTERVAL: Duration = Duration::from_secs(1);
const HURRIED_INTERVAL: Duration = Duration::from_millis(250);
const RECOVERY: Duration = Duration::from_secs(60);
const UNKNOWN: u8 = 255;

const ID: MessageId = MessageId(109);
const PAYLOAD_LEN: usize = 9;

#[cfg(test)]
#[path = "radio_status_tests.rs"]
mod tests;
