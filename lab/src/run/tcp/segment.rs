//! What the two ends of a connection exchange. A segment says how many bytes it carries, not which: nobody looks at
//! them.

use std::time::Instant;

/// A range of the byte stream, `to` excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub from: u64,
    /// One beyond the last.
    pub to: u64,
}

/// Kinds of segments. The stream begins at 0 behind the SYN, which has no number here, and never wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The client's first.
    Syn,
    /// The server's answer.
    SynAck,
    /// Any other: data, an acknowledgement, mostly both.
    Established,
}

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Which kind.
    pub kind: Kind,
    /// Its payload's place in the stream; in a pure acknowledgement empty, behind what was sent.
    pub data: Span,
    /// All bytes of the other direction before this one have come.
    pub ack: u64,
    /// What has come beyond that.
    pub sacks: Sacks,
    /// When it left: TSval (RFC 7323 §3).
    pub sent: Instant,
    /// The time stamp that it answers: TSecr.
    pub echo: Option<Instant>,
}

/// SACK blocks, the newest first (RFC 2018 §4). Three fit beside time stamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sacks {
    /// The blocks.
    pub blocks: [Option<Span>; 3],
    /// The first block reports a duplicate (RFC 2883 §4).
    pub duplicate: bool,
}

/// Bytes of an IPv4 header, and of a TCP header with the time stamp option (10) and its padding (2).
const IPV4: usize = 20;
const TCP: usize = 20 + 12;
/// A SYN has MSS (4), SACK permitted (2), time stamps (10), window scale (3) and padding (1).
const TCP_SYN: usize = 20 + 20;
/// Largest payload: an IP packet of 1500 bytes less both headers.
pub const MSS: u64 = (1500 - IPV4 - TCP) as u64;

impl Segment {
    /// Bytes of the IP packet.
    pub fn bytes(&self) -> usize {
        match self.kind {
            Kind::Syn | Kind::SynAck => IPV4 + TCP_SYN,
            Kind::Established => IPV4 + TCP + self.sacks.bytes() + self.data.len() as usize,
        }
    }
}

impl Sacks {
    /// Bytes of the option: 8 a block, 2 for kind and length, 2 of padding.
    pub fn bytes(&self) -> usize {
        match self.blocks.iter().flatten().count() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        }
    }

    /// All blocks; a duplicate's is of bytes that have come, too.
    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        self.blocks.iter().flatten().copied()
    }
}

impl Span {
    /// Bytes.
    pub fn len(self) -> u64 {
        self.to - self.from
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.to == self.from
    }
}
