//! History: which of the datagrams before a report have arrived, a bit each.
//!
//! A report with arrival times is repeated once. Where half of the reports are lost, that leaves a quarter of the datagrams
//! untold, and who takes them for lost sends again what is there. A bit a datagram over the last thousand is cheap enough to be
//! said again and again.
//!
//! After the flow id: the sequence number behind the last that it tells of (16 bits), then bits, most significant first: whether
//! the one before that has arrived, the one before it, and so on.

use bytes::BufMut;

use super::{flow, take_u16};

/// Which of the datagrams before `end` have arrived.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// Sequence number behind the last that is told of.
    pub end: u16,
    /// Bits, most significant first, newest datagram first; at most [`History::MAX_BYTES`].
    pub bits: Vec<u8>,
}

impl History {
    /// Longest, in bytes of bits.
    pub const MAX_BYTES: usize = 128;

    /// Writes flow id and history.
    pub fn put(&self, out: &mut impl BufMut) {
        flow::put(out, flow::HISTORY);
        out.put_u16(self.end);
        out.put_slice(&self.bits[..self.bits.len().min(Self::MAX_BYTES)]);
    }

    /// Reads a history without its flow id; `None` if it is too short or too long.
    pub fn parse(mut bytes: &[u8]) -> Option<Self> {
        let end = take_u16(&mut bytes)?;
        (!bytes.is_empty() && bytes.len() <= Self::MAX_BYTES).then(|| Self { end, bits: bytes.to_vec() })
    }

    /// How many datagrams it tells of.
    pub fn len(&self) -> usize {
        8 * self.bits.len()
    }

    /// Whether it tells of none.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// Notes that the datagram `back` places before the end has arrived, the last being 0. Beyond what it tells of nothing happens.
    pub fn set(&mut self, back: usize) {
        if let Some(byte) = self.bits.get_mut(back / 8) {
            *byte |= 0x80 >> (back % 8);
        }
    }

    /// Whether the datagram `back` places before the end has arrived; `None` if nothing is said of it.
    pub fn get(&self, back: usize) -> Option<bool> {
        Some(self.bits.get(back / 8)? & (0x80 >> (back % 8)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_what_is_too_short_or_too_long_is_refused() {
        let mut history = History { end: 7, bits: vec![0; 3] };
        [0, 9, 23, 24].into_iter().for_each(|back| history.set(back));
        let mut out = Vec::new();
        history.put(&mut out);
        assert_eq!(out, [flow::HISTORY as u8, 0, 7, 0x80, 0x40, 0x01]);
        let read = History::parse(&out[1..]).unwrap();
        assert_eq!(read, history);
        let arrived: Vec<usize> = (0..30).filter(|back| read.get(*back) == Some(true)).collect();
        assert_eq!((arrived, read.get(24), read.len()), (vec![0, 9, 23], None, 24));
        (0..=2).for_each(|len| assert_eq!(History::parse(&out[1..1 + len]), None));
        assert!(History::parse(&[0; 2 + History::MAX_BYTES]).is_some());
        assert_eq!(History::parse(&[0; 3 + History::MAX_BYTES]), None);
    }
}
