//! Sender and receiver together: random packets through a random network.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;

/// Any point in time; the tests only add to it.
#[expect(clippy::disallowed_methods, reason = "an Instant cannot be made otherwise")]
pub(crate) fn epoch() -> Instant {
    Instant::now()
}

/// An RTP packet with `payload`.
pub(super) fn rtp(marker: bool, sequence: u16, timestamp: u32, ssrc: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, 96 | if marker { 0x80 } else { 0 }];
    packet.extend(sequence.to_be_bytes());
    packet.extend(timestamp.to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.extend(payload);
    packet
}

/// Everything the queue would let out now.
pub(super) fn pop_all(queue: &mut SendQueue, now: Instant, max_payload: usize) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| {
        let mut out = Vec::new();
        let info = queue.pop_fragment(now, max_payload, &mut out)?;
        assert_eq!(info.size.as_usize(), out.len());
        assert!(out.len() <= max_payload);
        Some(out)
    })
    .collect()
}

/// Everything the reassembler gives out now.
pub(super) fn drain(reassembler: &mut Reassembler, now: Instant) -> Vec<VideoEvent> {
    let events = std::iter::from_fn(|| reassembler.poll(now)).collect();
    assert!(reassembler.next_deadline().is_none_or(|deadline| deadline > now), "a deadline that has passed");
    events
}

/// What a network does to fragments.
#[derive(Debug, Clone)]
struct Network {
    seed: u64,
    loss_percent: u32,
    duplicate_percent: u32,
    delay_ms: u32,
}

fn network() -> impl Strategy<Value = Network> {
    (any::<u64>(), 0..40u32, 0..20u32, prop_oneof![Just(0), 1..60u32]).prop_map(
        |(seed, loss_percent, duplicate_percent, delay_ms)| Network { seed, loss_percent, duplicate_percent, delay_ms },
    )
}

/// Frames as lists of packet sizes.
fn frames() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let sizes = prop_oneof![4 => 1..200usize, 4 => 900..1500usize, 1 => 16_380..16_390usize];
    prop::collection::vec(prop::collection::vec(sizes, 1..12), 1..40)
}

