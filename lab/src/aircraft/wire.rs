//! MAVLink framing: frames out of bytes, and bytes out of messages.

use std::collections::VecDeque;

use mavlink::dialects::ardupilotmega::MavMessage;
use mavlink::{MAV_STX, MAV_STX_V2, MavlinkVersion, Message, calculate_crc};

/// MAVLink 2: magic, length, incompatible and compatible flags, sequence, system, component, 24-bit message id.
const V2_HEADER: usize = 10;
/// MAVLink 1: magic, length, sequence, system, component, message id.
const V1_HEADER: usize = 6;
const CRC: usize = 2;
const SIGNATURE: usize = 13;
/// The only incompatible flag that is understood: the frame is signed. Signatures are not checked.
const SIGNED: u8 = 0x01;
const MAX_PAYLOAD: usize = 255;

/// A frame whose checksum is right and whose message id is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) version: MavlinkVersion,
    pub(super) system: u8,
    pub(super) component: u8,
    pub(super) id: u32,
    /// As on the wire, i.e. trailing zeros may be missing in MAVLink 2.
    pub(super) payload: &'a [u8],
}

impl Frame<'_> {
    /// `None`: a field has a value that the dialect does not know.
    pub(super) fn message(&self) -> Option<MavMessage> {
        MavMessage::parse(self.version, self.id, self.payload).ok()
    }

    /// The little-endian 16 bits at `offset` of the payload; bytes cut off on the wire are zero.
    pub(super) fn u16_at(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.u8_at(offset), self.u8_at(offset + 1)])
    }

    pub(super) fn u8_at(&self, offset: usize) -> u8 {
        self.payload.get(offset).copied().unwrap_or(0)
    }
}

/// All frames in `bytes`, in order. What is not a frame is skipped byte by byte; a frame must be whole.
pub(super) fn frames(bytes: &[u8]) -> Frames<'_> {
    Frames { rest: bytes, skipped: 0 }
}

#[derive(Debug)]
pub(super) struct Frames<'a> {
    rest: &'a [u8],
    /// Bytes that were part of no good frame.
    pub(super) skipped: usize,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        while !self.rest.is_empty() {
            if let Some((frame, len)) = frame_at_start(self.rest) {
                self.rest = &self.rest[len..];
                return Some(frame);
            }
            self.rest = &self.rest[1..];
            self.skipped += 1;
        }
        None
    }
}

fn frame_at_start(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let (version, header, signature) = match *bytes.first()? {
        MAV_STX if bytes.len() >= V1_HEADER => (MavlinkVersion::V1, V1_HEADER, 0),
        MAV_STX_V2 if bytes.len() >= V2_HEADER && bytes[2] & !SIGNED == 0 => {
            (MavlinkVersion::V2, V2_HEADER, if bytes[2] & SIGNED == 0 { 0 } else { SIGNATURE })
        }
        _ => return None,
    };
    let end = header + usize::from(bytes[1]);
    let len = end + CRC + signature;
    let payload = bytes.get(header..end)?;
    bytes.get(..len)?;
    let (system, component, id) = match version {
        MavlinkVersion::V1 => (bytes[3], bytes[4], u32::from(bytes[5])),
        MavlinkVersion::V2 => (bytes[5], bytes[6], u32::from_le_bytes([bytes[7], bytes[8], bytes[9], 0])),
    };
    // An unknown id has no CRC_EXTRA, so its checksum fails too.
    let crc = calculate_crc(&bytes[1..end], MavMessage::extra_crc(id));
    (bytes[end..end + CRC] == crc.to_le_bytes()).then_some((Frame { version, system, component, id, payload }, len))
}

/// Messages on their way out, as MAVLink 2 frames.
#[derive(Debug)]
pub(super) struct Outbox {
    system: u8,
    component: u8,
    sequence: u8,
    frames: VecDeque<Vec<u8>>,
}

impl Outbox {
    pub(super) fn new(system: u8, component: u8) -> Self {
        Self { system, component, sequence: 0, frames: VecDeque::new() }
    }

