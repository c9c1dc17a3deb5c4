//! The 20 bytes before each segment (AeroTP figure 3).
//!
//! ```text
//! source port 16 | destination port 16
//! sequence number 32
//! timestamp 32
//! key phase 3 | mode 5 | ECN 2 | flags 6 | payload length 16
//! FEC scheme 3 | parity words 9 | extension words 4 | HEC 16
//! ```
//!
//! Network byte order. The widths of the fourth word are ours: the figure draws them without numbers.

use std::fmt;
use std::ops::BitOr;

use super::hec::hec;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 20;

/// Parity that a segment can have, in words of 4 bytes.
pub const MAX_PARITY_WORDS: u16 = 0x1ff;

/// Number of a segment within its connection and direction; wraps (RFC 1982, 32 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

/// One end of a connection within an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Port(pub u16);

/// What a connection promises (AeroTP section III).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferMode {
    /// Everything, in order, acknowledged from end to end.
    Reliable,
    /// Everything as long as the far gateway keeps it; acknowledged by holes.
    NearReliable,
    /// What error correction can save; nothing is acknowledged.
    QuasiReliable,
    /// In order, with gaps.
    UnreliableConnection,
    /// Datagrams without any state.
    UnreliableDatagram,
}

/// What a hop says about its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ecn {
    /// Nothing.
    #[default]
    None,
    /// All is well, and it would say otherwise.
    Capable,
    /// Its queue is more than half full.
    SlowDown,
    /// Its queue is nearly full, or its bearer is out.
    Stop,
}

/// The six flags, in TCP's places.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

/// A segment's header. FEC scheme and the mode's bit F follow from `parity_words`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Port of the segment's sender.
    pub source: Port,
    /// Port of its receiver.
    pub destination: Port,
    /// Number of the segment; with [`Flags::MACK`] the first acknowledgement.
    pub seq: Seq,
    /// Low 32 bits of the segment's number of its sender's clock in the association, in microseconds.
    pub timestamp: u32,
    /// Which keys: 0 early, 1..=7 an association. The upper bits are dropped.
    pub phase: u8,
    /// The connection's mode.
    pub mode: TransferMode,
    /// What a hop says of its queue. Not authenticated.
    pub ecn: Ecn,
    /// What the segment is.
    pub flags: Flags,
    /// Bytes of extension words, ciphertext and tag; neither CRC nor parity.
    pub payload_len: u16,
    /// Parity behind the segment in words of 4 bytes, at most [`MAX_PARITY_WORDS`]. Not authenticated.
    pub parity_words: u16,
    /// Whether a CRC-32C follows the payload. Not authenticated.
    pub has_crc: bool,
    /// Extension words of 4 bytes at the beginning of the payload, at most 15.
    pub extension_words: u8,
}

/// Why 20 bytes are not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer than 20 bytes.
    #[error("shorter than a header")]
    Short,
    /// The header's check does not fit.
    #[error("damaged header")]
    Check,
    /// A reserved transfer mode.
    #[error("transfer mode {0} is reserved")]
    Mode(u8),
    /// An error correction that we do not speak.
    #[error("error correction {0} is unknown")]
    Scheme(u8),
    /// F, scheme and number of parity words contradict each other, or the extension is longer than the payload.
    #[error("the header contradicts itself")]
    Contradiction,
}

impl Seq {
    /// The number `count` further on.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The number before.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// How many steps forward from `self` to `other`, 0..2^32.
    pub const fn distance_to(self, other: Self) -> u32 {
        other.0.wrapping_sub(self.0)
    }

    /// Whether `self` is before `other`: `other` is 1 to 2^31 - 1 steps further on. Of two numbers that are 2^31 apart
    /// neither is before the other (RFC 1982 §3.2).
    pub const fn is_before(self, other: Self) -> bool {
        (self.distance_to(other) as i32) > 0
    }

    /// Whether `self` is after `other`.
    pub const fn is_after(self, other: Self) -> bool {
        other.is_before(self)
    }
}

impl TransferMode {
    /// All modes, by their number on the wire.
    pub const ALL: [Self; 5] =
        [Self::Reliable, Self::NearReliable, Self::QuasiReliable, Self::UnreliableConnection, Self::UnreliableDatagram];

    /// The mode with this number, 0..=4.
    pub const fn from_number(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() { Some(Self::ALL[number as usize]) } else { None }
    }

    /// Its number, 0..=4.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl Ecn {
    const ALL: [Self; 4] = [Self::None, Self::Capable, Self::SlowDown, Self::Stop];
}

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The plaintext begins with inner options (TCP's URG).
    pub const OPTIONS: Self = Self(1 << 5);
    /// Acknowledges (ACK).
    pub const MACK: Self = Self(1 << 4);
    /// End of an application's message (PSH).
    pub const PUSH: Self = Self(1 << 3);
    /// The connection is given up (RST).
    pub const RESET: Self = Self(1 << 2);
    /// The connection begins (SYN).
    pub const SYN: Self = Self(1 << 1);
    /// The connection ends (FIN).
    pub const FIN: Self = Self(1);

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These less those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["OPTIONS", "MACK", "PUSH", "RESET", "SYN", "FIN"];
        let set = names.iter().enumerate().filter(|(place, _)| self.0 >> (5 - place) & 1 == 1);
        f.write_str("Flags(")?;
        for (count, (_, name)) in set.enumerate() {
            f.write_str(if count == 0 { "" } else { "|" })?;
            f.write_str(name)?;
        }
        f.write_str(")")
    }
}

