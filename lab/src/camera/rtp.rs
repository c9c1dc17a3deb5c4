//! H.264 in RTP packets (RFC 6184, packetization mode 1): single NAL units and fragments (FU-A); aggregates (STAP-A) are read too.

mod depacketizer;

pub use depacketizer::{AccessUnit, Depacketizer};

/// Version 2, no padding, no extension, no contributing sources (RFC 3550 §5.1).
const HEADER_LEN: usize = 12;
const VERSION_2: u8 = 0x80;
const MARKER: u8 = 0x80;
/// NAL unit types (RFC 6184 §5.2) and the bits of a NAL unit's first byte.
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
const TYPE_BITS: u8 = 0x1F;
const HEAD_BITS: u8 = 0xE0;
/// Bits of a fragment's header (RFC 6184 §5.8).
const START: u8 = 0x80;
const END: u8 = 0x40;

/// How packets are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketizerConfig {
    /// Largest packet in bytes, RTP header included, UDP and IP headers not. At least 64.
    pub max_packet_bytes: usize,
    /// Payload type, 0 to 127; 96 is what players assume for H.264.
    pub payload_type: u8,
    /// Names the source.
    pub ssrc: u32,
    /// Sequence number of the first packet.
    pub first_sequence: u16,
}

impl Default for PacketizerConfig {
    fn default() -> Self {
        Self { max_packet_bytes: 1_200, payload_type: 96, ssrc: 0x4151_4C41, first_sequence: 0 }
    }
}

/// Makes packets of access units.
#[derive(Debug)]
pub struct Packetizer {
    config: PacketizerConfig,
    sequence: u16,
}

impl Packetizer {
    /// RTP's clock for video, ticks a second (RFC 6184 §8.2.1).
    pub const CLOCK_RATE: u32 = 90_000;

    /// Values of `config` that are out of range are brought into it.
    pub fn new(config: PacketizerConfig) -> Self {
        let max_packet_bytes = config.max_packet_bytes.max(64);
        let config = PacketizerConfig { max_packet_bytes, payload_type: config.payload_type & 0x7F, ..config };
        Self { config, sequence: config.first_sequence }
    }

    /// The packets of an access unit (Annex B), which all bear the timestamp (ticks of 1/90,000 s); the last bears the marker.
    pub fn packetize(&mut self, annex_b: &[u8], timestamp: u32) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for nal in nal_units(annex_b) {
            self.push_nal(nal, timestamp, &mut packets);
        }
        if let Some(last) = packets.last_mut() {
            last[1] |= MARKER;
        }
        packets
    }

    fn push_nal(&mut self, nal: &[u8], timestamp: u32, packets: &mut Vec<Vec<u8>>) {
        let room = self.config.max_packet_bytes - HEADER_LEN;
        if nal.len() <= room {
            packets.push(self.packet(timestamp, &[], nal));
            return;
        }
        // The first byte is not repeated: the two bytes of each fragment say the same.
        let (head, body) = (nal[0], &nal[1..]);
        let indicator = head & HEAD_BITS | FU_A;
        let fragments = body.chunks(room - 2);
        let last = fragments.len() - 1;
        for (n, fragment) in fragments.enumerate() {
            let start = if n == 0 { START } else { 0 };
            let end = if n == last { END } else { 0 };
            packets.push(self.packet(timestamp, &[indicator, start | end | head & TYPE_BITS], fragment));
        }
    }

    fn packet(&mut self, timestamp: u32, prefix: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::with_capacity(HEADER_LEN + prefix.len() + payload.len());
        packet.extend([VERSION_2, self.config.payload_type]);
        packet.extend(self.sequence.to_be_bytes());
        packet.extend(timestamp.to_be_bytes());
        packet.extend(self.config.ssrc.to_be_bytes());
        packet.extend(prefix);
        packet.extend(payload);
        self.sequence = self.sequence.wrapping_add(1);
        packet
    }
}

/// NAL units between the start codes of Annex B (three bytes 0, 0, 1; zeros before them belong to no unit). Empty ones are left out.
pub(crate) fn nal_units(annex_b: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut starts = start_codes(annex_b).peekable();
    std::iter::from_fn(move || {
        let start = starts.next()? + 3;
        let end = starts.peek().copied().unwrap_or(annex_b.len());
        let nal = &annex_b[start..end];
        // A unit never ends in a zero byte (H.264 §7.4.1), so those at its end belong to the next start code.
        Some(&nal[..nal.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)])
    })
    .filter(|nal| !nal.is_empty())
}

fn start_codes(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.windows(3).enumerate().filter(|(_, window)| *window == [0, 0, 1]).map(|(at, _)| at)
}

#[cfg(test)]
mod tests;
