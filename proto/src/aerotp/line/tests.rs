use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::aerotp::{Damaged, Flags, Header, Port, SegmentCodec, Seq, TransferMode, encode_segment};
use crate::mavlink::{RadioStatus, Version};
use crate::seeded::SeededBytes;

const MS: Duration = Duration::from_millis(1);

#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
fn start() -> Instant {
    Instant::now()
}

/// A segment with a CRC and `len` bytes of noise.
fn segment(seq: u32, len: usize) -> Vec<u8> {
    let mut header = Header::new(Port(1), Port(2), TransferMode::Reliable, Seq(seq), Flags::NONE);
    header.has_crc = true;
    let mut out = Vec::new();
    encode_segment(&mut SegmentCodec::new(), &mut header, &[], &noise(seq, len), &mut out);
    out
}

fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SeededBytes::new(&[seed as u8; 32], &format!("noise {seed}")).fill(&mut bytes);
    bytes
}

fn frame(segment: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(&mut out, segment).unwrap();
    out
}

fn radio_status(version: Version) -> (RadioStatus, Vec<u8>) {
    let status = RadioStatus { rssi: 200, remrssi: 190, txbuf: 77, noise: 40, remnoise: 0, rxerrors: 3, fixed: 9 };
    (status, status.frame(version, 5).bytes().to_vec())
}

/// A receiver that takes for segments what has an intact header and CRC.
struct Line {
    deframer: Deframer,
    now: Instant,
    segments: Vec<Vec<u8>>,
    reports: Vec<RadioStatus>,
    /// Segments taken though their CRC does not fit.
    damaged: usize,
    takes_damaged: bool,
}

impl Line {
    fn new() -> Self {
        let deframer = Deframer::at_baud(57_600);
        let (segments, reports) = (Vec::new(), Vec::new());
        Self { deframer, now: start(), segments, reports, damaged: 0, takes_damaged: false }
    }

    /// A read.
    fn push(&mut self, bytes: &[u8]) {
        self.now += MS;
        self.deframer.push(self.now, bytes);
        self.drain();
    }

    /// Lets the deadline pass.
    fn quiet(&mut self) {
        if let Some(deadline) = self.deframer.next_deadline() {
            self.now = deadline;
            self.drain();
            assert_eq!(self.deframer.next_deadline(), None, "polled at its deadline it has to be done");
        }
        assert!(self.deframer.pending() < SYNC_LEN);
    }

    fn drain(&mut self) {
        let mut codec = SegmentCodec::new();
        let mut judge = |bytes: &mut [u8]| match codec.decode(bytes) {
            Ok(_) => true,
            Err(Damaged::Payload(_)) if self.takes_damaged => {
                self.damaged += 1;
                true
            }
            Err(_) => false,
        };
        while let Some(event) = self.deframer.poll(self.now, &mut judge) {
            match event {
                LineEvent::Segment(segment) => self.segments.push(segment),
                LineEvent::Radio(status) => self.reports.push(status),
            }
        }
        assert!(self.deframer.pending() <= LINE_OVERHEAD + MAX_LINE_SEGMENT + 21);
    }
}

#[test]
fn frames_arrive_at_once_whatever_the_reads() {
    let segments: Vec<_> = [0, 1, 30, 500, MAX_LINE_SEGMENT - 24].iter().map(|&len| segment(len as u32, len)).collect();
    let bytes: Vec<u8> = segments.iter().flat_map(|segment| frame(segment)).collect();
    for read in [1, 3, 7, 64, 10_000] {
        let mut line = Line::new();
        bytes.chunks(read).for_each(|chunk| line.push(chunk));
        assert_eq!(line.segments, segments, "in reads of {read}");
    }
    assert_eq!(put_frame(&mut Vec::new(), &[0; 4096]), Err(TooLongForLine(4096)));
}

#[test]
fn three_wrong_bits_in_the_sync_word_and_in_the_length_do_no_harm() {
    let (good, mut bytes) = (segment(1, 40), frame(&segment(1, 40)));
    for (byte, bits) in [(0, 0x80), (2, 0x11), (4, 0x40), (5, 1), (6, 8)] {
        bytes[byte] ^= bits;
    }
    let mut line = Line::new();
    line.push(&bytes);
    assert_eq!(line.segments, [good]);
}

