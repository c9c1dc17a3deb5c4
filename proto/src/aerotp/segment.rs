//! Whole segments: header, extension, ciphertext, CRC and parity.
//!
//! ```text
//! header 20 | extension words 4*XL | ciphertext | tag 16 | CRC-32C 4 (if C) | parity 4*W (if F)
//! ```

use aquila_fec::crc32c;
use aquila_fec::rs::Interleaved;

use super::header::{HEADER_LEN, Header, HeaderError};

/// Longest segment in bytes: header, 65535 of payload, CRC and all the parity there can be.
pub const MAX_SEGMENT: usize = HEADER_LEN + u16::MAX as usize + 4 + 4 * super::MAX_PARITY_WORDS as usize;

/// Puts segments together and takes them apart, mending what the parity allows.
#[derive(Debug, Default)]
pub struct SegmentCodec {
    /// Numbers of parity words that segments had, the last first, [`SEEN`] at most: how to mend one without a header.
    seen: Vec<u16>,
    /// Segments without a header that could not be mended, since the last segment that could or was intact.
    in_vain: u32,
    mended: Vec<u8>,
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
    /// Put together from several damaged copies.
    pub combined: u64,
    /// Given out as [`Damaged::Payload`].
    pub damaged_payloads: u64,
    /// Given out as [`Damaged::Unrecognisable`].
    pub unrecognisable: u64,
    /// Of those, with an intact header that has a reserved mode or an unknown error correction: the peer speaks something
    /// newer.
    pub reserved: u64,
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

/// What was wrong in a segment and is mended. As long as a CRC fits, the parity behind it is not looked at.
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

/// Appends a segment to `out`, with as much parity as `header` asks for, up to [`super::MAX_PARITY_WORDS`]; with none if
/// the segment is longer than 65535 bytes. Sets `extension_words` and `payload_len` of the header;
/// [`super::Security::seal`] has set them the same.
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
    header.parity_words = header.parity_words.min(super::MAX_PARITY_WORDS);
    let code = Interleaved::new(covered_len(header), header.parity_words);
    header.parity_words = code.map_or(0, |_| header.parity_words);
    let start = out.len();
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(extension);
    out.extend_from_slice(sealed);
    if header.has_crc {
        let crc = crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_be_bytes());
    }
    if let Ok(code) = code {
        codec.mended.resize(code.parity_len(), 0);
        code.encode(&out[start..], &mut codec.mended).expect("the code is made for these lengths");
        out.extend_from_slice(&codec.mended);
    }
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

    /// Takes one segment apart, in place. `bytes` are exactly one segment; if they are damaged beyond repair they are left
    /// as they were, for [`super::combine_segments`].
    ///
    /// Of a segment whose header cannot be read, the parity is tried that the last segments had. That costs up to
    /// four corrections, so it is given up after 64 in vain until a segment is understood again.
    pub fn decode<'a>(&mut self, bytes: &'a mut [u8]) -> Result<Decoded<'a>, Damaged> {
        let damaged = match check(bytes) {
            Ok(header) if header.has_crc || header.parity_words == 0 => {
                self.understood(&header);
                return Ok(split(header, bytes, Repaired::default()));
            }
            // Without a CRC only the parity can tell.
            Ok(header) => Damaged::Payload(header),
            Err(damaged) => damaged,
        };
        let mended = match damaged {
            Damaged::Payload(header) => self.mend(bytes, header.parity_words),
            Damaged::Unrecognisable => self.mend_blindly(bytes),
        };
        if let Some(header) = mended {
            self.understood(&header);
            let repaired = Repaired::between(bytes, &self.mended);
            self.counters.damaged += u64::from(repaired.symbols > 0);
            self.counters.corrected_segments += u64::from(repaired.symbols > 0);
            self.counters.corrected_symbols += u64::from(repaired.symbols);
            self.counters.flipped_bits += u64::from(repaired.bits);
            bytes.copy_from_slice(&self.mended);
            return Ok(split(header, bytes, repaired));
        }
        self.counters.damaged += 1;
        match damaged {
            Damaged::Payload(_) => self.counters.damaged_payloads += 1,
            Damaged::Unrecognisable => {
                let reserved = matches!(Header::decode(bytes), Err(HeaderError::Mode(_) | HeaderError::Scheme(_)));
                self.counters.unrecognisable += 1;
                self.counters.reserved += u64::from(reserved);
            }
        }
        Err(damaged)
    }

    /// Numbers of parity words that segments had, the last first.
    pub(super) fn seen(&self) -> &[u16] {
        &self.seen
    }

    /// Says that segments will have so many words of parity, so that the first can be mended without its header.
    pub fn expect_parity(&mut self, words: u16) {
        if words > 0 && words <= super::MAX_PARITY_WORDS {
            self.seen.retain(|&seen| seen != words);
            self.seen.insert(0, words);
            self.seen.truncate(SEEN);
        }
    }

    pub(super) fn on_combined(&mut self) {
        self.counters.combined += 1;
    }

    fn understood(&mut self, header: &Header) {
        self.in_vain = 0;
        if header.parity_words > 0 && self.seen.first() != Some(&header.parity_words) {
            self.expect_parity(header.parity_words);
        }
    }

    fn mend_blindly(&mut self, bytes: &[u8]) -> Option<Header> {
        if self.in_vain >= MAX_IN_VAIN {
            return None;
        }
        self.in_vain += 1;
        (0..self.seen.len()).find_map(|place| self.mend(bytes, self.seen[place]))
    }

    /// Corrects into `mended`; the header, if it, the CRC and the parity fit then.
    fn mend(&mut self, bytes: &[u8], words: u16) -> Option<Header> {
        let data_len = bytes.len().checked_sub(4 * usize::from(words)).filter(|_| words > 0)?;
        let code = Interleaved::new(data_len, words).ok()?;
        self.mended.clear();
        self.mended.extend_from_slice(bytes);
        code.correct(&mut self.mended).ok()?;
        check(&self.mended).ok().filter(|header| header.parity_words == words)
    }
}

