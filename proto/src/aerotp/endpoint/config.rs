//! What an endpoint is to be, and what it tells.

use std::time::Duration;

use bytes::Bytes;

use super::super::{Closed, ConnectionId, MAX_PARITY_WORDS, Port, SecurityConfig, TransferMode};
use crate::{Bitrate, ByteCount};

/// A line: a radio of ours alone, or a path to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineConfig {
    /// What it carries, framing included. Segments leave at this rate, whatever is lost: the line must not be shared with
    /// others who give way.
    pub rate: Bitrate,
    /// Bytes around each segment: sync word and length, or IP and UDP headers.
    pub framing: ByteCount,
    /// The other side sends on the same channel, which takes this long to turn around: what it sends is time that we have not.
    pub shared: Option<Duration>,
}

/// How much parity segments have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Protection {
    /// None.
    Off,
    /// So many words of 4 bytes each.
    Fixed(u16),
    /// As many as the measured bit errors ask for.
    Adaptive {
        /// Words at most.
        most: u16,
        /// In modes without repetition, the share of segments that may be lost.
        residual: f64,
    },
}

impl Default for Protection {
    fn default() -> Self {
        Self::Adaptive { most: 64, residual: 1e-6 }
    }
}

/// An endpoint.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// Who we are and whom we talk to.
    pub security: SecurityConfig,
    /// The lines to the other side; one at least. What is urgent goes over all of them.
    pub lines: Vec<LineConfig>,
    /// Longest segment in bytes, without framing; at least [`EndpointConfig::MIN_SEGMENT`]. One that has to be sealed anew while a
    /// handshake is under way may be 60 bytes longer.
    pub max_segment: usize,
    /// Segments that may overtake another on a line before it counts as lost: 1 on a radio, 3 on an IP path.
    pub reordering: u64,
    /// How long a receiver waits whether what is missing was only overtaken, before it says so (near-reliable) or takes it for lost (the
    /// modes without repetition). Zero on a radio.
    pub patience: Duration,
    /// Round trip until it has been measured.
    pub assumed_rtt: Duration,
    /// Strength of the code in each segment.
    pub protection: Protection,
    /// Whether damaged copies of a segment are put together.
    pub combine: bool,
    /// Whether a CRC-32C follows the payload. Without it damage is seen by the tag alone, and nothing can be put together.
    pub checksum: bool,
    /// Segments of streams are made as short as the bit errors ask for, if there is no code that corrects them.
    pub fit_length: bool,
    /// Connections at a time.
    pub max_connections: usize,
    /// A stream's bytes that may wait to be sent.
    pub max_waiting: ByteCount,
}

impl EndpointConfig {
    /// Shortest longest segment: header, hello, tag, CRC, and something to carry.
    pub const MIN_SEGMENT: usize = 160;

    /// An endpoint with one line.
    pub fn new(security: SecurityConfig, line: LineConfig, max_segment: usize) -> Self {
        Self {
            security,
            lines: vec![line],
            max_segment,
            reordering: 1,
            patience: Duration::ZERO,
            assumed_rtt: Duration::from_millis(100),
            protection: Protection::default(),
            combine: true,
            checksum: true,
            fit_length: true,
            max_connections: 256,
            max_waiting: ByteCount(4 << 20),
        }
    }
}

impl Protection {
    /// What it may add at most, in words.
    pub(super) fn most(self) -> u16 {
        match self {
            Self::Off => 0,
            Self::Fixed(words) => words.min(MAX_PARITY_WORDS),
            Self::Adaptive { most, .. } => most.min(MAX_PARITY_WORDS),
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointEvent {
    /// Keys are agreed: the other side is who we pinned. `restarted`: it is another life of its, and what there was of
    /// connections is void.
    Associated {
        /// Another life.
        restarted: bool,
    },
    /// The other side has opened a connection to a port that is listened on.
    Opened {
        /// Its name here.
        connection: ConnectionId,
        /// Our port.
        local: Port,
        /// Its port.
        remote: Port,
        /// How loss is dealt with.
        mode: TransferMode,
    },
    /// A connection has something to read.
    Readable(ConnectionId),
    /// The other side has all of a message.
    Acknowledged {
        /// Whose.
        connection: ConnectionId,
        /// What [`send`](super::Endpoint::send) was told.
        token: u64,
    },
    /// The other side sends nothing more on it.
    PeerClosed(ConnectionId),
    /// A connection is no more.
    Closed {
        /// Which.
        connection: ConnectionId,
        /// Why.
        reason: Closed,
    },
    /// A datagram without connection.
    Datagram {
        /// The other side's port.
        source: Port,
        /// Ours.
        destination: Port,
        /// What was sent.
        bytes: Bytes,
    },
}

/// Why something cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no such connection, or it is closed.
    #[error("the connection is closed")]
    Closed,
    /// It does not fit one segment, of a connection of messages.
    #[error("a message of {0} bytes does not fit a segment")]
    TooLong(usize),
    /// Too much waits already.
    #[error("too much waits to be sent")]
    Full,
}

/// Counters since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Segments sent, repetitions and copies on further lines included.
    pub segments_out: u64,
    /// Bytes of them, framing included.
    pub bytes_out: u64,
    /// Of the segments: sent again.
    pub sent_again: u64,
    /// Repair segments among them.
    pub repairs_out: u64,
    /// MACKs among them.
    pub macks_out: u64,
    /// Recognised segments received.
    pub segments_in: u64,
    /// Segments that came again.
    pub duplicates: u64,
    /// Damaged, with an intact header.
    pub damaged: u64,
    /// Whole again with another damaged copy.
    pub combined: u64,
    /// Recovered from repair segments.
    pub recovered: u64,
    /// Neither header nor code made sense.
    pub unrecognisable: u64,
    /// Not authentic.
    pub forged: u64,
    /// Authentic, but from the past, or of no connection.
    pub stale: u64,
    /// Authentic, but not well-formed.
    pub malformed: u64,
}
