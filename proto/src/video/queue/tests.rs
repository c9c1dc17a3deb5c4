//! Boundaries of the send queue.

use super::*;
use crate::video::tests::{epoch, pop_all, rtp};

const MS: Duration = Duration::from_millis(1);

/// A slice that others refer to, one that none refers to, and one to start at (H.264).
const REFERENCE: u8 = 0x41;
const DISPOSABLE: u8 = 0x01;
const IDR: u8 = 0x65;

fn queue() -> SendQueue {
    SendQueue::new(SendQueueConfig { codec: Codec::H264, ..SendQueueConfig::default() })
}

/// One packet of `len` bytes in all that is a whole frame.
fn frame(number: u16, nal: u8, len: usize) -> Vec<u8> {
    packet(true, number, u32::from(number), nal, len)
}

fn packet(marker: bool, sequence: u16, timestamp: u32, nal: u8, len: usize) -> Vec<u8> {
    let mut payload = vec![nal];
    payload.resize(len - 12, 7);
    rtp(marker, sequence, timestamp, 1, &payload)
}

fn headers(fragments: &[Vec<u8>]) -> Vec<FragmentHeader> {
    fragments.iter().map(|fragment| FragmentHeader::parse(fragment).unwrap().0).collect()
}

#[test]
fn a_frame_is_cut_into_equal_fragments() {
    let (now, mut queue) = (epoch(), queue());
    assert_eq!(queue.push(now, &frame(0, IDR, 2500)), PushOutcome::Queued);
    assert_eq!((queue.queued_frames(), queue.queued_bytes()), (1, ByteCount(2502)));
    let fragments = pop_all(&mut queue, now, 1200);
    assert_eq!(fragments.iter().map(Vec::len).collect::<Vec<_>>(), [840, 840, 840]);
    for (index, header) in headers(&fragments).into_iter().enumerate() {
        let flags =
            FragmentFlags { last: index == 2, recovery_point: true, classified: true, ..FragmentFlags::default() };
        assert_eq!(header, FragmentHeader { flags, frame: 0, index: index as u32, waited_ms: None, number: None });
    }
    assert_eq!((queue.queued_frames(), queue.queued_bytes(), queue.next_deadline()), (0, ByteCount::ZERO, None));
    assert_eq!(queue.counters().frames_sent, 1);
}

#[test]
fn a_frame_that_just_fits_is_one_fragment() {
    let (now, mut queue) = (epoch(), queue());
    // 6 bytes of header, 2 of packet length.
    for (number, len, count) in [(0, 1192, 1), (1, 1193, 2)] {
        queue.push(now, &frame(number, REFERENCE, len));
        assert_eq!(pop_all(&mut queue, now, 1200).len(), count);
    }
}

#[test]
fn nothing_leaves_into_less_than_the_least_payload() {
    let (now, mut queue) = (epoch(), queue());
    queue.push(now, &frame(0, REFERENCE, 100));
    assert!(!queue.has_fragment(MIN_PAYLOAD - 1));
    assert!(pop_all(&mut queue, now, MIN_PAYLOAD - 1).is_empty());
    assert!(queue.has_fragment(MIN_PAYLOAD));
    assert_eq!(pop_all(&mut queue, now, MIN_PAYLOAD).len(), 2);
}

#[test]
fn full_fragments_leave_while_the_frame_comes_in() {
    let (start, mut queue) = (epoch(), queue());
    queue.push(start, &packet(false, 0, 0, REFERENCE, 1000));
    assert!(pop_all(&mut queue, start, 1200).is_empty(), "not full yet");
    queue.push(start + MS, &packet(false, 1, 0, REFERENCE, 1000));
    assert_eq!(pop_all(&mut queue, start + MS, 1200).len(), 1);
    // The rest after the silence, not before.
    assert_eq!(queue.next_deadline(), Some(start + 3 * MS));
    assert!(pop_all(&mut queue, start + 3 * MS - Duration::from_nanos(1), 1200).is_empty());
    assert_eq!(headers(&pop_all(&mut queue, start + 3 * MS, 1200))[0].index, 1);
    assert_eq!(queue.next_deadline(), Some(start + 21 * MS), "then the frame closes");
    // The last packet, in a last fragment of its own.
    queue.push(start + 4 * MS, &packet(true, 2, 0, REFERENCE, 100));
    let last = headers(&pop_all(&mut queue, start + 4 * MS, 1200))[0];
    assert!(last.flags.last && last.index == 2);
}

