//! The RTP streams of one flow: a camera's picture, and perhaps its sound beside it on the same port (OpenIPC's cameras send both).

use std::time::{Duration, Instant};

use super::classify::{Classifier, Codec};
use super::nal::PacketKind;
use super::rtp::RtpPacket;

/// What is known of the streams of one flow.
#[derive(Debug)]
pub(super) struct Streams {
    configured: Codec,
    /// At most [`MAX_STREAMS`].
    streams: Vec<Stream>,
    /// The one that a picture came of last.
    picture: Option<StreamId>,
}

/// SSRC and payload type.
type StreamId = (u32, u8);

#[derive(Debug)]
struct Stream {
    id: StreamId,
    classifier: Classifier,
    /// Of its last packet.
    sequence: u16,
    last: Instant,
}

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// What it means for the decoder.
    pub kind: PacketKind,
    /// Packets that were lost between the last one of its stream and this.
    pub missing: u16,
    /// It is of another stream than those before, or of one that has begun to count anew: what it refers to may never have come.
    pub begins: bool,
    /// It is of no picture, and there is one beside it.
    pub is_beside: bool,
}

impl Streams {
    pub(super) fn new(configured: Codec) -> Self {
        Self { configured, streams: Vec::new(), picture: None }
    }

    /// The codec as configured, or as found in the stream that a picture came of last.
    pub(super) fn codec(&self) -> Codec {
        let picture = self.streams.iter().find(|stream| Some(stream.id) == self.picture);
        picture.map_or(self.configured, |stream| stream.classifier.codec())
    }

    /// Takes the next packet.
    pub(super) fn handle_packet(&mut self, now: Instant, packet: &RtpPacket<'_>) -> Seen {
        let id = (packet.ssrc, packet.payload_type);
        let (index, step) = match self.streams.iter().position(|stream| stream.id == id) {
            Some(index) => (index, Step::between(self.streams[index].sequence, packet.sequence)),
            None => {
                let step = if self.streams.is_empty() { Step::Next } else { Step::Elsewhere };
                (self.begin(now, id), step)
            }
        };
        let stream = &mut self.streams[index];
        let kind = stream.classifier.handle_packet(packet);
        (stream.sequence, stream.last) = (packet.sequence, now);
        let is_beside = !self.is_picture(&self.streams[index]) && self.has_picture(now);
        if !is_beside {
            self.picture = Some(id);
        }
        let missing = if let Step::Over(missing) = step { missing } else { 0 };
        Seen { kind, missing, begins: step == Step::Elsewhere, is_beside }
    }

    /// Room for another stream, in place of the one that has been silent longest if there is none.
    fn begin(&mut self, now: Instant, id: StreamId) -> usize {
        if self.streams.len() == MAX_STREAMS {
            let longest = (0..MAX_STREAMS).min_by_key(|index| self.streams[*index].last);
            longest.map(|index| self.streams.swap_remove(index));
        }
        self.streams.push(Stream { id, classifier: Classifier::new(self.configured), sequence: 0, last: now });
        self.streams.len() - 1
    }

    fn has_picture(&self, now: Instant) -> bool {
        let is_heard = |stream: &&Stream| now.saturating_duration_since(stream.last) < PICTURE_HOLDS;
        self.streams.iter().filter(is_heard).any(|stream| self.is_picture(stream))
    }

    /// As far as is known.
    fn is_picture(&self, stream: &Stream) -> bool {
        match self.configured {
            Codec::Opaque => true,
            Codec::H264 | Codec::H265 => !STATIC_SOUND.contains(&stream.id.1),
            Codec::Auto => stream.classifier.codec() != Codec::Auto,
        }
    }
}

/// From one packet of a stream to the next that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There is none between, or this one was late or came twice.
    Next,
    /// So many were lost.
    Over(u16),
    /// Too far for that.
    Elsewhere,
}

impl Step {
    fn between(last: u16, sequence: u16) -> Self {
        match sequence.wrapping_sub(last).wrapping_sub(1) {
            0 => Self::Next,
            missing @ 1..=MAX_MISSING => Self::Over(missing),
            back if back > u16::MAX - MAX_MISSING => Self::Next,
            _ => Self::Elsewhere,
        }
    }
}

