//! mahimahi's semantics, by a table worked out by hand and by a model of its own.

use proptest::prelude::*;

use super::*;
use crate::path::tests::{epoch, ms};
use crate::trace::List;
use crate::{Bound, DropReason, Outage, Path, PathConfig, Queue};

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn play(start: Instant, times_ms: &[u64], queue: Queue) -> Path<char> {
    let source = List::new(times_ms.iter().map(|at| ms(*at)).collect());
    let mut path = Path::new(PathConfig { queue, ..PathConfig::default() }, 0);
    let opportunities = Opportunities { source: Box::new(source), bytes: 1500, mean_rate_bps: 12_000 };
    path.play_opportunities(start, start, opportunities);
    path
}

/// Pushes at these microseconds, and says when each packet came out.
fn departures(path: &mut Path<char>, start: Instant, packets: &[(u64, usize, char)]) -> Vec<(char, u64)> {
    let mut out = Vec::new();
    let mut drain = |path: &mut Path<char>, until: Instant| {
        while let Some(at) = path.next_delivery().filter(|at| *at < until) {
            while let Some(packet) = path.pop(at) {
                out.push((packet, (at - start).as_micros() as u64));
            }
        }
    };
    for (at, bytes, name) in packets {
        drain(path, start + us(*at));
        path.push(start + us(*at), *bytes, *name).unwrap();
    }
    drain(path, start + Duration::from_secs(3_600));
    out
}

#[test]
fn departures_by_hand() {
    let start = epoch();
    // Five opportunities a cycle of 7 ms: at 1, 1, 3, 4, 7, then 8, 8, 10, 11, 14, then 15, 15, ...
    let mut path = play(start, &[1, 1, 3, 4, 7], Queue::default());
    let packets = [
        (0, 1500, 'a'),
        (0, 700, 'b'),
        (0, 700, 'c'),
        (0, 300, 'd'),
        (0, 2000, 'e'),
        (4_000, 100, 'f'),
        (7_500, 1500, 'g'),
        (8_000, 4000, 'h'),
        (13_999, 500, 'i'),
        (13_999, 1, 'j'),
    ];
    let expected = [
        ('a', 1_000),  // all of the first opportunity at 1
        ('b', 1_000),  // 700 of the second
        ('c', 1_000),  // 1400 of it; the last 100 are d's
        ('d', 3_000),  // 200 more
        ('e', 4_000),  // 1300 at 3 and 700 at 4, of which 800 are lost
        ('f', 7_000),  // came at 4, too late for 4; 1400 are lost
        ('g', 8_000),  // the second one at 8 is lost
        ('h', 14_000), // came at 8: 1500 at 10 and at 11, 1000 at 14
        ('i', 14_000), // fits exactly
        ('j', 15_000),
    ];
    assert_eq!(departures(&mut path, start, &packets), expected);
    let stats = path.stats();
    assert_eq!(stats.opportunity_bytes, packets.iter().map(|packet| packet.1 as u64).sum::<u64>());
    // Those at 15 have both passed.
    assert_eq!(stats.opportunities, 12);
}

#[test]
fn the_last_and_the_first_opportunity_of_two_cycles_coincide() {
    let start = epoch();
    let mut path = play(start, &[0, 2], Queue::default());
    // At 2 both: the end of a cycle and the beginning of the next.
    let out = departures(&mut path, start, &[(0, 1500, 'a'), (0, 1500, 'b'), (0, 1500, 'c')]);
    assert_eq!(out, [('a', 2_000), ('b', 2_000), ('c', 4_000)]);
}

#[test]
fn what_waits_for_an_opportunity_counts_against_the_bound() {
    let start = epoch();
    let mut path = play(start, &[10], Queue::packets(2));
    path.push(start, 1000, 'a').unwrap();
    path.push(start, 1000, 'b').unwrap();
    assert_eq!(path.push(start, 1000, 'c'), Err(DropReason::QueueFull));
    // At 10 a has gone, and b has left the queue with 500 bytes of that opportunity.
    path.push(start + ms(10), 1000, 'd').unwrap();
    path.push(start + ms(10), 1000, 'e').unwrap();
    assert_eq!(path.push(start + ms(10), 1000, 'f'), Err(DropReason::QueueFull));
    assert_eq!(path.stats().queue_packets, 2);
}

#[test]
fn a_bound_in_time_counts_at_the_mean_rate() {
    let start = epoch();
    // 12 kbit/s: 1500 bytes a second.
    let mut path = play(start, &[1000], Queue { bound: Bound::Time(ms(2000)), ..Queue::default() });
    path.push(start, 2999, 'a').unwrap();
    path.push(start, 1, 'b').unwrap();
    assert_eq!(path.push(start, 1, 'c'), Err(DropReason::QueueFull));
}

