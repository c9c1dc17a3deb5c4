//! Receipts: signed, and cumulative, so that any one of them tells all that those before it told.

use bytes::{BufMut, Bytes};

use super::manifest::{StoreId, signature, take, verify};
use super::ranges::Ranges;
use crate::identity::{Identity, PublicKey};
use crate::wire::varint::{MAX_VARINT, put_varint, take_varint};

/// What is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confirms {
    /// The issuer has the objects on its disk, verified, and answers for them.
    Custody,
    /// They are where they were meant to go.
    Delivery,
}

/// Which of a store's objects somebody has, or has delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// What.
    pub confirms: Confirms,
    /// Whose signature it is.
    pub issuer: PublicKey,
    /// The store that the objects come from.
    pub source: StoreId,
    /// Numbers of the objects, at most [`Receipt::MAX_RANGES`] ranges.
    pub numbers: Ranges,
}

/// Why bytes are no receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// They are no receipt, or one of a later version.
    #[error("not a receipt, or one of a later version")]
    Malformed,
    /// Not signed by the key that it names.
    #[error("a signature that is wrong")]
    Signature,
}

const MAGIC: &[u8; 4] = b"aqR1";
const CONTEXT: &[u8] = b"aquila receipt 1\0";
const SIGNATURE: usize = 64;

impl Receipt {
    /// Most ranges in one; further ones are left out, the oldest first, until those before them have closed up.
    pub const MAX_RANGES: usize = 48;

    /// Writes and signs it; the identity's key takes the place of `issuer`.
    pub fn sign(&self, identity: &Identity) -> Bytes {
        let mut out = Vec::with_capacity(128);
        out.put_slice(MAGIC);
        out.put_u8(self.confirms as u8);
        out.put_slice(&identity.public().0);
        out.put_slice(&self.source.0);
        let left_out = self.numbers.iter().len().saturating_sub(Self::MAX_RANGES);
        let mut before = 0;
        for (start, end) in self.numbers.iter().skip(left_out) {
            put_varint(&mut out, start - before);
            put_varint(&mut out, end - start);
            before = end;
        }
        out.put_slice(&signature(identity, CONTEXT, &out));
        out.into()
    }

    /// Reads a receipt and checks its signature. Whether the issuer is one to be trusted is another question.
    ///
    /// # Errors
    /// If it is none, or signed by nobody.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReceiptError> {
        let split = bytes.len().checked_sub(SIGNATURE).ok_or(ReceiptError::Malformed)?;
        let (signed, signature) = bytes.split_at(split);
        let receipt = Self::read(signed).ok_or(ReceiptError::Malformed)?;
        verify(&receipt.issuer, CONTEXT, signed, signature).then_some(receipt).ok_or(ReceiptError::Signature)
    }

    fn read(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let (magic, [confirms]) = (take::<4>(rest)?, take(rest)?);
        let confirms = *[Confirms::Custody, Confirms::Delivery].get(usize::from(confirms))?;
        let issuer = PublicKey(take(rest)?);
        let source = StoreId(take(rest)?);
        let (mut numbers, mut before) = (Ranges::default(), 0u64);
        while !rest.is_empty() {
            let start = before.checked_add(take_varint(rest)?)?;
            let end = start.checked_add(take_varint(rest)?)?;
            if end <= start || end > MAX_VARINT || numbers.iter().len() == Self::MAX_RANGES {
                return None;
            }
            numbers.insert(start, end);
            before = end;
        }
        (magic == *MAGIC).then_some(Self { confirms, issuer, source, numbers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_nothing_else_is_taken() {
        let identity = Identity::from_seed([7; 32]);
        let mut numbers = Ranges::of(1, 500);
        numbers.insert(700, 701);
        let receipt =
            Receipt { confirms: Confirms::Delivery, issuer: identity.public(), source: StoreId([3; 8]), numbers };
        let bytes = receipt.sign(&identity);
        assert_eq!(Receipt::parse(&bytes), Ok(receipt.clone()));
        for at in 0..bytes.len() {
            assert!(Receipt::parse(&bytes[..at]).is_err());
            let mut wrong = bytes.to_vec();
            wrong[at] ^= 0x10;
            assert!(Receipt::parse(&wrong).is_err(), "byte {at}");
        }
        let mut many = receipt;
        many.numbers = Ranges::default();
        for n in 0..100 {
            many.numbers.insert(2 * n + 1, 2 * n + 2);
        }
        let read = Receipt::parse(&many.sign(&identity)).unwrap();
        assert_eq!(read.numbers.iter().len(), Receipt::MAX_RANGES);
        assert!(read.numbers.contains(199) && !read.numbers.contains(1), "the newest are told");
    }
}
