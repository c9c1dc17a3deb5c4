//! Exact boundaries of the queue, seen through a path.

use super::*;
use crate::path::tests::{epoch, ms};
use crate::{Packet, Path, PathConfig};

/// 12 Mbit/s: 1500 bytes take a millisecond.
fn path(queue: Queue) -> Path<u32> {
    Path::new(PathConfig { rate_bps: Some(12_000_000), queue, ..PathConfig::default() }, 0)
}

fn ect(n: u32) -> Packet<u32> {
    Packet::new(1500, n).with_ecn(Ecn::Ect0)
}

#[test]
fn a_bound_in_packets_does_not_look_at_sizes() {
    let start = epoch();
    let mut path = path(Queue::packets(2));
    path.push(start, 1500, 0).unwrap(); // in service
    path.push(start, 9000, 1).unwrap();
    path.push(start, 1, 2).unwrap();
    assert_eq!(path.push(start, 1, 3), Err(DropReason::QueueFull));
    path.push(start + ms(1), 1, 4).unwrap();
}

#[test]
fn a_bound_in_time_is_bytes_at_the_present_rate() {
    let start = epoch();
    let mut path = path(Queue::time(ms(3)));
    path.push(start, 1500, 0).unwrap();
    path.push(start, 4499, 1).unwrap();
    path.push(start, 1, 2).unwrap();
    assert_eq!(path.push(start, 1, 3), Err(DropReason::QueueFull));
    // At twice the rate there is twice the room.
    path.set_rate(start, Some(24_000_000));
    path.push(start, 4500, 4).unwrap();
    assert_eq!(path.push(start, 1, 5), Err(DropReason::QueueFull));
    // A rate of zero leaves the room as it was.
    path.set_rate(start, Some(0));
    assert_eq!(path.push(start, 1, 6), Err(DropReason::QueueFull));
    path.set_rate(start, Some(24_000_001));
    path.push(start, 0, 7).unwrap();
}

#[test]
fn a_smaller_bound_keeps_what_waits() {
    let start = epoch();
    let mut path = path(Queue::packets(3));
    (0..4).for_each(|n| path.push(start, 1500, n).unwrap());
    path.set_queue(start, Queue::packets(1));
    assert_eq!(path.push(start + ms(2), 1500, 4), Err(DropReason::QueueFull));
    assert_eq!(path.stats().queue_packets, 1);
    path.push(start + ms(3), 1500, 5).unwrap();
}

#[test]
fn marking_by_sojourn_begins_above_the_threshold() {
    let start = epoch();
    let marking = Marking { at: MarkAt::Sojourn(ms(2)), drop_not_capable: false };
    let mut path = path(Queue::default().with(Discipline::Mark(marking)));
    (0..5).for_each(|n| path.push_packet(start, ect(n)).unwrap());
    path.push(start, 1500, 5).unwrap();
    let out: Vec<Ecn> = (1..=6).map(|t| path.pop_packet(start + ms(t)).unwrap().packet.ecn).collect();
    // They waited 0, 1, 2, 3, 4, 5 ms.
    assert_eq!(out, [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::NotEct]);
    assert_eq!(path.stats().marked, Tally { packets: 2, bytes: 3000 });
}

#[test]
fn packets_that_cannot_be_marked_are_dropped_if_so_configured() {
    let start = epoch();
    let marking = Marking { at: MarkAt::Sojourn(ms(1)), drop_not_capable: true };
    let mut path = path(Queue::default().with(Discipline::Mark(marking)));
    path.record_drops(true);
    for n in 0..4 {
        path.push(start, 1500, n).unwrap();
    }
    path.push_packet(start, ect(4)).unwrap();
    assert_eq!((path.pop(start + ms(1)), path.pop(start + ms(2))), (Some(0), Some(1)));
    // 2 and 3 would have waited 2 ms: they are gone, and 4 takes their turn.
    let marked = path.pop_packet(start + ms(3)).unwrap();
    assert_eq!((marked.packet.payload, marked.packet.ecn), (4, Ecn::Ce));
    let drops: Vec<_> = std::iter::from_fn(|| path.pop_drop()).map(|d| (d.payload, d.reason, d.at - start)).collect();
    assert_eq!(drops, [(2, DropReason::Aqm, ms(2)), (3, DropReason::Aqm, ms(2))]);
}

