//! One whole MAVLink frame, version 1 or 2, as the bytes it came in.
//!
//! Layout after mavlink-devguide `en/guide/serialization.md`:
//! v1 `FE len seq sys comp id payload crc16`,
//! v2 `FD len incompat compat seq sys comp id(3) payload crc16 [signature(13)]`, little-endian.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::crc::checksum;
use super::messages::{self, MessageInfo};

/// A frame that passed the checks of [`Frame::parse`]. Cheap to clone; the bytes never change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    bytes: Bytes,
}

impl Frame {
    /// Longest frame: v2 header, 255 bytes of payload, checksum, signature.
    pub const MAX_LEN: usize = 280;

    /// The frame that `data` begins with, and its length in bytes. For datagrams, which may hold several frames one
    /// after the other; byte streams go through [`super::Splitter`].
    ///
    /// # Errors
    /// See [`FrameError`]. A frame whose checksum cannot be verified (unknown id, unknown incompatibility flags) is
    /// accepted if it ends `data` or another frame's magic follows.
    pub fn parse(data: &[u8]) -> Result<(Self, usize), FrameError> {
        let len = measure(data)?;
        Ok((Self::copied(&data[..len]), len))
    }

    /// `bytes` as exactly one frame, without copying.
    ///
    /// # Errors
    /// As [`Frame::parse`], and [`FrameError::Trailing`] if bytes are left over.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, FrameError> {
        let len = measure(&bytes)?;
        if len < bytes.len() {
            return Err(FrameError::Trailing { extra: bytes.len() - len });
        }
        Ok(Self { bytes })
    }

    /// A frame of bytes that [`inspect`] accepted, in an allocation of its own: a slice of a read buffer would keep all of
    /// that buffer alive for as long as the frame waits in a queue.
    pub(super) fn copied(bytes: &[u8]) -> Self {
        Self { bytes: Bytes::copy_from_slice(bytes) }
    }

    /// An unsigned frame of our own. `payload` is in wire order; zeros that are missing at its end are understood. In v2
    /// trailing zeros are cut, in v1 the payload gets the length without extension fields.
    ///
    /// # Errors
    /// [`BuildError`] if the message is not in the table, `payload` is longer than it, or v1 cannot express its id.
    pub fn build(
        version: Version,
        seq: u8,
        source: Address,
        id: MessageId,
        payload: &[u8],
    ) -> Result<Self, BuildError> {
        let info = messages::lookup(id).ok_or(BuildError::UnknownMessage)?;
        if payload.len() > usize::from(info.max_len) {
            return Err(BuildError::PayloadTooLong { max: usize::from(info.max_len) });
        }
        let [low, mid, high, _] = id.0.to_le_bytes();
        let len = match version {
            Version::V1 => info.min_len,
            Version::V2 => payload.iter().rposition(|&b| b != 0).map_or(1, |last| last as u8 + 1).min(info.max_len),
        };
        let (system, component) = (source.system.0, source.component.0);
        let mut bytes = BytesMut::with_capacity(version.header_len() + usize::from(len) + CRC_LEN);
        match version {
            Version::V1 if id.0 > 255 => return Err(BuildError::NotInV1),
            Version::V1 => bytes.put_slice(&[MAGIC_V1, len, seq, system, component, low]),
            Version::V2 => bytes.put_slice(&[MAGIC_V2, len, 0, 0, seq, system, component, low, mid, high]),
        }
        let present = payload.len().min(usize::from(len));
        bytes.put_slice(&payload[..present]);
        bytes.put_bytes(0, usize::from(len) - present);
        bytes.put_u16_le(checksum(&bytes[1..], info.crc_extra));
        Ok(Self { bytes: bytes.freeze() })
    }

    /// The whole frame as it came, 8 to 280 bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The whole frame as it came.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Protocol version.
    pub fn version(&self) -> Version {
        if self.bytes[0] == MAGIC_V1 { Version::V1 } else { Version::V2 }
    }

    /// Incompatibility flags; zero in v1.
    pub fn incompat_flags(&self) -> u8 {
        match self.version() {
            Version::V1 => 0,
            Version::V2 => self.bytes[2],
        }
    }

    /// Sequence number, counted by the sender per channel.
    pub fn seq(&self) -> u8 {
        self.bytes[self.version().seq_at()]
    }

    /// Who sent it.
    pub fn source(&self) -> Address {
        let at = self.version().seq_at();
        Address::new(self.bytes[at + 1], self.bytes[at + 2])
    }

    /// The message id.
    pub fn message_id(&self) -> MessageId {
        message_id(&self.bytes, self.version())
    }

    /// The payload as sent: v2 leaves out trailing zero bytes, see [`Frame::field`].
    pub fn payload(&self) -> &[u8] {
        let start = self.version().header_len();
        &self.bytes[start..start + usize::from(self.bytes[1])]
    }

    /// `N` bytes of payload at `offset`, zero where the sender truncated.
    pub fn field<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut value = [0; N];
        copy_field(self.payload(), offset, &mut value);
        value
    }

    /// Whether a signature follows the checksum.
    pub fn is_signed(&self) -> bool {
        self.incompat_flags() & INCOMPAT_SIGNED != 0
    }

    /// Link id and time stamp of the signature; the signature itself is not checked, only its owner can.
    pub fn signature(&self) -> Option<Signature> {
        if !self.is_signed() {
            return None;
        }
        let tail = &self.bytes[self.bytes.len() - SIGNATURE_LEN..];
        let mut stamp = [0; 8];
        stamp[..6].copy_from_slice(&tail[1..7]);
        Some(Signature { link_id: tail[0], timestamp: u64::from_le_bytes(stamp) })
    }

    /// The message's entry in the table.
    pub fn info(&self) -> Option<&'static MessageInfo> {
        messages::lookup(self.message_id())
    }

    /// Whom it is for: zero means everybody, and so does a message without target fields.
    pub fn target(&self) -> Address {
        let Some(info) = self.info() else { return Address::new(0, 0) };
        let read = |at: Option<usize>| at.map_or(0, |at| self.field::<1>(at)[0]);
        Address::new(read(info.target_system()), read(info.target_component()))
    }

    /// The bytes of the instance field as a little-endian number; zero if the message has none.
    pub fn instance(&self) -> u128 {
        let Some((at, len)) = self.info().and_then(MessageInfo::instance) else { return 0 };
        let mut value = [0; 16];
        copy_field(self.payload(), at, &mut value[..len]);
        u128::from_le_bytes(value)
    }
}

