//! A whole frame: packets one after the other in one buffer, each behind its length as a QUIC varint.

use std::time::Instant;

use bytes::{Buf, BufMut, Bytes};

use crate::wire::varint::{put_varint, take_varint, varint_len};

/// A frame as it came from the camera.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VideoFrame {
    /// Frame number; increases over the life of a [`Reassembler`](super::Reassembler), also when the sender starts anew.
    pub number: u64,
    /// The packets, byte-identical and in the order in which the camera sent them.
    pub packets: Packets,
    /// Decoding can start here.
    pub recovery_point: bool,
    /// No other frame refers to this one.
    pub disposable: bool,
    /// When the first of its fragments came in.
    pub first_fragment: Instant,
    /// When the last of its fragments came in.
    pub completed: Instant,
    /// When its first packet would have been here, had nothing waited anywhere: now less this is the frame's age over
    /// propagation.
    pub born: Instant,
}

/// The packets of a frame, as slices of one shared buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packets {
    rest: Bytes,
    left: usize,
}

impl Packets {
    /// Takes the bytes of a whole frame; `None` if the lengths in it do not add up or a packet is empty.
    pub(super) fn new(frame: Bytes) -> Option<Self> {
        let (mut rest, mut left) = (&frame[..], 0);
        while !rest.is_empty() {
            let len = usize::try_from(take_varint(&mut rest)?).ok().filter(|len| *len > 0)?;
            rest = rest.get(len..)?;
            left += 1;
        }
        (left > 0).then_some(Self { rest: frame, left })
    }

    /// Bytes of the packets that are left, their lengths included.
    pub fn byte_len(&self) -> usize {
        self.rest.len()
    }
}

impl Iterator for Packets {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut rest = &self.rest[..];
        let len = usize::try_from(take_varint(&mut rest)?).ok()?;
        self.rest.advance(self.rest.len() - rest.len());
        self.left -= 1;
        Some(self.rest.split_to(len))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Packets {}

/// Bytes that `packet` takes in a frame.
pub(super) fn framed_len(packet: &[u8]) -> usize {
    varint_len(packet.len() as u64) + packet.len()
}

/// Appends `packet` to a frame.
pub(super) fn put_packet(frame: &mut impl BufMut, packet: &[u8]) {
    put_varint(frame, packet.len() as u64);
    frame.put_slice(packet);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_as_they_went_in() {
        let packets = [vec![1], vec![2; 63], vec![3; 64], vec![4; 16_384]];
        let mut frame = Vec::new();
        for packet in &packets {
            let before = frame.len();
            put_packet(&mut frame, packet);
            assert_eq!(frame.len() - before, framed_len(packet));
        }
        let out = Packets::new(frame.into()).unwrap();
        assert_eq!(out.len(), 4);
        assert_eq!(out.map(|packet| packet.to_vec()).collect::<Vec<_>>(), packets);
    }

    #[test]
    fn lying_lengths_are_no_frame() {
        for frame in [&[][..], &[0], &[1], &[2, 7], &[1, 7, 0], &[1, 7, 0x40], &[0xff; 8]] {
            assert_eq!(Packets::new(Bytes::copy_from_slice(frame)), None, "{frame:x?}");
        }
    }
}