#[test]
fn a_false_sync_word_holds_nothing_back() {
    // An announced longest frame that never comes, and frames behind it.
    let mut bytes = SYNC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&golay::encode(4095));
    let mut line = Line::new();
    line.push(&bytes);
    for seq in 0..5 {
        line.push(&frame(&segment(seq, 30)));
        assert_eq!(line.segments.len() as u32, seq + 1);
    }
}

#[test]
fn a_sync_word_within_a_segment_is_data() {
    let mut payload = noise(9, 200);
    payload[50..54].copy_from_slice(&SYNC.to_be_bytes());
    payload[54..57].copy_from_slice(&golay::encode(100));
    payload[120..124].copy_from_slice(&SYNC.to_be_bytes());
    payload[124..127].copy_from_slice(&golay::encode(4000));
    let mut header = Header::new(Port(1), Port(2), TransferMode::Reliable, Seq(0), Flags::NONE);
    header.has_crc = true;
    let mut segment = Vec::new();
    encode_segment(&mut SegmentCodec::new(), &mut header, &[], &payload, &mut segment);
    let mut line = Line::new();
    frame(&segment).chunks(10).for_each(|chunk| line.push(chunk));
    assert_eq!(line.segments, [segment]);
}

#[test]
fn an_incomplete_frame_is_given_up_when_the_line_is_quiet() {
    let mut line = Line::new();
    line.push(&frame(&segment(1, 100))[..60]);
    assert_eq!(line.deframer.next_deadline(), Some(line.now + Deframer::MIN_GAP));
    line.quiet();
    assert_eq!(line.deframer.counters().given_up, 1);
    line.push(&frame(&segment(2, 10)));
    assert_eq!(line.segments, [segment(2, 10)]);
}

#[test]
fn the_radios_reports_are_stripped_wherever_they_are() {
    let good = segment(3, 60);
    let bytes = frame(&good);
    for version in [Version::V1, Version::V2] {
        let (status, report) = radio_status(version);
        for place in 0..=bytes.len() {
            for read in [1, 5, 1000] {
                let mut line = Line { takes_damaged: true, ..Line::new() };
                let injected = [&bytes[..place], &report, &bytes[place..]].concat();
                injected.chunks(read).for_each(|chunk| line.push(chunk));
                line.quiet();
                assert_eq!(line.reports, [status], "at {place}, reads of {read}");
                assert_eq!(line.damaged, 0, "at {place}, reads of {read}");
                assert_eq!(line.segments, std::slice::from_ref(&good), "at {place}, reads of {read}");
            }
        }
    }
}

#[test]
fn a_damaged_segment_whose_header_is_intact_is_given_out_for_what_it_tells() {
    let mut line = Line { takes_damaged: true, ..Line::new() };
    let mut bytes = frame(&segment(1, 40));
    bytes[40] ^= 1;
    line.push(&bytes);
    assert_eq!((line.damaged, &line.segments[..]), (1, &[bytes[7..].to_vec()][..]));
}

#[test]
fn bytes_that_begin_like_a_report_delay_nothing() {
    let mut line = Line::new();
    let good = (0..).map(|seq| segment(seq, 30)).find(|segment| segment.last() == Some(&0xfe)).unwrap();
    line.push(&frame(&good));
    assert_eq!(line.segments, [good]);
}

#[test]
fn megabytes_of_noise_cost_no_memory_and_no_frame_after_it() {
    let mut line = Line::new();
    for seed in 0..200 {
        line.push(&noise(seed, 16_384));
    }
    let before = line.segments.len();
    assert_eq!(before, 0);
    line.push(&frame(&segment(1, 20)));
    assert_eq!(line.segments.len(), 1);
    assert!(line.deframer.counters().limited == 0);
}

