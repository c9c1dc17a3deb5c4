//! The header of our datagrams, and the small ones: heartbeat, recovery request.

use bytes::BufMut;

use super::varint::{put_varint, take_varint, varint_len};
use super::{flow, take_u16, take_u32};

/// Header of every datagram but feedback: flow id, transport sequence number, and but for parcels send time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Flow id, see [`flow`].
    pub flow: u64,
    /// Counts all datagrams with this header, wrapping; feedback reports arrivals by it.
    pub seq: u16,
    /// Sender's clock in microseconds, wrapping (71 minutes). A parcel's is not sent: nobody waits for it, and many make a file.
    pub sent_us: Option<u32>,
}

impl DatagramHeader {
    /// Longest header in bytes.
    pub const MAX_LEN: usize = 8 + 2 + 4;

    /// Writes the header.
    pub fn put(&self, out: &mut impl BufMut) {
        flow::put(out, self.flow);
        out.put_u16(self.seq);
        if !flow::is_parcel(self.flow) {
            out.put_u32(self.sent_us.unwrap_or_default());
        }
    }

    /// Splits a datagram into header and body; `None` if it is too short.
    pub fn parse(mut bytes: &[u8]) -> Option<(Self, &[u8])> {
        let flow = take_varint(&mut bytes)?;
        let seq = take_u16(&mut bytes)?;
        let sent_us = if flow::is_parcel(flow) { None } else { Some(take_u32(&mut bytes)?) };
        Some((Self { flow, seq, sent_us }, bytes))
    }
}

/// Body of a heartbeat: what we heard last, so that both ends measure the round trip and know what the other receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heartbeat {
    /// Sender's clock of the newest heartbeat received from the peer, and how long ago that was here in microseconds;
    /// `None` before the first.
    pub echo: Option<(u32, u64)>,
    /// Video frames given out complete by this end since it started.
    pub frames_received: u64,
    /// Video frames that this end knows it lost.
    pub frames_lost: u64,
    /// Video frames that came too late to be given out.
    pub frames_stale: u64,
    /// Age over propagation, in milliseconds, of the picture that was given out last; the oldest of several cameras'.
    pub picture_age_ms: Option<u64>,
    /// How much of the other end's bulk may be sent here; `None` from ends of revision 2.
    pub bulk: Option<BulkWindow>,
}

/// How much of a stream of bulk may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkWindow {
    /// Which stream: the newest that its sender began, 0 before the first.
    pub stream: u64,
    /// Bytes that its receiver takes, from the stream's beginning.
    pub limit: u64,
}

/// Header of a piece of bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkPiece {
    /// Which stream; a later one is larger.
    pub stream: u64,
    /// Where in it the piece belongs.
    pub offset: u64,
}

impl BulkPiece {
    /// Length of the header in bytes.
    pub fn encoded_len(&self) -> usize {
        varint_len(self.stream) + varint_len(self.offset)
    }

    /// Writes the header.
    pub fn put(&self, out: &mut impl BufMut) {
        put_varint(out, self.stream);
        put_varint(out, self.offset);
    }

    /// Splits a body into header and bytes; `None` if it is too short.
    pub fn parse(mut bytes: &[u8]) -> Option<(Self, &[u8])> {
        let piece = Self { stream: take_varint(&mut bytes)?, offset: take_varint(&mut bytes)? };
        Some((piece, bytes))
    }
}

impl Heartbeat {
    /// Writes the body.
    pub fn put(&self, out: &mut impl BufMut) {
        out.put_u8(u8::from(self.echo.is_some()));
        let (echo_us, held_us) = self.echo.unwrap_or_default();
        out.put_u32(echo_us);
        put_varint(out, held_us);
        put_varint(out, self.frames_received);
        put_varint(out, self.frames_lost);
        put_varint(out, self.frames_stale);
        put_varint(out, self.picture_age_ms.map_or(0, |ms| ms.saturating_add(1)));
        if let Some(bulk) = self.bulk {
            put_varint(out, bulk.stream);
            put_varint(out, bulk.limit);
        }
    }

    /// Reads a body; bytes after it are ignored, for later versions. Ends of revision 1 do not send the last three
    /// fields, those of revision 2 not the last.
    pub fn parse(mut bytes: &[u8]) -> Option<Self> {
        let (&has_echo, rest) = bytes.split_first()?;
        bytes = rest;
        let echo_us = take_u32(&mut bytes)?;
        let held_us = take_varint(&mut bytes)?;
        let frames_received = take_varint(&mut bytes)?;
        let frames_lost = take_varint(&mut bytes)?;
        let frames_stale = take_varint(&mut bytes).unwrap_or_default();
        let picture_age_ms = take_varint(&mut bytes).unwrap_or_default().checked_sub(1);
        let echo = (has_echo == 1).then_some((echo_us, held_us));
        let bulk = take_varint(&mut bytes).zip(take_varint(&mut bytes));
        let bulk = bulk.map(|(stream, limit)| BulkWindow { stream, limit });
        Some(Self { echo, frames_received, frames_lost, frames_stale, picture_age_ms, bulk })
    }
}

