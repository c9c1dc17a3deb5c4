use std::sync::Arc;

use aquila_emu::{BitErrors, Loss, Path, PathConfig};

use super::*;
use crate::ByteCount;
use crate::aerotp::belief::BUDGET;
use crate::aerotp::{Header, SecurityConfig};
use crate::identity::Identity;

const MS: Duration = Duration::from_millis(1);

struct World {
    now: Instant,
    start: Instant,
    ends: [Endpoint; 2],
    /// What each end sends.
    paths: [Path<Vec<u8>>; 2],
    events: [Vec<EndpointEvent>; 2],
    /// Before each segment to the second end come so many forgeries of those that follow it.
    forged: u32,
}

fn line(rate: Bitrate) -> LineConfig {
    LineConfig { rate, framing: ByteCount(28), shared: None }
}

fn config(end: usize, life: u64) -> EndpointConfig {
    let identity = |n: u8| Arc::new(Identity::from_seed([n; 32]));
    let (own, peer) = if end == 0 { (1, 2) } else { (2, 1) };
    let security = SecurityConfig {
        identity: identity(own),
        peer: identity(peer).public(),
        initiates: end == 0,
        life,
        accepted: None,
    };
    EndpointConfig {
        assumed_rtt: 40 * MS,
        protection: Protection::Off,
        fit_length: false,
        ..EndpointConfig::new(security, line(Bitrate::mbps(5)), 1472)
    }
}

fn path(wrong: f64, loss: f64) -> PathConfig {
    PathConfig {
        rate_bps: Some(5_000_000),
        delay: 10 * MS,
        bit_errors: BitErrors { rate: wrong, spared_bytes: 0 },
        air_loss: Loss::Independent(loss),
        ..PathConfig::default()
    }
}

impl World {
    fn new(path: PathConfig, seed: u64, change: impl Fn(&mut EndpointConfig)) -> Self {
        let start = Instant::now();
        let end = |end: usize| {
            let mut config = config(end, 1);
            change(&mut config);
            Endpoint::new(config, SeededBytes::new(&[seed as u8; 32], if end == 0 { "a" } else { "b" })).unwrap()
        };
        Self {
            now: start,
            start,
            ends: [end(0), end(1)],
            paths: [Path::new(path, seed), Path::new(path, !seed)],
            events: Default::default(),
            forged: 0,
        }
    }

    /// Segments that look damaged, by somebody who hears the channel: a header that fits, and garbage behind it.
    fn forge(&mut self, segment: &[u8]) {
        let Ok(header) = Header::decode(segment) else { return };
        for ahead in 1..=self.forged {
            let seq = Seq(header.seq.0.wrapping_add(ahead));
            let timestamp = header.timestamp.wrapping_add(ahead * 1000);
            let mut forgery = Header { seq, timestamp, ..header }.encode().to_vec();
            forgery.resize(segment.len(), 0x55);
            self.ends[1].handle_segment(self.now, 0, &mut forgery);
        }
    }

    fn restart(&mut self, end: usize, life: u64) {
        let random = SeededBytes::new(&[life as u8; 32], "restarted");
        self.ends[end] = Endpoint::new(config(end, life), random).unwrap();
    }

