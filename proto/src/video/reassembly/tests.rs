//! Boundaries of reassembly.

use super::*;
use crate::video::fragment::{FragmentFlags, MAX_FRAGMENTS};
use crate::video::tests::{drain, epoch};

const MS: Duration = Duration::from_millis(1);

/// A frame of one packet of one byte, `value`, is these two bytes, one in each of two fragments.
const VALUE: u8 = 9;
const PACKET: [u8; 2] = [1, VALUE];

fn fragment(frame: u32, index: u32, flags: FragmentFlags, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    FragmentHeader { flags, frame, index, waited_ms: None, number: None }.put(&mut out);
    out.extend(bytes);
    out
}

/// Flags of a stream of known codec.
const KNOWN: FragmentFlags =
    FragmentFlags { last: false, recovery_point: false, disposable: false, abandoned: false, classified: true };
const LAST: FragmentFlags = FragmentFlags { last: true, ..KNOWN };

/// The first and the second half of a frame, the whole of it, and the whole of one to start at.
fn head(frame: u32) -> Vec<u8> {
    fragment(frame, 0, KNOWN, &PACKET[..1])
}
fn tail(frame: u32) -> Vec<u8> {
    fragment(frame, 1, LAST, &PACKET[1..])
}
fn whole(frame: u32) -> Vec<u8> {
    fragment(frame, 0, LAST, &PACKET)
}
fn idr(frame: u32) -> Vec<u8> {
    fragment(frame, 0, FragmentFlags { recovery_point: true, ..LAST }, &PACKET)
}

/// A reassembler that has given out frame `frame`, a recovery point.
fn begun(now: Instant, frame: u32) -> Reassembler {
    let mut reassembler = Reassembler::new(ReassemblerConfig::default());
    assert_eq!(push(&mut reassembler, now, &idr(frame)), [format!("frame {frame}")]);
    reassembler
}

/// Pushes, drains and names the events.
fn push(reassembler: &mut Reassembler, now: Instant, fragment: &[u8]) -> Vec<String> {
    reassembler.push(now, Duration::ZERO, fragment);
    events(reassembler, now)
}

fn events(reassembler: &mut Reassembler, now: Instant) -> Vec<String> {
    drain(reassembler, now)
        .into_iter()
        .map(|event| match event {
            VideoEvent::Frame(frame) => {
                assert!(frame.packets.eq([&[VALUE][..]]), "frame {}", frame.number);
                format!("frame {}", frame.number)
            }
            VideoEvent::FramesLost { first, count, matters } => {
                format!("lost {first}+{count}{}", if matters { "" } else { " unimportant" })
            }
            VideoEvent::RecoveryNeeded => "recovery".to_owned(),
        })
        .collect()
}

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn fragments_in_any_order_make_the_frame() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    assert_eq!(push(&mut reassembler, now, &tail(1)), nothing());
    assert_eq!(push(&mut reassembler, now, &tail(1)), nothing());
    assert_eq!(push(&mut reassembler, now, &head(1)), ["frame 1"]);
    assert_eq!(push(&mut reassembler, now, &head(1)), nothing());
    assert_eq!((reassembler.counters().duplicate, reassembler.counters().late), (1, 1));
    assert_eq!((reassembler.held_bytes(), reassembler.next_deadline()), (ByteCount::ZERO, None));
}

#[test]
fn a_later_frame_waits_for_an_earlier_one_as_long_as_agreed() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    assert_eq!(push(&mut reassembler, now, &head(1)), nothing());
    assert_eq!(push(&mut reassembler, now + MS, &head(3)), nothing(), "from now on 1 and 2 are overtaken");
    assert_eq!(push(&mut reassembler, now + 5 * MS, &tail(3)), nothing());
    let due = now + 21 * MS;
    assert_eq!(reassembler.next_deadline(), Some(due));
    assert_eq!(events(&mut reassembler, due - Duration::from_nanos(1)), nothing());
    assert_eq!(events(&mut reassembler, due), ["lost 1+2", "frame 3", "recovery"]);
    assert_eq!(push(&mut reassembler, due, &tail(1)), nothing());
    assert_eq!(reassembler.counters().late, 1);
}

#[test]
fn an_earlier_frame_that_comes_in_time_goes_first() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    assert_eq!(push(&mut reassembler, now, &whole(2)), nothing());
    assert_eq!(push(&mut reassembler, now + 19 * MS, &whole(1)), ["frame 1", "frame 2"]);
}

#[test]
fn a_frame_that_nothing_comes_after_is_given_up_in_the_end() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    push(&mut reassembler, now, &head(1));
    assert_eq!(reassembler.next_deadline(), Some(now + 500 * MS));
    assert_eq!(events(&mut reassembler, now + 500 * MS), ["lost 1+1", "recovery"]);
    assert_eq!((reassembler.held_bytes(), reassembler.next_deadline()), (ByteCount::ZERO, None));
}

