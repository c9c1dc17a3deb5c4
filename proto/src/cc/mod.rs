//! Congestion control: how much may be in flight, how fast it leaves, and what the encoder should make.
//!
//! Pure: reports and time in, numbers out. No QUIC here; the reports are of our own feedback, which has the arrival time
//! of every datagram.

mod borrowed;
mod dedicated;
mod digest;
mod encoder;
pub mod fpv2;
#[cfg(test)]
mod lies;
pub(crate) mod minimum;
mod open_loop;
pub mod paper;
mod radio;
pub mod scream;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
pub(crate) mod testing;

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

pub use borrowed::{Borrowed, BorrowedConfig, BorrowedKind};
pub use dedicated::{Dedicated, DedicatedConfig};
pub use encoder::{EncoderLag, EncoderRange, Response};
pub use fpv2::{Fpv2, Fpv2Config};
pub use open_loop::OpenLoop;
pub use paper::{Paper, PaperConfig};
pub use radio::Radio;
pub(crate) use radio::{LatelyTold, RADIO_HOLDS};
pub use scream::{Scream, ScreamConfig};

use crate::{Bitrate, ByteCount};

/// What became of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketReport {
    /// Its number among those that left on this connection, without gaps but for those that no report tells of.
    pub number: u64,
    /// Sender's clock when it left, microseconds.
    pub sent_us: u64,
    /// Bytes of UDP payload.
    pub bytes: ByteCount,
    /// Receiver's clock when it arrived, microseconds; `None` if it is taken for lost. Only differences to other arrivals
    /// and to `sent_us` have a meaning: the clocks are not synchronised.
    pub arrived_us: Option<u64>,
    /// It was marked "congestion experienced" (RFC 3168).
    pub ce: bool,
    /// It was the first of a video frame: what it met in the queue was not of that frame.
    pub leads: bool,
}

/// A datagram that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentPacket {
    /// Sender's clock, microseconds.
    pub sent_us: u64,
    /// Bytes of UDP payload.
    pub bytes: ByteCount,
    /// The other side tells of it within 10 ms.
    pub urgent: bool,
}

/// What the sender has on its hands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes that have left and of which nothing is known.
    pub in_flight: ByteCount,
    /// Bytes of video that wait for the gate.
    pub queued: ByteCount,
    /// Bytes of telemetry and bulk that wait for room, behind it or in front of it.
    pub beside: ByteCount,
    /// Nothing but files and bulk has passed for seconds: nobody minds a longer queue.
    pub unhurried: bool,
    /// Until the next frame of a camera comes, as far as its rhythm tells, or how long its encoder takes: what waits has so much time to leave.
    pub until_frame: Duration,
    /// How long the frame that wants to be encoded has been there.
    pub waited: Duration,
}

/// What is known of the fate of what was sent.
#[derive(Debug, Clone, Copy)]
pub struct Reports<'a> {
    /// Sender's clock now, microseconds.
    pub now_us: u64,
    /// Datagrams whose fate has become known, in the order in which they were sent.
    pub packets: &'a [PacketReport],
    /// From the first arrival that was not known before to when the report left, by the receiver's clock: some milliseconds, and more where reports
    /// before it were lost.
    pub held: Duration,
    /// What the sender has on its hands, these no longer counted.
    pub load: Load,
}

/// Pacing makes up for this much of a pause of the process, unless a controller knows better.
pub const PACING_SLACK: Duration = Duration::from_millis(2);

/// A congestion controller of one bearer.
///
/// [`Controller::poll`] is called after each input and before each question; the questions do not change anything.
pub trait Controller: Debug + Send {
    /// Name in configuration and logs.
    fn name(&self) -> &'static str;

    /// A datagram leaves.
    fn on_sent(&mut self, _now: Instant, _packet: SentPacket) {}