/// MAVLink protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// MAVLink 1, magic 0xFE.
    V1,
    /// MAVLink 2, magic 0xFD.
    V2,
}

impl Version {
    pub(super) const fn header_len(self) -> usize {
        match self {
            Self::V1 => 6,
            Self::V2 => 10,
        }
    }

    const fn seq_at(self) -> usize {
        match self {
            Self::V1 => 2,
            Self::V2 => 4,
        }
    }
}

/// System id: 1 to 255 name a vehicle or ground station, 0 means all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemId(pub u8);

/// Component id: 1 to 255 name a part of a system, 0 means all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(pub u8);

/// A system and one of its components.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The system.
    pub system: SystemId,
    /// The component.
    pub component: ComponentId,
}

impl Address {
    /// An address from raw ids.
    pub const fn new(system: u8, component: u8) -> Self {
        Self { system: SystemId(system), component: ComponentId(component) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.system.0, self.component.0)
    }
}

/// Message id: 0 to 255 in v1, 0 to 2^24-1 in v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u32);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match messages::lookup(*self) {
            Some(info) => f.write_str(info.name),
            None => write!(f, "#{}", self.0),
        }
    }
}

/// What a v2 signature says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// The sender's link id.
    pub link_id: u8,
    /// Units of 10 µs since 2015-01-01T00:00Z, 48 bits.
    pub timestamp: u64,
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame would end after the data does.
    #[error("truncated: {needed} bytes are needed")]
    Truncated {
        /// Bytes needed to know more: the header's length, then the frame's.
        needed: usize,
    },
    /// The first byte is neither 0xFD nor 0xFE.
    #[error("no MAVLink magic")]
    NoMagic,
    /// A known message with a wrong checksum.
    #[error("wrong checksum for {id}")]
    Checksum {
        /// The message id in the header.
        id: MessageId,
        /// The frame's length if its header is right.
        len: usize,
    },
    /// The checksum cannot be verified and what follows is no frame.
    #[error("message {id} is unknown and no frame follows it")]
    Implausible {
        /// The message id in the header.
        id: MessageId,
    },
    /// More bytes than one frame.
    #[error("{extra} bytes after the frame")]
    Trailing {
        /// Bytes after the frame.
        extra: usize,
    },
}