#[test]
fn an_abandoned_frame_is_not_waited_for() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    push(&mut reassembler, now, &head(1));
    let abandoned = FragmentFlags { abandoned: true, ..KNOWN };
    assert_eq!(push(&mut reassembler, now, &fragment(1, 1, abandoned, &[])), ["lost 1+1", "recovery"]);
    // Also if nothing else of it came, and if it does not matter.
    let unimportant = FragmentFlags { disposable: true, ..abandoned };
    assert_eq!(push(&mut reassembler, now, &fragment(2, 1, unimportant, &[])), ["lost 2+1 unimportant"]);
    assert_eq!(reassembler.counters().frames_abandoned, 2);
}

#[test]
fn numbers_wrap() {
    let now = epoch();
    let mut reassembler = begun(now, u32::MAX - 1);
    assert_eq!(push(&mut reassembler, now, &whole(0)), nothing());
    assert_eq!(push(&mut reassembler, now, &whole(u32::MAX)), ["frame 4294967295", "frame 4294967296"]);
    assert_eq!(push(&mut reassembler, now, &whole(u32::MAX)), nothing());
    assert_eq!(push(&mut reassembler, now, &whole(1)), ["frame 4294967297"]);
}

#[test]
fn a_sender_that_begins_anew_is_followed() {
    let now = epoch();
    let mut reassembler = begun(now, 1000);
    push(&mut reassembler, now, &head(1001));
    let later = now + RESTART_SILENCE;
    let epoch = 1u64 << 32;
    assert_eq!(push(&mut reassembler, later, &idr(0)), ["lost 1001+1", "recovery"], "it timed out");
    assert_eq!(push(&mut reassembler, later, &whole(1)), nothing());
    assert_eq!(push(&mut reassembler, later, &idr(2)), [format!("frame {}", epoch + 2)]);
    assert_eq!(push(&mut reassembler, later, &whole(3)), [format!("frame {}", epoch + 3)]);
    assert_eq!((reassembler.counters().restarts, reassembler.counters().late), (1, 2));
}

#[test]
fn late_fragments_while_the_flow_goes_on_are_no_new_start() {
    let now = epoch();
    let mut reassembler = begun(now, 1000);
    for i in 1..200 {
        let at = now + 20 * MS * i;
        assert_eq!(push(&mut reassembler, at, &whole(i)), nothing());
        assert_eq!(push(&mut reassembler, at, &whole(1000 + i)).len(), 1);
    }
    assert_eq!((reassembler.counters().restarts, reassembler.counters().late), (0, 199));
}

#[test]
fn a_fragment_far_ahead_is_believed_only_with_others() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    let later = now + RESTART_SILENCE;
    assert_eq!(push(&mut reassembler, later, &whole(MAX_JUMP as u32 + 1)), nothing());
    assert_eq!(push(&mut reassembler, later, &whole(0x7000_0000)), nothing());
    assert_eq!(reassembler.counters().far_ahead, 2);
    assert_eq!(push(&mut reassembler, later, &whole(1)), ["frame 1"]);
}

#[test]
fn a_jump_over_the_window_is_one_loss() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    push(&mut reassembler, now, &whole(2));
    assert_eq!(push(&mut reassembler, now, &whole(1000)), ["lost 1+1", "frame 2", "lost 3+742", "recovery"]);
    assert_eq!(reassembler.frames_in_flight(), 256);
    assert_eq!(events(&mut reassembler, now + 20 * MS), ["lost 745+255", "frame 1000"]);
}

#[test]
fn memory_is_bounded_and_the_oldest_frames_go() {
    let now = epoch();
    let config = ReassemblerConfig { max_bytes: ByteCount(10_000), ..ReassemblerConfig::default() };
    let mut reassembler = Reassembler::new(config);
    for frame in 0..100 {
        reassembler.push(now, Duration::ZERO, &fragment(frame, 1, KNOWN, &[0; 936]));
        drain(&mut reassembler, now);
        assert!(reassembler.held_bytes() <= ByteCount(10_000));
    }
    assert_eq!(reassembler.counters().frames_overflowed, 90);
    // Empty fragments are not free.
    for index in 0..MAX_FRAGMENTS {
        reassembler.push(now, Duration::ZERO, &fragment(100, index, KNOWN, &[]));
        drain(&mut reassembler, now);
        assert!(reassembler.held_bytes() <= ByteCount(10_000));
    }
}

