//! The RTP streams of one flow: a camera's picture, and perhaps its sound beside it on the same port (OpenIPC's cameras send both).

use std::time::{Duration, Instant};

use super::classify::{Classifier, Codec};
use super::nal::{self, PacketKind};
use super::rtp::RtpPacket;

/// What is known of the streams of one flow.
#[derive(Debug)]
pub(super) struct Streams {
    configured: Codec,
    /// At most [`MAX_STREAMS`].
    streams: Vec<Stream>,
    /// The one that a picture came of last.
    picture: Option<StreamId>,
    /// A picture has come, or a part of one.
    has_shown: bool,
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
    /// Others came before it, or it has begun to count anew: what it refers to may never have come.
    begins: bool,
}

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// What it means for the decoder.
    pub kind: PacketKind,
    /// Packets that were lost between the last one of its stream and this.
    pub missing: u16,
    /// What it refers to was lost, or never there.
    pub needs_recovery: bool,
    /// It is of no picture, and there is one beside it.
    pub is_beside: bool,
    /// There was a picture, and this is the first that counts of a stream that was not there before, or counts anew: the camera was started again, or is another one.
    pub begins_anew: bool,
}

impl Streams {
    pub(super) fn new(configured: Codec) -> Self {
        Self { configured, streams: Vec::new(), picture: None, has_shown: false }
    }

    /// The codec as configured, or as found in the stream that a picture came of last.
    pub(super) fn codec(&self) -> Codec {
        let picture = self.streams.iter().find(|stream| Some(stream.id) == self.picture);
        picture.map_or(self.configured, |stream| stream.classifier.codec())
    }

    /// Takes the next packet.
    pub(super) fn handle_packet(&mut self, now: Instant, packet: &RtpPacket<'_>) -> Seen {
        let id = (packet.ssrc, packet.payload_type);
        let step = self.step(id, packet.sequence);
        let known = self.streams.iter().position(|stream| stream.id == id);
        let index = known.unwrap_or_else(|| self.begin(now, id));
        let stream = &mut self.streams[index];
        (stream.sequence, stream.last) = (packet.sequence, now);
        stream.begins |= step == Step::Elsewhere;
        let kind = stream.classifier.handle_packet(packet);
        let missing = if let Step::Over(missing) = step { missing } else { 0 };
        if !self.could_be_picture(&self.streams[index]) && self.has_picture(now) {
            return Seen { kind, missing, needs_recovery: false, is_beside: true, begins_anew: false };
        }
        self.picture = Some(id);
        let stream = &mut self.streams[index];
        let mut needs_recovery = missing > 0;
        let counts = kind == PacketKind::Recovery || kind > PacketKind::Disposable && !is_delimiter(packet.payload);
        let begins = stream.begins && counts;
        if begins {
            needs_recovery |= kind != PacketKind::Recovery;
            stream.begins = false;
        }
        let begins_anew = begins && self.has_shown;
        self.has_shown |= counts && self.is_picture(&self.streams[index]);
        Seen { kind, missing, needs_recovery, is_beside: false, begins_anew }
    }

    /// From the last packet to one of this number. Correction and padding have a payload type of their own, and their numbers are among
    /// the picture's (RFC 5109 §14.1 allows both); sound has its own.
    fn step(&self, id: StreamId, sequence: u16) -> Step {
        let own = self.streams.iter().find(|stream| stream.id == id);
        let same_source = self.streams.iter().filter(|stream| stream.id.0 == id.0);
        if same_source.clone().any(|stream| Step::between(stream.sequence, sequence) == Step::Next) {
            return Step::Next;
        }
        match own {
            // Of what came by any of them, the last is nearest.
            Some(own) => same_source
                .map(|stream| Step::between(stream.sequence, sequence))
                .fold(Step::between(own.sequence, sequence), Step::nearer),
            None if self.streams.is_empty() => Step::Next,
            None => Step::Elsewhere,
        }
    }

    /// Room for another stream, in place of the one that has been silent longest if there is none.
    fn begin(&mut self, now: Instant, id: StreamId) -> usize {
        if self.streams.len() == MAX_STREAMS {
            let longest = (0..MAX_STREAMS).min_by_key(|index| self.streams[*index].last);
            longest.map(|index| self.streams.swap_remove(index));
        }
        let begins = !self.streams.is_empty();
        let classifier = Classifier::new(self.configured);
        let classifier = if self.has_picture(now) { classifier.by_sets_only() } else { classifier };
        self.streams.push(Stream { id, classifier, sequence: 0, last: now, begins });
        self.streams.len() - 1
    }

    fn has_picture(&self, now: Instant) -> bool {
        let is_heard = |stream: &&Stream| now.saturating_duration_since(stream.last) < PICTURE_HOLDS;
        self.streams.iter().filter(is_heard).any(|stream| self.is_picture(stream))
    }

    /// A picture, or nothing that speaks against it has come yet.
    fn could_be_picture(&self, stream: &Stream) -> bool {
        self.is_picture(stream) || (self.configured == Codec::Auto && stream.classifier.is_undecided())
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

    fn nearer(self, other: Self) -> Self {
        match (self, other) {
            (Self::Over(one), Self::Over(other)) => Self::Over(one.min(other)),
            (Self::Over(_), _) => self,
            (_, other) => other,
        }
    }
}

/// Comes in front of pictures of either kind, and says nothing of them (access unit delimiter, SEI).
fn is_delimiter(payload: &[u8]) -> bool {
    [nal::h264_kind(payload), nal::h265_kind(payload, None)].contains(&PacketKind::Neutral)
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
        assert_eq!((first.kind, first.needs_recovery, first.is_beside), (PacketKind::Recovery, false, false));
        for number in 1..100 {
            let sound = seen(&mut streams, now, 9, 98, number, &SOUND);
            assert!(sound.is_beside && !sound.needs_recovery);
            // With the same SSRC, too, and its own sequence numbers.
            assert!(seen(&mut streams, now, 1, 0, number * 7, &SOUND).is_beside);
            let picture = seen(&mut streams, now, 1, 97, number, &REFERENCE);
            let expected = Seen {
                kind: PacketKind::Reference,
                missing: 0,
                needs_recovery: false,
                is_beside: false,
                begins_anew: false,
            };
            assert_eq!((picture, streams.codec()), (expected, Codec::H264));
        }
    }

