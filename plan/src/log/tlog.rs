//! MAVLink telemetry logs: in front of each frame eight bytes, microseconds since 1970, most significant first.
//!
//! Read are GLOBAL_POSITION_INT and ATTITUDE of the first system that sends positions. A frame of those whose checksum
//! is wrong is left out and counted; of others the checksum is not known here and not looked at. What is no frame where
//! one should be ends the reading with an error: what follows cannot be told apart. A file that ends within a frame was
//! cut off, which is noted.

use super::{Attitude, Collector, FlightLog};
use crate::fault::ParseError;
use crate::geodesy::Position;

/// MAVLink 1 and 2: the first byte of a frame [mavlink.io, Packet Serialization].
const STX: [u8; 2] = [0xfe, 0xfd];
/// A time stamp.
const STAMP: usize = 8;
/// Of MAVLink 2: the frame has a signature.
const SIGNED: u8 = 1;

/// A message that is read: number, CRC_EXTRA, length without extensions [`common.xml`].
const ATTITUDE: (u32, u8, usize) = (30, 39, 28);
const GLOBAL_POSITION_INT: (u32, u8, usize) = (33, 104, 28);

/// Reads one.
///
/// # Errors
/// The first byte that is wrong.
pub fn parse(bytes: &[u8]) -> Result<FlightLog, ParseError> {
    let (mut at, mut log) = (0, Collector::default());
    let (mut system, mut damaged, mut notes) = (None, 0u64, Vec::new());
    while at < bytes.len() {
        let Some(frame) = Frame::read(&bytes[at..]).map_err(|reason| ParseError::byte(at + STAMP, reason))? else {
            notes.push(format!("{} bytes at the end are not a whole frame", bytes.len() - at));
            break;
        };
        let known = [ATTITUDE, GLOBAL_POSITION_INT].into_iter().find(|known| known.0 == frame.message);
        match known {
            Some((_, extra, _)) if !frame.is_intact(extra) => damaged += 1,
            Some((message, _, length)) if system.is_none_or(|system| system == frame.system) => {
                let payload = frame.payload(length);
                if message == GLOBAL_POSITION_INT.0 {
                    if let Some(position) = position(&payload) {
                        system = Some(frame.system);
                        log.fix(frame.at_s, position).map_err(|reason| ParseError::byte(at, reason))?;
                    }
                } else if system.is_some() {
                    log.attitude(attitude(frame.at_s, &payload));
                }
            }
            _ => {}
        }
        at += frame.length;
    }
    if damaged > 0 {
        notes.push(format!("{damaged} frames with a wrong checksum were left out"));
    }
    log.finish(notes)
}

struct Frame<'a> {
    at_s: f64,
    system: u8,
    message: u32,
    /// From behind the first byte to the end of the payload: what the checksum is over.
    checked: &'a [u8],
    payload: &'a [u8],
    checksum: u16,
    /// With the stamp.
    length: usize,
}

impl<'a> Frame<'a> {
    /// `None` if it is cut off.
    fn read(bytes: &'a [u8]) -> Result<Option<Self>, String> {
        let Some((stamp, rest)) = bytes.split_first_chunk::<STAMP>() else { return Ok(None) };
        let Some(first) = rest.first() else { return Ok(None) };
        let is_new = *first == STX[1];
        if !STX.contains(first) {
            return Err(format!("0x{first:02x} is no first byte of a MAVLink frame (0xfe, 0xfd)"));
        }
        let head = if is_new { 10 } else { 6 };
        if rest.len() < head {
            return Ok(None);
        }
        let length = usize::from(rest[1]);
        let signature = if is_new && rest[2] & SIGNED != 0 { 13 } else { 0 };
        let whole = head + length + 2 + signature;
        if rest.len() < whole {
            return Ok(None);
        }
        let (system, message) = match is_new {
            true => (rest[5], u32::from_le_bytes([rest[7], rest[8], rest[9], 0])),
            false => (rest[3], u32::from(rest[5])),
        };
        let end = head + length;
        Ok(Some(Self {
            at_s: u64::from_be_bytes(*stamp) as f64 / 1e6,
            system,
            message,
            checked: &rest[1..end],
            payload: &rest[head..end],
            checksum: u16::from_le_bytes([rest[end], rest[end + 1]]),
            length: STAMP + whole,
        }))
    }

    fn is_intact(&self, extra: u8) -> bool {
        crc(self.checked.iter().copied().chain([extra])) == self.checksum
    }

    /// With the zeros at its end that MAVLink 2 leaves out.
    fn payload(&self, length: usize) -> Vec<u8> {
        let mut payload = self.payload.to_vec();
        payload.resize(length.max(payload.len()), 0);
        payload
    }
}

