//! A piece of an object as a bundle's payload.
//!
//! A CBOR map (RFC 8949) of eight entries in this order, deterministically encoded:
//!
//! | key | value | |
//! |---|---|---|
//! | 0 | unsigned | version of this format: 1 |
//! | 1 | 32 bytes | the object's name |
//! | 2 | unsigned | where the piece begins in the object's content, in bytes |
//! | 3 | unsigned | bytes of the piece, at least 1 unless the object is empty |
//! | 4 | unsigned | bytes of the whole content |
//! | 5 | 32 bytes | BLAKE3 of the whole content |
//! | 6 | text | the object's path, with `/` between parts; may be empty |
//! | 7 | bytes | the piece |

use hardy_cbor::decode::{self, FromCbor, Map, Value, parse_map};
use hardy_cbor::encode::{Bytes, emit_map};

/// The object that a piece is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartOf {
    /// Its name: the hash of its manifest; for a file of a pack, the BLAKE3 of the pack's name and the file's path behind it.
    pub object: [u8; 32],
    /// Bytes of its content.
    pub total: u64,
    /// BLAKE3 of its content.
    pub hash: [u8; 32],
    /// Its path below the receiver's folder; may be empty.
    pub path: String,
}

/// A piece of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// Of which.
    pub of: PartOf,
    /// Where it begins in the content, in bytes.
    pub offset: u64,
    /// The piece.
    pub data: &'a [u8],
}

/// Why a payload is no piece of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// Not the map, or one of a later version.
    #[error("not a piece of an object, or one of a later version")]
    Format,
    /// A piece that is empty, that lies beyond the object's end, or that is not as long as it says.
    #[error("a piece of another length")]
    Length,
    /// An object that is larger than there are.
    #[error("an absurd length of the object")]
    Total,
    /// A path that leads out of the folder, or is no path.
    #[error("a path that could lead out of the receiver's folder")]
    Path,
}

const VERSION: u64 = 1;

impl PartOf {
    /// Longest path, in bytes.
    pub const MAX_PATH: usize = 1024;
    /// Largest object: 64 GiB.
    pub const MAX_TOTAL: u64 = 64 << 30;

    fn check(&self) -> Result<(), PartError> {
        if self.total > Self::MAX_TOTAL {
            return Err(PartError::Total);
        }
        let good = |part: &str| {
            !matches!(part, "" | "." | "..") && !part.contains(|c: char| c.is_control() || matches!(c, '\\' | ':'))
        };
        let path = self.path.is_empty() || self.path.len() <= Self::MAX_PATH && self.path.split('/').all(good);
        if path { Ok(()) } else { Err(PartError::Path) }
    }
}

impl<'a> Part<'a> {
    /// Longest piece, in bytes: with names and blocks around it the bundle stays below 1 MiB.
    pub const MAX_DATA: usize = (1 << 20) - (4 << 10);

    /// The payload.
    ///
    /// # Errors
    /// [`PartError`] if nobody would read it.
    pub fn encode(&self) -> Result<Vec<u8>, PartError> {
        self.check()?;
        Ok(emit_map(Some(8), |map| {
            map.emit(&0u64);
            map.emit(&VERSION);
            map.emit(&1u64);
            map.emit(&Bytes(&self.of.object));
            map.emit(&2u64);
            map.emit(&self.offset);
            map.emit(&3u64);
            map.emit(&(self.data.len() as u64));
            map.emit(&4u64);
            map.emit(&self.of.total);
            map.emit(&5u64);
            map.emit(&Bytes(&self.of.hash));
            map.emit(&6u64);
            map.emit(self.of.path.as_str());
            map.emit(&7u64);
            map.emit(&Bytes(&self.data));
        }))
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`PartError`] names what is wrong with it.
    pub fn decode(payload: &'a [u8]) -> Result<Self, PartError> {
        let ((object, offset, len, total, hash, path, data), used) = parse_map(payload, |map, shortest, tags| {
            if map.count() != Some(8) || !shortest || !tags.is_empty() {
                return Err(Refused);
            }
            entry(map, 0)?;
            if number(map)? != VERSION {
                return Err(Refused);
            }
            let object = at(map, 1, |map| hash_of(map, payload))?;
            let offset = at(map, 2, number)?;
            let len = at(map, 3, number)?;
            let total = at(map, 4, number)?;
            let hash = at(map, 5, |map| hash_of(map, payload))?;
            let path = at(map, 6, text)?;
            let data = at(map, 7, |map| bytes(map, payload))?;
            Ok((object, offset, len, total, hash, path, data))
        })
        .map_err(|Refused| PartError::Format)?;
        if used != payload.len() {
            return Err(PartError::Format);
        }
        if len != data.len() as u64 {
            return Err(PartError::Length);
        }
        let part = Self { of: PartOf { object, total, hash, path }, offset, data };
        part.check()?;
        Ok(part)
    }

    fn check(&self) -> Result<(), PartError> {
        self.of.check()?;
        let len = self.data.len();
        let end = self.offset.checked_add(len as u64).ok_or(PartError::Length)?;
        let empty = len == 0 && self.of.total > 0;
        if empty || len > Self::MAX_DATA || end > self.of.total { Err(PartError::Length) } else { Ok(()) }
    }
}

/// Where the pieces of an object begin and end: each of [`Part::MAX_DATA`] bytes but the last. An empty object is one
/// empty piece.
pub fn parts(total: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    let step = Part::MAX_DATA as u64;
    (0..total.div_ceil(step).max(1)).map(move |n| n * step..((n + 1) * step).min(total))
}

/// Not what it has to be; what exactly is nobody's concern.
struct Refused;

impl From<decode::Error> for Refused {
    fn from(_: decode::Error) -> Self {
        Self
    }
}

fn number(map: &mut Map<'_>) -> Result<u64, Refused> {
    match map.parse::<Number>() {
        Ok(Number(number)) => Ok(number),
        Err(Refused) => Err(Refused),
    }
}

/// A number in its shortest form.
struct Number(u64);

impl FromCbor for Number {
    type Error = Refused;

    fn from_cbor(data: &[u8]) -> Result<(Self, bool, usize), Refused> {
        let (number, shortest, len) = u64::from_cbor(data)?;
        if shortest { Ok((Self(number), true, len)) } else { Err(Refused) }
    }
}

fn entry(map: &mut Map<'_>, key: u64) -> Result<(), Refused> {
    if number(map)? == key { Ok(()) } else { Err(Refused) }
}

fn at<T>(map: &mut Map<'_>, key: u64, read: impl FnOnce(&mut Map<'_>) -> Result<T, Refused>) -> Result<T, Refused> {
    entry(map, key)?;
    read(map)
}

fn bytes<'a>(map: &mut Map<'_>, payload: &'a [u8]) -> Result<&'a [u8], Refused> {
    // The library tells where it is behind what it had read.
    let rest = payload.get(map.offset()..).ok_or(Refused)?;
    let range = map.parse_value(|value, shortest, tags| match value {
        Value::Bytes(range) if shortest && tags.is_empty() => Ok(range),
        _ => Err(Refused),
    })?;
    rest.get(range).ok_or(Refused)
}

fn hash_of(map: &mut Map<'_>, payload: &[u8]) -> Result<[u8; 32], Refused> {
    bytes(map, payload)?.try_into().map_err(|_| Refused)
}

fn text(map: &mut Map<'_>) -> Result<String, Refused> {
    map.parse_value(|value, shortest, tags| match value {
        Value::Text(text) if shortest && tags.is_empty() && text.len() <= PartOf::MAX_PATH => Ok(text.to_owned()),
        _ => Err(Refused),
    })
}
