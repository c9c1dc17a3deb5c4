//! Receipts: which control messages have arrived, over whatever bearer.

use bytes::BufMut;

use super::take_u64;
use super::varint::{put_varint, take_varint};

/// Body of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Which life of the messages' sender.
    pub epoch: u64,
    /// A message that has arrived.
    pub newest: u64,
    /// Bit n: message `newest - 1 - n` has arrived as well.
    pub before: u64,
}

impl Receipt {
    /// Messages that one can tell of.
    pub const SPAN: u64 = 1 + u64::BITS as u64;

    /// Writes the body.
    pub fn put(&self, out: &mut impl BufMut) {
        put_varint(out, self.epoch);
        put_varint(out, self.newest);
        out.put_u64(self.before);
    }

    /// Reads a body; bytes after it are ignored, for later versions.
    pub fn parse(mut bytes: &[u8]) -> Option<Self> {
        let (epoch, newest) = (take_varint(&mut bytes)?, take_varint(&mut bytes)?);
        Some(Self { epoch, newest, before: take_u64(&mut bytes)? })
    }

    /// Sequence numbers that have arrived, newest first.
    pub fn messages(self) -> impl Iterator<Item = u64> {
        let before = (0..u64::from(u64::BITS)).filter(move |bit| self.before >> bit & 1 == 1);
        std::iter::once(self.newest).chain(before.filter_map(move |bit| self.newest.checked_sub(1 + bit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_truncation() {
        let receipt = Receipt { epoch: 1 << 40, newest: 9, before: 0b1_0000_0101 };
        let mut out = Vec::new();
        receipt.put(&mut out);
        assert_eq!(Receipt::parse(&out), Some(receipt));
        for len in 0..out.len() {
            assert_eq!(Receipt::parse(&out[..len]), None);
        }
        assert_eq!(receipt.messages().collect::<Vec<_>>(), [9, 8, 6, 0]);
        // There is nothing before the first message, whatever a peer says.
        let lie = Receipt { newest: 2, before: u64::MAX, ..receipt };
        assert_eq!(lie.messages().collect::<Vec<_>>(), [2, 1, 0]);
    }
}