#[test]
fn silence_ends_a_frame_without_marker() {
    let (start, mut queue) = (epoch(), queue());
    queue.push(start, &packet(false, 0, 0, REFERENCE, 100));
    assert_eq!(pop_all(&mut queue, start + 2 * MS, 1200).len(), 1);
    assert!(pop_all(&mut queue, start + 19 * MS, 1200).is_empty());
    let last = &pop_all(&mut queue, start + 20 * MS, 1200)[0];
    assert_eq!(FragmentHeader::parse(last).unwrap().1, [], "all had left before it was known to be the end");
    assert_eq!((queue.queued_frames(), queue.next_deadline()), (0, None));
    // What still comes with the same timestamp is a frame of its own.
    queue.push(start + 25 * MS, &packet(true, 1, 0, REFERENCE, 100));
    assert_eq!(headers(&pop_all(&mut queue, start + 25 * MS, 1200))[0].frame, 1);
}

#[test]
fn a_source_that_never_ends_its_frame_is_carried_all_the_same() {
    let (start, mut queue) = (epoch(), queue());
    for i in 0..1000u16 {
        let now = start + MS * u32::from(i);
        assert_eq!(queue.push(now, &packet(false, i, 0, REFERENCE, 500)), PushOutcome::Queued);
        pop_all(&mut queue, now, 1200);
    }
    assert_eq!(queue.counters().frames_sent, 1000 / 150);
    assert_eq!(queue.counters().dropped_total(), 0);
}

#[test]
fn timestamp_ssrc_and_sequence_end_a_frame() {
    for (what, second) in [
        ("timestamp", rtp(true, 1, 1, 1, &[REFERENCE])),
        ("ssrc", rtp(true, 1, 0, 2, &[REFERENCE])),
        ("sequence", rtp(true, 2, 0, 1, &[REFERENCE])),
    ] {
        let (now, mut queue) = (epoch(), queue());
        queue.push(now, &rtp(false, 0, 0, 1, &[REFERENCE]));
        queue.push(now, &second);
        assert_eq!(queue.queued_frames(), 2, "{what}");
    }
    let (now, mut queue) = (epoch(), queue());
    queue.push(now, &rtp(false, u16::MAX, 0, 1, &[REFERENCE]));
    queue.push(now, &rtp(true, 0, 0, 1, &[REFERENCE]));
    assert_eq!(queue.queued_frames(), 1, "the sequence number wraps");
}

#[test]
fn packets_missing_from_the_camera_are_counted_and_need_a_recovery_point() {
    let (now, mut queue) = (epoch(), queue());
    for (sequence, missing) in [(10, 0), (11, 0), (14, 2), (13, 2), (14 + 512, 2 + 512)] {
        queue.push(now, &frame(sequence, REFERENCE, 100));
        assert_eq!(queue.counters().packets_missing, missing, "{sequence}");
    }
    assert!(queue.take_recovery_needed());
    assert!(!queue.take_recovery_needed());
    queue.push(now, &frame(30_000, REFERENCE, 100));
    assert_eq!(queue.counters().packets_missing, 2 + 512, "a jump is a new start");
    assert!(queue.take_recovery_needed(), "with nothing to begin with");
}

#[test]
fn a_camera_that_was_started_anew_is_asked_for_a_recovery_point_unless_it_begins_with_one() {
    for (first, needed) in [(IDR, false), (REFERENCE, true)] {
        for sequence in [100, 30_000] {
            for ssrc in [1, 2] {
                let (now, mut queue) = (epoch(), queue());
                queue.push(now, &frame(0, IDR, 100));
                assert!(!queue.take_recovery_needed());
                // A delimiter comes first, and says nothing.
                queue.push(now, &rtp(false, sequence, 9, ssrc, &[0x09, 0xf0]));
                queue.push(now, &rtp(true, sequence + 1, 9, ssrc, &[first, 7]));
                let lost = ssrc == 1 && sequence == 100;
                assert_eq!(queue.take_recovery_needed(), needed || lost, "{first:x}, {sequence}, {ssrc}");
                queue.push(now, &rtp(true, sequence + 2, 18, ssrc, &[REFERENCE, 7]));
                assert!(!queue.take_recovery_needed(), "once");
            }
        }
    }
}

