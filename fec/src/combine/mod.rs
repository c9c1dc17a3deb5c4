//! One good packet from several damaged copies of it.
//!
//! Copies of a packet that were damaged independently differ where one of them is wrong: at a bit error rate of 1e-4, two
//! copies of 1500 bytes in 2.4 bits on average. [`combine`] tries the choices between them against a CRC-32C. A CRC is
//! linear: what a bit changes in it depends on where the bit is and on nothing else, so that each of the 2^d choices
//! costs one exclusive or, in the order of a Gray code.
//!
//! A choice that is wrong has the right CRC with a chance of 2^-32, so one of d bits is false with 2^(d - 32) at most:
//! 1e-6 for [`MAX_DOUBTFUL`]. What must not be false is authenticated besides.
//!
//! [`combine_coded`] does the same for copies with Reed-Solomon parity, of which none could be corrected alone.
//!
//! ```
//! use aquila_fec::{combine::combine, crc32c};
//!
//! # fn main() -> Result<(), aquila_fec::combine::CombineError> {
//! let sent = [&b"go home"[..], &crc32c(b"go home").to_be_bytes()].concat();
//! let (mut one, mut other) = (sent.clone(), sent.clone());
//! one[0] ^= 0x20;
//! other[6] ^= 0x01;
//! let mut out = Vec::new();
//! combine(&[&one, &other], &mut out)?;
//! assert_eq!(out, sent);
//! # Ok(())
//! # }
//! ```

mod coded;
mod crc;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use coded::combine_coded;
use crc::effect;

/// Most bits between whose values a choice is tried.
pub const MAX_DOUBTFUL: usize = 12;

/// Why there is no packet.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CombineError {
    /// It takes two copies at least.
    #[error("{0} copies are too few")]
    TooFew(usize),
    /// The copies are not equally long, or not as long as a CRC or the code.
    #[error("the copies are not of one length that is long enough")]
    Lengths,
    /// More than [`MAX_DOUBTFUL`] bits are in doubt, or a codeword is beyond its code.
    #[error("the copies differ too much")]
    TooDifferent,
    /// All choices fail: the copies have a wrong bit in common.
    #[error("no choice passes the check")]
    NoChoice,
    /// More than one choice passes, so one of them is false.
    #[error("more than one choice passes the check")]
    Ambiguous,
}

/// Combines copies that end with the CRC-32C of what is before it, in network byte order, into `out`, which becomes as
/// long as they are.
///
/// With three copies or more it is the majority of each bit that is doubted least: if it has the right CRC, it is the
/// packet. Otherwise choices are tried among the bits on which copies disagree, and if these are more than
/// [`MAX_DOUBTFUL`], among those with the closest votes.
///
/// On an error `out` has nothing of use.
pub fn combine(copies: &[&[u8]], out: &mut Vec<u8>) -> Result<(), CombineError> {
    if copies.iter().any(|copy| copy.len() < 4) {
        return Err(CombineError::Lengths);
    }
    let split = |n: usize| copies[n].split_last_chunk::<4>().unwrap_or((copies[n], &[0; 4]));
    let crc = choose(copies.len(), |n| split(n).0, |n| u32::from_be_bytes(*split(n).1), out)?;
    out.extend_from_slice(&crc.to_be_bytes());
    Ok(())
}

/// The same for copies whose CRCs, one for each, came apart from them and may be damaged as well. Returns the CRC.
pub fn combine_with(copies: &[&[u8]], crcs: &[u32], out: &mut Vec<u8>) -> Result<u32, CombineError> {
    if crcs.len() != copies.len() {
        return Err(CombineError::Lengths);
    }
    choose(copies.len(), |n| copies[n], |n| crcs[n], out)
}

/// A bit on which copies disagree.
#[derive(Clone, Copy)]
struct Doubtful {
    /// Place of the byte; the four after the last are those of the CRC.
    at: usize,
    /// The bit, 0 the lowest.
    bit: u8,
    /// How many copies are against what is taken.
    against: usize,
}