/// Packets of the frames, one frame in a `step`, each frame's packets `(time, bytes)`.
fn packets(start: Instant, step: Duration, frames: &[Vec<usize>], first_sequence: u16) -> Vec<Vec<(Instant, Vec<u8>)>> {
    let mut sequence = first_sequence;
    let mut at = start;
    let mut out = Vec::new();
    for (number, sizes) in frames.iter().enumerate() {
        let mut frame = Vec::new();
        for (place, size) in sizes.iter().enumerate() {
            let payload: Vec<u8> = (0..*size).map(|i| (i + place * 7 + number * 13) as u8).collect();
            let marker = place + 1 == sizes.len();
            frame.push((at, rtp(marker, sequence, number as u32 * 3000, 7, &payload)));
            sequence = sequence.wrapping_add(1);
        }
        out.push(frame);
        at += step;
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_frame_comes_out_identical_and_in_order_or_is_reported_lost(
        frames in frames(),
        network in network(),
        max_payload in 64..1400usize,
        first_sequence in any::<u16>(),
    ) {
        let start = epoch();
        let sent = packets(start, Duration::from_millis(33), &frames, first_sequence);
        let mut queue = SendQueue::new(SendQueueConfig::default());
        let mut rng = ChaCha8Rng::seed_from_u64(network.seed);
        let mut wire: Vec<(Instant, u64, Vec<u8>)> = Vec::new();
        let mut order = 0;
        for (at, packet) in sent.iter().flatten() {
            prop_assert_eq!(queue.push(*at, packet), PushOutcome::Queued);
            for fragment in pop_all(&mut queue, *at, max_payload) {
                let copies = if rng.next_u32() % 100 < network.loss_percent { 0 } else { 1 }
                    + u32::from(rng.next_u32() % 100 < network.duplicate_percent);
                for _ in 0..copies {
                    let delay = rng.next_u32() % (network.delay_ms + 1);
                    wire.push((*at + Duration::from_millis(u64::from(delay)), order, fragment.clone()));
                    order += 1;
                }
            }
        }
        prop_assert_eq!(queue.queued_frames(), 0);
        prop_assert_eq!(queue.queued_bytes().0, 0);
        wire.sort();

        let config = ReassemblerConfig::default();
        let mut reassembler = Reassembler::new(config.clone());
        let mut events = Vec::new();
        for (at, _, fragment) in &wire {
            while let Some(deadline) = reassembler.next_deadline().filter(|deadline| deadline < at) {
                events.extend(drain(&mut reassembler, deadline));
            }
            reassembler.push(*at, Duration::ZERO, fragment);
            events.extend(drain(&mut reassembler, *at));
            prop_assert!(reassembler.held_bytes() <= config.max_bytes);
        }
        while let Some(deadline) = reassembler.next_deadline() {
            events.extend(drain(&mut reassembler, deadline));
        }
        prop_assert_eq!(reassembler.held_bytes().0, 0);

        let mut next = None;
        for event in events {
            match event {
                VideoEvent::Frame(frame) => {
                    prop_assert_eq!(frame.number, *next.get_or_insert(frame.number));
                    next = Some(frame.number + 1);
                    let original = &sent[frame.number as usize];
                    let packets: Vec<Bytes> = frame.packets.collect();
                    prop_assert!(packets.iter().eq(original.iter().map(|(_, packet)| packet)));
                }
                VideoEvent::FramesLost { first, count, matters } => {
                    prop_assert_eq!(first, *next.get_or_insert(first));
                    prop_assert!(matters && count > 0);
                    next = Some(first + count);
                }
                VideoEvent::RecoveryNeeded => {}
            }
        }
        if network.loss_percent == 0 && u64::from(network.delay_ms) <= 20 {
            // Nothing lost and reordered by less than the reorder time. Only the start is unknown: the first fragment
            // to come may be of a later frame.
            prop_assert_eq!(reassembler.counters().frames_lost, 0);
            prop_assert_eq!(next, Some(frames.len() as u64));
        }
    }

    #[test]
    fn random_bytes_do_no_harm(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..200),
        seed in any::<u64>(),
    ) {
        let start = epoch();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let config = ReassemblerConfig { max_frames: 16, max_bytes: crate::ByteCount(4096), ..Default::default() };
        let queue_config = SendQueueConfig { max_bytes: crate::ByteCount(2048), max_frames: 8, ..Default::default() };
        let mut reassembler = Reassembler::new(config.clone());
        let mut queue = SendQueue::new(queue_config.clone());
        let mut now = start;
        for mut bytes in datagrams {
            now += Duration::from_millis(u64::from(rng.next_u32() % 300));
            queue.push(now, &bytes);
            prop_assert!(queue.queued_frames() <= queue_config.max_frames);
            prop_assert!(queue.queued_bytes() <= queue_config.max_bytes);
            if rng.next_u32() % 4 == 0 {
                pop_all(&mut queue, now, 64);
            }
            // Half of them made to look like fragments of near frames.
            if bytes.len() > 6 && rng.next_u32() % 2 == 0 {
                bytes[0] &= 0x1f;
                bytes[1..4].fill(0);
                bytes[4] &= 0x0f;
                bytes[5] &= 0x03;
            }
            reassembler.push(now, Duration::ZERO, &bytes);
            drain(&mut reassembler, now);
            prop_assert!(reassembler.held_bytes() <= config.max_bytes);
            prop_assert!(reassembler.frames_in_flight() <= config.max_frames);
        }
    }
}

/// A capture in `tests-data`, see there.
fn capture(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rest = bytes;
    let mut packets = Vec::new();
    while let Some((len, after)) = rest.split_first_chunk() {
        let (packet, after) = after.split_at(usize::from(u16::from_be_bytes(*len)));
        packets.push(packet);
        rest = after;
    }
    packets
}