impl Header {
    /// A header with neither payload nor CRC, parity nor keys.
    pub const fn new(source: Port, destination: Port, mode: TransferMode, seq: Seq, flags: Flags) -> Self {
        Self {
            source,
            destination,
            seq,
            timestamp: 0,
            phase: 0,
            mode,
            ecn: Ecn::None,
            flags,
            payload_len: 0,
            parity_words: 0,
            has_crc: false,
            extension_words: 0,
        }
    }

    /// The header with its check. Fields beyond their bounds are cut to their bits.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = self.fields();
        let check = hec(&out[..CHECK]);
        out[CHECK..].copy_from_slice(&check.to_be_bytes());
        out
    }

    /// Reads the first 20 bytes of a segment.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let bytes = bytes.first_chunk::<HEADER_LEN>().ok_or(HeaderError::Short)?;
        if hec(&bytes[..CHECK]).to_be_bytes() != bytes[CHECK..] {
            return Err(HeaderError::Check);
        }
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        let (kind, options) = (half(12), half(16));
        let mode = (kind >> 8) as u8 & 0x1f;
        let (scheme, parity_words) = ((options >> 13) as u8, options >> 4 & MAX_PARITY_WORDS);
        let header = Self {
            source: Port(half(0)),
            destination: Port(half(2)),
            seq: Seq(word(4)),
            timestamp: word(8),
            phase: (kind >> 13) as u8,
            mode: TransferMode::from_number(mode >> 2).ok_or(HeaderError::Mode(mode >> 2))?,
            ecn: Ecn::ALL[usize::from(kind >> 6 & 3)],
            flags: Flags(kind as u8 & 0x3f),
            payload_len: half(14),
            parity_words,
            has_crc: mode & 1 == 1,
            extension_words: options as u8 & 0xf,
        };
        if scheme > RS8 {
            return Err(HeaderError::Scheme(scheme));
        }
        let parity = parity_words > 0;
        if parity != (scheme == RS8) || parity != (mode & 2 == 2) || header.extension_len() > header.payload_len.into()
        {
            return Err(HeaderError::Contradiction);
        }
        Ok(header)
    }

    /// Bytes of extension words.
    pub const fn extension_len(&self) -> usize {
        (self.extension_words & 0xf) as usize * 4
    }

    /// Bytes of CRC.
    pub const fn crc_len(&self) -> usize {
        if self.has_crc { 4 } else { 0 }
    }

    /// Bytes of parity.
    pub const fn parity_len(&self) -> usize {
        (self.parity_words & MAX_PARITY_WORDS) as usize * 4
    }

    /// Bytes of the whole segment.
    pub const fn segment_len(&self) -> usize {
        HEADER_LEN + self.payload_len as usize + self.crc_len() + self.parity_len()
    }

    /// The header as the tag covers it: without check, and with zero in what may differ between copies of a segment,
    /// which are ECN, F, C, FEC scheme and parity words.
    pub(super) fn authenticated(&self) -> [u8; HEADER_LEN] {
        Self { ecn: Ecn::None, parity_words: 0, has_crc: false, ..*self }.fields()
    }

    /// The header with zero in place of its check.
    fn fields(&self) -> [u8; HEADER_LEN] {
        let parity_words = self.parity_words & MAX_PARITY_WORDS;
        let parity = parity_words > 0;
        let mode = self.mode.number() << 2 | u8::from(parity) << 1 | u8::from(self.has_crc);
        let scheme = if parity { u16::from(RS8) } else { 0 };
        let options = scheme << 13 | parity_words << 4 | u16::from(self.extension_words & 0xf);
        let mut out = [0; HEADER_LEN];
        out[0..2].copy_from_slice(&self.source.0.to_be_bytes());
        out[2..4].copy_from_slice(&self.destination.0.to_be_bytes());
        out[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        out[8..12].copy_from_slice(&self.timestamp.to_be_bytes());
        out[12] = self.phase << 5 | mode;
        out[13] = (self.ecn as u8) << 6 | self.flags.0;
        out[14..16].copy_from_slice(&self.payload_len.to_be_bytes());
        out[16..18].copy_from_slice(&options.to_be_bytes());
        out
    }
}

/// Where the check begins.
const CHECK: usize = 18;

/// FEC scheme: interleaved Reed-Solomon over GF(256). 0 is none, those above are not assigned.
const RS8: u8 = 1;
