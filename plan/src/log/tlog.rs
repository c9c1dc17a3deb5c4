//! MAVLink telemetry logs: in front of each frame eight bytes, microseconds since 1970, most significant first.
//!
//! Read are GLOBAL_POSITION_INT and ATTITUDE of the first system that sends positions. A frame of those whose checksum
//! is wrong is left out and counted; of others the checksum is not known here and not looked at. What is no frame where
//! one should be is passed over to the next that is one, and counted. A file that ends within a frame was cut off, which is
//! noted.

use super::{Attitude, Collector, FlightLog, LONGEST_S};
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

/// Stamps are from here on, and before there: 2000 and 2100, s since 1970. Others are damaged.
const STAMPS_S: std::ops::Range<f64> = 946_684_800.0..4_102_444_800.0;

/// Reads one.
///
/// # Errors
/// That there are no positions in what can be read, or that they are of more than a day.
pub fn parse(bytes: &[u8]) -> Result<FlightLog, ParseError> {
    let mut reader = Reader { last_s: begins_s(bytes), ..Reader::default() };
    let mut log = Collector::default();
    while reader.at < bytes.len() {
        let at = reader.at;
        let Some(frame) = reader.next(bytes) else { continue };
        reader.take(&frame, &mut log).map_err(|reason| ParseError::byte(at, reason))?;
    }
    let notes = reader.notes();
    if log.fixes.is_empty() && !notes.is_empty() {
        return Err(ParseError::file(format!("has no positions in what can be read of it: {}", notes.join("; "))));
    }
    log.finish(notes)
}

/// When a log begins, about: the middle one of its first stamps, any of which may be damaged.
fn begins_s(bytes: &[u8]) -> Option<f64> {
    let (mut reader, mut stamps) = (Reader::default(), Vec::new());
    while reader.at < bytes.len() && stamps.len() < 5 {
        stamps.extend(reader.next(bytes).map(|frame| frame.at_s));
    }
    stamps.sort_by(f64::total_cmp);
    stamps.get(stamps.len() / 2).copied()
}

/// Whether there is a frame where a log's first one is.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.get(STAMP).is_some_and(|first| STX.contains(first))
}

/// Where in a log the reading is, and what was left out.
#[derive(Debug, Default)]
struct Reader {
    at: usize,
    /// Up to here frames are sure to be some: a length that is damaged may hide those behind.
    sure: usize,
    system: Option<u8>,
    last_s: Option<f64>,
    /// A stamp more than a day away from that before: it is taken for right if the next one is like it.
    odd_s: Option<f64>,
    damaged: u64,
    odd: u64,
    skipped: usize,
    places: u64,
    cut_off: usize,
}

impl Reader {
    /// The frame that is next. None if there was something else, which is behind us then.
    fn next<'a>(&mut self, bytes: &'a [u8]) -> Option<Frame<'a>> {
        let read = Frame::read(&bytes[self.at..]);
        if let Ok(Some(frame)) = read {
            self.at += frame.length;
            if frame.is_sure() {
                self.sure = self.at;
            }
            return Some(frame);
        }
        // First those that were hidden by the ones before, of which nobody knows whether they were some.
        let next = (self.sure + 1..bytes.len()).find(|at| *at != self.at && is_frame(&bytes[*at..]));
        if next.is_none() && read.is_ok() {
            self.cut_off = bytes.len() - self.at;
        } else {
            let skipped = next.unwrap_or(bytes.len()).saturating_sub(self.at);
            self.skipped += skipped;
            self.places += u64::from(skipped > 0);
        }
        self.at = next.unwrap_or(bytes.len());
        self.sure = self.at;
        None
    }

    fn take(&mut self, frame: &Frame, log: &mut Collector) -> Result<(), String> {
        // Of all frames: the more of them, the surer is what a stamp is.
        if !self.is_its_time(frame.at_s) {
            return Ok(());
        }
        let known = [ATTITUDE, GLOBAL_POSITION_INT].into_iter().find(|known| known.0 == frame.message);
        let Some((message, extra, length)) = known else { return Ok(()) };
        if !frame.is_intact(extra) {
            self.damaged += 1;
            return Ok(());
        }
        if self.system.is_some_and(|system| system != frame.system) {
            return Ok(());
        }
        let payload = frame.payload(length);
        if message == GLOBAL_POSITION_INT.0 {
            if let Some(position) = position(&payload) {
                self.system = Some(frame.system);
                log.fix(frame.at_s, position)?;
            }
        } else if self.system.is_some() {
            log.attitude(attitude(frame.at_s, &payload));
        }
        Ok(())
    }

    /// Whether a stamp can be right. No checksum is over it.
    fn is_its_time(&mut self, at_s: f64) -> bool {
        let is_near = |other: Option<f64>| other.is_none_or(|other| (at_s - other).abs() <= LONGEST_S);
        let is_right =
            STAMPS_S.contains(&at_s) && (is_near(self.last_s) || self.odd_s.is_some() && is_near(self.odd_s));
        if is_right {
            (self.last_s, self.odd_s) = (Some(at_s), None);
        } else {
            self.odd_s = STAMPS_S.contains(&at_s).then_some(at_s);
            self.odd += 1;
        }
        is_right
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.skipped > 0 {
            let places = if self.places == 1 { "one place".into() } else { format!("{} places", self.places) };
            notes.push(format!("{} bytes in {places} that are no MAVLink frames were passed over", self.skipped));
        }
        if self.cut_off > 0 {
            notes.push(format!("{} bytes at the end are not a whole frame", self.cut_off));
        }
        if self.damaged > 0 {
            notes.push(format!("{} frames with a wrong checksum were left out", self.damaged));
        }
        if self.odd > 0 {
            notes.push(format!("{} frames with an impossible time were left out", self.odd));
        }
        notes
    }
}

