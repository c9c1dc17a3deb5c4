//! The fragment header on the wire.
//!
//! ```text
//! byte 0      flags: 0x01 last, 0x02 recovery point, 0x04 disposable, 0x08 abandoned, 0x10 classified, 0x20 waited,
//!             0x40 numbered; others zero
//! bytes 1..5  frame number, big-endian, wrapping
//! then        fragment index, QUIC varint (RFC 9000 §16), below MAX_FRAGMENTS
//! then        if flagged, two bytes, big-endian: milliseconds that the frame has waited at the sender
//! then        if flagged, two bytes, big-endian: running number of the fragment, wrapping
//! then        to the end: bytes of the frame, a run of packets, each behind its length as a varint
//! ```
//!
//! A datagram has one fragment; what comes before it (flow, transport sequence number, send time) is the session's. Only
//! a peer that says revision 2 in its hello is told how long a frame has waited, once, in the first fragment. Only one
//! that says revision 4 gets numbers, by which [`super::Protector`] speaks of fragments, and only if there are repairs.

use bytes::BufMut;

use crate::wire::take_u16;
use crate::wire::varint::{put_varint, take_varint, varint_len};

/// Most fragments of one frame; indices stay below, and so take at most two bytes.
pub const MAX_FRAGMENTS: u32 = 16_384;

/// Most bytes of one frame, packet lengths included. A 4K intra-coded frame at 100 Mbit/s is about a quarter of this.
pub const MAX_FRAME_BYTES: usize = 2 << 20;

/// Least room for a fragment, header included: at [`MAX_FRAGMENTS`], frames of 900 kB still fit.
pub const MIN_PAYLOAD: usize = 64;

/// What a fragment says of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FragmentFlags {
    /// No fragment of this frame has a higher index.
    pub last: bool,
    /// Decoding can start at this frame. May come only with later fragments of a frame.
    pub recovery_point: bool,
    /// No other frame refers to this one, as far as the sender has seen it.
    pub disposable: bool,
    /// The sender gives no more of this frame; the index is the number of fragments that left, and no bytes follow.
    pub abandoned: bool,
    /// The sender knows the codec: a frame without `recovery_point` is not one.
    pub classified: bool,
}

/// The header of one fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FragmentHeader {
    /// What it says of its frame.
    pub flags: FragmentFlags,
    /// Frame number, wrapping; consecutive over the frames of which any fragment left.
    pub frame: u32,
    /// Position in the frame, from 0, below [`MAX_FRAGMENTS`].
    pub index: u32,
    /// Milliseconds from when its picture was there, or, if that is not known, from the frame's first packet at the sender, to this fragment leaving
    /// it; not of abandoned frames.
    pub waited_ms: Option<u16>,
    /// Counts all fragments of the flow, wrapping: of it there may be repairs.
    pub number: Option<u16>,
}

/// Why bytes are not a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FragmentError {
    /// Ends inside the header.
    #[error("fragment header is cut short")]
    Short,
    /// A flag that this version does not have, or flags that exclude each other.
    #[error("flags {0:#04x} are not allowed")]
    Flags(u8),
    /// An index of [`MAX_FRAGMENTS`] or more.
    #[error("fragment index {0} is too large")]
    Index(u64),
    /// Bytes after an `abandoned` header.
    #[error("an abandoned frame has bytes")]
    AbandonedWithBytes,
}

impl FragmentHeader {
    /// Bytes that the header takes: 6 to 11.
    pub const fn wire_len(&self) -> usize {
        let waited = if self.waited_ms.is_some() { 2 } else { 0 };
        let number = if self.number.is_some() { 2 } else { 0 };
        1 + 4 + varint_len(self.index as u64) + waited + number
    }

    /// Appends the header to `out`. An index of [`MAX_FRAGMENTS`] or more cannot be read back.
    pub fn put(&self, out: &mut impl BufMut) {
        debug_assert!(self.index < MAX_FRAGMENTS);
        let waited = if self.waited_ms.is_some() { WAITED } else { 0 };
        let numbered = if self.number.is_some() { NUMBERED } else { 0 };
        out.put_u8(self.flags.bits() | waited | numbered);
        out.put_u32(self.frame);
        put_varint(out, u64::from(self.index));
        if let Some(waited_ms) = self.waited_ms {
            out.put_u16(waited_ms);
        }
        if let Some(number) = self.number {
            out.put_u16(number);
        }
    }

