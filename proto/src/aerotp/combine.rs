//! One segment from several damaged copies of it.

use aquila_fec::combine::{combine, combine_coded};
use aquila_fec::crc32c;
use aquila_fec::rs::Interleaved;

use super::header::{Ecn, HEADER_LEN, Header};
use super::hec::remainder;
use super::segment::{SegmentCodec, check, covered_len};

/// Copies that are looked at; the last ones, if there are more.
const MAX_COPIES: usize = 6;

/// Puts a segment together from two or more damaged copies of it, as [`SegmentCodec::decode`] has left them: equally long,
/// with the same parity, and of the same segment, which nobody but the caller can know. The segment has an ECN of zero.
///
/// With parity each codeword is looked for in all copies and their combinations; with a CRC also the choices between the
/// bits in which the copies differ. What comes out has a fitting header, and a fitting CRC if it has one. Wrong ones are
/// possible with a chance of one in a million, and do not open.
pub fn combine_segments(codec: &mut SegmentCodec, copies: &[&[u8]]) -> Option<Vec<u8>> {
    let copies = &copies[copies.len().saturating_sub(MAX_COPIES)..];
    let len = copies.first().filter(|_| copies.len() >= 2)?.len();
    if copies.iter().any(|copy| copy.len() != len) {
        return None;
    }
    let headers = || copies.iter().filter_map(|copy| Header::decode(copy).ok());
    let legible: Vec<Header> = headers().filter(|header| header.segment_len() == len).collect();
    let known = legible.first().map(|header| header.parity_words);
    if legible.iter().any(|header| Some(header.parity_words) != known) {
        return None;
    }
    let copies: Vec<Vec<u8>> = copies.iter().map(|copy| without_ecn(copy)).collect();
    let copies: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
    let without = [0];
    let tried = if let Some(known) = &known { std::slice::from_ref(known) } else { codec.seen() };
    let combined = tried.iter().chain(&without).find_map(|&words| combined(&copies, words));
    if combined.is_some() {
        codec.on_combined();
    }
    combined
}

/// The segment, if it has so much parity.
fn combined(copies: &[&[u8]], words: u16) -> Option<Vec<u8>> {
    let fits = |bytes: &[u8]| check(bytes).is_ok_and(|header| header.parity_words == words);
    let data_len = copies[0].len().checked_sub(4 * usize::from(words)).filter(|&len| len > HEADER_LEN)?;
    let code = Interleaved::new(data_len, words).ok()?;
    let mut out = Vec::new();
    if words > 0 && combine_coded(&code, copies, fits, &mut out).is_ok() {
        return Some(out);
    }
    let without_parity: Vec<&[u8]> = copies.iter().map(|copy| &copy[..data_len]).collect();
    combine(&without_parity, &mut out).ok()?;
    out.resize(code.coded_len(), 0);
    let (data, parity) = out.split_at_mut(data_len);
    code.encode(data, parity).ok()?;
    fits(&out).then_some(out)
}

/// A copy as it would be if no hop had set its ECN, so that copies by different ways differ in wrong bits only. All checks
/// are linear, so what a bit changes in them is known without knowing the rest, damaged as it may be. A copy whose header
/// cannot be read is left as it is.
fn without_ecn(copy: &[u8]) -> Vec<u8> {
    let mut out = copy.to_vec();
    let Some(header) = Header::decode(copy).ok().filter(|header| header.segment_len() == copy.len()) else {
        return out;
    };
    if header.ecn == Ecn::None {
        return out;
    }
    let mut change = vec![0; copy.len()];
    change[ECN_BYTE] = copy[ECN_BYTE] & 0xc0;
    let hec = remainder(0, &change[..HEADER_LEN - 2]).to_be_bytes();
    change[HEADER_LEN - 2..HEADER_LEN].copy_from_slice(&hec);
    let (data, parity) = change.split_at_mut(covered_len(&header));
    if header.has_crc {
        let (body, crc) = data.split_at_mut(data.len() - 4);
        let nothing = crc32c(&vec![0; body.len()]);
        crc.copy_from_slice(&(crc32c(body) ^ nothing).to_be_bytes());
    }
    if Interleaved::new(data.len(), header.parity_words).is_ok_and(|code| code.encode(data, parity).is_ok()) {
        out.iter_mut().zip(&change).for_each(|(out, change)| *out ^= change);
    }
    out
}

/// Where the header has the ECN, in the upper two bits.
const ECN_BYTE: usize = 13;