    #[test]
    fn correction_among_the_numbers_of_a_picture_is_no_loss() {
        for codec in [Codec::Auto, Codec::H264] {
            let (now, mut streams) = (epoch(), Streams::new(codec));
            seen(&mut streams, now, 1, 96, 0, &SPS);
            seen(&mut streams, now, 1, 122, 1, &SOUND);
            for number in 1..100 {
                for sequence in [3 * number, 3 * number + 1] {
                    let Seen { missing, needs_recovery, .. } = seen(&mut streams, now, 1, 96, sequence, &REFERENCE);
                    let lost = number == 1 && sequence == 3;
                    assert_eq!((missing, needs_recovery), (u16::from(lost), lost), "{sequence}");
                }
                assert_eq!(seen(&mut streams, now, 1, 122, 3 * number + 2, &SOUND).missing, 0);
            }
            let after = seen(&mut streams, now, 1, 96, 304, &REFERENCE);
            assert_eq!((after.missing, after.needs_recovery), (4, true), "299 was the last that came by either");
        }
    }

    #[test]
    fn a_stream_begins_with_another_ssrc_or_far_from_its_last_number() {
        let (now, mut streams) = (epoch(), Streams::new(Codec::H264));
        let mut step = |ssrc, sequence| {
            let Seen { missing, needs_recovery, .. } = seen(&mut streams, now, ssrc, 96, sequence, &REFERENCE);
            (missing, needs_recovery)
        };
        assert_eq!(step(1, 65_000), (0, false), "the first of all");
        assert_eq!([step(1, 65_001), step(1, 65_002), step(1, 65_005)], [(0, false), (0, false), (2, true)]);
        assert_eq!([step(1, 65_004), step(1, 65_005)], [(0, false), (0, false)], "late, and again");
        // 512 between, and 513.
        assert_eq!([step(1, 65_006), step(1, 65_519), step(1, 497)], [(0, false), (512, true), (0, true)]);
        assert_eq!([step(2, 7), step(2, 8), step(1, 498)], [(0, true), (0, false), (0, false)]);
        assert_eq!(step(2, 40_000), (0, true));
    }

    #[test]
    fn a_stream_may_begin_with_a_recovery_point_message() {
        let (h264, h265) = (&[0x06, 6, 1, 0x84, 0x80][..], &[39 << 1, 1, 6, 2, 0x84, 0x80, 0x80][..]);
        for (codec, message, slice) in [(Codec::H264, h264, &REFERENCE[..]), (Codec::H265, h265, &[0x02, 0x01, 0xd0])] {
            let (now, mut streams) = (epoch(), Streams::new(codec));
            seen(&mut streams, now, 1, 96, 0, slice);
            let began = [message, slice].map(|payload| {
                let number = if payload == message { 0 } else { 1 };
                let seen = seen(&mut streams, now, 2, 96, number, payload);
                (seen.kind == PacketKind::Recovery, seen.needs_recovery)
            });
            assert_eq!(began, [(true, false), (false, false)], "{codec}");
        }
    }

    #[test]
    fn a_camera_that_comes_back_without_parameter_sets_is_no_sound() {
        for first in [&[0x09, 0xf0][..], &REFERENCE] {
            let (now, mut streams) = (epoch(), Streams::new(Codec::Auto));
            seen(&mut streams, now, 1, 97, 0, &SPS);
            let (mut asked, mut anew) = (0, 0);
            for number in 0..80 {
                let payload = if number == 0 { first } else { &REFERENCE };
                let seen = seen(&mut streams, now, 2, 97, number, payload);
                assert!(!seen.is_beside);
                asked += u32::from(seen.needs_recovery);
                anew += u32::from(seen.begins_anew);
            }
            assert_eq!((asked, anew, streams.codec()), (1, 1, Codec::Auto));
            seen(&mut streams, now, 2, 97, 80, &SPS);
            assert_eq!(streams.codec(), Codec::H264);
        }
    }

    #[test]
    fn sound_that_looks_like_a_picture_is_none() {
        for sound in [[0x48, 0x9a], [0x41, 0x9a]] {
            let (now, mut streams) = (epoch(), Streams::new(Codec::Auto));
            seen(&mut streams, now, 1, 97, 0, &SPS);
            let mut beside = 0;
            for number in 0..2000 {
                let heard = seen(&mut streams, now, 9, 98, number, &sound);
                assert_ne!(heard.kind, PacketKind::Recovery);
                beside += u32::from(heard.is_beside);
                assert_eq!(seen(&mut streams, now, 1, 97, number + 1, &REFERENCE).kind, PacketKind::Reference);
            }
            assert!(beside > 1400, "{beside}");
        }
    }

    #[test]
    fn few_are_remembered_and_the_silent_ones_are_forgotten() {
        let (start, mut streams) = (epoch(), Streams::new(Codec::Auto));
        for number in 0..1000u32 {
            let now = start + Duration::from_millis(number.into());
            seen(&mut streams, now, number, 97, 0, &SPS);
            let goes_on = seen(&mut streams, now, 0, 97, number as u16 + 1, &REFERENCE);
            assert!(!goes_on.needs_recovery && goes_on.kind == PacketKind::Reference, "{number}");
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
