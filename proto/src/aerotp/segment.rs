//! Whole segments: header, extension, ciphertext, CRC and parity.
//!
//! ```text
//! header 20 | extension words 4*XL | ciphertext | tag 16 | CRC-32C 4 (if C) | parity 4*W (if F)
//! ```

use super::header::{HEADER_LEN, Header, HeaderError};

/// Longest segment in bytes: header, 65535 of payload, CRC and all the parity there can be.
pub const MAX_SEGMENT: usize = HEADER_LEN + u16::MAX as usize + 4 + 4 * super::MAX_PARITY_WORDS as usize;

/// Puts segments together and takes them apart, mending what the parity allows.
#[derive(Debug, Default)]
pub struct SegmentCodec {
    counters: SegmentCounters,
}

/// What a [`SegmentCodec`] has seen. All wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentCounters {
    /// Segments with a header, a CRC or parity that did not fit at first.
    pub damaged: u64,
    /// Of those, mended by their parity.
    pub corrected_segments: u64,
    /// Wrong bytes in the mended ones.
    pub corrected_symbols: u64,
    /// Wrong bits in the mended ones.
    pub flipped_bits: u64,
    /// Given out as [`Damaged::Payload`].
    pub damaged_payloads: u64,
    /// Given out as [`Damaged::Unrecognisable`].
    pub unrecognisable: u64,
}

/// A segment whose header and CRC, if it has one, fit. Nothing is authenticated yet.
#[derive(Debug)]
pub struct Decoded<'a> {
    /// The header.
    pub header: Header,
    /// The extension words, a multiple of 4 bytes up to 60.
    pub extension: &'a [u8],
    /// Ciphertext and tag.
    pub sealed: &'a mut [u8],
    /// What the parity mended.
    pub repaired: Repaired,
}

/// What was wrong in a segment and is mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Wrong bytes.
    pub symbols: u32,
    /// Wrong bits in them.
    pub bits: u32,
}

/// Why bytes are not a segment that can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damaged {
    /// Neither header nor parity make sense, or header and length contradict each other.
    Unrecognisable,
    /// The header is intact and the length fits, but the payload is beyond repair: the sequence number is known.
    Payload(Header),
}

/// Appends a segment to `out`. Sets `extension_words` and `payload_len` of the header; [`super::Security::seal`] has set
/// them the same.
///
/// # Panics
///
/// If the extension is not a whole number of words up to 15, or the payload is longer than 65535 bytes.
pub fn encode_segment(
    codec: &mut SegmentCodec,
    header: &mut Header,
    extension: &[u8],
    sealed: &[u8],
    out: &mut Vec<u8>,
) {
    assert!(extension.len().is_multiple_of(4) && extension.len() <= 60, "up to 15 extension words");
    header.extension_words = (extension.len() / 4) as u8;
    header.payload_len = u16::try_from(extension.len() + sealed.len()).expect("the payload is shorter than 64 kB");
    header.parity_words = 0;
    let start = out.len();
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(extension);
    out.extend_from_slice(sealed);
    if header.has_crc {
        let crc = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_be_bytes());
    }
    let _ = codec;
}

impl SegmentCodec {
    /// A codec that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What it has seen.
    pub fn counters(&self) -> SegmentCounters {
        self.counters
    }

    /// Takes one segment apart, in place. `bytes` are exactly one segment.
    pub fn decode<'a>(&mut self, bytes: &'a mut [u8]) -> Result<Decoded<'a>, Damaged> {
        match check(bytes) {
            Ok(header) => Ok(split(header, bytes, Repaired::default())),
            Err(damaged) => {
                self.counters.damaged += 1;
                match damaged {
                    Damaged::Unrecognisable => self.counters.unrecognisable += 1,
                    Damaged::Payload(_) => self.counters.damaged_payloads += 1,
                }
                Err(damaged)
            }
        }
    }
}

/// The header, if it, the length and the CRC fit.
fn check(bytes: &[u8]) -> Result<Header, Damaged> {
    let header = Header::decode(bytes).map_err(|_: HeaderError| Damaged::Unrecognisable)?;
    if header.segment_len() != bytes.len() {
        return Err(Damaged::Unrecognisable);
    }
    if header.has_crc {
        let (covered, rest) = bytes.split_at(HEADER_LEN + usize::from(header.payload_len));
        if crc32c::crc32c(covered).to_be_bytes() != rest[..4] {
            return Err(Damaged::Payload(header));
        }
    }
    Ok(header)
}

/// The parts of a segment whose length fits its header.
fn split(header: Header, bytes: &mut [u8], repaired: Repaired) -> Decoded<'_> {
    let payload = &mut bytes[HEADER_LEN..HEADER_LEN + usize::from(header.payload_len)];
    let (extension, sealed) = payload.split_at_mut(header.extension_len());
    Decoded { header, extension, sealed, repaired }
}
