//! The experiments of [AEROTP] §IV (figures 12 to 24) in virtual time: AeroTP as `aquila_proto::aerotp` speaks it beside TCP
//! and UDP, over a link that flips bits.
//!
//! | file | what |
//! |---|---|
//! | [`ours`] | two endpoints of AeroTP over the emulator |
//! | [`peers`] | TCP (the lab's model) and UDP over the same |
//! | [`ledger`] | when each byte was written, sent first, and delivered |
//! | [`limits`] | what no transport can exceed, by formula |
//! | [`reference`] | what the paper claims, and what ns-3 gives for TCP and UDP |
//! | [`live`] | the same in real time, over TUN devices |
//! | [`suite`] | which runs a figure consists of, and their means |
//! | [`targets`] | the figures that we want to reach |
//! | [`plots`] | the same to look at |
//!
//! The paper's numbers contradict each other; `docs/aerotp-experiments.md` says which ones are taken here and why: 375 packets a
//! second of 1472 bytes, and 10 ms one way.

pub mod ledger;
pub mod limits;
pub mod live;
pub mod ours;
pub mod peers;
pub mod plots;
pub mod reference;
pub mod suite;
pub mod targets;

use std::time::Duration;

use aquila_emu::{BitErrors, Loss, PathConfig};
use aquila_proto::Bitrate;

use ledger::Outcome;

/// Bytes of one run.
pub const TRANSFER: u64 = 1_000_000;
/// What is in a datagram of UDP.
pub const DATAGRAM: usize = 1472;
/// What the source writes in a second: 375 times [`DATAGRAM`]. It writes as much at a time as fits a packet of whoever carries
/// it.
pub const SOURCE: Bitrate = Bitrate(4_416_000);
/// Packets on the wire are as long as this at most.
pub const PACKET: usize = 1500;
/// A run ends after this long if it does not end by itself.
pub const LIMIT: Duration = Duration::from_secs(300);

/// What is in front of a segment on the wire. Bit errors hit it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// IP and UDP headers: a wrong bit in them and the packet is lost.
    Udp,
    /// Sync word and length of a serial line, which take three wrong bits each; more than three in both count as lost here.
    Serial,
}

impl Framing {
    /// Bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Udp => 28,
            Self::Serial => aquila_proto::aerotp::LINE_OVERHEAD,
        }
    }

    fn survives(self, wrong_bits: u32) -> bool {
        wrong_bits <= if self == Self::Udp { 0 } else { 3 }
    }
}

/// A link, the same both ways.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Channel {
    /// What it carries.
    pub rate: Bitrate,
    /// One way.
    pub delay: Duration,
    /// Share of bits that are wrong, independently.
    pub bit_errors: f64,
    /// Share of packets that are lost, independently.
    pub loss: f64,
    /// In front of segments.
    pub framing: Framing,
}

impl Channel {
    /// The mobile airborne network of §IV: 5 Mbit/s and 10 ms.
    pub const fn airborne(bit_errors: f64) -> Self {
        let (rate, delay) = (Bitrate::mbps(5), Duration::from_millis(10));
        Self { rate, delay, bit_errors, loss: 0.0, framing: Framing::Udp }
    }

    /// The link of §IV-A: 10 Mbit/s and 5 ms.
    pub const fn setting_up(loss: f64) -> Self {
        let (rate, delay) = (Bitrate::mbps(10), Duration::from_millis(5));
        Self { rate, delay, bit_errors: 0.0, loss, framing: Framing::Udp }
    }

    fn path(&self) -> PathConfig {
        PathConfig {
            rate_bps: Some(self.rate.0),
            delay: self.delay,
            bit_errors: BitErrors { rate: self.bit_errors, spared_bytes: 0 },
            air_loss: Loss::Independent(self.loss),
            ..PathConfig::default()
        }
    }
}

/// Who carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scheme {
    /// AeroTP.
    Ours(ours::Ours),
    /// The model of TCP of the lab.
    Tcp(peers::Congestion),
    /// Datagrams, which are dropped if a bit is wrong if they have a checksum.
    Udp {
        /// Whether they have.
        checksum: bool,
    },
}

/// What is carried over what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Task {
    /// The link.
    pub channel: Channel,
    /// All bytes that are written.
    pub bytes: u64,
    /// How fast.
    pub source: Bitrate,
    /// When it is given up.
    pub limit: Duration,
}

impl Task {
    /// One megabyte over a link, as in §IV.
    pub const fn new(channel: Channel) -> Self {
        Self { channel, bytes: TRANSFER, source: SOURCE, limit: LIMIT }
    }
}

/// Runs it once. The same seed gives the same outcome.
pub fn run(scheme: Scheme, task: &Task, seed: u64) -> Outcome {
    match scheme {
        Scheme::Ours(ours) => ours::run(ours, task, seed),
        Scheme::Tcp(congestion) => peers::tcp(congestion, task, seed),
        Scheme::Udp { checksum } => peers::udp(checksum, task, seed),
    }
}

/// The time from one write of this size to the next.
fn interval(source: Bitrate, bytes: usize) -> Duration {
    source.time_for(aquila_proto::ByteCount::from(bytes))
}
