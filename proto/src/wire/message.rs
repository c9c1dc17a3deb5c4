//! Messages that must arrive: one or more MAVLink frames under one sequence number.
//!
//! On a stream of its own a message is the flow id, this header and the frames until the stream ends. Copies travel in
//! datagrams, several to one, each preceded by its length.

use bytes::BufMut;

use super::varint::{put_varint, take_varint};
use super::{flow, take_u32};
use crate::bearer::Usage;
use crate::signing::Place;

/// Header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageHeader {
    /// Which life of the sender: grows at each of its starts.
    pub epoch: u64,
    /// Counts the sender's messages of this class in this life, from 1. Never reused, so that copies are told from
    /// repetitions.
    pub seq: u64,
    /// When the frames entered the sender, on its wrapping microsecond clock.
    pub origin_us: u32,
    /// Age in milliseconds, over the link's propagation delay, from which it must not be used.
    pub max_age_ms: u64,
    /// Set for setpoints: the number that the sender gave to this kind (message id, source, target); newer ones of the
    /// same slot replace older ones.
    pub slot: Option<u64>,
    /// The sender's traffic class is Telemetry, not Control.
    pub telemetry: bool,
    /// Set if the frames are signed, all in one stream: their place in it.
    pub place: Option<Place>,
}

const FLAG_SETPOINT: u8 = 1;
const FLAG_TELEMETRY: u8 = 2;
/// The message has a place among the signed ones of its stream.
const FLAG_PLACE: u8 = 4;
/// It is counted there.
const FLAG_COUNTED: u8 = 8;

impl MessageHeader {
    /// Longest header in bytes, flow id included.
    pub const MAX_LEN: usize = 1 + 1 + 8 + 8 + 4 + 8 + 8 + 8 + 8;

    /// Writes the flow id and the header, as a stream begins.
    pub fn put_on_stream(&self, out: &mut impl BufMut) {
        flow::put(out, flow::MESSAGE);
        self.put(out);
    }

    /// Writes the header.
    pub fn put(&self, out: &mut impl BufMut) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let counted = self.place.is_some_and(|place| place.counted);
        let flags = flag(self.slot.is_some(), FLAG_SETPOINT) | flag(self.telemetry, FLAG_TELEMETRY);
        out.put_u8(flags | flag(self.place.is_some(), FLAG_PLACE) | flag(counted, FLAG_COUNTED));
        put_varint(out, self.epoch);
        put_varint(out, self.seq);
        out.put_u32(self.origin_us);
        put_varint(out, self.max_age_ms);
        if let Some(slot) = self.slot {
            put_varint(out, slot);
        }
        if let Some(place) = self.place {
            put_varint(out, place.control);
            if self.telemetry {
                put_varint(out, place.telemetry.unwrap_or_default());
            }
        }
    }

    /// Splits a message, without flow id, into header and frames; `None` if it is too short or from a later version.
    pub fn parse(mut bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&flags, rest) = bytes.split_first()?;
        bytes = rest;
        if flags & !(FLAG_SETPOINT | FLAG_TELEMETRY | FLAG_PLACE | FLAG_COUNTED) != 0
            || flags & (FLAG_PLACE | FLAG_COUNTED) == FLAG_COUNTED
        {
            return None;
        }
        let epoch = take_varint(&mut bytes)?;
        let seq = take_varint(&mut bytes)?;
        let origin_us = take_u32(&mut bytes)?;
        let max_age_ms = take_varint(&mut bytes)?;
        let slot = match flags & FLAG_SETPOINT != 0 {
            true => Some(take_varint(&mut bytes)?),
            false => None,
        };
        let telemetry = flags & FLAG_TELEMETRY != 0;
        let place = match flags & FLAG_PLACE != 0 {
            true => {
                let control = take_varint(&mut bytes)?;
                let after = if telemetry { Some(take_varint(&mut bytes)?) } else { None };
                Some(Place { control, telemetry: after, counted: flags & FLAG_COUNTED != 0 })
            }
            false => None,
        };
        Some((Self { epoch, seq, origin_us, max_age_ms, slot, telemetry, place }, bytes))
    }
}

/// Appends a copy to the body of a datagram.
pub fn put_copy(out: &mut impl BufMut, header: &MessageHeader, frames: &[u8]) {
    let mut head = Vec::with_capacity(MessageHeader::MAX_LEN);
    header.put(&mut head);
    put_varint(out, (head.len() + frames.len()) as u64);
    out.put_slice(&head);
    out.put_slice(frames);
}

/// Takes the next copy off the body of a datagram; `None` at its end or at the first that is damaged.
pub fn take_copy<'a>(body: &mut &'a [u8]) -> Option<(MessageHeader, &'a [u8])> {
    let len = usize::try_from(take_varint(body)?).ok()?;
    let (copy, rest) = body.split_at_checked(len)?;
    *body = rest;
    MessageHeader::parse(copy)
}