#[test]
fn a_frame_of_more_than_the_limit_is_lost() {
    let now = epoch();
    let config = ReassemblerConfig { max_bytes: ByteCount(u64::MAX), ..ReassemblerConfig::default() };
    let mut reassembler = Reassembler::new(config);
    let half = vec![0; MAX_FRAME_BYTES / 2];
    reassembler.push(now, Duration::ZERO, &fragment(0, 0, KNOWN, &half));
    reassembler.push(now, Duration::ZERO, &fragment(0, 2, KNOWN, &half));
    assert_eq!(events(&mut reassembler, now), nothing());
    assert_eq!(push(&mut reassembler, now, &fragment(0, 1, KNOWN, &[1])), ["lost 0+1", "recovery"]);
    assert_eq!(reassembler.held_bytes(), ByteCount::ZERO);
}

#[test]
fn contradictions_are_counted_and_dropped() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    push(&mut reassembler, now, &fragment(1, 3, KNOWN, &[1]));
    push(&mut reassembler, now, &fragment(1, 1, LAST, &[1])); // ends before index 3
    assert_eq!(reassembler.counters().malformed, 1);
    push(&mut reassembler, now, &fragment(2, 1, LAST, &[1]));
    push(&mut reassembler, now, &fragment(2, 2, KNOWN, &[1])); // after the end
    assert_eq!(reassembler.counters().malformed, 2);
    push(&mut reassembler, now, &[0xff; 20]);
    assert_eq!(reassembler.counters().malformed, 3);
}

#[test]
fn a_frame_whose_packets_do_not_add_up_is_lost() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    assert_eq!(push(&mut reassembler, now, &fragment(1, 0, LAST, &[5, 1, 2])), ["lost 1+1", "recovery"]);
    assert_eq!(push(&mut reassembler, now, &whole(2)), ["frame 2"]);
}

#[test]
fn a_recovery_point_is_asked_for_until_it_comes() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    reassembler.set_recovery_interval(100 * MS);
    assert_eq!(push(&mut reassembler, now, &whole(2)), nothing());
    let lost = now + 20 * MS;
    assert_eq!(events(&mut reassembler, lost), ["lost 1+1", "frame 2", "recovery"]);
    // Silent while nothing comes; once something comes, again, but not before the interval is over.
    assert_eq!(reassembler.next_deadline(), None);
    assert_eq!(push(&mut reassembler, lost + 50 * MS, &whole(3)), ["frame 3"]);
    assert_eq!(reassembler.next_deadline(), Some(lost + 100 * MS));
    assert_eq!(events(&mut reassembler, lost + 100 * MS), ["recovery"]);
    assert_eq!(push(&mut reassembler, lost + 110 * MS, &idr(4)), ["frame 4"]);
    assert_eq!(push(&mut reassembler, lost + 300 * MS, &whole(5)), ["frame 5"]);
    assert_eq!((reassembler.next_deadline(), reassembler.counters().recovery_requests), (None, 2));
}

#[test]
fn a_viewer_that_comes_late_has_a_recovery_point_asked_for_until_it_comes() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    reassembler.set_recovery_interval(100 * MS);
    reassembler.want_recovery();
    assert_eq!(events(&mut reassembler, now), ["recovery"]);
    reassembler.want_recovery();
    assert_eq!(events(&mut reassembler, now + 50 * MS), nothing(), "not before the interval is over");
    assert_eq!(
        push(&mut reassembler, now + 100 * MS, &whole(1)),
        ["frame 1", "recovery"],
        "the first may have been lost"
    );
    assert_eq!(push(&mut reassembler, now + 110 * MS, &idr(2)), ["frame 2"]);
    assert_eq!(push(&mut reassembler, now + 300 * MS, &whole(3)), ["frame 3"]);
}

#[test]
fn joining_in_the_middle_asks_for_a_recovery_point() {
    let now = epoch();
    let mut reassembler = Reassembler::new(ReassemblerConfig::default());
    assert_eq!(push(&mut reassembler, now, &whole(70)), ["frame 70", "recovery"]);
    assert_eq!(push(&mut reassembler, now, &idr(71)), ["frame 71"]);
    assert_eq!(push(&mut reassembler, now + 300 * MS, &whole(72)), ["frame 72"]);
}

#[test]
fn a_flow_of_unknown_codec_asks_once_for_each_loss() {
    let now = epoch();
    let opaque = |frame| fragment(frame, 0, FragmentFlags { last: true, ..FragmentFlags::default() }, &PACKET);
    let mut reassembler = Reassembler::new(ReassemblerConfig::default());
    assert_eq!(push(&mut reassembler, now, &opaque(0)), ["frame 0"]);
    push(&mut reassembler, now, &opaque(2));
    assert_eq!(events(&mut reassembler, now + 20 * MS), ["lost 1+1", "frame 2", "recovery"]);
    assert_eq!(push(&mut reassembler, now + 900 * MS, &opaque(3)), ["frame 3"]);
    assert_eq!(reassembler.next_deadline(), None);
}

