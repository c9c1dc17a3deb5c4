//! Segments on a serial line, where bits flip and bytes get lost, and no byte can be kept for a delimiter.
//!
//! ```text
//! sync word 4: 1a cf fc 1d | length 3: 12 bits in the Golay code (24, 12) | segment
//! ```
//!
//! The sync word is CCSDS's (131.0-B-4 §9), and is taken with up to three wrong bits. Noise has one in 780,000 bytes.
//! Whether there is a frame behind it is decided by what the segment's own codes say, not by the sync word alone.

mod deframer;
mod golay;
mod radio;

pub use deframer::{Deframer, LineCounters, LineEvent};

use crate::aerotp::header::HEADER_LEN;

/// Longest segment that a frame carries, in bytes.
pub const MAX_LINE_SEGMENT: usize = 0xfff;

/// Bytes that a frame adds to a segment.
pub const LINE_OVERHEAD: usize = SYNC_LEN + LENGTH_LEN;

/// The segment is longer than [`MAX_LINE_SEGMENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a segment of {0} bytes is too long for a serial line")]
pub struct TooLongForLine(pub usize);

/// Appends a segment as a frame.
pub fn put_frame(out: &mut Vec<u8>, segment: &[u8]) -> Result<(), TooLongForLine> {
    let len = u16::try_from(segment.len()).ok().filter(|&len| usize::from(len) <= MAX_LINE_SEGMENT);
    let len = len.ok_or(TooLongForLine(segment.len()))?;
    out.extend_from_slice(&SYNC.to_be_bytes());
    out.extend_from_slice(&golay::encode(len));
    out.extend_from_slice(segment);
    Ok(())
}

const SYNC: u32 = 0x1acf_fc1d;
const SYNC_LEN: usize = 4;
const LENGTH_LEN: usize = 3;

/// Wrong bits in the sync word of the first four bytes; 32 of fewer bytes.
fn sync_errors(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(32, |word| (u32::from_be_bytes(*word) ^ SYNC).count_ones())
}

/// What the bytes from a sync word on can be.
#[derive(Debug, PartialEq, Eq)]
enum Candidate {
    /// No frame: the length is beyond repair, or shorter than a header.
    None,
    /// The length or the segment is not all there.
    Incomplete,
    /// A frame of this many bytes.
    Complete(usize),
}

fn candidate(bytes: &[u8]) -> Candidate {
    let Some(&[_, _, _, _, a, b, c]) = bytes.first_chunk::<LINE_OVERHEAD>() else { return Candidate::Incomplete };
    match golay::decode([a, b, c]).map(usize::from) {
        Some(len) if len < HEADER_LEN => Candidate::None,
        Some(len) if LINE_OVERHEAD + len <= bytes.len() => Candidate::Complete(LINE_OVERHEAD + len),
        Some(_) => Candidate::Incomplete,
        None => Candidate::None,
    }
}

#[cfg(test)]
mod tests;