/// What an end says of itself on a stream when a connection begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Revision of the protocol within `aquila/1`, for logs, and for a later one to know what it may send.
    pub revision: u64,
    /// Whether the sender is the air side.
    pub air: bool,
    /// Version of the software, for people.
    pub version: String,
    /// Which life of the sender, as in [`MessageHeader::epoch`]; 0 from ends of revision 2.
    pub epoch: u64,
    /// What the sender may use this bearer for.
    pub usage: Usage,
    /// What the sender calls this bearer, for people.
    pub bearer: String,
}

impl Hello {
    /// Longest texts that are read.
    const MAX_TEXT: usize = 64;

    /// Writes flow id and hello.
    pub fn put_on_stream(&self, out: &mut impl BufMut) {
        flow::put(out, flow::HELLO);
        put_varint(out, self.revision);
        out.put_u8(u8::from(self.air));
        put_varint(out, self.version.len() as u64);
        out.put_slice(self.version.as_bytes());
        put_varint(out, self.epoch);
        out.put_u8(self.usage as u8);
        let name = &self.bearer.as_bytes()[..self.bearer.floor_char_boundary(Self::MAX_TEXT)];
        put_varint(out, name.len() as u64);
        out.put_slice(name);
    }

    /// Reads a hello without its flow id; bytes after it are ignored, for later versions.
    pub fn parse(mut bytes: &[u8]) -> Option<Self> {
        let revision = take_varint(&mut bytes)?;
        let (&air, rest) = bytes.split_first()?;
        bytes = rest;
        let version = take_text(&mut bytes, Self::MAX_TEXT)?;
        let mut hello =
            Self { revision, air: air == 1, version, epoch: 0, usage: Usage::Normal, bearer: String::new() };
        if revision > 2 {
            hello.epoch = take_varint(&mut bytes)?;
            let (&usage, rest) = bytes.split_first()?;
            bytes = rest;
            // One that a later version knows is taken for the most careful.
            hello.usage = Usage::ALL.get(usize::from(usage)).copied().unwrap_or(Usage::Metered);
            hello.bearer = take_text(&mut bytes, Self::MAX_TEXT)?;
        }
        Some(hello)
    }
}

/// Takes a text behind its length, of at most `max` bytes, fit for a log.
fn take_text(bytes: &mut &[u8], max: usize) -> Option<String> {
    let len = usize::try_from(take_varint(bytes)?).ok().filter(|len| *len <= max)?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(String::from_utf8_lossy(text).chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(slot: Option<u64>) -> MessageHeader {
        let place = slot.map(|control| Place { control, telemetry: None, counted: control % 2 == 0 });
        MessageHeader {
            epoch: 1 << 40,
            seq: 12_345,
            origin_us: 99,
            max_age_ms: 300,
            slot,
            telemetry: slot.is_none(),
            place,
        }
    }

    #[test]
    fn copies_round_trip_in_order_and_a_lying_length_ends_the_list() {
        let setpoint = Some(3);
        let mut body = Vec::new();
        put_copy(&mut body, &header(None), b"arm");
        put_copy(&mut body, &header(setpoint), b"");
        let mut rest = body.as_slice();
        assert_eq!(take_copy(&mut rest), Some((header(None), b"arm".as_slice())));
        assert_eq!(take_copy(&mut rest), Some((header(setpoint), b"".as_slice())));
        assert_eq!(take_copy(&mut rest), None);
        body[0] = 0x3f;
        assert_eq!(take_copy(&mut body.as_slice()), None);
    }

    #[test]
    fn unknown_flags_and_truncation_are_refused() {
        let mut out = Vec::new();
        header(Some(1)).put(&mut out);
        for len in 0..out.len() {
            assert_eq!(MessageHeader::parse(&out[..len]), None);
        }
        for flags in [out[0] | 0x80, FLAG_COUNTED] {
            out[0] = flags;
            assert_eq!(MessageHeader::parse(&out), None);
        }
    }

    #[test]
    fn hello_round_trip_keeps_the_log_clean() {
        let hello = Hello {
            revision: 3,
            air: true,
            version: "0.1.0".into(),
            epoch: 1 << 40,
            usage: Usage::Backup,
            bearer: "wwan0".into(),
        };
        let mut out = Vec::new();
        hello.put_on_stream(&mut out);
        assert_eq!(Hello::parse(&out[1..]), Some(hello.clone()));
        for len in 1..out.len() {
            assert_eq!(Hello::parse(&out[1..len]), None);
        }
        // An older one says less, a later one may use bearers for what we do not know.
        let older = Hello::parse(&[1, 0, 2, b'\n', 0xff]).unwrap();
        assert_eq!((older.version.as_str(), older.epoch, older.usage), ("?\u{fffd}", 0, Usage::Normal));
        let usage = out.len() - 7;
        assert_eq!(std::mem::replace(&mut out[usage], 9), Usage::Backup as u8);
        assert_eq!(Hello::parse(&out[1..]).unwrap().usage, Usage::Metered);
        // A name is cut, not refused by the other side.
        let long = Hello { bearer: "ü".repeat(40), ..hello };
        let mut out = Vec::new();
        long.put_on_stream(&mut out);
        assert_eq!(Hello::parse(&out[1..]).unwrap().bearer, "ü".repeat(32));
    }
}