#[test]
fn opportunities_pass_unused_in_a_hold_and_are_used_in_vain_in_a_drop() {
    let start = epoch();
    let mut path = play(start, &[10], Queue::default());
    path.push(start, 1500, 'a').unwrap();
    path.push(start, 1500, 'b').unwrap();
    path.begin_outage(start + ms(5), Outage::Hold);
    assert_eq!(path.next_delivery(), None);
    path.end_outage(start + ms(25));
    path.begin_outage(start + ms(25), Outage::Drop);
    path.end_outage(start + ms(35));
    assert_eq!(path.stats().dropped.outage.packets, 1);
    assert_eq!(path.pop(start + ms(40)), Some('b'));
}

#[test]
fn a_packet_without_bytes_takes_an_opportunity_and_nothing_of_it() {
    let start = epoch();
    let mut path = play(start, &[1, 2], Queue::default());
    let out = departures(&mut path, start, &[(0, 0, 'a'), (0, 1500, 'b'), (0, 0, 'c')]);
    // b uses up the first; c needs another one.
    assert_eq!(out, [('a', 1_000), ('b', 1_000), ('c', 2_000)]);
}

#[test]
fn a_change_of_pace_keeps_what_was_sent() {
    let start = epoch();
    let mut path = play(start, &[10], Queue::default());
    path.push(start, 2500, 'a').unwrap();
    path.push(start, 1000, 'b').unwrap();
    // 1500 of a are sent; 1000 take 1 ms at 8 Mbit/s.
    path.set_rate(start + ms(12), Some(8_000_000));
    assert_eq!(path.next_delivery(), Some(start + ms(13)));
    let source = Box::new(List::new(vec![ms(5)]));
    // b has sent 500 when it begins to wait for opportunities.
    let opportunities = Opportunities { source, bytes: 500, mean_rate_bps: 1 };
    path.play_opportunities(start + us(13_500), start + us(13_500), opportunities);
    assert_eq!(path.pop(start + ms(13)), Some('a'));
    assert_eq!(path.next_delivery(), Some(start + us(18_500)));
    assert_eq!(path.pop(start + us(18_500)), Some('b'));
}

#[test]
fn years_of_idleness_are_skipped() {
    let start = epoch();
    let mut path = play(start, &[1, 3, 3, 7], Queue::default());
    let years = Duration::from_secs(3 * 365 * 86_400);
    let cycles = years.as_millis() as u64 / 7 + 1;
    let at = start + ms(cycles * 7 + 2);
    path.push(at, 1500, 'a').unwrap();
    assert_eq!(path.next_delivery(), Some(start + ms(cycles * 7 + 3)));
    assert_eq!(path.stats().opportunities, cycles * 4 + 1);
}

#[test]
fn a_trace_that_fails_says_so_and_stops() {
    let start = epoch();
    for times in [&[][..], &[0, 0], &[5, 3]] {
        let mut path = play(start, times, Queue::default());
        path.push(start, 1500, 'a').unwrap();
        // At most the opportunities up to the fault.
        path.pop(start + ms(100));
        path.push(start + ms(100), 1500, 'b').unwrap();
        assert!(path.trace_fault().is_some(), "{times:?}");
        assert_eq!(path.next_delivery(), None, "{times:?}");
    }
}

/// What mahimahi does, written as it would be on paper: a millisecond at a time.
fn model(times: &[u64], packets: &[(u64, usize)]) -> Vec<u64> {
    let cycle = *times.last().unwrap();
    let mut left: Vec<usize> = packets.iter().map(|packet| packet.1).collect();
    let mut departed = vec![0; packets.len()];
    let (mut ms, mut first) = (0, 0);
    while first < packets.len() {
        let opportunities = (0..=ms / cycle).map(|n| times.iter().filter(|at| **at + n * cycle == ms).count()).sum();
        for _ in 0..opportunities {
            let mut bytes = 1500;
            while bytes > 0 && first < packets.len() && packets[first].0 < ms {
                let sent = bytes.min(left[first]);
                bytes -= sent;
                left[first] -= sent;
                if left[first] == 0 {
                    departed[first] = ms;
                    first += 1;
                }
            }
        }
        ms += 1;
    }
    departed
}

proptest! {
    #[test]
    fn departures_are_those_of_the_model(
        gaps in prop::collection::vec(0u64..6, 1..20),
        last in 1u64..6,
        packets in prop::collection::vec((0u64..9, 1usize..4000), 1..40),
    ) {
        let mut at = 0;
        let mut times: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
        times.push(at + last);
        let mut at = 0;
        let packets: Vec<(u64, usize)> = packets.iter().map(|(gap, bytes)| { at += gap; (at, *bytes) }).collect();
        let start = epoch();
        let mut path = play(start, &times, Queue::bytes(1 << 30));
        let pushed: Vec<_> = packets.iter().map(|(at, bytes)| (*at * 1000, *bytes, 'x')).collect();
        let out: Vec<u64> = departures(&mut path, start, &pushed).into_iter().map(|(_, at)| at / 1000).collect();
        prop_assert_eq!(out, model(&times, &packets));
    }
}