#[test]
fn sound_beside_the_picture_neither_cuts_it_nor_counts_as_one() {
    let (now, mut queue) = (epoch(), SendQueue::new(SendQueueConfig::default()));
    let sound = |number: u16| {
        let mut packet = rtp(true, number, 0, 9, &[0xfc, 0xff, 0xfe]);
        packet[1] = 0x80 | 98;
        packet
    };
    queue.push(now, &rtp(true, 0, 0, 1, &[0x67, 66, 0, 30]));
    for number in 1..20 {
        queue.push(now, &rtp(false, 2 * number, number.into(), 1, &[REFERENCE, 7]));
        queue.push(now, &sound(2 * number));
        queue.push(now, &rtp(true, 2 * number + 1, number.into(), 1, &[REFERENCE, 7]));
        queue.push(now, &sound(2 * number + 1));
    }
    queue.take_recovery_needed();
    let QueueCounters { frames_in, frames_beside, packets_missing, .. } = *queue.counters();
    assert_eq!((frames_in, frames_beside, packets_missing), (1 + 19 * 2, 19, 1));
    let fragments = headers(&pop_all(&mut queue, now, 1200));
    assert!(fragments.iter().all(|header| header.flags.classified));
    let disposable = fragments.iter().filter(|header| header.flags.disposable).count();
    assert_eq!((fragments.len(), disposable), (1 + 19 * 2, 19), "sound alone");
}

#[test]
fn correction_among_the_packets_of_a_frame_does_not_cut_it() {
    let (now, mut queue) = (epoch(), SendQueue::new(SendQueueConfig::default()));
    queue.push(now, &rtp(true, 0, 0, 1, &[0x67, 66, 0, 30]));
    let mut correction = rtp(false, 2, 1, 1, &[0xfc, 7]);
    correction[1] = 122;
    queue.push(now, &rtp(false, 1, 1, 1, &[REFERENCE, 7]));
    queue.push(now, &correction);
    queue.push(now, &rtp(true, 3, 1, 1, &[REFERENCE, 7]));
    assert_eq!((queue.counters().frames_in, queue.counters().packets_missing), (2, 0));
    assert!(!queue.take_recovery_needed());
}

#[test]
fn a_frame_that_finds_no_room_asks_once_for_all_its_packets() {
    let (start, config) =
        (epoch(), SendQueueConfig { max_frames: 1, codec: Codec::H264, ..SendQueueConfig::default() });
    let mut queue = SendQueue::new(config);
    queue.push(start, &frame(0, IDR, 100));
    let mut asked = 0;
    for packet in 0..20u16 {
        let now = start + MS * packet.into();
        assert_eq!(
            queue.push(now, &self::packet(false, packet + 1, 1, REFERENCE, 100)),
            PushOutcome::Dropped(DropReason::Full)
        );
        asked += u32::from(queue.take_recovery_needed());
    }
    assert_eq!(asked, 1);
}