#[test]
fn losing_a_frame_that_no_other_refers_to_breaks_nothing() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    let disposable = FragmentFlags { disposable: true, ..KNOWN };
    push(&mut reassembler, now, &fragment(1, 0, disposable, &PACKET[..1]));
    push(&mut reassembler, now, &whole(2));
    assert_eq!(events(&mut reassembler, now + 20 * MS), ["lost 1+1 unimportant", "frame 2"]);
    assert_eq!(reassembler.counters().frames_lost_matter, 0);
}

#[test]
fn a_frame_that_is_too_old_is_not_given_out_and_a_recovery_point_is_asked_for() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    reassembler.push(now, 500 * MS, &whole(1));
    assert_eq!(events(&mut reassembler, now), ["lost 1+1", "recovery"]);
    reassembler.push(now, 499 * MS, &whole(2));
    assert_eq!(events(&mut reassembler, now), ["frame 2"]);
    let counters = reassembler.counters();
    assert_eq!((counters.frames_stale, counters.frames_lost, counters.frames_out), (1, 0, 2));
    assert_eq!(reassembler.held_bytes(), ByteCount::ZERO);
}

#[test]
fn what_a_frame_has_waited_at_the_sender_counts() {
    let now = epoch();
    let mut reassembler = begun(now, 0);
    let waited = |frame, waited_ms| {
        let mut out = Vec::new();
        FragmentHeader { flags: LAST, frame, index: 0, waited_ms: Some(waited_ms), number: None }.put(&mut out);
        out.extend(PACKET);
        out
    };
    reassembler.push(now, 200 * MS, &waited(1, 300));
    assert_eq!(events(&mut reassembler, now), ["lost 1+1", "recovery"]);
    reassembler.push(now, 200 * MS, &waited(2, 299));
    let frame = reassembler.poll(now);
    assert!(matches!(frame, Some(VideoEvent::Frame(frame)) if now - frame.born == 499 * MS));
    reassembler.push(now, Duration::ZERO, &waited(3, u16::MAX));
    assert_eq!(events(&mut reassembler, now), ["lost 3+1"]);
}

#[test]
fn a_frame_that_can_no_longer_make_it_is_not_waited_for() {
    let now = epoch();
    let config = ReassemblerConfig { reorder_time: 80 * MS, ..ReassemblerConfig::default() };
    let mut reassembler = Reassembler::new(config);
    push(&mut reassembler, now, &idr(0));
    reassembler.push(now, 490 * MS, &head(1));
    reassembler.push(now, 450 * MS, &whole(2));
    assert_eq!(events(&mut reassembler, now), nothing());
    assert_eq!(reassembler.next_deadline(), Some(now + 10 * MS), "and not the time for reordering");
    assert_eq!(events(&mut reassembler, now + 10 * MS), ["lost 1+1", "frame 2", "recovery"]);
    // One behind that is younger does not grow too old with it.
    reassembler.push(now + 10 * MS, 499 * MS, &head(3));
    reassembler.push(now + 10 * MS, 498 * MS, &whole(4));
    assert_eq!(events(&mut reassembler, now + 11 * MS), ["lost 3+1", "frame 4"]);
    assert_eq!((reassembler.counters().frames_lost, reassembler.counters().frames_stale), (0, 2));
}

#[test]
fn a_frame_that_may_be_repaired_is_waited_for_until_that_is_settled() {
    let now = epoch();
    let numbered = |frame, index, flags, number| {
        let mut out = Vec::new();
        FragmentHeader { flags, frame, index, waited_ms: None, number: Some(number) }.put(&mut out);
        out.extend(&PACKET[index as usize..if flags.last { 2 } else { 1 }]);
        out
    };
    for settled in [None, Some(65_535), Some(1)] {
        let mut reassembler = begun(now, 0);
        push(&mut reassembler, now, &numbered(1, 0, KNOWN, 65_535));
        assert_eq!(push(&mut reassembler, now, &numbered(2, 0, KNOWN, 1)), nothing());
        assert_eq!(push(&mut reassembler, now, &numbered(2, 1, LAST, 2)), nothing());
        settled.into_iter().for_each(|number| reassembler.set_settled(number));
        let until = now + if settled == Some(1) { DEFAULT_REORDER_TIME } else { DEFAULT_REPAIR_TIME };
        assert_eq!(reassembler.next_deadline(), Some(until));
        assert_eq!(events(&mut reassembler, until - MS), nothing());
        if settled.is_none() {
            let mut repaired = push(&mut reassembler, until - MS, &numbered(1, 1, LAST, 0));
            repaired.truncate(2);
            assert_eq!(repaired, ["frame 1", "frame 2"]);
        } else {
            assert_eq!(events(&mut reassembler, until)[..2], ["lost 1+1", "frame 2"]);
        }
    }
}
