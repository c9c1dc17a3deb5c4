//! What a session is made of.

use std::time::{Duration, Instant};

use super::bearer::BearerConfig;
use crate::Class;
use crate::cc::{CongestionConfig, EncoderRange};
use crate::mavlink::treatment::Policy;
use crate::quic::QuicConfig;
use crate::replication::Reliability;
use crate::sched::outbox::OutboxLimits;
use crate::sched::telemetry::TelemetryLimits;
use crate::video::{ReassemblerConfig, SendQueueConfig, VideoParity};

/// Which end this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The aircraft.
    Air,
    /// The ground station.
    Ground,
}

impl Side {
    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Air => "air",
            Self::Ground => "ground",
        }
    }
}

/// What a session is made of. Time and randomness come in here, once, and with each call.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// Which end this is.
    pub side: Side,
    /// Keys, MTU, and whether we listen.
    pub quic: QuicConfig,
    /// Bearers of the side that connects, numbered in this order; at least one. The other side learns of them when they come.
    pub bearers: Vec<BearerConfig>,
    /// How sure a control message is to arrive, and what may be spent on it.
    pub reliability: Reliability,
    /// Which classes are replicated: Control, unless told otherwise, and Telemetry if told so.
    pub replicated: Vec<Class>,
    /// When the session begins; all times given later are after it.
    pub started: Instant,
    /// Wall-clock time at that moment.
    pub since_1970: Duration,
    /// Everything random comes from here. Secret.
    pub seed: [u8; 32],
    /// Which life of this end it is: larger than at every start before, as far as is known.
    pub epoch: u64,
    /// [`Session::replay_snapshot`](super::Session::replay_snapshot) of the former life.
    pub replay: Option<Vec<u8>>,
    /// A heartbeat leaves this often, in both directions.
    pub heartbeat: Duration,
    /// Without a word from the other side for this long, the link counts as stalled: only control is sent, as probes.
    pub stalled_after: Duration,
    /// Without a word for this long, it counts as lost.
    pub lost_after: Duration,
    /// Bounds and lifetimes of control messages.
    pub control: OutboxLimits,
    /// Bounds of the telemetry queue.
    pub telemetry: TelemetryLimits,
    /// Which message is what.
    pub policy: Policy,
    /// One send queue per video flow.
    pub video: Vec<SendQueueConfig>,
    /// How video is repaired, if at all; what the other side sends is repaired as that says.
    pub video_parity: VideoParity,
    /// How received fragments are put together.
    pub reassembly: ReassemblerConfig,
    /// Congestion control.
    pub congestion: CongestionConfig,
    /// Rates that the encoders make, all together.
    pub encoder: EncoderRange,
}

impl SessionConfig {
    /// A configuration with the defaults of everything that has one.
    pub fn new(side: Side, quic: QuicConfig, started: Instant, since_1970: Duration, seed: [u8; 32]) -> Self {
        Self {
            side,
            quic,
            bearers: vec![BearerConfig::default()],
            reliability: Reliability::default(),
            replicated: vec![Class::Control],
            started,
            since_1970,
            seed,
            // Seconds since 2020, so that an end which cannot store its epoch still has a growing one.
            epoch: since_1970.as_secs().saturating_sub(1_577_836_800),
            replay: None,
            heartbeat: Duration::from_millis(100),
            stalled_after: Duration::from_millis(250),
            lost_after: Duration::from_secs(1),
            control: OutboxLimits::default(),
            telemetry: TelemetryLimits::default(),
            policy: Policy::default(),
            video: vec![SendQueueConfig::default()],
            video_parity: VideoParity::default(),
            reassembly: ReassemblerConfig::default(),
            congestion: CongestionConfig::default(),
            encoder: EncoderRange::default(),
        }
    }
}