/// Picture and sound, and both again after the camera has been started anew.
const MAX_STREAMS: usize = 4;
/// Longest gap in sequence numbers that counts as loss; beyond, either way, the source started anew.
const MAX_MISSING: u16 = 512;
/// A stream is still there if it was heard this lately: a camera that was told to pause is.
const PICTURE_HOLDS: Duration = Duration::from_secs(30);
/// Payload types that are sound, whoever sends them (RFC 3551 §6).
const STATIC_SOUND: std::ops::RangeInclusive<u8> = 0..=23;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::tests::{epoch, rtp};

    const SPS: [u8; 4] = [0x67, 66, 0, 30];
    const REFERENCE: [u8; 2] = [0x41, 7];
    const SOUND: [u8; 3] = [0xfc, 0xff, 0xfe];

    fn seen(streams: &mut Streams, now: Instant, ssrc: u32, payload_type: u8, sequence: u16, payload: &[u8]) -> Seen {
        let mut packet = rtp(true, sequence, 0, ssrc, payload);
        packet[1] = packet[1] & 0x80 | payload_type;
        streams.handle_packet(now, &RtpPacket::parse(&packet).unwrap())
    }

    #[test]
    fn sound_beside_a_picture_does_not_hide_what_it_is() {
        let (now, mut streams) = (epoch(), Streams::new(Codec::Auto));
        assert!(!seen(&mut streams, now, 9, 98, 0, &SOUND).is_beside, "nothing is known yet");
        let first = seen(&mut streams, now, 1, 97, 0, &SPS);
        assert_eq!((first.kind, first.begins, first.is_beside), (PacketKind::Recovery, true, false));
        for number in 1..100 {
            let sound = seen(&mut streams, now, 9, 98, number, &SOUND);
            assert!(sound.is_beside && !sound.begins);
            // With the same SSRC, too, and its own sequence numbers.
            assert!(seen(&mut streams, now, 1, 0, number * 7, &SOUND).is_beside);
            let picture = seen(&mut streams, now, 1, 97, number, &REFERENCE);
            let expected = Seen { kind: PacketKind::Reference, missing: 0, begins: false, is_beside: false };
            assert_eq!((picture, streams.codec()), (expected, Codec::H264));
        }
    }

    #[test]
    fn a_stream_begins_with_another_ssrc_or_far_from_its_last_number() {
        let (now, mut streams) = (epoch(), Streams::new(Codec::H264));
        let mut step = |ssrc, sequence| {
            let Seen { missing, begins, .. } = seen(&mut streams, now, ssrc, 96, sequence, &REFERENCE);
            (missing, begins)
        };
        assert_eq!(step(1, 65_000), (0, false), "the first of all");
        assert_eq!([step(1, 65_001), step(1, 65_002), step(1, 65_005)], [(0, false), (0, false), (2, false)]);
        assert_eq!([step(1, 65_004), step(1, 65_005)], [(0, false), (0, false)], "late, and again");
        // 512 between, and 513.
        assert_eq!([step(1, 65_006), step(1, 65_519), step(1, 497)], [(0, false), (512, false), (0, true)]);
        assert_eq!([step(2, 7), step(2, 8), step(1, 498)], [(0, true), (0, false), (0, false)]);
        assert_eq!(step(2, 40_000), (0, true));
    }

    #[test]
    fn few_are_remembered_and_the_silent_ones_are_forgotten() {
        let (start, mut streams) = (epoch(), Streams::new(Codec::Auto));
        for number in 0..1000u32 {
            let now = start + Duration::from_millis(number.into());
            seen(&mut streams, now, number, 97, 0, &SPS);
            assert!(!seen(&mut streams, now, 0, 97, number as u16 + 1, &REFERENCE).begins, "one that goes on");
            assert!(streams.streams.len() <= MAX_STREAMS);
        }
    }

    #[test]
    fn a_picture_that_has_been_gone_for_long_makes_nothing_else_sound() {
        let (now, mut streams) = (epoch(), Streams::new(Codec::Auto));
        seen(&mut streams, now, 1, 97, 0, &SPS);
        assert!(seen(&mut streams, now + PICTURE_HOLDS / 2, 2, 98, 0, &SOUND).is_beside);
        assert!(!seen(&mut streams, now + PICTURE_HOLDS, 2, 98, 1, &SOUND).is_beside);
    }
}