/// Writes the packet without its CRC to `out`, and returns the CRC.
fn choose<'a>(
    count: usize,
    body: impl Fn(usize) -> &'a [u8],
    crc: impl Fn(usize) -> u32,
    out: &mut Vec<u8>,
) -> Result<u32, CombineError> {
    if count < 2 {
        return Err(CombineError::TooFew(count));
    }
    let len = body(0).len();
    if (1..count).any(|n| body(n).len() != len) {
        return Err(CombineError::Lengths);
    }
    out.clear();
    out.extend_from_slice(body(0));
    let mut taken_crc = crc(0).to_be_bytes();
    let mut doubtful = Doubts::default();
    for (at, byte) in out.iter_mut().enumerate() {
        vote(at, byte, count, |n| body(n)[at], &mut doubtful);
    }
    for (at, byte) in taken_crc.iter_mut().enumerate() {
        vote(len + at, byte, count, |n| crc(n).to_be_bytes()[at], &mut doubtful);
    }
    let taken_crc = u32::from_be_bytes(taken_crc);
    let wrong = crc32c::crc32c(out) ^ taken_crc;
    if wrong == 0 {
        return Ok(taken_crc);
    }
    let doubtful = doubtful.closest()?;
    let mut effects = [0; MAX_DOUBTFUL];
    for (effect, doubtful) in effects.iter_mut().zip(doubtful) {
        *effect = change(doubtful, len);
    }
    let flips = only_choice(wrong, &effects[..doubtful.len()])?;
    let mut chosen_crc = taken_crc;
    for (n, doubtful) in doubtful.iter().enumerate().filter(|(n, _)| flips >> n & 1 != 0) {
        match out.get_mut(doubtful.at) {
            Some(byte) => *byte ^= 1 << doubtful.bit,
            None => chosen_crc ^= effects[n],
        }
    }
    Ok(chosen_crc)
}

/// Makes a byte the majority of its copies, the first one's where votes are even, and notes what was not unanimous.
#[inline]
fn vote(at: usize, byte: &mut u8, count: usize, copy: impl Fn(usize) -> u8, doubtful: &mut Doubts) {
    let differ = (1..count).fold(0, |differ, n| differ | *byte ^ copy(n));
    if differ == 0 {
        return;
    }
    let first = *byte;
    for bit in (0..8).filter(|bit| differ >> bit & 1 != 0) {
        let against = (1..count).filter(|n| (first ^ copy(*n)) >> bit & 1 != 0).count();
        if 2 * against > count {
            *byte ^= 1 << bit;
        }
        doubtful.push(Doubtful { at, bit, against: against.min(count - against) });
    }
}

/// The bits in doubt with the closest votes, as many as can be tried.
#[derive(Default)]
struct Doubts {
    /// Sorted, the closest votes first.
    kept: Vec<Doubtful>,
    /// The closest vote of those for which there was no room.
    lost: usize,
}

impl Doubts {
    fn push(&mut self, doubtful: Doubtful) {
        let at = self.kept.partition_point(|other| other.against >= doubtful.against);
        self.kept.insert(at, doubtful);
        if self.kept.len() > MAX_DOUBTFUL {
            self.lost = self.lost.max(self.kept.pop().map_or(0, |lost| lost.against));
        }
    }

    /// Without those whose votes are as close as one that was lost.
    fn closest(&self) -> Result<&[Doubtful], CombineError> {
        let end = self.kept.partition_point(|doubtful| doubtful.against > self.lost);
        if end == 0 && self.lost > 0 { Err(CombineError::TooDifferent) } else { Ok(&self.kept[..end]) }
    }
}

/// What a bit changes in the difference between the CRC and what it should be.
fn change(doubtful: &Doubtful, len: usize) -> u32 {
    match doubtful.at.checked_sub(len) {
        None => effect(len - 1 - doubtful.at, doubtful.bit),
        Some(at) => 1 << (8 * (3 - at) + usize::from(doubtful.bit)),
    }
}

/// The one choice of effects, at most 31, that add up to `wrong`, which is not 0.
fn only_choice(wrong: u32, effects: &[u32]) -> Result<u32, CombineError> {
    let (mut left, mut flips, mut found) = (wrong, 0, None);
    for step in 1..1u32 << effects.len() {
        // From one word of a Gray code to the next, one bit changes.
        let next = step.trailing_zeros() as usize;
        left ^= effects[next];
        flips ^= 1 << next;
        if left == 0 && found.replace(flips).is_some() {
            return Err(CombineError::Ambiguous);
        }
    }
    found.ok_or(CombineError::NoChoice)
}