#[test]
fn what_refers_to_a_dropped_frame_goes_with_it_and_the_next_recovery_point_has_room() {
    let start = epoch();
    let [mut queue, mut half] = [queue(), queue()];
    for queue in [&mut queue, &mut half] {
        for (number, kind) in [(0, REFERENCE), (1, DISPOSABLE), (2, REFERENCE)] {
            queue.push(start + 100 * MS * u32::from(number), &frame(number, kind, 100));
        }
    }
    // Of what comes in just then it is not known yet what it will be, or it is.
    half.push(start + 290 * MS, &rtp(false, 3, 3, 1, &[0x09, 0xf0]));
    queue.push(start + 290 * MS, &packet(false, 3, 3, REFERENCE, 100));
    for (queue, left) in [(&mut queue, 0), (&mut half, 1)] {
        queue.handle_timeout(start + 300 * MS);
        assert_eq!(queue.queued_frames(), left);
        let dropped = [DropReason::TooOld, DropReason::Undecodable].map(|reason| queue.counters().dropped(reason));
        assert_eq!(dropped, [1, 3 - left as u64]);
        assert!(queue.take_recovery_needed());
    }
    let rest = half.push(start + 301 * MS, &rtp(true, 4, 3, 1, &[IDR, 7]));
    assert_eq!(rest, PushOutcome::Queued);
    assert!(headers(&pop_all(&mut half, start + 302 * MS, 1200))[0].flags.recovery_point);
    // What nobody has looked into may be worth something alone.
    let mut opaque = SendQueue::new(SendQueueConfig { codec: Codec::Opaque, ..SendQueueConfig::default() });
    for number in 0..4 {
        opaque.push(start + 50 * MS * u32::from(number), &frame(number, REFERENCE, 100));
    }
    opaque.handle_timeout(start + 300 * MS);
    assert_eq!(opaque.queued_frames(), 3);
}

#[test]
fn one_recovery_point_mends_all_that_was_dropped_before_it() {
    let (start, mut queue) = (epoch(), queue());
    let mut asked = Vec::new();
    // Nothing leaves for a second, and the camera does as it is asked.
    let mut recovery = false;
    for number in 0..30u16 {
        let now = start + u32::from(number) * 33 * MS;
        queue.push(now, &frame(number, if std::mem::take(&mut recovery) { IDR } else { REFERENCE }, 100));
        queue.handle_timeout(now);
        if queue.take_recovery_needed() {
            recovery = true;
            asked.push(number);
        }
    }
    // When the first frame was dropped, and when that of the last request was.
    assert_eq!(asked, [10, 21], "not with each");
}

#[test]
fn rtcp_rides_in_the_open_frame_and_other_datagrams_are_frames() {
    let rtcp = [0x80, 200, 0, 1, 0, 0, 0, 1];
    let (now, mut queue) = (epoch(), queue());
    queue.push(now, &rtcp);
    assert_eq!(queue.queued_frames(), 1);
    queue.push(now, &packet(false, 0, 0, REFERENCE, 100));
    queue.push(now, &rtcp);
    queue.push(now, &packet(true, 1, 0, REFERENCE, 100));
    assert_eq!(queue.queued_frames(), 2);
    queue.push(now, &[0x47; 188]);
    queue.push(now, &[0x47; 188]);
    assert_eq!(queue.queued_frames(), 4);
    assert_eq!(queue.push(now, &[]), PushOutcome::Ignored);
    assert_eq!((queue.counters().packets_ignored, queue.counters().packets_in), (1, 7));
}

#[test]
fn a_full_queue_refuses_whole_frames() {
    let (now, config) = (epoch(), SendQueueConfig { codec: Codec::H264, max_frames: 2, ..Default::default() });
    let mut queue = SendQueue::new(config);
    queue.push(now, &frame(0, REFERENCE, 100));
    queue.push(now, &frame(1, REFERENCE, 100));
    let full = PushOutcome::Dropped(DropReason::Full);
    assert_eq!(queue.push(now, &packet(false, 2, 2, DISPOSABLE, 100)), full);
    pop_all(&mut queue, now, 1200);
    assert_eq!(queue.push(now, &packet(true, 3, 2, DISPOSABLE, 100)), full, "the rest of a refused frame");
    assert!(!queue.take_recovery_needed(), "no other frame refers to it");
    assert_eq!(queue.counters().dropped(DropReason::Full), 1);
    // Frames that never left take no number.
    queue.push(now, &frame(4, REFERENCE, 100));
    assert_eq!(headers(&pop_all(&mut queue, now, 1200))[0].frame, 2);
}