/// Whether there is a frame here: one that is whole, with a time, and either one whose checksum is right or one that another
/// frame, or the end, is behind.
fn is_frame(bytes: &[u8]) -> bool {
    let Ok(Some(frame)) = Frame::read(bytes) else { return false };
    let rest = &bytes[frame.length..];
    STAMPS_S.contains(&frame.at_s) && (frame.is_sure() || rest.is_empty() || begins(rest))
}

/// Something else is where a frame should be.
struct NoFrame;

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
    fn read(bytes: &'a [u8]) -> Result<Option<Self>, NoFrame> {
        let Some((stamp, rest)) = bytes.split_first_chunk::<STAMP>() else { return Ok(None) };
        let Some(first) = rest.first() else { return Ok(None) };
        let is_new = *first == STX[1];
        if !STX.contains(first) {
            return Err(NoFrame);
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

    /// Of a message that is known, with the right checksum: nothing else looks like it by chance.
    fn is_sure(&self) -> bool {
        [ATTITUDE, GLOBAL_POSITION_INT].into_iter().any(|known| known.0 == self.message && self.is_intact(known.1))
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
    fn what_is_left_out_is_counted() {
        let whole = sample().len();
        assert!(parse(&sample()[..whole - 5]).unwrap().notes[0].contains("not a whole frame"));
        assert!(parse(b"").unwrap_err().to_string().contains("no positions"));
        // A frame that is damaged counts for nothing.
        let mut bytes = sample();
        let first = bytes.windows(2).position(|pair| pair == [0xfe, 28]).unwrap();
        bytes[first + 10] ^= 1;
        let log = parse(&bytes).unwrap();
        assert_eq!((log.fixes.len(), log.notes.len()), (5, 1));
    }

    #[test]
    fn a_few_bytes_that_are_damaged_cost_a_few_frames_and_not_the_log() {
        let clean = parse(&sample()).unwrap();
        for at in 0..sample().len() - 40 {
            for junk in [0x00, 0xfe, 0x55] {
                let mut bytes = sample();
                bytes[at..at + 6].fill(junk);
                let log = parse(&bytes).unwrap_or_else(|error| panic!("{at} {junk}: {error}"));
                assert!(log.fixes.len() + 2 >= clean.fixes.len(), "{at} {junk}: {} fixes", log.fixes.len());
            }
        }
        // Bytes that are missing, and some that are too many.
        let second = sample().windows(2).position(|pair| pair == [0xfe, 28]).unwrap();
        for splice in [second..second + 5, second + 20..second + 20] {
            let mut bytes = sample();
            bytes.splice(splice, [1, 2, 3]);
            let log = parse(&bytes).unwrap();
            assert!(log.fixes.len() >= 5 && log.notes[0].contains("were passed over"), "{:?}", log.notes);
        }
        let mut bytes = sample();
        bytes.extend([0u8; 8]);
        bytes.push(0x55);
        let log = parse(&bytes).unwrap();
        assert_eq!(
            (log.fixes, &*log.notes[0]),
            (clean.fixes, "9 bytes in one place that are no MAVLink frames were passed over")
        );
    }

    #[test]
    fn a_time_that_cannot_be_is_left_out_and_a_log_of_days_is_refused() {
        let clean = parse(&sample()).unwrap();
        let first = sample().windows(2).position(|pair| pair == [0xfe, 28]).unwrap();
        let stamp = first - STAMP;
        let mut bytes = sample();
        bytes[stamp..stamp + 8].copy_from_slice(&1_900_000_000_000_000u64.to_be_bytes());
        let log = parse(&bytes).unwrap();
        assert_eq!(log.fixes.len(), clean.fixes.len() - 1);
        assert_eq!(log.notes, ["1 frames with an impossible time were left out"]);
        let mut days = sample();
        for day in 2..4u64 {
            let position = GLOBAL_POSITION_INT_DATA { lat: 634_400_000, lon: 103_500_000, ..Default::default() };
            let at = 1_700_000_000_000_000 + day * 86_400_000_000;
            push(&mut days, at, 1, MavlinkVersion::V2, &MavMessage::GLOBAL_POSITION_INT(position));
        }
        assert!(parse(&days).unwrap_err().to_string().contains("a day is the most"));
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
