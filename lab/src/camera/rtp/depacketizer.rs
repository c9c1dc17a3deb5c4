//! Access units out of RTP packets.

use std::collections::VecDeque;

use super::{END, FU_A, HEAD_BITS, HEADER_LEN, MARKER, STAP_A, START, TYPE_BITS};

const START_CODE: [u8; 4] = [0, 0, 0, 1];
/// A source that never sets the marker nor changes the timestamp cannot fill the memory.
const MAX_ACCESS_UNIT: usize = 16 << 20;
/// NAL unit types that only come with a recovery point.
const IDR_SLICE: u8 = 5;

/// The packets of one timestamp, put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessUnit {
    /// NAL units, each behind a start code (Annex B).
    pub annex_b: Vec<u8>,
    /// RTP timestamp, ticks of 1/90,000 s.
    pub timestamp: u32,
    /// Nothing of it is missing.
    pub is_complete: bool,
    /// It holds a slice at which a decoder can begin.
    pub is_idr: bool,
}

/// Puts packets together again. They must come in order; one that comes late counts as lost, one that comes twice is dropped.
///
/// Give packets to [`Depacketizer::handle_packet`], then take access units from [`Depacketizer::poll_access_unit`] until `None`.
#[derive(Debug, Default)]
pub struct Depacketizer {
    /// Sequence number that comes next.
    next: Option<u16>,
    unit: Option<Unit>,
    ready: VecDeque<AccessUnit>,
    /// Packets that were missing.
    lost: u64,
    /// Packets that were not understood.
    bad: u64,
    /// A packet was missing before the unit that comes next; it may have been that unit's.
    gap: bool,
}

/// The access unit that is being put together.
#[derive(Debug)]
struct Unit {
    access_unit: AccessUnit,
    /// Between the first and the last fragment of a NAL unit.
    in_fragments: bool,
}

impl Depacketizer {
    /// Begins with whatever packet comes first.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an RTP packet. What is none is counted and dropped.
    pub fn handle_packet(&mut self, packet: &[u8]) {
        if self.take(packet).is_none() {
            self.bad += 1;
        }
    }

    /// The next access unit, whole or not.
    pub fn poll_access_unit(&mut self) -> Option<AccessUnit> {
        self.ready.pop_front()
    }

    /// Packets that never came, by their sequence numbers.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Packets that were not RTP, or held what RFC 6184 does not allow in this mode.
    pub fn bad(&self) -> u64 {
        self.bad
    }

    /// `None`: not understood.
    fn take(&mut self, packet: &[u8]) -> Option<()> {
        let header = Header::parse(packet)?;
        let missing = header.sequence.wrapping_sub(self.next.unwrap_or(header.sequence));
        if missing >= 0x8000 {
            return Some(()); // An old one.
        }
        self.lost += u64::from(missing);
        self.next = Some(header.sequence.wrapping_add(1));
        self.gap |= missing > 0;

        if self.unit.as_ref().is_some_and(|unit| unit.access_unit.timestamp != header.timestamp) {
            // Its last packet, with the marker, is among those that are missing.
            self.finish(false);
        }
        let gap = std::mem::take(&mut self.gap);
        let unit = self.unit.get_or_insert_with(|| Unit::new(header.timestamp));
        unit.access_unit.is_complete &= !gap;
        let understood = unit.push(header.payload, gap);
        if header.marker || unit.access_unit.annex_b.len() > MAX_ACCESS_UNIT {
            self.finish(header.marker);
        }
        understood
    }

    fn finish(&mut self, to_the_end: bool) {
        let Some(unit) = self.unit.take() else { return };
        let is_complete = unit.access_unit.is_complete && to_the_end && !unit.in_fragments;
        self.ready.push_back(AccessUnit { is_complete, ..unit.access_unit });
    }
}

impl Unit {
    fn new(timestamp: u32) -> Self {
        let access_unit = AccessUnit { annex_b: Vec::new(), timestamp, is_complete: true, is_idr: false };
        Self { access_unit, in_fragments: false }
    }

    /// `None`: not understood, and the unit is incomplete.
    fn push(&mut self, payload: &[u8], gap: bool) -> Option<()> {
        let done = match payload.first().map(|head| head & TYPE_BITS) {
            Some(1..=23) => {
                self.begin_nal(payload[0]);
                self.access_unit.annex_b.extend(&payload[1..]);
                Some(())
            }
            Some(STAP_A) => self.push_aggregate(&payload[1..]),
            Some(FU_A) if payload.len() > 2 => self.push_fragment(payload, gap),
            _ => None,
        };
        if done.is_none() {
            self.access_unit.is_complete = false;
        }
        done
    }

    fn push_aggregate(&mut self, mut rest: &[u8]) -> Option<()> {
        while !rest.is_empty() {
            let (size, tail) = rest.split_at_checked(2)?;
            let (nal, tail) = tail.split_at_checked(u16::from_be_bytes([size[0], size[1]]).into())?;
            self.begin_nal(*nal.first()?);
            self.access_unit.annex_b.extend(&nal[1..]);
            rest = tail;
        }
        Some(())
    }

    fn push_fragment(&mut self, payload: &[u8], gap: bool) -> Option<()> {
        let (indicator, header) = (payload[0], payload[1]);
        if header & START != 0 {
            self.begin_nal(indicator & HEAD_BITS | header & TYPE_BITS);
            self.in_fragments = true;
        } else if !self.in_fragments || gap {
            // The beginning, or something between, is missing: what follows is of no use.
            self.in_fragments = false;
            self.access_unit.is_complete = false;
            return Some(());
        }
        self.access_unit.annex_b.extend(&payload[2..]);
        if header & END != 0 {
            self.in_fragments = false;
        }
        Some(())
    }

    fn begin_nal(&mut self, head: u8) {
        if std::mem::take(&mut self.in_fragments) {
            self.access_unit.is_complete = false;
        }
        self.access_unit.is_idr |= head & TYPE_BITS == IDR_SLICE;
        self.access_unit.annex_b.extend(START_CODE);
        self.access_unit.annex_b.push(head);
    }
}

struct Header<'a> {
    sequence: u16,
    timestamp: u32,
    marker: bool,
    payload: &'a [u8],
}

impl<'a> Header<'a> {
    /// RFC 3550 §5.1.
    fn parse(packet: &'a [u8]) -> Option<Self> {
        let first = *packet.first()?;
        if first >> 6 != 2 || packet.len() < HEADER_LEN {
            return None;
        }
        let contributors = usize::from(first & 0x0F) * 4;
        let mut payload = packet.get(HEADER_LEN + contributors..)?;
        if first & 0x10 != 0 {
            let words = u16::from_be_bytes([*payload.get(2)?, *payload.get(3)?]);
            payload = payload.get(4 + usize::from(words) * 4..)?;
        }
        if first & 0x20 != 0 {
            let padding = usize::from(*payload.last()?);
            payload = payload.get(..payload.len().checked_sub(padding)?)?;
        }
        Some(Self {
            sequence: u16::from_be_bytes([packet[2], packet[3]]),
            timestamp: u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]),
            marker: packet[1] & MARKER != 0,
            payload,
        })
    }
}