/// Why a frame cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Its checksum seed is not known.
    #[error("the message is not in the table")]
    UnknownMessage,
    /// More payload than the message has.
    #[error("the payload is longer than {max} bytes")]
    PayloadTooLong {
        /// Payload bytes with all extension fields.
        max: usize,
    },
    /// v1 has ids up to 255.
    #[error("MAVLink 1 has no message ids above 255")]
    NotInV1,
}

/// A frame's length and how far it is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inspected {
    /// Header to checksum or signature.
    pub(super) len: usize,
    /// The checksum is right; otherwise there is no way to tell.
    pub(super) proven: bool,
}

/// Whether a frame begins with this byte.
pub(super) const fn is_magic(byte: u8) -> bool {
    byte == MAGIC_V1 || byte == MAGIC_V2
}

/// Checks the frame that `data` begins with, without regard to what follows it.
///
/// A frame with incompatibility flags unknown to us may have a checksum of another kind, so it passes unproven if the
/// checksum is wrong; so does a message whose definition is not settled.
pub(super) fn inspect(data: &[u8]) -> Result<Inspected, FrameError> {
    let version = match data.first() {
        None => return Err(FrameError::Truncated { needed: Version::V1.header_len() }),
        Some(&MAGIC_V1) => Version::V1,
        Some(&MAGIC_V2) => Version::V2,
        Some(_) => return Err(FrameError::NoMagic),
    };
    let header = version.header_len();
    if data.len() < header {
        return Err(FrameError::Truncated { needed: header });
    }
    let incompat = if version == Version::V2 { data[2] } else { 0 };
    let signature = if incompat & INCOMPAT_SIGNED != 0 { SIGNATURE_LEN } else { 0 };
    let crc_at = header + usize::from(data[1]);
    let len = crc_at + CRC_LEN + signature;
    if data.len() < len {
        return Err(FrameError::Truncated { needed: len });
    }
    let id = message_id(data, version);
    let Some(info) = messages::lookup(id) else { return Ok(Inspected { len, proven: false }) };
    let carried = u16::from_le_bytes([data[crc_at], data[crc_at + 1]]);
    if checksum(&data[1..crc_at], info.crc_extra) == carried {
        Ok(Inspected { len, proven: true })
    } else if info.unsettled || incompat & !INCOMPAT_SIGNED != 0 {
        Ok(Inspected { len, proven: false })
    } else {
        Err(FrameError::Checksum { id, len })
    }
}

/// Length of the frame that `data` begins with, if it is good or plausible.
fn measure(data: &[u8]) -> Result<usize, FrameError> {
    let Inspected { len, proven } = inspect(data)?;
    if proven || data.get(len).is_none_or(|&next| is_magic(next)) {
        return Ok(len);
    }
    let version = if data[0] == MAGIC_V1 { Version::V1 } else { Version::V2 };
    Err(FrameError::Implausible { id: message_id(data, version) })
}

fn message_id(bytes: &[u8], version: Version) -> MessageId {
    MessageId(match version {
        Version::V1 => u32::from(bytes[5]),
        Version::V2 => u32::from_le_bytes([bytes[7], bytes[8], bytes[9], 0]),
    })
}

fn copy_field(payload: &[u8], offset: usize, into: &mut [u8]) {
    let present = payload.get(offset..).unwrap_or_default();
    let n = present.len().min(into.len());
    into[..n].copy_from_slice(&present[..n]);
}

pub(super) const MAGIC_V1: u8 = 0xfe;
pub(super) const MAGIC_V2: u8 = 0xfd;
const INCOMPAT_SIGNED: u8 = 0x01;
const CRC_LEN: usize = 2;
const SIGNATURE_LEN: usize = 13;

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
