//! A repair of video: a combination of fragments, see [`aquila_fec::rlc`].
//!
//! After the datagram header: the video flow (varint), the running number before which no more repairs follow (16 bits),
//! the repair's header (7 bytes), and the coded bytes. What is combined is, of each fragment, its length (16 bits), the send
//! time of its datagram (32 bits), and the fragment with its header.

use aquila_fec::rlc::RepairHeader;
use bytes::BufMut;

use super::take_u16;
use super::varint::{put_varint, take_varint};

/// Header of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoRepair {
    /// Which video flow.
    pub video: u64,
    /// Low bits of a running number: once this repair and those sent before it have come, fragments before that number are
    /// not going to be repaired any more.
    pub settled: u16,
    /// Of which fragments; of their numbers only the low 16 bits count.
    pub header: RepairHeader,
}

impl VideoRepair {
    /// Longest header in bytes.
    pub const MAX_LEN: usize = 8 + 2 + RepairHeader::LEN;
    /// Bytes that a repair of a video flow has beyond the fragment that it may bring back: this header, and what is combined
    /// beside the fragment.
    pub const OVERHEAD: usize = 1 + 2 + RepairHeader::LEN + 2 + 4;

    /// Writes the header.
    pub fn put(&self, out: &mut impl BufMut) {
        put_varint(out, self.video);
        out.put_u16(self.settled);
        out.put_slice(&self.header.to_bytes());
    }

    /// Splits a body into header and coded bytes; `None` if it is too short.
    pub fn parse(mut bytes: &[u8]) -> Option<(Self, &[u8])> {
        let video = take_varint(&mut bytes)?;
        let settled = take_u16(&mut bytes)?;
        let (header, coded) = bytes.split_first_chunk()?;
        Some((Self { video, settled, header: RepairHeader::from_bytes(*header) }, coded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_no_less() {
        let header = RepairHeader { first: 0x1_2345, count: 256, key: 7 };
        let repair = VideoRepair { video: 15, settled: 0x89ab, header };
        let mut out = Vec::new();
        repair.put(&mut out);
        assert_eq!(out, [15, 0x89, 0xab, 0, 1, 0x23, 0x45, 255, 0, 7]);
        (0..out.len()).for_each(|len| assert_eq!(VideoRepair::parse(&out[..len]), None));
        out.extend(b"coded");
        assert_eq!(VideoRepair::parse(&out), Some((repair, &b"coded"[..])));
    }
}
