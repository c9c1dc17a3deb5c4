//! The second layer of quasi-reliable mode: what the code in a segment cannot mend, since the segment never came or too much of
//! it is wrong, comes back from *repair segments*, each a combination of the last ones (`aquila_fec::rlc`).
//!
//! A packet of that code is a byte with [`PUSH`] and the segment's payload, and has the segment's sequence number as its
//! number.

use std::time::{Duration, Instant};

use aquila_fec::rlc::{Decoder, Encoder, Limits, RepairHeader};

/// The packet ends a message.
const PUSH: u8 = 1;
/// Segments that a repair covers at most. The receiver keeps more, since repairs come later than what they cover.
pub(in super::super) const COVERED: usize = 192;
const KEPT: Limits = Limits { packets: 256, bytes: 1 << 20 };
/// What a repair has beside the longest payload that it covers: the option, its length and type, that of all options; the length
/// of the packet and its first byte.
pub(in super::super) const AROUND: usize = 10 + 3;
/// When nothing new has left for this long, a repair does not wait for more to cover.
const QUIET: Duration = Duration::from_millis(30);
/// What has been saved up for repairs is no more than this many, and no more than this is owed.
const CREDIT: std::ops::RangeInclusive<f64> = -1.0..=4.0;
/// With no less credit than this, a repair may be sent early.
const EARLY: f64 = -0.5;

/// The sending side.
#[derive(Debug)]
pub(in super::super) struct Coder {
    encoder: Encoder,
    /// Repairs that may be sent.
    credit: f64,
    /// Segments since the last repair.
    uncovered: usize,
    last: Option<Instant>,
    /// The last segment left on this line.
    pub line: usize,
    is_quiet: bool,
    packet: Vec<u8>,
}

impl Coder {
    /// The first segment will have this sequence number.
    pub fn new(first: u64) -> Self {
        let limits = Limits { packets: COVERED, ..KEPT };
        Self {
            encoder: Encoder::new(limits, first as u32),
            credit: 0.0,
            uncovered: 0,
            last: None,
            line: 0,
            is_quiet: false,
            packet: Vec::new(),
        }
    }

    /// A new segment leaves. `share`: repairs for each of them.
    pub fn on_segment(&mut self, now: Instant, line: usize, push: bool, payload: &[u8], share: f64) {
        self.packet.clear();
        self.packet.push(if push { PUSH } else { 0 });
        self.packet.extend_from_slice(payload);
        // It is kept whatever its length, and a segment is never as long as what is refused.
        let _ = self.encoder.push(&self.packet);
        self.credit = (self.credit + share).min(*CREDIT.end());
        self.uncovered += 1;
        (self.last, self.line, self.is_quiet) = (Some(now), line, false);
    }

    /// Whether a repair is to be sent now.
    pub fn is_due(&self) -> bool {
        self.uncovered > 0 && (self.credit >= 1.0 || (self.is_quiet && self.credit > EARLY))
    }

    /// When a repair does not wait any longer.
    pub fn quiet_at(&self) -> Option<Instant> {
        let waits = self.uncovered > 0 && !self.is_quiet && self.credit > EARLY;
        self.last.filter(|_| waits).map(|last| last + QUIET)
    }

    /// Nothing follows for now.
    pub fn on_quiet(&mut self) {
        self.is_quiet = true;
    }

    /// The repair that is sent now.
    pub fn repair(&mut self, coded: &mut Vec<u8>) -> Option<RepairHeader> {
        self.credit = (self.credit - 1.0).max(*CREDIT.start());
        if self.credit < 1.0 {
            self.uncovered = 0;
        }
        self.encoder.repair(coded)
    }
}

/// The receiving side.
#[derive(Debug)]
pub(in super::super) struct Mender {
    decoder: Decoder,
    packet: Vec<u8>,
}

impl Mender {
    pub fn new() -> Self {
        Self { decoder: Decoder::new(KEPT), packet: Vec::new() }
    }

    /// A segment has come.
    pub fn on_segment(&mut self, number: u32, push: bool, payload: &[u8]) {
        self.packet.clear();
        self.packet.push(if push { PUSH } else { 0 });
        self.packet.extend_from_slice(payload);
        self.decoder.handle_packet(number, &self.packet);
    }

    /// A repair has come.
    pub fn on_repair(&mut self, header: RepairHeader, coded: &[u8]) {
        self.decoder.handle_repair(header, coded);
    }

    /// The next segment that came out of repairs: its number, whether it ends a message, and its payload.
    pub fn poll(&mut self) -> Option<(u32, bool, &[u8])> {
        let (number, packet) = self.decoder.poll_recovered()?;
        let (first, payload) = packet.split_first().unwrap_or((&0, &[]));
        Some((number, *first == PUSH, payload))
    }
}
