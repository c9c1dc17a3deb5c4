//! The blocks of a bundle as they lie in its bytes (RFC 9171 §4.1, §4.3.2), and how one is written.
//!
//! They are counted and measured before the library makes a structure of each, and those of BPSec (RFC 9172) are hidden
//! from it: it would refuse what is covered in a way that it does not know, and we only carry that.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use hardy_bpv7::crc::{CrcType, Digest};
use hardy_cbor::decode::{self, Array, Value, parse_array, skip_value};
use hardy_cbor::encode::{Bytes as ByteString, emit_array};

use crate::read::{Limits, ReadError};

/// Arrays within arrays: a bundle, a block, a name, its parts, and room for blocks of others'.
const MAX_DEPTH: usize = 16;
/// Block integrity (RFC 9172 §3.7).
const INTEGRITY: u64 = 11;
/// Block confidentiality (RFC 9172 §3.8).
const CONFIDENTIALITY: u64 = 12;
/// Previous node, bundle age, hop count (RFC 9171 §4.4).
const CHANGING: [u64; 3] = [6, 7, 10];
/// A type that nobody has, written in one byte as those above are.
const HIDDEN: u64 = 23;
/// Flags of a block (RFC 9171 §4.2.4): without understanding it, delete the bundle, or the block.
const DELETE: u64 = 0x14;

/// What BPSec covers in a bundle.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    /// There are blocks of BPSec.
    pub any: bool,
    /// Numbers of blocks that must not change; 0 is the primary block.
    pub blocks: BTreeSet<u64>,
    /// Of those, blocks that we would have to change but cannot read.
    pub hidden: usize,
}

/// The head of a block that is not the primary one.
struct Head {
    extent: Range<usize>,
    kind: u64,
    number: u64,
    flags: u64,
    crc: u64,
    data: Range<usize>,
}

/// The bundle as the library may see it: of the same length, and with every block in its place.
pub(crate) fn open<'a>(bytes: &'a [u8], limits: &Limits) -> Result<(Cow<'a, [u8]>, Covered), ReadError> {
    let heads = heads(bytes, limits)?;
    let mut covered = Covered::default();
    let mut encrypted = BTreeSet::new();
    for head in heads.iter().filter(|head| matches!(head.kind, INTEGRITY | CONFIDENTIALITY)) {
        covered.any = true;
        let targets = targets(bytes.get(head.data.clone()).unwrap_or_default())?;
        if head.kind == CONFIDENTIALITY {
            encrypted.extend(targets.iter().copied());
        }
        covered.blocks.extend(targets);
    }
    if !covered.any {
        return Ok((bytes.into(), covered));
    }
    let mut shown = bytes.to_vec();
    for head in heads {
        let security = matches!(head.kind, INTEGRITY | CONFIDENTIALITY);
        let unreadable = CHANGING.contains(&head.kind) && encrypted.contains(&head.number);
        if security || unreadable {
            covered.hidden += usize::from(unreadable);
            let data = bytes.get(head.data).unwrap_or_default();
            let block = write(HIDDEN, head.number, head.flags & !DELETE, head.crc.into(), data);
            let block = block.filter(|block| block.len() == head.extent.len());
            let block = block.ok_or_else(|| malformed("a security block with unknown flags"))?;
            shown[head.extent].copy_from_slice(&block);
        }
    }
    Ok((shown.into(), covered))
}

/// A block, and its checksum if it has one (RFC 9171 §4.2.1, §4.3.2); `None` for a checksum that there is not.
pub(crate) fn write(kind: u64, number: u64, flags: u64, crc: CrcType, data: &[u8]) -> Option<Vec<u8>> {
    let width = match crc {
        CrcType::None => 0,
        CrcType::CRC16_X25 => 2,
        CrcType::CRC32_CASTAGNOLI => 4,
        CrcType::Unrecognised(_) => return None,
    };
    let mut bytes = emit_array(Some(if width > 0 { 6 } else { 5 }), |array| {
        for number in [kind, number, flags, crc.into()] {
            array.emit(&number);
        }
        array.emit(&ByteString(&data));
        if width > 0 {
            array.emit(&ByteString(&&[0u8; 4][..width]));
        }
    });
    if width > 0 {
        let mut digest = Digest::new(crc).ok()?;
        digest.push(&bytes);
        let at = bytes.len() - width;
        bytes.get_mut(at..)?.copy_from_slice(&digest.finalize());
    }
    Some(bytes)
}

fn heads(bytes: &[u8], limits: &Limits) -> Result<Vec<Head>, ReadError> {
    // RFC 9171 §4.1: an array of indefinite length.
    if bytes.first() != Some(&0x9f) {
        return Err(malformed("no array of indefinite length"));
    }
    let mut heads: Vec<Head> = Vec::new();
    let mut at = 1;
    for count in 0.. {
        let rest = bytes.get(at..).unwrap_or_default();
        match rest.first() {
            None => return Err(malformed("broken off")),
            Some(0xff) if rest.len() == 1 => return Ok(heads),
            Some(0xff) => return Err(malformed("more behind its end")),
            Some(_) if count == limits.blocks => return Err(ReadError::Blocks),
            // That there is a block behind it shows that the one before is not the payload, which is the last.
            Some(_) if heads.last().is_some_and(|head| head.extent.len() > limits.extension) => {
                return Err(ReadError::BlockLength);
            }
            Some(_) => {}
        }
        let (_, len) = skip_value(rest, MAX_DEPTH).map_err(cbor)?;
        if count > 0 {
            let block = rest.get(..len).unwrap_or_default();
            heads.push(head(block, at).map_err(|Decode(error)| cbor(error))?);
        } else if len > limits.primary {
            return Err(ReadError::BlockLength);
        }
        at += len;
    }
    Ok(heads)
}

/// The library's error.
struct Decode(decode::Error);

impl From<decode::Error> for Decode {
    fn from(error: decode::Error) -> Self {
        Self(error)
    }
}

fn head(block: &[u8], at: usize) -> Result<Head, Decode> {
    let read = |array: &mut Array<'_>| -> Result<Head, Decode> {
        let (kind, number, flags, crc) = (array.parse()?, array.parse()?, array.parse()?, array.parse()?);
        let begins = at + array.offset();
        let data = array.parse_value(|value, _, _| match value {
            Value::Bytes(data) => Ok(begins + data.start..begins + data.end),
            _ => Err(Decode(decode::Error::InvalidChunk)),
        })?;
        array.skip_to_end(MAX_DEPTH)?;
        Ok(Head { extent: at..at + block.len(), kind, number, flags, crc, data })
    };
    parse_array(block, |array, _, _| read(array)).map(|(head, _)| head)
}

/// The blocks that a security block covers: the first of its fields (RFC 9172 §3.6).
fn targets(data: &[u8]) -> Result<Vec<u64>, ReadError> {
    let read = |array: &mut Array<'_>| -> Result<Vec<u64>, Decode> {
        let mut targets = Vec::new();
        while !array.at_end()? {
            targets.push(array.parse()?);
        }
        Ok(targets)
    };
    let targets = parse_array(data, |array, _, _| read(array)).map_err(|Decode(error)| cbor(error))?.0;
    if targets.is_empty() { Err(malformed("a security block that covers nothing")) } else { Ok(targets) }
}

fn cbor(error: decode::Error) -> ReadError {
    malformed(&error.to_string())
}

fn malformed(text: &str) -> ReadError {
    ReadError::Malformed(text.into())
}