    /// Feedback has come.
    fn on_reports(&mut self, now: Instant, reports: Reports<'_>);

    /// A sample of the round-trip time, from heartbeats.
    fn on_rtt(&mut self, _now: Instant, _rtt: Duration) {}

    /// Something is known of the radio or of the flight.
    fn on_radio(&mut self, _now: Instant, _radio: &Radio) {}

    /// The path changed: what was learned of delays no longer holds.
    fn on_path_change(&mut self, now: Instant);

    /// Time passes.
    fn poll(&mut self, _now: Instant, _load: Load) {}

    /// When the window opens without any feedback, if it may.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Bytes that may be in flight before video and bulk have to wait.
    fn window(&self, now: Instant) -> ByteCount;

    /// Rate at which packets leave while the window is open.
    fn pacing_rate(&self, now: Instant) -> Bitrate;

    /// How much of a pause of our own process pacing makes up for, by what leaves at once behind it.
    fn pacing_slack(&self) -> Duration {
        PACING_SLACK
    }

    /// Rate that video should have ([AQUILA eq. 7], before the encoder's own limits).
    fn target_rate(&self) -> Bitrate;

    /// The same without what works off the queue of the moment.
    fn lasting_rate(&self) -> Bitrate {
        self.target_rate()
    }

    /// Whether a frame that is due now should be encoded. If not, leaving it out costs the viewer one picture; sending it
    /// would cost delay, and dropping it once it is encoded breaks those that refer to it.
    fn may_encode(&self, _now: Instant, _load: Load) -> bool {
        true
    }

    /// How long a frame that may not be encoded yet is to be kept, raw, since it may be soon. If not, it is left out at once.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// What the link is believed to carry.
    fn capacity(&self) -> Bitrate;

    /// The first two packets of every so manieth frame are to leave at once, whatever the pace; of none if nothing is said.
    fn pair_every(&self) -> Option<NonZeroU32> {
        None
    }

    /// Delay in the network's queue.
    fn queue_delay(&self) -> Duration;
}

/// A controller of a session's choice, by its name in configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CongestionConfig {
    /// SCReAM-FPV2, see [`fpv2`].
    Fpv2(Fpv2Config),
    /// The AQUILA paper's, see [`paper`].
    Paper(PaperConfig),
    /// The same by the printed units.
    PaperLiteral(PaperConfig),
    /// SCReAM v2, see [`scream`].
    Scream(ScreamConfig),
    /// BBRv3, QUIC's own.
    Bbr(BorrowedConfig),
    /// CUBIC, QUIC's own.
    Cubic(BorrowedConfig),
    /// None but for the queue, for a path of ours alone; see [`Dedicated`].
    Dedicated(DedicatedConfig),
}

impl Default for CongestionConfig {
    fn default() -> Self {
        Self::Fpv2(Fpv2Config::default())
    }
}

impl CongestionConfig {
    /// Names of all controllers.
    pub const NAMES: [&'static str; 7] = ["fpv2", "paper", "paper-literal", "scream", "bbr", "cubic", "dedicated"];

    /// The controller of that name, with its default parameters.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "fpv2" => Some(Self::Fpv2(Fpv2Config::default())),
            "paper" => Some(Self::Paper(PaperConfig::default())),
            "paper-literal" => Some(Self::PaperLiteral(PaperConfig::default())),
            "scream" => Some(Self::Scream(ScreamConfig::default())),
            "bbr" => Some(Self::Bbr(BorrowedConfig::of(BorrowedKind::Bbr))),
            "cubic" => Some(Self::Cubic(BorrowedConfig::of(BorrowedKind::Cubic))),
            "dedicated" => Some(Self::Dedicated(DedicatedConfig::default())),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fpv2(_) => "fpv2",
            Self::Paper(_) => "paper",
            Self::PaperLiteral(_) => "paper-literal",
            Self::Scream(_) => "scream",
            Self::Bbr(_) => "bbr",
            Self::Cubic(_) => "cubic",
            Self::Dedicated(_) => "dedicated",
        }
    }

    /// The controller, which knows nothing yet. Those that are not ours come from `lend`: there is no QUIC here.
    pub fn build(
        &self,
        range: EncoderRange,
        lend: impl FnOnce(Borrowed) -> Box<dyn Controller>,
    ) -> Box<dyn Controller> {
        match self {
            Self::Fpv2(config) => Box::new(Fpv2::new(*config, range)),
            Self::Paper(config) => Box::new(Paper::new(*config, paper::Units::Packets)),
            Self::PaperLiteral(config) => Box::new(Paper::new(*config, paper::Units::Bytes)),
            Self::Scream(config) => Box::new(Scream::new(*config, range)),
            Self::Bbr(config) => lend(Borrowed { kind: BorrowedKind::Bbr, config: *config }),
            Self::Cubic(config) => lend(Borrowed { kind: BorrowedKind::Cubic, config: *config }),
            Self::Dedicated(config) => Box::new(Dedicated::new(*config)),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;