#[test]
fn a_line_full_of_sync_words_is_judged_within_bounds() {
    let mut line = Line::new();
    let mut bytes = Vec::new();
    for _ in 0..200_000 {
        bytes.extend_from_slice(&SYNC.to_be_bytes());
        bytes.extend_from_slice(&golay::encode(4000));
    }
    let mut judged = 0;
    for chunk in bytes.chunks(1000) {
        line.now += MS;
        line.deframer.push(line.now, chunk);
        while line
            .deframer
            .poll(line.now, |bytes| {
                judged += bytes.len();
                false
            })
            .is_some()
        {}
    }
    assert!(judged <= (1 << 20) + 16 * bytes.len(), "{judged}");
    assert!(line.deframer.counters().limited > 0);
}

#[test]
fn at_a_hundredth_of_wrong_bits_only_segments_are_lost() {
    // 24 bytes of header and CRC, 30 of payload: what is intact is found, in a stream whose other frames are not.
    let (mut line, mut luck, mut intact) = (Line::new(), noise(77, 1 << 20).into_iter(), 0);
    let mut frames_sent = 0;
    'stream: for seq in 0..2000 {
        let mut bytes = frame(&segment(seq, 30));
        let mut wrong_in_segment = 0;
        let (mut wrong_in_sync, mut wrong_in_length) = (0, 0);
        for (place, byte) in bytes.iter_mut().enumerate() {
            for bit in 0..8 {
                let (Some(a), Some(b)) = (luck.next(), luck.next()) else { break 'stream };
                if u16::from_be_bytes([a, b]) < 655 {
                    *byte ^= 1 << bit;
                    match place {
                        0..4 => wrong_in_sync += 1,
                        4..7 => wrong_in_length += 1,
                        _ => wrong_in_segment += 1,
                    }
                }
            }
        }
        frames_sent += 1;
        intact += u32::from(wrong_in_segment == 0 && wrong_in_sync <= 3 && wrong_in_length <= 3);
        line.push(&bytes);
        line.quiet();
    }
    assert!(frames_sent > 1000 && intact > 5, "{intact} of {frames_sent}");
    assert_eq!(line.segments.len() as u32, intact);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_good_frame_is_found_behind_any_garbage(
        garbage in vec(prop_oneof![
            4 => vec(any::<u8>(), 0..40),
            1 => Just(SYNC.to_be_bytes().to_vec()),
            1 => (0..4096_u16).prop_map(|len| [&SYNC.to_be_bytes()[..], &golay::encode(len)].concat()),
            1 => (0..90_usize).prop_map(|cut| frame(&segment(4, 80))[..cut].to_vec()),
            1 => (0..17_usize).prop_map(|cut| radio_status(Version::V1).1[..cut].to_vec()),
        ], 0..30),
        len in 0_usize..300,
        read in 1_usize..200,
    ) {
        let good = segment(1, len);
        let mut line = Line::new();
        [garbage.concat(), frame(&good)].concat().chunks(read).for_each(|chunk| line.push(chunk));
        line.quiet();
        prop_assert_eq!(line.segments.last(), Some(&good));
    }

    #[test]
    fn lost_and_inserted_bytes_cost_the_frames_they_are_in(
        changes in vec((0_usize..900, prop_oneof![Just(None), any::<u8>().prop_map(Some)]), 1..4),
        read in 1_usize..100,
    ) {
        let segments: Vec<_> = (0..10).map(|seq| segment(seq, 60)).collect();
        let mut frames: Vec<_> = segments.iter().map(|segment| frame(segment)).collect();
        let len = frames[0].len();
        let mut hit = [false; 10];
        for (place, change) in &changes {
            let (index, offset) = ((place / len).min(9), place % len);
            hit[index] = true;
            let frame = &mut frames[index];
            match change {
                Some(byte) => frame.insert(offset.min(frame.len()), *byte),
                None => drop(frame.remove(offset.min(frame.len() - 1))),
            }
        }
        let mut line = Line::new();
        frames.concat().chunks(read).for_each(|chunk| line.push(chunk));
        line.quiet();
        for (segment, hit) in segments.iter().zip(hit) {
            prop_assert!(hit || line.segments.contains(segment));
        }
    }
}
