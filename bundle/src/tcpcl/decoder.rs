//! Reads messages off a stream of bytes, however it is cut.
//!
//! A segment's data are handed on as they come and never collected here: a segment of any length takes no memory.

use bytes::{Buf, Bytes, BytesMut};

use super::TransferId;
use super::codec::{CRITICAL, END, Extension, MAGIC, Message, REPLY, START, code};

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The contact header (RFC 9174 §4.2).
    Contact {
        /// Of the protocol.
        version: u8,
        /// CAN_TLS is the lowest bit.
        flags: u8,
    },
    /// A message.
    Message(Message),
    /// Data of the segment whose message came last.
    Data(Bytes),
}

/// Why there is nothing more to be read: where the next message begins is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not the protocol at all.
    #[error("no contact header of TCPCL")]
    Magic,
    /// TLS without asking.
    #[error("TLS, which is not spoken")]
    Tls,
    /// A message that there is not.
    #[error("unknown message {0}")]
    Unknown(u8),
    /// A name or a list of extensions that is longer than we read, or not as long as it says.
    #[error("an absurd length in message {0}")]
    Length(u8),
}

impl Decoder {
    /// Longest name of a node, in bytes.
    pub const MAX_NODE: usize = 1024;
    /// Longest list of extensions, in bytes.
    pub const MAX_EXTENSIONS: usize = 4096;
}

/// Reads messages.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    contact: bool,
    /// Bytes of the segment that are to come.
    data: u64,
}

impl Decoder {
    /// Bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that were not read yet.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// The next item; `None` if its end has not come yet. After an error there is nothing more.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn next_item(&mut self) -> Result<Option<Item>, DecodeError> {
        if !self.contact {
            return self.contact();
        }
        if self.data > 0 {
            let len = usize::try_from(self.data).unwrap_or(usize::MAX).min(self.buffer.len());
            self.data -= len as u64;
            return Ok((len > 0).then(|| Item::Data(self.buffer.split_to(len).freeze())));
        }
        let mut reader = Reader { rest: &self.buffer };
        let Some(message) = reader.message()? else { return Ok(None) };
        let used = self.buffer.len() - reader.rest.len();
        self.buffer.advance(used);
        if let Message::Segment { len, .. } = message {
            self.data = len;
        }
        Ok(Some(Item::Message(message)))
    }

    fn contact(&mut self) -> Result<Option<Item>, DecodeError> {
        let there = self.buffer.len().min(MAGIC.len());
        if self.buffer[..there] != MAGIC[..there] {
            // RFC 8446 §5.1: a record of a TLS handshake.
            let tls = self.buffer.starts_with(&[0x16, 0x03]) || self.buffer[..] == [0x16];
            return Err(if tls { DecodeError::Tls } else { DecodeError::Magic });
        }
        if self.buffer.len() < MAGIC.len() + 2 {
            return Ok(None);
        }
        self.buffer.advance(MAGIC.len());
        self.contact = true;
        Ok(Some(Item::Contact { version: self.buffer.get_u8(), flags: self.buffer.get_u8() }))
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

/// Takes what is there, or gives up for now.
macro_rules! take {
    ($option:expr) => {
        match $option {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl<'a> Reader<'a> {
    fn message(&mut self) -> Result<Option<Message>, DecodeError> {
        let kind = take!(self.u8());
        let message = match kind {
            code::SESS_INIT => {
                let keepalive = take!(self.u16());
                let (segment_mru, transfer_mru) = (take!(self.u64()), take!(self.u64()));
                let len = usize::from(take!(self.u16()));
                if len > Decoder::MAX_NODE {
                    return Err(DecodeError::Length(kind));
                }
                let node = Bytes::copy_from_slice(take!(self.bytes(len)));
                let extensions = take!(self.extensions(kind)?);
                Message::SessInit { keepalive, segment_mru, transfer_mru, node, extensions }
            }
            code::XFER_SEGMENT => {
                let flags = take!(self.u8());
                let id = TransferId(take!(self.u64()));
                let start = flags & START != 0;
                let extensions = if start { take!(self.extensions(kind)?) } else { Vec::new() };
                let len = take!(self.u64());
                Message::Segment { start, end: flags & END != 0, id, extensions, len }
            }
            code::XFER_ACK => {
                let flags = take!(self.u8());
                Message::Ack { flags, id: TransferId(take!(self.u64())), len: take!(self.u64()) }
            }
            code::XFER_REFUSE => {
                let reason = take!(self.u8()).into();
                Message::Refuse { reason, id: TransferId(take!(self.u64())) }
            }
            code::KEEPALIVE => Message::Keepalive,
            code::SESS_TERM => {
                let reply = take!(self.u8()) & REPLY != 0;
                Message::Term { reply, reason: take!(self.u8()).into() }
            }
            code::MSG_REJECT => {
                let reason = take!(self.u8()).into();
                Message::Reject { reason, code: take!(self.u8()) }
            }
            kind => return Err(DecodeError::Unknown(kind)),
        };
        Ok(Some(message))
    }

    fn extensions(&mut self, kind: u8) -> Result<Option<Vec<Extension>>, DecodeError> {
        let len = take!(self.u32()) as usize;
        if len > Decoder::MAX_EXTENSIONS {
            return Err(DecodeError::Length(kind));
        }
        let mut list = Reader { rest: take!(self.bytes(len)) };
        let mut extensions = Vec::new();
        while !list.rest.is_empty() {
            extensions.push(list.extension().ok_or(DecodeError::Length(kind))?);
        }
        Ok(Some(extensions))
    }

    fn extension(&mut self) -> Option<Extension> {
        let critical = self.u8()? & CRITICAL != 0;
        let kind = self.u16()?;
        let len = usize::from(self.u16()?);
        Some(Extension { critical, kind, value: Bytes::copy_from_slice(self.bytes(len)?) })
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}