#[test]
fn real_streams_come_out_identical_and_are_understood() {
    for (configured, found, bytes, disposable) in [
        (Codec::Auto, Codec::H264, &include_bytes!("../../tests-data/h264.rtp")[..], 8),
        (Codec::H264, Codec::H264, include_bytes!("../../tests-data/h264.rtp"), 8),
        (Codec::Auto, Codec::H265, include_bytes!("../../tests-data/h265.rtp"), 10),
        (Codec::H265, Codec::H265, include_bytes!("../../tests-data/h265.rtp"), 10),
    ] {
        let packets = capture(bytes);
        let mut queue = SendQueue::new(SendQueueConfig { codec: configured, ..SendQueueConfig::default() });
        let mut reassembler = Reassembler::new(ReassemblerConfig::default());
        let mut now = epoch();
        let mut frames = Vec::new();
        for packet in &packets {
            now += Duration::from_micros(500);
            assert_eq!(queue.push(now, packet), PushOutcome::Queued);
            for fragment in pop_all(&mut queue, now, 1100) {
                reassembler.push(now, Duration::ZERO, &fragment);
                frames.extend(drain(&mut reassembler, now).into_iter().map(|event| match event {
                    VideoEvent::Frame(frame) => frame,
                    event => panic!("{event:?}"),
                }));
            }
        }
        assert_eq!((queue.codec(), frames.len()), (found, 30));
        assert!(frames[0].recovery_point);
        assert_eq!(frames.iter().filter(|frame| frame.recovery_point).count(), 2, "{found}");
        assert_eq!(frames.iter().filter(|frame| frame.disposable).count(), disposable, "{found}");
        assert!(frames.into_iter().flat_map(|frame| frame.packets).eq(packets));
    }
}

#[test]
fn a_refresh_that_begins_mends_a_loss_whether_parameter_sets_come_with_it_or_not() {
    let (message, slice) = (&[0x06, 0x06, 3, 0x02, 0x7c, 0x40, 0x80][..], &[0x41, 0x9a, 7][..]);
    let mut queue = SendQueue::new(SendQueueConfig { codec: Codec::H264, ..SendQueueConfig::default() });
    let mut reassembler = Reassembler::new(ReassemblerConfig::default());
    let (mut now, mut sequence, mut asked) = (epoch(), 0, Vec::new());
    let ms = |ms| Duration::from_millis(ms);
    for number in 0..60u32 {
        let payloads = match number {
            0 => vec![&[0x65, 0x88, 7][..]],
            // Half a second after the loss.
            25 => vec![message, slice],
            _ => vec![slice],
        };
        for (index, payload) in payloads.iter().enumerate() {
            queue.push(now, &rtp(index + 1 == payloads.len(), sequence, number * 1_800, 1, payload));
            sequence += 1;
        }
        for fragment in pop_all(&mut queue, now, 1200) {
            if number != 10 {
                reassembler.push(now, Duration::ZERO, &fragment);
            }
        }
        while let Some(event) = reassembler.poll(now) {
            if event == VideoEvent::RecoveryNeeded {
                asked.push(number);
            }
        }
        now += ms(20);
    }
    assert!(asked.len() >= 2 && asked.iter().all(|number| (11..25).contains(number)), "{asked:?}");
    assert_eq!(reassembler.counters().frames_out, 59);
}

#[test]
fn an_opaque_flow_is_carried_without_a_look_inside() {
    let packets = capture(include_bytes!("../../tests-data/h264.rtp"));
    let mut queue = SendQueue::new(SendQueueConfig { codec: Codec::Opaque, ..SendQueueConfig::default() });
    let now = epoch();
    for packet in &packets {
        queue.push(now, packet);
    }
    assert_eq!(queue.queued_frames(), 30);
    let fragments = pop_all(&mut queue, now, 1100);
    let flags = |fragment: &Vec<u8>| FragmentHeader::parse(fragment).unwrap().0.flags;
    assert!(fragments.iter().map(flags).all(|f| !(f.classified || f.recovery_point || f.disposable)));
}