#[test]
fn bytes_are_bounded_and_the_frame_that_does_not_fit_goes_whole() {
    let config = SendQueueConfig { codec: Codec::H264, max_bytes: ByteCount(2 * 1002), ..Default::default() };
    let (now, mut queue) = (epoch(), SendQueue::new(config));
    queue.push(now, &packet(false, 0, 0, REFERENCE, 1000));
    assert_eq!(queue.push(now, &packet(false, 1, 0, REFERENCE, 1000)), PushOutcome::Queued, "just fits");
    assert_eq!(queue.push(now, &packet(true, 2, 0, REFERENCE, 13)), PushOutcome::Dropped(DropReason::Full));
    assert_eq!((queue.queued_frames(), queue.queued_bytes()), (0, ByteCount::ZERO));
    assert!(queue.take_recovery_needed());
    assert!(!queue.take_recovery_needed());
}

#[test]
fn old_frames_are_dropped_whole() {
    let (start, mut queue) = (epoch(), queue());
    queue.push(start, &frame(0, REFERENCE, 100));
    queue.push(start + 100 * MS, &frame(1, IDR, 100));
    assert_eq!(queue.next_deadline(), Some(start + 300 * MS));
    queue.handle_timeout(start + 300 * MS - Duration::from_nanos(1));
    assert_eq!(queue.queued_frames(), 2);
    queue.handle_timeout(start + 300 * MS);
    assert_eq!((queue.queued_frames(), queue.oldest_age(start + 300 * MS)), (1, Some(200 * MS)));
    assert_eq!(queue.counters().dropped(DropReason::TooOld), 1);
    assert!(queue.take_recovery_needed());
    assert_eq!(headers(&pop_all(&mut queue, start + 300 * MS, 1200))[0].frame, 0, "nothing of the first had left");
}

#[test]
fn the_receiver_is_told_of_a_frame_that_was_given_up_half_way() {
    let (start, mut queue) = (epoch(), queue());
    queue.push(start, &frame(0, IDR, 3000));
    queue.pop_fragment(start, 1200, &mut Vec::new()).unwrap();
    queue.handle_timeout(start + 499 * MS);
    assert_eq!(queue.queued_frames(), 1, "it has begun to leave, so it has longer");
    queue.push(start + 499 * MS, &frame(1, IDR, 100));
    let fragments = pop_all(&mut queue, start + 500 * MS, 1200);
    let told = headers(&fragments);
    assert!(told[0].flags.abandoned && told[0].flags.recovery_point && !told[0].flags.last);
    assert_eq!((told[0].frame, told[0].index, fragments[0].len()), (0, 1, 6));
    assert_eq!((told[1].frame, told[1].flags.last), (1, true));
    assert_eq!(queue.counters().frames_abandoned, 1);
}

#[test]
fn clear_drops_what_is_still_coming_in_too() {
    let (now, mut queue) = (epoch(), queue());
    queue.push(now, &frame(0, REFERENCE, 100));
    queue.push(now, &packet(false, 1, 1, REFERENCE, 100));
    queue.clear(now);
    assert_eq!((queue.queued_frames(), queue.queued_bytes(), queue.next_deadline()), (0, ByteCount::ZERO, None));
    let rest = queue.push(now, &packet(true, 2, 1, REFERENCE, 100));
    assert_eq!(rest, PushOutcome::Dropped(DropReason::Cleared));
    assert_eq!(queue.push(now, &frame(3, REFERENCE, 100)), PushOutcome::Queued);
    assert_eq!(queue.counters().dropped(DropReason::Cleared), 2);
}

#[test]
fn frames_beyond_all_bounds_are_dropped() {
    let start = epoch();
    let config = SendQueueConfig { max_bytes: ByteCount(u64::MAX), ..Default::default() };
    let mut queue = SendQueue::new(config.clone());
    let outcomes: Vec<_> = (0..40).map(|i| queue.push(start, &packet(false, i, 0, IDR, 60_000))).collect();
    // 34 packets of 60,004 bytes fit into 2 MiB.
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == PushOutcome::Queued).count(), 34);
    assert_eq!(outcomes[34], PushOutcome::Dropped(DropReason::TooLarge));
    assert_eq!(queue.queued_bytes(), ByteCount::ZERO);

    // 57 bytes in each of 16,384 fragments are less than a megabyte.
    let mut queue = SendQueue::new(config);
    for i in 0..17 {
        queue.push(start, &packet(i == 16, i, 0, IDR, 60_000));
    }
    let fragments = pop_all(&mut queue, start, MIN_PAYLOAD);
    let last = FragmentHeader::parse(fragments.last().unwrap()).unwrap().0;
    assert!(last.flags.abandoned);
    assert_eq!((fragments.len(), last.index), (MAX_FRAGMENTS as usize, MAX_FRAGMENTS - 1));
    assert_eq!(queue.counters().dropped(DropReason::TooLarge), 1);
}