/// CRC-16/MCRF4XX [mavlink.io, Packet Serialization, Checksum].
fn crc(bytes: impl Iterator<Item = u8>) -> u16 {
    bytes.fold(0xffff, |crc: u16, byte| {
        let mut low = byte ^ crc as u8;
        low ^= low << 4;
        let low = u16::from(low);
        crc >> 8 ^ low << 8 ^ low << 3 ^ low >> 4
    })
}

/// GLOBAL_POSITION_INT: milliseconds, latitude, longitude in 1e-7 degrees, altitude in mm.
fn position(payload: &[u8]) -> Option<Position> {
    let (latitude, longitude) = (word(payload, 4), word(payload, 8));
    // Without a fix both are 0.
    if latitude == 0 && longitude == 0 {
        return None;
    }
    Position::new(f64::from(latitude) / 1e7, f64::from(longitude) / 1e7, f64::from(word(payload, 12)) / 1e3)
}

/// ATTITUDE: milliseconds, roll, pitch, yaw in radians.
fn attitude(at_s: f64, payload: &[u8]) -> Attitude {
    let angle = |at: usize| {
        let value = f64::from(f32::from_bits(word(payload, at) as u32)).to_degrees();
        if value.is_finite() { crate::geodesy::wrap_180(value) } else { 0.0 }
    };
    Attitude { at_s, roll_deg: angle(4), pitch_deg: angle(8), yaw_deg: angle(12) }
}

fn word(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| i32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use mavlink::dialects::ardupilotmega::{ATTITUDE_DATA, GLOBAL_POSITION_INT_DATA, HEARTBEAT_DATA, MavMessage};
    use mavlink::{MavHeader, MavlinkVersion, write_versioned_msg};
    use proptest::prelude::*;

    use super::*;

    fn push(log: &mut Vec<u8>, at_us: u64, system_id: u32, version: MavlinkVersion, message: &MavMessage) {
        log.extend(at_us.to_be_bytes());
        let header = MavHeader { system_id, component_id: 1, sequence: 7 };
        write_versioned_msg(log, version, header, message).unwrap();
    }

    fn sample() -> Vec<u8> {
        let mut log = Vec::new();
        for second in 0..3u32 {
            for version in [MavlinkVersion::V1, MavlinkVersion::V2] {
                let at = 1_700_000_000_000_000 + u64::from(second) * 1_000_000 + version as u64 * 500_000;
                push(&mut log, at, 255, version, &MavMessage::HEARTBEAT(HEARTBEAT_DATA::default()));
                let position = GLOBAL_POSITION_INT_DATA {
                    lat: 634_400_000 + second as i32 * 1_000,
                    lon: 103_500_000,
                    alt: 300_250,
                    ..Default::default()
                };
                push(&mut log, at, 1, version, &MavMessage::GLOBAL_POSITION_INT(position));
                let attitude = ATTITUDE_DATA { roll: 0.5, yaw: -1.0, ..Default::default() };
                push(&mut log, at + 10, 1, version, &MavMessage::ATTITUDE(attitude));
            }
        }
        log
    }

    #[test]
    fn what_the_mavlink_library_writes_is_read() {
        let log = parse(&sample()).unwrap();
        assert_eq!(log.fixes.len(), 6);
        assert_eq!(log.fixes[5].position, Position::new(63.4402, 10.35, 300.25).unwrap());
        assert!((log.fixes[5].at_s - 2.5).abs() < 1e-5 && log.start_s > 1.6e9);
        assert!((log.attitudes[0].roll_deg - 28.648).abs() < 1e-3);
        assert!((log.attitudes[0].yaw_deg + 57.296).abs() < 1e-3 && log.notes.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_byte() {
        let mut bytes = sample();
        let whole = bytes.len();
        bytes.extend([0u8; 8]);
        bytes.push(0x55);
        assert_eq!(parse(&bytes).unwrap_err().place, crate::fault::Place::Byte(whole as u64 + 8));
        assert!(parse(&sample()[..whole - 5]).unwrap().notes[0].contains("not a whole frame"));
        assert!(parse(b"").unwrap_err().to_string().contains("no positions"));
        // A frame that is damaged counts for nothing.
        let mut bytes = sample();
        let first = bytes.windows(2).position(|pair| pair == [0xfe, 28]).unwrap();
        bytes[first + 10] ^= 1;
        let log = parse(&bytes).unwrap();
        assert_eq!((log.fixes.len(), log.notes.len()), (5, 1));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(at in 0usize..600, byte: u8, cut in 0usize..600) {
            let mut bytes = sample();
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(length - cut % length);
            let _ = parse(&bytes);
        }
    }
}
