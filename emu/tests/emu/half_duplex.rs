//! A shared channel under random traffic.

use std::time::{Duration, Instant};

use aquila_emu::{Direction, HalfDuplex, Packet, PathConfig, Queue};
use proptest::prelude::*;

use crate::epoch;

/// 8 Mbit/s up, 16 Mbit/s down: a byte takes 1,000 and 500 ns.
const NANOS_A_BYTE: [u64; 2] = [1_000, 500];

#[derive(Debug, Clone, Copy, PartialEq)]
struct Sent {
    direction: Direction,
    number: u64,
    pushed: Duration,
    begin: Duration,
    end: Duration,
}

fn run(turn_around: Duration, packets: &[(u64, bool, usize)], poll: bool) -> (Vec<Sent>, u64) {
    let start = epoch();
    let config = |rate| PathConfig { rate_bps: Some(rate), queue: Queue::packets(10), ..PathConfig::default() };
    let mut link = HalfDuplex::new(config(8_000_000), config(16_000_000), turn_around, 1);
    let mut sent = Vec::new();
    let mut take = |link: &mut HalfDuplex<usize>, at: Instant| {
        for direction in [Direction::Up, Direction::Down] {
            while let Some(out) = link.pop(direction, at) {
                let service = Duration::from_nanos(NANOS_A_BYTE[direction as usize] * out.packet.bytes as u64);
                let end = out.due - start;
                sent.push(Sent {
                    direction,
                    number: out.number,
                    pushed: out.pushed - start,
                    begin: end - service,
                    end,
                });
            }
            let s = link.path(direction).stats();
            assert_eq!(s.input.packets, s.output.packets + s.dropped.total().packets + s.queued.packets);
        }
    };
    let mut now = start;
    for (gap, down, bytes) in packets {
        now += Duration::from_micros(*gap);
        while poll && let Some(at) = link.next_deadline().filter(|at| *at <= now) {
            take(&mut link, at);
        }
        let direction = if *down { Direction::Down } else { Direction::Up };
        let _ = link.push(direction, now, Packet::new(*bytes, *bytes));
    }
    take(&mut link, now + Duration::from_secs(60));
    assert_eq!(link.next_deadline(), None);
    let dropped = [Direction::Up, Direction::Down].map(|d| link.path(d).stats().dropped.total().packets).iter().sum();
    sent.sort_by_key(|sent| sent.end);
    (sent, dropped)
}

proptest! {
    #[test]
    fn one_sends_at_a_time_and_who_came_first_goes_first(
        turn_around in 0u64..300,
        packets in prop::collection::vec((0u64..1_500, any::<bool>(), 1usize..1_500), 1..150),
    ) {
        let turn_around = Duration::from_micros(turn_around);
        let (sent, dropped) = run(turn_around, &packets, true);
        prop_assert_eq!(sent.len() as u64 + dropped, packets.len() as u64);
        for pair in sent.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            let turns = one.direction != next.direction;
            let ready = if turns { one.end + turn_around } else { one.end };
            prop_assert!(next.begin >= ready, "{one:?} {next:?}");
            // It begins as soon as it may: nothing is left lying about.
            prop_assert_eq!(next.begin, ready.max(next.pushed));
            // What was chosen while the channel was busy or turned was there first.
            prop_assert!(one.pushed <= next.pushed, "{one:?} {next:?}");
        }
        prop_assert_eq!((sent, dropped), run(turn_around, &packets, false));
    }
}
