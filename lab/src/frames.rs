//! Frames that an experiment can recognise again: numbered commands, setpoints and RTP packets.

use aquila_proto::Side;
use aquila_proto::mavlink::Frame;
use bytes::Bytes;
use mavlink::dialects::ardupilotmega::{
    COMMAND_LONG_DATA, ENCAPSULATED_DATA_DATA, HEARTBEAT_DATA, MANUAL_CONTROL_DATA, MavCmd, MavMessage, MavParamType,
    PARAM_VALUE_DATA,
};
use mavlink::{MAVLinkV2MessageRaw, MavHeader};

/// Ids of the messages above.
const COMMAND_LONG: u32 = 76;
const MANUAL_CONTROL: u32 = 69;
const PARAM_VALUE: u32 = 22;
const ENCAPSULATED_DATA: u32 = 131;
/// Bytes around the payload of a frame without signature, and the most in it (MAVLink 2).
const AROUND: usize = 12;
const MOST: usize = 255;

/// Several units in one packet.
const STAP_A: u8 = 0x78;

/// Shortest RTP packet: its header and the frame number.
pub const RTP_MIN: usize = 12 + 4 + 4;

/// A COMMAND_LONG with a number in it, from the aircraft or the ground station.
pub fn command(from: Side, index: u32) -> Frame {
    let (system, target) = if from == Side::Air { (1, 255) } else { (255, 1) };
    let [a, b] = [(index >> 16) as u16, index as u16].map(f32::from);
    let data = COMMAND_LONG_DATA {
        param1: a,
        param2: b,
        command: MavCmd::MAV_CMD_USER_1,
        target_system: target,
        target_component: 1,
        ..Default::default()
    };
    frame(system, &MavMessage::COMMAND_LONG(data))
}

/// The number in a command made by [`command`].
pub fn command_index(frame: &Frame) -> Option<u32> {
    (frame.message_id().0 == COMMAND_LONG).then(|| {
        let half = |offset| f32::from_le_bytes(frame.field(offset)) as u32;
        half(0) << 16 | half(4)
    })
}

/// A HEARTBEAT of the aircraft or the ground station.
pub fn heartbeat(from: Side) -> Frame {
    frame(if from == Side::Air { 1 } else { 255 }, &MavMessage::HEARTBEAT(HEARTBEAT_DATA::default()))
}

/// A MANUAL_CONTROL from the ground station with a number in it.
pub fn manual_control(index: u32) -> Frame {
    let data = MANUAL_CONTROL_DATA { x: index as i16, y: (index >> 16) as i16, target: 1, ..Default::default() };
    frame(255, &MavMessage::MANUAL_CONTROL(data))
}

/// The number in a setpoint made by [`manual_control`].
pub fn manual_control_index(frame: &Frame) -> Option<u32> {
    (frame.message_id().0 == MANUAL_CONTROL).then(|| {
        let half = |offset| u32::from(u16::from_le_bytes(frame.field(offset)));
        half(2) << 16 | half(0)
    })
}

/// PARAM_VALUE number `index` of 1348, from the aircraft or from the ground.
pub fn param_value(from: Side, index: u16) -> Frame {
    let name = format!("PARAM_{index:05}");
    let data = PARAM_VALUE_DATA {
        param_value: f32::from(index),
        param_count: 1348,
        param_index: index,
        param_id: name.as_str().into(),
        param_type: MavParamType::MAV_PARAM_TYPE_REAL32,
    };
    frame(if from == Side::Air { 1 } else { 255 }, &MavMessage::PARAM_VALUE(data))
}

/// The number in a parameter made by [`param_value`].
pub fn param_index(frame: &Frame) -> Option<u16> {
    (frame.message_id().0 == PARAM_VALUE).then(|| u16::from_le_bytes(frame.field(6)))
}

/// Telemetry of so many bytes in all, 20 at least: ENCAPSULATED_DATA, as few frames as can be, nearly equal ones, each
/// with the same number in it.
pub fn data(from: Side, index: u32, bytes: usize) -> Vec<Frame> {
    let count = bytes.div_ceil(AROUND + MOST).max(1);
    let part = |part: usize| {
        let len = bytes / count + usize::from(part < bytes % count);
        let mut message = ENCAPSULATED_DATA_DATA { seqnr: part as u16, ..Default::default() };
        // What is 0 at the end of a payload is left out of the frame.
        let filled = len.saturating_sub(AROUND + 2).min(message.data.len());
        message.data[..filled].fill(0x5c);
        message.data[..4].copy_from_slice(&index.to_le_bytes());
        frame(if from == Side::Air { 1 } else { 255 }, &MavMessage::ENCAPSULATED_DATA(message))
    };
    (0..count).map(part).collect()
}

/// The number in a frame made by [`data`].
pub fn data_index(frame: &Frame) -> Option<u32> {
    let byte = |offset| u32::from(frame.field::<1>(offset)[0]);
    (frame.message_id().0 == ENCAPSULATED_DATA).then(|| (0..4).map(|n| byte(2 + n) << (8 * n)).sum())
}

/// The same frame with a signature that nobody can check: link 0, time stamp `stamp` in units of 10 µs.
pub fn signed(frame: &Frame, stamp: u64) -> Frame {
    let mut raw = frame.bytes().to_vec();
    raw[2] |= 1;
    let info = frame.info().expect("a message of ours");
    let end = raw.len() - 2;
    let crc = mavlink::calculate_crc(&raw[1..end], info.crc_extra);
    raw[end..].copy_from_slice(&crc.to_le_bytes());
    raw.push(0);
    raw.extend_from_slice(&stamp.to_le_bytes()[..6]);
    raw.extend_from_slice(&[0x5a; 6]);
    Frame::from_bytes(Bytes::from(raw)).expect("a valid frame")
}