/// Body of a request for a recovery point: which video flow, and the frame that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryRequest {
    /// Video flow, from 0.
    pub video: u64,
    /// Number of the first lost frame.
    pub frame: u64,
}

impl RecoveryRequest {
    /// Writes the body.
    pub fn put(&self, out: &mut impl BufMut) {
        put_varint(out, self.video);
        put_varint(out, self.frame);
    }

    /// Reads a body.
    pub fn parse(mut bytes: &[u8]) -> Option<Self> {
        Some(Self { video: take_varint(&mut bytes)?, frame: take_varint(&mut bytes)? })
    }
}

/// Undoes the wrap-around of a 32-bit microsecond clock: the value closest to `near` that ends in `wrapped`.
pub fn unwrap_us(near: u64, wrapped: u32) -> u64 {
    let ahead = wrapped.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(ahead))
}

/// Undoes the wrap-around of a 16-bit sequence number in the same way.
pub fn unwrap_seq(near: u64, wrapped: u16) -> u64 {
    let ahead = wrapped.wrapping_sub(near as u16) as i16;
    near.saturating_add_signed(i64::from(ahead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::varint::varint_len;

    #[test]
    fn header_round_trip_and_every_truncation_is_refused() {
        for (flow, sent_us, expected) in [(flow::VIDEO + 3, Some(0xdead_beef), 7), (flow::PARCELS + 7, None, 3)] {
            let header = DatagramHeader { flow, seq: 65_535, sent_us };
            let mut out = Vec::new();
            header.put(&mut out);
            assert_eq!(out.len(), expected);
            assert_eq!(DatagramHeader::parse(&out), Some((header, &[][..])));
            for len in 0..out.len() {
                assert_eq!(DatagramHeader::parse(&out[..len]), None);
            }
        }
    }

    #[test]
    fn heartbeat_round_trip_with_and_without_echo() {
        for (echo, picture_age_ms) in [(None, None), (Some((u32::MAX, 5_000_000_000)), Some(0)), (None, Some(70_000))] {
            let (frames_received, frames_lost, frames_stale) = (70_000, 1, 2);
            let bulk = Some(BulkWindow { stream: 1 << 40, limit: 9 });
            let heartbeat = Heartbeat { echo, frames_received, frames_lost, frames_stale, picture_age_ms, bulk };
            let mut out = Vec::new();
            heartbeat.put(&mut out);
            assert_eq!(Heartbeat::parse(&out), Some(heartbeat));
            // Up to the end of revision 1's fields.
            let old_len = 1 + 4 + varint_len(echo.unwrap_or_default().1) + 4 + 1;
            for len in 0..old_len {
                assert_eq!(Heartbeat::parse(&out[..len]), None);
            }
            let old = Heartbeat { frames_stale: 0, picture_age_ms: None, bulk: None, ..heartbeat };
            assert_eq!(Heartbeat::parse(&out[..old_len]), Some(old));
            // And of revision 2's.
            let without = Heartbeat { bulk: None, ..heartbeat };
            assert_eq!(Heartbeat::parse(&out[..out.len() - 9]), Some(without));
        }
    }

    #[test]
    fn a_piece_of_bulk_round_trip() {
        let piece = BulkPiece { stream: 1 << 30, offset: 70 };
        let mut out = Vec::new();
        piece.put(&mut out);
        let len = out.len();
        assert_eq!(len, piece.encoded_len());
        out.extend_from_slice(b"bytes");
        assert_eq!(BulkPiece::parse(&out), Some((piece, &b"bytes"[..])));
        (0..len).for_each(|len| assert_eq!(BulkPiece::parse(&out[..len]), None));
    }

    #[test]
    fn wrapped_clocks_and_sequence_numbers_are_taken_nearest() {
        assert_eq!(unwrap_us(u64::from(u32::MAX), 3), u64::from(u32::MAX) + 4);
        assert_eq!(unwrap_us((1 << 32) + 3, u32::MAX), u64::from(u32::MAX));
        assert_eq!(unwrap_us(0, 7), 7);
        assert_eq!(unwrap_seq(65_535, 0), 65_536);
        assert_eq!(unwrap_seq(65_536, 65_535), 65_535);
        assert_eq!(unwrap_seq(0, 65_535), 0, "nothing comes before the first");
    }
}