    pub(super) fn send(&mut self, message: &MavMessage) {
        let mut payload = [0; MAX_PAYLOAD];
        let len = message.ser(MavlinkVersion::V2, &mut payload);
        self.send_payload(message.message_id(), &payload[..len]);
    }

    /// For what the dialect's types cannot say. `payload` is as on the wire, at most 255 bytes.
    pub(super) fn send_payload(&mut self, id: u32, payload: &[u8]) {
        let id_bytes = id.to_le_bytes();
        let mut frame = Vec::with_capacity(V2_HEADER + payload.len() + CRC);
        frame.extend([MAV_STX_V2, payload.len() as u8, 0, 0, self.sequence, self.system, self.component]);
        frame.extend(&id_bytes[..3]);
        frame.extend(payload);
        let crc = calculate_crc(&frame[1..], MavMessage::extra_crc(id));
        frame.extend(crc.to_le_bytes());
        self.sequence = self.sequence.wrapping_add(1);
        self.frames.push_back(frame);
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        self.frames.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use mavlink::dialects::ardupilotmega::{HEARTBEAT_DATA, PING_DATA};
    use mavlink::{MAVLinkV1MessageRaw, MavHeader};

    use super::*;

    fn ping(seq: u32) -> MavMessage {
        MavMessage::PING(PING_DATA { time_usec: 7, seq, target_system: 0, target_component: 0 })
    }

    fn sent(messages: &[MavMessage]) -> Vec<u8> {
        let mut out = Outbox::new(1, 1);
        messages.iter().for_each(|message| out.send(message));
        std::iter::from_fn(|| out.pop()).flatten().collect()
    }

    #[test]
    fn what_is_sent_is_read_back() {
        let bytes = sent(&[ping(1), ping(2)]);
        let mut frames = frames(&bytes);
        let read: Vec<MavMessage> = frames.by_ref().map(|frame| frame.message().unwrap()).collect();
        assert_eq!(read, [ping(1), ping(2)]);
        assert_eq!(frames.skipped, 0);
        assert_eq!(bytes[4], 0);
        assert_eq!(bytes[bytes.len() / 2 + 4], 1, "the sequence counts");
    }

    #[test]
    fn version_1_is_read() {
        let mut raw = MAVLinkV1MessageRaw::new();
        let header = MavHeader { system_id: 255, component_id: 190, sequence: 0 };
        raw.serialize_message(header, &MavMessage::HEARTBEAT(HEARTBEAT_DATA::default()));
        let frame = frames(raw.raw_bytes()).next().unwrap();
        assert_eq!((frame.version, frame.system, frame.component, frame.id), (MavlinkVersion::V1, 255, 190, 0));
    }

    #[test]
    fn noise_damage_and_a_cut_off_end_are_skipped() {
        let good = sent(&[ping(1)]);
        let mut damaged = sent(&[ping(2)]);
        damaged[12] ^= 1;
        let mut bytes = vec![0xFD, 0xFE, 0x00];
        bytes.extend(&damaged);
        bytes.extend(&good);
        bytes.extend(&good[..good.len() - 1]);
        let mut frames = frames(&bytes);
        assert_eq!(frames.by_ref().count(), 1);
        assert_eq!(frames.skipped, bytes.len() - good.len());
    }

    #[test]
    fn a_signed_frame_is_read_and_other_incompatible_flags_are_not() {
        let sign = |flags: u8| {
            let mut frame = sent(&[ping(1)]);
            frame[2] = flags;
            let end = frame.len() - CRC;
            let crc = calculate_crc(&frame[1..end], MavMessage::extra_crc(4));
            frame[end..].copy_from_slice(&crc.to_le_bytes());
            frame.extend([0; SIGNATURE]);
            frame
        };
        assert_eq!(frames(&sign(SIGNED)).count(), 1);
        assert_eq!(frames(&sign(0x02)).count(), 0);
    }
}