#[test]
fn marking_by_bytes_looks_at_the_arrival() {
    let start = epoch();
    for drop_not_capable in [false, true] {
        let marking = Marking { at: MarkAt::Bytes(3000), drop_not_capable };
        let mut path = path(Queue::default().with(Discipline::Mark(marking)));
        (0..4).for_each(|n| path.push_packet(start, ect(n)).unwrap());
        let fate = path.push(start, 1500, 4);
        assert_eq!(fate.is_err(), drop_not_capable);
        let out: Vec<Ecn> = (1..=4).map(|t| path.pop_packet(start + ms(t)).unwrap().packet.ecn).collect();
        // One in service, then 1500, 3000 and 4500 bytes waiting.
        assert_eq!(out, [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ce]);
    }
}

#[test]
fn a_packet_marked_before_is_not_counted_again() {
    let start = epoch();
    let marking = Marking { at: MarkAt::Sojourn(Duration::ZERO), drop_not_capable: true };
    let mut path = path(Queue::default().with(Discipline::Mark(marking)));
    path.push(start, 1500, 0).unwrap();
    path.push_packet(start, Packet::new(1500, 1).with_ecn(Ecn::Ce)).unwrap();
    path.pop(start + ms(1)).unwrap();
    assert_eq!(path.pop_packet(start + ms(2)).unwrap().packet.ecn, Ecn::Ce);
    assert_eq!(path.stats().marked.packets, 0);
}

/// Two packets a millisecond into a link that carries one, for `millis`; times of drops, and packets marked.
fn overload(codel: CoDel, packet: fn(u32) -> Packet<u32>, millis: u64) -> (Vec<u64>, u64, Path<u32>) {
    let start = epoch();
    let mut path = path(Queue::bytes(10_000_000).with(Discipline::CoDel(codel)));
    path.record_drops(true);
    for t in 0..millis {
        for n in 0..2 {
            path.push_packet(start + ms(t), packet(n)).unwrap();
        }
        while path.pop(start + ms(t)).is_some() {}
    }
    let drops = std::iter::from_fn(|| path.pop_drop()).map(|d| (d.at - start).as_millis() as u64).collect();
    let marked = path.stats().marked.packets;
    (drops, marked, path)
}

#[test]
fn codel_drops_after_an_interval_and_then_faster_and_faster() {
    let (drops, marked, _) = overload(CoDel::default(), |n| Packet::new(1500, n), 600);
    // Packet k (from 0) was pushed at k/2 ms and is taken at k ms: the first to have waited 5 ms is number 9 (pushed at
    // 4) at 9 ms. An interval later comes the first drop. Then 100 ms, 100/√2, 100/√3, ... on from drop to drop, each
    // at the next departure.
    let due = [109.0, 209.0, 279.7, 337.4, 387.4, 432.1, 473.0, 510.8];
    assert_eq!(drops[..8], due.map(|due: f64| due.ceil() as u64));
    assert_eq!(marked, 0);
}

#[test]
fn codel_marks_at_the_times_at_which_it_would_drop() {
    let ecn = CoDel { ecn: true, ..CoDel::default() };
    let (drops, marked, _) = overload(ecn, ect, 400);
    assert_eq!((drops.len(), marked), (0, 5));
    // Packets that cannot be marked are dropped all the same.
    let (drops, marked, _) = overload(ecn, |n| Packet::new(1500, n), 400);
    assert_eq!((drops.len(), marked), (5, 0));
}

#[test]
fn codel_leaves_a_queue_of_one_packet_alone() {
    let start = epoch();
    let codel = CoDel { target: Duration::ZERO, interval: Duration::ZERO, ..CoDel::default() };
    let mut path = path(Queue::default().with(Discipline::CoDel(codel)));
    for t in 0..1_000 {
        path.push(start + ms(t), 1500, 0).unwrap();
        path.push(start + ms(t), 0, 1).unwrap();
        while path.pop(start + ms(t)).is_some() {}
    }
    assert_eq!(path.stats().dropped.total().packets, 0);
}

#[test]
fn codel_without_interval_still_ends() {
    let codel = CoDel { target: Duration::ZERO, interval: Duration::ZERO, mtu: 0, ecn: false };
    let (drops, _, path) = overload(codel, |n| Packet::new(1500, n), 100);
    assert!(!drops.is_empty());
    let s = path.stats();
    assert_eq!(s.input.packets, s.output.packets + s.dropped.total().packets + s.queued.packets);
}