    /// Reads one fragment: its header and the frame bytes behind it.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), FragmentError> {
        let (&bits, rest) = bytes.split_first().ok_or(FragmentError::Short)?;
        let (has_waited, has_number) = (bits & WAITED != 0, bits & NUMBERED != 0);
        let flags =
            FragmentFlags::from_bits(bits & !(WAITED | NUMBERED)).filter(|known| !(has_waited && known.abandoned));
        let flags = flags.ok_or(FragmentError::Flags(bits))?;
        let (frame, mut rest) = rest.split_first_chunk().ok_or(FragmentError::Short)?;
        let index = take_varint(&mut rest).ok_or(FragmentError::Short)?;
        let below = u32::try_from(index).ok().filter(|index| *index < MAX_FRAGMENTS);
        let index = below.ok_or(FragmentError::Index(index))?;
        let waited_ms = match has_waited {
            true => Some(take_u16(&mut rest).ok_or(FragmentError::Short)?),
            false => None,
        };
        let number = match has_number {
            true => Some(take_u16(&mut rest).ok_or(FragmentError::Short)?),
            false => None,
        };
        let header = Self { flags, frame: u32::from_be_bytes(*frame), index, waited_ms, number };
        if flags.abandoned && !rest.is_empty() {
            return Err(FragmentError::AbandonedWithBytes);
        }
        Ok((header, rest))
    }
}

impl FragmentFlags {
    fn bits(self) -> u8 {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        bit(self.last, LAST)
            | bit(self.recovery_point, RECOVERY)
            | bit(self.disposable, DISPOSABLE)
            | bit(self.abandoned, ABANDONED)
            | bit(self.classified, CLASSIFIED)
    }

    fn from_bits(bits: u8) -> Option<Self> {
        let flags = Self {
            last: bits & LAST != 0,
            recovery_point: bits & RECOVERY != 0,
            disposable: bits & DISPOSABLE != 0,
            abandoned: bits & ABANDONED != 0,
            classified: bits & CLASSIFIED != 0,
        };
        let excluded = (flags.last && flags.abandoned) || (flags.recovery_point && flags.disposable);
        (flags.bits() == bits && !excluded).then_some(flags)
    }
}

const LAST: u8 = 0x01;
const RECOVERY: u8 = 0x02;
const DISPOSABLE: u8 = 0x04;
const ABANDONED: u8 = 0x08;
const CLASSIFIED: u8 = 0x10;
const WAITED: u8 = 0x20;
const NUMBERED: u8 = 0x40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_at_the_boundaries() {
        for frame in [0, 1, u32::MAX] {
            for index in [0, 63, 64, MAX_FRAGMENTS - 1] {
                for bits in 0..=0x1f {
                    let Some(flags) = FragmentFlags::from_bits(bits) else { continue };
                    let waited_ms = (index == 63 && !flags.abandoned).then_some(0x1234);
                    let number = (index < 64).then_some(0x89ab);
                    let header = FragmentHeader { flags, frame, index, waited_ms, number };
                    let mut out = Vec::new();
                    header.put(&mut out);
                    assert_eq!(out.len(), header.wire_len());
                    for cut in 0..out.len() {
                        assert_eq!(FragmentHeader::parse(&out[..cut]), Err(FragmentError::Short));
                    }
                    assert_eq!(FragmentHeader::parse(&out), Ok((header, &[][..])));
                    out.extend([1, 2, 3]);
                    let parsed = FragmentHeader::parse(&out);
                    match flags.abandoned {
                        false => assert_eq!(parsed, Ok((header, &[1, 2, 3][..]))),
                        true => assert_eq!(parsed, Err(FragmentError::AbandonedWithBytes)),
                    }
                }
            }
        }
    }

    #[test]
    fn refuses_what_no_sender_sends() {
        for bits in [0x80, NUMBERED | 0x80, LAST | ABANDONED, WAITED | ABANDONED, RECOVERY | DISPOSABLE] {
            assert_eq!(FragmentHeader::parse(&[bits, 0, 0, 0, 0, 0]), Err(FragmentError::Flags(bits)));
        }
        let index = [0, 0, 0, 0, 0, 0x80, 0, 0x40, 0];
        assert_eq!(FragmentHeader::parse(&index), Err(FragmentError::Index(16_384)));
    }
}