impl Repaired {
    fn between(damaged: &[u8], mended: &[u8]) -> Self {
        let wrong = damaged.iter().zip(mended).map(|(damaged, mended)| damaged ^ mended).filter(|&wrong| wrong != 0);
        wrong.fold(Self::default(), |all, wrong| Self { symbols: all.symbols + 1, bits: all.bits + wrong.count_ones() })
    }
}

/// The header, if it, the length and the CRC fit.
pub(super) fn check(bytes: &[u8]) -> Result<Header, Damaged> {
    let header = Header::decode(bytes).map_err(|_: HeaderError| Damaged::Unrecognisable)?;
    if header.segment_len() != bytes.len() {
        return Err(Damaged::Unrecognisable);
    }
    if header.has_crc {
        let (covered, rest) = bytes.split_at(HEADER_LEN + usize::from(header.payload_len));
        if crc32c(covered).to_be_bytes() != rest[..4] {
            return Err(Damaged::Payload(header));
        }
    }
    Ok(header)
}

/// Bytes that the parity covers.
pub(super) fn covered_len(header: &Header) -> usize {
    HEADER_LEN + usize::from(header.payload_len) + header.crc_len()
}

/// The parts of a segment whose length fits its header.
fn split(header: Header, bytes: &mut [u8], repaired: Repaired) -> Decoded<'_> {
    let payload = &mut bytes[HEADER_LEN..HEADER_LEN + usize::from(header.payload_len)];
    let (extension, sealed) = payload.split_at_mut(header.extension_len());
    Decoded { header, extension, sealed, repaired }
}

/// Numbers of parity words that are remembered.
const SEEN: usize = 4;

/// Segments without a header that are tried to be mended in vain.
const MAX_IN_VAIN: u32 = 64;

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