/// Any message as a MAVLink 2 frame from component 1 of `system`.
pub fn frame(system: u8, message: &MavMessage) -> Frame {
    let mut raw = MAVLinkV2MessageRaw::new();
    raw.serialize_message(MavHeader { system_id: u32::from(system), component_id: 1, sequence: 0 }, message);
    Frame::from_bytes(Bytes::copy_from_slice(raw.raw_bytes())).expect("the mavlink crate makes valid frames")
}

/// RTP packet number `seq`, of video frame `index`, `len` bytes in all, of a payload that no codec claims.
pub fn rtp(seq: u16, index: u32, len: usize, last: bool) -> Vec<u8> {
    with_payload(seq, index, len, last, 0x5c)
}

/// The same with a slice of H.264 (RFC 6184 §5.6): one that others refer to, or of a recovery point.
pub fn h264(seq: u16, index: u32, len: usize, last: bool, recovery: bool) -> Vec<u8> {
    with_payload(seq, index, len, last, if recovery { 0x65 } else { 0x61 })
}

/// The parameter sets in front of a recovery point, from which on pictures have this size: H.264's of sequence and picture (H.264
/// §7.3.2.1.1 and §7.3.2.2) in one packet (RFC 6184 §5.7.1). Without a number in it, see [`rtp_index`]; sizes are even.
pub fn h264_parameter_sets(seq: u16, index: u32, (width, height): (u32, u32)) -> Vec<u8> {
    // Constrained baseline, level 4.
    let mut sequence = vec![0x67, 66, 0xc0, 40];
    let (columns, rows) = (width.div_ceil(16), height.div_ceil(16));
    let (right, bottom) = ((columns * 16 - width) / 2, (rows * 16 - height) / 2);
    let mut bits = String::new();
    // Id, frame numbers of 4 bits, order as they come, one reference, no gaps, the size, no fields.
    [0, 0, 2, 1].into_iter().for_each(|value| bits += &exp_golomb(value));
    bits += "0";
    [columns - 1, rows - 1].into_iter().for_each(|value| bits += &exp_golomb(value));
    bits += "111";
    // What is cut off of the last blocks, no more about it, the end.
    [0, right, 0, bottom].into_iter().for_each(|value| bits += &exp_golomb(value));
    bits += "01";
    bits += &"0".repeat(bits.len().next_multiple_of(8) - bits.len());
    sequence.extend(bits.as_bytes().chunks(8).map(|byte| byte.iter().fold(0, |all, bit| all << 1 | (bit - b'0'))));
    let mut packet = with_payload(seq, index, RTP_MIN, false, STAP_A);
    packet.truncate(13);
    for unit in [&sequence[..], &[0x68, 0xce, 0x38, 0x80]] {
        packet.extend_from_slice(&(unit.len() as u16).to_be_bytes());
        packet.extend_from_slice(unit);
    }
    packet
}

/// H.264 §9.1.
fn exp_golomb(value: u32) -> String {
    let number = format!("{:b}", value + 1);
    format!("{}{number}", "0".repeat(number.len() - 1))
}

fn with_payload(seq: u16, index: u32, len: usize, last: bool, first: u8) -> Vec<u8> {
    let mut packet = Vec::with_capacity(len);
    packet.push(0x80);
    packet.push(if last { 0x80 | 97 } else { 97 });
    packet.extend_from_slice(&seq.to_be_bytes());
    packet.extend_from_slice(&index.wrapping_mul(3000).to_be_bytes());
    packet.extend_from_slice(&0x4151_0001u32.to_be_bytes());
    packet.extend_from_slice(&[first, 0x5c, 0x5c, 0x5c]);
    packet.extend_from_slice(&index.to_be_bytes());
    packet.resize(len.max(RTP_MIN), (index ^ u32::from(seq)) as u8);
    packet
}

/// The frame number in a packet made by [`rtp`] or [`h264`].
pub fn rtp_index(packet: &[u8]) -> Option<u32> {
    packet.get(12).filter(|first| **first != STAP_A)?;
    packet.get(16..20).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are as ffmpeg reads them: `ffmpeg -i FILE -c copy -bsf:v trace_headers -f null -`.
    #[test]
    fn parameter_sets_have_the_size() {
        let sets = |size| h264_parameter_sets(7, 9, size)[12..].to_vec();
        let of = |sequence: &[u8]| [&[0x78, 0, 10], sequence, &[0, 4, 0x68, 0xce, 0x38, 0x80]].concat();
        assert_eq!(sets((1280, 720)), of(&[0x67, 0x42, 0xc0, 0x28, 0xda, 0x01, 0x40, 0x16, 0xff, 0x40]));
        assert_eq!(sets((640, 360)), of(&[0x67, 0x42, 0xc0, 0x28, 0xda, 0x02, 0x80, 0xbf, 0xe5, 0x40]));
        assert_eq!(rtp_index(&h264_parameter_sets(7, 9, (640, 360))), None);
        assert_eq!(rtp_index(&h264(7, 9, 100, true, true)), Some(9));
    }

    #[test]
    fn telemetry_has_so_many_bytes_and_its_number_in_each_frame() {
        for (bytes, count) in [(20, 1), (267, 1), (268, 2), (1_000, 4), (16_000, 60)] {
            for index in [0, 7, 0x0102_0304] {
                let frames = data(Side::Ground, index, bytes);
                assert_eq!(frames.iter().map(|frame| frame.bytes().len()).sum::<usize>(), bytes, "{index}");
                assert_eq!(frames.len(), count);
                assert!(frames.iter().all(|frame| data_index(frame) == Some(index)));
            }
        }
        assert_eq!(data_index(&command(Side::Air, 7)), None);
    }
}