#[test]
fn the_first_fragment_says_how_long_its_frame_has_waited_to_those_who_understand() {
    let now = epoch();
    let mut queue = SendQueue::new(SendQueueConfig::default());
    for (tells, waited_ms) in [(false, None), (true, Some(70))] {
        queue.set_tells_waits(tells);
        queue.push(now, &rtp(true, 0, 0, 1, &[0; 300]));
        let fragments = pop_all(&mut queue, now + Duration::from_micros(70_999), 200);
        let waits: Vec<_> = headers(&fragments).iter().map(|header| header.waited_ms).collect();
        assert_eq!(waits, [waited_ms, None]);
    }
    // Nor does the time matter that is not spent in here.
    queue.set_waited_raw(Duration::from_micros(12_500));
    queue.push(now, &rtp(true, 1, 1, 1, &[0; 60]));
    queue.push(now, &rtp(true, 2, 2, 1, &[0; 60]));
    let fragments = pop_all(&mut queue, now + Duration::from_micros(70_999), 200);
    let waits: Vec<_> = headers(&fragments).iter().map(|header| header.waited_ms).collect();
    assert_eq!(waits, [Some(83), Some(70)], "of one frame");
}

#[test]
fn sound_is_not_as_old_as_the_picture_that_is_being_made() {
    let (now, mut queue) = (epoch(), SendQueue::new(SendQueueConfig::default()));
    queue.set_tells_waits(true);
    queue.push(now, &rtp(true, 0, 0, 1, &[0x67, 66, 0, 30]));
    pop_all(&mut queue, now, 1200);
    let mut sound = rtp(true, 0, 0, 9, &[0xfc, 0xff, 0xfe]);
    sound[1] = 0x80 | 98;
    for packet in [sound, rtp(true, 1, 1, 1, &[REFERENCE, 7])] {
        queue.set_waited_raw(30 * MS);
        queue.push(now, &packet);
    }
    let waits: Vec<_> = headers(&pop_all(&mut queue, now, 1200)).iter().map(|header| header.waited_ms).collect();
    assert_eq!(waits, [Some(0), Some(30)]);
}

#[test]
fn the_rest_of_a_frame_that_the_other_side_would_not_show_is_not_sent() {
    let now = epoch();
    for (waited_ms, leaves_until_ms) in [(0, 500), (150, 350), (400, 300)] {
        let mut queue = queue();
        queue.set_waited_raw(waited_ms * MS);
        queue.push(now, &frame(0, IDR, 2500));
        assert!(queue.pop_fragment(now, 1200, &mut Vec::new()).is_some());
        let mut rest =
            |ms| queue.pop_fragment(now + ms * MS, 1200, &mut Vec::new()).map(|info| info.header.flags.abandoned);
        assert_eq!((rest(leaves_until_ms - 1), rest(leaves_until_ms)), (Some(false), Some(true)), "{waited_ms}");
    }
}

#[test]
fn what_is_no_rtp_and_streams_that_begin_anew_are_counted() {
    let (now, mut queue) = (epoch(), queue());
    for packet in [frame(0, IDR, 100), vec![7; 30], frame(1, REFERENCE, 100), rtp(true, 9, 9, 5, &[IDR, 7]), vec![0]] {
        queue.push(now, &packet);
    }
    let QueueCounters { packets_not_rtp, began_anew, .. } = *queue.counters();
    assert_eq!((packets_not_rtp, began_anew), (2, 1));
}