    /// Until nothing happens any more, at most for this long.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        let mut out = Vec::new();
        let mut spins = 0;
        loop {
            for at in 0..2 {
                self.ends[at].handle_timeout(self.now);
                while self.ends[at].poll_transmit(self.now, &mut out).is_some() {
                    let _ = self.paths[at].push(self.now, out.len() + 28, out.clone());
                }
                while let Some(mut segment) = self.paths[at].pop(self.now) {
                    if at == 0 {
                        self.forge(&segment);
                    }
                    self.ends[1 - at].handle_segment(self.now, 0, &mut segment);
                }
            }
            let mut again = false;
            for at in 0..2 {
                while let Some(event) = self.ends[at].poll_event() {
                    self.events[at].push(event);
                    again = true;
                }
            }
            if again {
                continue;
            }
            let due = (0..2)
                .filter_map(|at| self.ends[at].poll_timeout(self.now))
                .chain((0..2).filter_map(|at| self.paths[at].next_delivery()));
            match due.min() {
                Some(due) if due <= end => {
                    // A deadline that has passed could only be answered with another one.
                    spins = if due <= self.now { spins + 1 } else { 0 };
                    assert!(spins < 100, "spins at {:?}", self.now - self.start);
                    self.now = due.max(self.now + Duration::from_nanos(1));
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn opened(&self, end: usize) -> ConnectionId {
        let opened = self.events[end].iter().find_map(|event| match event {
            EndpointEvent::Opened { connection, .. } => Some(*connection),
            _ => None,
        });
        opened.expect("opened")
    }

    fn read_all(&mut self, end: usize, id: ConnectionId) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = self.ends[end].read(self.now, id) {
            all.extend_from_slice(&piece.bytes);
        }
        all
    }
}

fn bytes(n: usize) -> Bytes {
    (0..n).map(|at| (at * 7 + at / 251) as u8).collect::<Vec<_>>().into()
}

#[test]
fn data_rides_on_the_first_segment_and_the_connection_closes_in_order() {
    let mut world = World::new(path(0.0, 0.0), 1, |_| {});
    let config = ConnectionConfig::stream(TransferMode::Reliable);
    world.ends[1].listen(80..=80, config);
    let id = world.ends[0].connect(world.now, config, Port(5000), Port(80)).unwrap();
    world.ends[0].send(id, bytes(5000), Some(7)).unwrap();
    world.run(13 * MS);
    let peer = world.opened(1);
    assert!(!world.read_all(1, peer).is_empty(), "before anything came back");
    world.ends[0].close(world.now, id);
    world.run(100 * MS);
    world.ends[1].close(world.now, peer);
    world.run(3000 * MS);
    assert!(
        world.events[0].contains(&EndpointEvent::Acknowledged { connection: id, token: 7 }),
        "{:?}",
        world.events[0]
    );
    assert!(
        world.events[0].contains(&EndpointEvent::Closed { connection: id, reason: Closed::Done }),
        "{:?}",
        world.events
    );
    assert!(world.events[1].contains(&EndpointEvent::PeerClosed(peer)));
    assert!(world.events[1].contains(&EndpointEvent::Closed { connection: peer, reason: Closed::Done }));
    assert!(world.ends.iter().all(|end| end.connections.is_empty()));
}

#[test]
fn everything_arrives_in_order_through_loss_and_bit_errors() {
    for (mode, wrong, loss, most) in [
        (TransferMode::Reliable, 0.0, 0.0, 2.0),
        (TransferMode::Reliable, 1e-5, 0.0, 2.5),
        (TransferMode::Reliable, 1e-4, 0.0, 8.0),
        (TransferMode::Reliable, 1e-5, 0.2, 4.0),
        (TransferMode::NearReliable, 1e-5, 0.2, 4.5),
        (TransferMode::NearReliable, 1e-4, 0.0, 9.0),
    ] {
        let mut world = World::new(path(wrong, loss), 3, |_| {});
        let config = ConnectionConfig::stream(mode);
        world.ends[1].listen(0..=u16::MAX, config);
        let id = world.ends[0].connect(world.now, config, Port(5000), Port(80)).unwrap();
        let sent = bytes(1_000_000);
        world.ends[0].send(id, sent.clone(), Some(1)).unwrap();
        let mut received = Vec::new();
        let mut took = None;
        while received.len() < sent.len() && world.now < world.start + Duration::from_secs(60) {
            world.run(50 * MS);
            if world.events[1].iter().any(|event| matches!(event, EndpointEvent::Opened { .. })) {
                let peer = world.opened(1);
                received.extend(world.read_all(1, peer));
            }
            took = Some(world.now - world.start);
        }
        let took = took.unwrap();
        assert!(received == sent, "{mode:?} {wrong} {loss}: {} of {}", received.len(), sent.len());
        let counters = world.ends[0].counters();
        println!(
            "{:?}\n{mode:?} ber {wrong:e} loss {loss}: {took:?} {counters:?} rtt {:?} loss {}",
            world.ends[1].counters(),
            world.ends[0].rtt(),
            world.ends[0].loss()
        );
        assert!(took < Duration::from_secs_f64(most), "{mode:?} {wrong} {loss}: {took:?}");
        world.run(Duration::from_secs(2));
        assert!(world.events[0].contains(&EndpointEvent::Acknowledged { connection: id, token: 1 }));
    }
}

#[test]
fn messages_come_as_they_arrive_each_once() {
    let mut world = World::new(path(1e-5, 0.2), 5, |_| {});
    let config = ConnectionConfig::messages(TransferMode::Reliable);
    world.ends[1].listen(1..=1, config);
    let id = world.ends[0].connect(world.now, config, Port(1), Port(1)).unwrap();
    for n in 0..500_u32 {
        world.ends[0].send(id, n.to_be_bytes().to_vec().into(), Some(u64::from(n))).unwrap();
        world.run(20 * MS);
    }
    assert_eq!(world.ends[0].send(id, bytes(5000), None), Err(SendError::TooLong(5000)));
    world.run(Duration::from_secs(1));
    let peer = world.opened(1);
    let mut got: Vec<u32> = Vec::new();
    while let Some(piece) = world.ends[1].read(world.now, peer) {
        assert!(piece.end);
        got.push(u32::from_be_bytes(piece.bytes[..].try_into().unwrap()));
    }
    assert!(!got.is_sorted(), "one that is lost holds nothing up");
    got.sort();
    assert_eq!(got, (0..500).collect::<Vec<_>>());
    let acknowledged = |event: &&EndpointEvent| matches!(event, EndpointEvent::Acknowledged { .. });
    assert_eq!(world.events[0].iter().filter(acknowledged).count(), 500);
}

#[test]
fn modes_without_repetition_keep_the_order_and_count_what_is_missing() {
    for mode in [TransferMode::QuasiReliable, TransferMode::UnreliableConnection] {
        let mut world = World::new(path(0.0, 0.1), 6, |_| {});
        let config = ConnectionConfig { stream: false, ..ConnectionConfig::stream(mode) };
        world.ends[1].listen(0..=9, config);
        let id = world.ends[0].connect(world.now, config, Port(3), Port(3)).unwrap();
        for n in 0..1000_u32 {
            world.ends[0].send(id, n.to_be_bytes().to_vec().into(), None).unwrap();
            world.run(2 * MS);
        }
        world.run(Duration::from_secs(1));
        let peer = world.opened(1);
        let (mut got, mut skipped) = (Vec::new(), 0);
        while let Some(piece) = world.ends[1].read(world.now, peer) {
            skipped += piece.skipped;
            got.push(u32::from_be_bytes(piece.bytes[..].try_into().unwrap()));
            assert_eq!(u64::from(*got.last().unwrap()) + 1, got.len() as u64 + skipped);
        }
        assert!(got.is_sorted() && (850..950).contains(&got.len()), "{mode:?} {}", got.len());
        assert_eq!(world.ends[0].counters().sent_again, 0);
        // Nothing but the answer to ASYN and reports comes back.
        assert!(world.ends[1].counters().segments_out < 40, "{:?}", world.ends[1].counters());
        world.ends[0].close(world.now, id);
        world.run(Duration::from_secs(3));
        assert!(world.events[0].contains(&EndpointEvent::Closed { connection: id, reason: Closed::Done }));
    }
}

#[test]
fn datagrams_need_no_connection() {
    let mut world = World::new(path(0.0, 0.0), 7, |_| {});
    world.ends[0].begin(world.now);
    world.ends[0].send_datagram(Port(9), Port(10), 0, bytes(100)).unwrap();
    assert_eq!(world.ends[0].send_datagram(Port(9), Port(10), 0, bytes(5000)), Err(SendError::TooLong(5000)));
    world.run(100 * MS);
    let datagram = EndpointEvent::Datagram { source: Port(9), destination: Port(10), bytes: bytes(100) };
    assert!(world.events[1].contains(&datagram), "{:?}", world.events[1]);
    world.ends[1].send_datagram(Port(10), Port(9), 0, bytes(7)).unwrap();
    world.run(100 * MS);
    assert!(world.events[0].contains(&EndpointEvent::Associated { restarted: false }), "{:?}", world.events[0]);
    let datagram = EndpointEvent::Datagram { source: Port(10), destination: Port(9), bytes: bytes(7) };
    assert!(world.events[0].contains(&datagram));
}

#[test]
fn a_port_that_nobody_listens_on_and_a_restart_end_connections() {
    let mut world = World::new(path(0.0, 0.0), 8, |_| {});
    let config = ConnectionConfig::stream(TransferMode::Reliable);
    let refused = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
    world.ends[0].send(refused, bytes(10), None).unwrap();
    world.run(100 * MS);
    assert!(world.events[0].contains(&EndpointEvent::Closed { connection: refused, reason: Closed::Reset }));

    world.ends[1].listen(0..=9, config);
    let id = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
    world.ends[0].send(id, bytes(10), Some(1)).unwrap();
    world.run(100 * MS);
    assert!(world.events[0].contains(&EndpointEvent::Acknowledged { connection: id, token: 1 }));
    world.restart(0, 2);
    let anew = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
    world.ends[0].send(anew, bytes(10), Some(2)).unwrap();
    let old = world.opened(1);
    world.run(100 * MS);
    assert!(world.events[1].contains(&EndpointEvent::Closed { connection: old, reason: Closed::PeerRestarted }));
    assert!(
        world.events[0].contains(&EndpointEvent::Acknowledged { connection: anew, token: 2 }),
        "{:?}",
        world.events[0]
    );

    // The responder restarts: what it has no keys for is lost on it until the initiator begins anew.
    world.restart(1, 3);
    world.ends[1].listen(0..=9, config);
    world.events = Default::default();
    world.ends[0].send(anew, bytes(10), Some(3)).unwrap();
    world.run(2000 * MS);
    assert!(world.events[0].is_empty(), "{:?}", world.events[0]);
    world.ends[0].begin(world.now);
    world.run(2000 * MS);
    assert!(world.events[0].contains(&EndpointEvent::Closed { connection: anew, reason: Closed::PeerRestarted }));
}

#[test]
fn a_restarted_responder_answers_until_it_is_heard() {
    let mut world = World::new(path(0.0, 0.0), 11, |_| {});
    let config = ConnectionConfig::stream(TransferMode::Reliable);
    world.ends[1].listen(0..=9, config);
    let id = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
    world.ends[0].send(id, bytes(10), Some(1)).unwrap();
    world.run(2000 * MS);
    world.restart(1, 2);
    world.events = Default::default();
    // It cannot open what the first message comes with, has nothing to say of its own, and its first answer is lost.
    world.ends[0].begin(world.now);
    let mut out = Vec::new();
    assert!(world.ends[0].poll_transmit(world.now, &mut out).is_some());
    world.ends[1].handle_segment(world.now, 0, &mut out);
    assert!(world.ends[1].poll_transmit(world.now, &mut out).is_some());
    world.run(500 * MS);
    assert!(world.events[0].contains(&EndpointEvent::Closed { connection: id, reason: Closed::PeerRestarted }));
}

#[test]
fn the_code_follows_the_bit_errors() {
    for (wrong, least, most, ms) in [(0.0, 0, 3, 3500), (1e-5, 1, 6, 3500), (1e-4, 5, 16, 3600), (1e-3, 15, 64, 4000)] {
        let mut world = World::new(path(wrong, 0.0), 9, |config| config.protection = Protection::default());
        let config = ConnectionConfig::stream(TransferMode::Reliable);
        world.ends[1].listen(0..=9, config);
        let id = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
        let sent = bytes(2_000_000);
        world.ends[0].send(id, sent.clone(), Some(1)).unwrap();
        let mut received = Vec::new();
        while received.len() < sent.len() {
            world.run(50 * MS);
            let peer = world.opened(1);
            received.extend(world.read_all(1, peer));
            assert!(world.now < world.start + Duration::from_secs(10), "{wrong} {}", received.len());
        }
        assert!(received == sent);
        let words = world.ends[0].strength.words(TransferMode::Reliable, 1472);
        let took = world.now - world.start;
        println!("ber {wrong:e}: {words} words, {took:?} {:?}", world.ends[1].counters());
        assert!((least..=most).contains(&words), "{wrong} {words}");
        assert!(took < ms * MS, "{wrong} {took:?}");
    }
}

#[test]
fn what_was_forged_to_look_damaged_costs_no_repetitions_but_the_first() {
    for mode in [TransferMode::Reliable, TransferMode::NearReliable] {
        // A repetition is asked for when there was time for the segment to arrive: a tenth of a round trip is time to forge.
        let far = PathConfig { delay: 60 * MS, ..path(0.0, 0.0) };
        let mut world = World::new(far, 9, |config| {
            (config.protection, config.assumed_rtt) = (Protection::default(), 150 * MS);
        });
        world.forged = 4;
        let config = ConnectionConfig::stream(mode);
        world.ends[1].listen(0..=9, config);
        let id = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
        let sent = bytes(2_000_000);
        world.ends[0].send(id, sent.clone(), None).unwrap();
        let mut received = Vec::new();
        while received.len() < sent.len() {
            world.run(100 * MS);
            let peer = world.opened(1);
            received.extend(world.read_all(1, peer));
            assert!(world.now - world.start < Duration::from_secs(5), "{} of {}", received.len(), sent.len());
        }
        assert!(received == sent);
        let (sender, receiver) = (world.ends[0].counters(), world.ends[1].counters());
        assert!(receiver.damaged > 5000, "{receiver:?}");
        assert!(sender.sent_again < BUDGET as u64, "{sender:?}");
        assert_eq!(world.ends[0].parity_words(), 0, "nobody makes us spend on a code");
    }
}

#[test]
fn a_reader_that_stops_stops_the_sender() {
    let mut world = World::new(path(0.0, 0.0), 10, |_| {});
    let config = ConnectionConfig::stream(TransferMode::Reliable);
    world.ends[1].listen(0..=9, config);
    let id = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
    let sent = bytes(4_000_000);
    world.ends[0].send(id, sent.clone(), Some(1)).unwrap();
    world.run(Duration::from_secs(20));
    assert!(world.ends[0].waiting_bytes(id).unwrap() > 1_800_000, "{:?}", world.ends[0].waiting_bytes(id));
    let peer = world.opened(1);
    let mut received = Vec::new();
    while received.len() < sent.len() {
        received.extend(world.read_all(1, peer));
        world.run(100 * MS);
        assert!(world.now < world.start + Duration::from_secs(40));
    }
    assert!(received == sent);
}

#[test]
fn two_lines_carry_what_is_urgent_twice_and_one_may_fail() {
    let mut world = World::new(path(0.0, 0.0), 11, |config| config.lines.push(line(Bitrate::mbps(1))));
    let config = ConnectionConfig { everywhere: true, ..ConnectionConfig::messages(TransferMode::Reliable) };
    world.ends[1].listen(0..=9, config);
    let id = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
    world.ends[0].send(id, bytes(100), Some(1)).unwrap();
    let mut out = Vec::new();
    let (first, segment) = (world.ends[0].poll_transmit(world.now, &mut out).unwrap(), out.clone());
    let second = world.ends[0].poll_transmit(world.now, &mut out).unwrap();
    assert!(first != second && segment == out, "the same bytes, so that copies can be put together");
    world.ends[1].handle_segment(world.now, 1, &mut out);
    world.ends[1].handle_segment(world.now, 0, &mut segment.clone());
    let peer = match world.ends[1].poll_event() {
        Some(EndpointEvent::Associated { .. }) => match world.ends[1].poll_event() {
            Some(EndpointEvent::Opened { connection, .. }) => connection,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert!(world.ends[1].read(world.now, peer).is_some());
    assert!(world.ends[1].read(world.now, peer).is_none());
    assert_eq!(world.ends[1].counters().duplicates, 1);
}

#[test]
fn a_connection_to_nobody_does_not_keep_its_caller_busy() {
    let mut world = World::new(path(0.0, 1.0), 12, |_| {});
    let config = ConnectionConfig::messages(TransferMode::NearReliable);
    let id = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
    world.ends[0].send(id, bytes(1000), None).unwrap();
    world.run(Duration::from_secs(10));
    world.ends[0].close(world.now, id);
    world.run(Duration::from_secs(60));
}

#[test]
fn a_message_stays_whole_when_the_code_becomes_stronger() {
    let mut world = World::new(path(0.0, 0.0), 13, |config| config.protection = Protection::default());
    let config = ConnectionConfig { ordered: true, ..ConnectionConfig::messages(TransferMode::NearReliable) };
    world.ends[1].listen(0..=9, config);
    let id = world.ends[0].connect(world.now, config, Port(5), Port(6)).unwrap();
    for _ in 0..100 {
        world.ends[0].send(id, bytes(1000), None).unwrap();
    }
    world.run(3000 * MS);
    let peer = world.opened(1);
    assert_eq!(world.read_all(1, peer).len(), 100_000);
    world.paths = [Path::new(path(1e-3, 0.0), 13), Path::new(path(1e-3, 0.0), 14)];
    let message = bytes(world.ends[0].max_message(id));
    for _ in 0..200 {
        world.ends[0].send(id, message.clone(), None).unwrap();
    }
    world.run(Duration::from_secs(30));
    let max = world.ends[0].max_message(id);
    assert!(max < message.len(), "it has become stronger: {max} {}", message.len());
    let pieces: Vec<Piece> = std::iter::from_fn(|| world.ends[1].read(world.now, peer)).collect();
    assert!(pieces.len() == 200 && pieces.iter().all(|piece| piece.end && piece.bytes == message), "{}", pieces.len());
}

/// What is lost comes back from repair segments, in its place, and nothing is sent again.
#[test]
fn a_quasi_reliable_connection_gets_back_what_is_lost() {
    for (wrong, loss, stream) in [(0.0, 0.05, true), (1e-4, 0.0, true), (1e-4, 0.0, false), (1e-5, 0.02, false)] {
        let mut world = World::new(path(wrong, loss), 14, |config| config.protection = Protection::default());
        let config = match stream {
            true => ConnectionConfig { stream: false, ..ConnectionConfig::stream(TransferMode::QuasiReliable) },
            false => ConnectionConfig::messages(TransferMode::QuasiReliable),
        };
        world.ends[1].listen(0..=9, config);
        let id = world.ends[0].connect(world.now, config, Port(3), Port(3)).unwrap();
        let mut got = Vec::new();
        let len = world.ends[0].max_message(id) - 100;
        for n in 0..3000_u32 {
            let mut message = bytes(len - n as usize % 50).to_vec();
            message[..4].copy_from_slice(&n.to_be_bytes());
            world.ends[0].send(id, message.into(), None).unwrap();
            world.run(3 * MS);
        }
        world.run(Duration::from_secs(1));
        let peer = world.opened(1);
        while let Some(piece) = world.ends[1].read(world.now, peer) {
            let n = u32::from_be_bytes(piece.bytes[..4].try_into().unwrap());
            assert!(piece.end && piece.bytes[4..] == bytes(len - n as usize % 50)[4..]);
            got.push(n);
        }
        let (sent, came) = (world.ends[0].counters(), world.ends[1].counters());
        println!("{wrong} {loss}: {} of 3000, {} repairs, {} recovered", got.len(), sent.repairs_out, came.recovered);
        assert_eq!(got.is_sorted(), stream, "order, if it is asked for");
        got.sort();
        got.dedup();
        // The first segments say little of how much is lost, so one or two of them may be.
        assert!(got.len() >= 2998 && sent.sent_again == 0);
        let least = if loss > 0.0 { 40 } else { 1 };
        assert!(came.recovered >= least && sent.repairs_out < 700, "{sent:?} {came:?}");
    }
}

#[test]
fn repairs_take_the_other_line() {
    let mut world = World::new(path(0.0, 0.0), 15, |config| {
        config.lines.push(line(Bitrate::mbps(5)));
        config.protection = Protection::default();
    });
    let config = ConnectionConfig::messages(TransferMode::QuasiReliable);
    world.ends[1].listen(0..=9, config);
    let id = world.ends[0].connect(world.now, config, Port(3), Port(3)).unwrap();
    let [sender, receiver] = &mut world.ends;
    let (mut now, mut out, mut lines, mut count) = (world.now, Vec::new(), [[0; 2]; 2], 0);
    for n in 0..2000_u32 {
        now += 5 * MS;
        sender.send(id, n.to_be_bytes().to_vec().into(), None).unwrap();
        while let Some(line) = sender.poll_transmit(now, &mut out) {
            let is_repair = crate::aerotp::Header::decode(&out).unwrap().flags.contains(Flags::OPTIONS);
            lines[usize::from(is_repair)][line] += 1;
            // The first line loses some of what it carries.
            if line == 1 || n % 40 != 39 {
                receiver.handle_segment(now, line, &mut out);
            }
        }
        while receiver.poll_transmit(now, &mut out).is_some() {
            sender.handle_segment(now, 0, &mut out);
        }
        sender.handle_timeout(now);
        receiver.handle_timeout(now);
    }
    while let Some(event) = receiver.poll_event() {
        world.events[1].push(event);
    }
    let peer = world.opened(1);
    while world.ends[1].read(now, peer).is_some() {
        count += 1;
    }
    println!("{lines:?} {count}");
    assert!(lines[0][0] > 1990 && lines[1][1] > 10 && lines[1][0] == 0, "{lines:?}");
    assert!(count >= 1990, "{count}");
}
