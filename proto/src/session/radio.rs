//! What passing MAVLink says of the radio and of the flight.

use std::time::Instant;

use super::{Session, Side};
use crate::BearerId;
use crate::cc::{RADIO_HOLDS, Radio};
use crate::mavlink::{Address, Frame, MessageId};

const GLOBAL_POSITION_INT: MessageId = MessageId(33);
const CELLULAR_STATUS: MessageId = MessageId(334);
const UNKNOWN_QUALITY: u8 = u8::MAX;

impl Session {
    /// Tells what is known of a bearer's radio, or, if it is not said of which, of all of them, and of the flight. What MAVLink says of the
    /// radio does not count for as long as what was told so does.
    pub fn set_radio(&mut self, now: Instant, bearer: Option<BearerId>, radio: &Radio) {
        if (Radio { altitude_m: None, ..*radio }) != Radio::default() {
            self.modem_asked = Some(now);
        }
        self.tell_radio(now, bearer, radio);
    }

    fn tell_radio(&mut self, now: Instant, bearer: Option<BearerId>, radio: &Radio) {
        self.radio.on_radio(now, radio);
        let meant = self.bearers.iter_mut().filter(|other| bearer.is_none_or(|bearer| other.id == bearer));
        meant.for_each(|bearer| bearer.controller.on_radio(now, radio));
    }

    /// Looks at a frame that is about to leave.
    pub(super) fn note_radio(&mut self, now: Instant, frame: &Frame) {
        if self.config.side == Side::Air
            && let Some(radio) = radio_of(frame)
            && (frame.message_id() != CELLULAR_STATUS || self.modem_teller.is(now, frame.source()))
        {
            // Who asks the modem itself knows better, and numbers cells in another way.
            let is_asked = self.modem_asked.is_some_and(|at| now.saturating_duration_since(at) < RADIO_HOLDS);
            let radio = match is_asked {
                true => Radio { altitude_m: radio.altitude_m, ..Radio::default() },
                false => radio,
            };
            self.tell_radio(now, None, &radio);
        }
    }
}

/// Who tells of the modem by MAVLink. Where two do, each of a modem of its own, the one that was heard first is listened to for as long as
/// it tells: to take both for one would be a handover with each message.
#[derive(Debug, Default)]
pub(super) struct ModemTeller(Option<(Address, Instant)>);

impl ModemTeller {
    /// Whether it is this one, who tells something now.
    fn is(&mut self, now: Instant, source: Address) -> bool {
        let is_other =
            |(teller, at): (Address, Instant)| teller != source && now.saturating_duration_since(at) < RADIO_HOLDS;
        if self.0.is_some_and(is_other) {
            return false;
        }
        self.0 = Some((source, now));
        true
    }
}

/// What a message says, if it is one of those that say something.
fn radio_of(frame: &Frame) -> Option<Radio> {
    match frame.message_id() {
        GLOBAL_POSITION_INT => {
            // relative_alt, millimetres.
            let millimetres = i32::from_le_bytes(frame.field(16));
            Some(Radio { altitude_m: Some(millimetres as f32 / 1000.0), ..Radio::default() })
        }
        CELLULAR_STATUS => {
            // On the wire the 16-bit fields come first: mcc, mnc, lac; then status, failure_reason, type, quality.
            let [mcc, mnc, lac] = [0, 2, 4].map(|at| u64::from(u16::from_le_bytes(frame.field(at))));
            let [quality] = frame.field(9);
            let has_cell = lac != 0 && lac != u64::from(u16::MAX) && mcc != 0 && mcc != u64::from(u16::MAX);
            let radio = Radio {
                cell: has_cell.then_some(mcc << 32 | mnc << 16 | lac),
                rsrp_dbm: (quality != UNKNOWN_QUALITY && quality <= 100).then(|| rsrp_of_quality(quality)),
                ..Radio::default()
            };
            (radio != Radio::default()).then_some(radio)
        }
        _ => None,
    }
}

/// Signal quality in per cent is RSSI from -113 to -51 dBm (3GPP TS 27.007 §8.5, +CSQ), as companions fill it in; RSRP is that
/// of one of the 600 subcarriers of 10 MHz, 28 dB less.
fn rsrp_of_quality(per_cent: u8) -> f32 {
    -113.0 + 62.0 * f32::from(per_cent) / 100.0 - 28.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mavlink::{Address, Version};

    fn frame(id: MessageId, payload: &[u8]) -> Frame {
        Frame::build(Version::V2, 0, Address::new(1, 1), id, payload).unwrap()
    }

    #[test]
    fn height_above_home() {
        let mut payload = [0; 28];
        for (millimetres, metres) in [(120_500i32, 120.5), (-3_000, -3.0), (0, 0.0)] {
            payload[16..20].copy_from_slice(&millimetres.to_le_bytes());
            let radio = radio_of(&frame(GLOBAL_POSITION_INT, &payload)).unwrap();
            assert_eq!(radio, Radio { altitude_m: Some(metres), ..Radio::default() });
        }
    }

    #[test]
    fn cell_and_quality() {
        let status = |mcc: u16, mnc: u16, lac: u16, quality: u8| {
            let mut payload = [mcc.to_le_bytes(), mnc.to_le_bytes(), lac.to_le_bytes()].concat();
            payload.extend([3, 0, 4, quality]);
            radio_of(&frame(CELLULAR_STATUS, &payload))
        };
        let one = status(262, 1, 7, 50).unwrap();
        assert_eq!(one.rsrp_dbm, Some(-110.0));
        assert_ne!(one.cell, status(262, 1, 8, 50).unwrap().cell);
        assert_eq!(one.cell, status(262, 1, 7, 80).unwrap().cell);
        assert_eq!(status(0, 0, 0, 255), None, "nothing is known");
        assert_eq!(status(262, 1, u16::MAX, 10).unwrap().cell, None);
        assert_eq!(radio_of(&frame(MessageId(30), &[0; 28])), None);
    }
}
