//! Two sessions against each other in virtual time, and one against what others may say.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;

use super::codec::{self, Message, Refusal, RejectReason, TermReason};
use super::*;

const MS: Duration = Duration::from_millis(1);

fn config(name: &str) -> SessionConfig {
    let mut config = SessionConfig::new(name.parse().expect("a node"));
    (config.segment, config.transfer) = (512, 100_000);
    config
}

/// Bundle number `n`, of that length.
fn bundle(n: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| n.wrapping_mul(31).wrapping_add(at as u8)).collect()
}

/// One side: what it wants to send, and what came.
struct Side {
    session: Session,
    /// Numbers of bundles to be sent.
    queue: VecDeque<u8>,
    under_way: BTreeMap<TransferId, u8>,
    delivered: Vec<u8>,
    received: Vec<(TransferId, Vec<u8>)>,
    /// Accepted at once; else by hand.
    accepts: bool,
    stored: Vec<Vec<u8>>,
    refused: Vec<Refusal>,
    ended: Option<End>,
    /// Bytes on the way to the other side.
    wire: VecDeque<u8>,
}

impl Side {
    fn new(role: Role, config: SessionConfig, now: Instant) -> Self {
        Self {
            session: Session::new(role, config, now),
            queue: VecDeque::new(),
            under_way: BTreeMap::new(),
            delivered: Vec::new(),
            received: Vec::new(),
            accepts: true,
            stored: Vec::new(),
            refused: Vec::new(),
            ended: None,
            wire: VecDeque::new(),
        }
    }

    fn run(&mut self, now: Instant, lens: &dyn Fn(u8) -> usize) {
        loop {
            while self.session.has_room() {
                let Some(n) = self.queue.pop_front() else { break };
                let bytes = Bytes::from(bundle(n, lens(n)));
                let pieces = vec![bytes.slice(..bytes.len() / 3), bytes.slice(bytes.len() / 3..)];
                let id = self.session.send(now, pieces).expect("room");
                self.under_way.insert(id, n);
            }
            while let Some(bytes) = self.session.poll_transmit(now) {
                self.wire.extend(bytes);
            }
            let Some(event) = self.session.poll_event() else { break };
            match event {
                Event::Up(_) | Event::Begun { .. } => {}
                Event::Received { id, bundle } => {
                    if self.accepts {
                        self.stored.push(bundle);
                        assert!(self.session.accept(now, id));
                    } else {
                        self.received.push((id, bundle));
                    }
                }
                Event::Delivered(id) => self.delivered.push(self.under_way.remove(&id).expect("was sent")),
                Event::Refused(id, reason) => {
                    self.under_way.remove(&id).expect("was sent");
                    self.refused.push(reason);
                }
                Event::Failed(id) => {
                    let n = self.under_way.remove(&id).expect("was sent");
                    self.queue.push_front(n);
                }
                Event::Ended(end) => assert_eq!(self.ended.replace(end), None, "ended twice"),
            }
        }
    }

    /// Takes bytes off the other side's wire.
    fn read(&mut self, now: Instant, wire: &mut VecDeque<u8>, len: usize) {
        let bytes: Vec<u8> = wire.drain(..len.min(wire.len())).collect();
        self.session.handle_input(now, &bytes);
    }
}

struct Pair {
    now: Instant,
    a: Side,
    b: Side,
}

fn short(n: u8) -> usize {
    [40, 700, 1, 512, 1300, 2048][usize::from(n) % 6]
}

impl Pair {
    fn new() -> Self {
        Self::with(config("dtn://a/"), config("dtn://b/"))
    }

    fn with(a: SessionConfig, b: SessionConfig) -> Self {
        let now = Instant::now();
        Self { now, a: Side::new(Role::Active, a, now), b: Side::new(Role::Passive, b, now) }
    }

    /// Moves bytes until nothing moves, in pieces of these lengths by turns; `cut` bytes at most. True if nothing moved
    /// any more.
    fn settle(&mut self, chunks: &[usize], mut cut: usize) -> bool {
        for chunk in chunks.iter().cycle() {
            self.a.run(self.now, &short);
            self.b.run(self.now, &short);
            let mut moved = 0;
            let len = (*chunk).min(cut).min(self.a.wire.len());
            if len > 0 && self.b.session.wants_input() {
                self.b.read(self.now, &mut self.a.wire, len);
                (cut, moved) = (cut - len, moved + len);
            }
            let len = (*chunk).min(cut).min(self.b.wire.len());
            if len > 0 && self.a.session.wants_input() {
                self.a.read(self.now, &mut self.b.wire, len);
                (cut, moved) = (cut - len, moved + len);
            }
            if moved == 0 {
                self.a.run(self.now, &short);
                self.b.run(self.now, &short);
                return cut > 0;
            }
        }
        true
    }

    /// Time goes on, a millisecond or to the next deadline.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let next = [&self.a, &self.b].into_iter().filter_map(|side| side.session.poll_timeout()).min();
            self.now = next.unwrap_or(end).min(end).max(self.now + MS);
            for side in [&mut self.a, &mut self.b] {
                if side.session.poll_timeout().is_some_and(|at| at <= self.now) {
                    side.session.handle_timeout(self.now);
                }
            }
            self.settle(&[1 << 20], usize::MAX);
        }
    }
}

/// What was stored, by the number of the bundle.
fn numbers(stored: &[Vec<u8>]) -> Vec<u8> {
    let of = |bytes: &Vec<u8>| (0..=255).find(|n| *bytes == bundle(*n, short(*n))).expect("one of ours");
    stored.iter().map(of).collect()
}

#[test]
fn several_bundles_each_way_in_order() {
    let mut pair = Pair::new();
    pair.a.queue.extend(0..12);
    pair.b.queue.extend(20..27);
    assert!(pair.settle(&[1, 7, 900], usize::MAX));
    assert_eq!(numbers(&pair.b.stored), (0..12).collect::<Vec<u8>>());
    assert_eq!(numbers(&pair.a.stored), (20..27).collect::<Vec<u8>>());
    assert_eq!((pair.a.delivered.len(), pair.b.delivered.len()), (12, 7));
    let peer = pair.a.session.peer().expect("up");
    assert_eq!((peer.node.to_string().as_str(), peer.segment, peer.transfer), ("dtn://b/", 512, 100_000));
}

#[test]
fn a_cut_at_any_byte_loses_nothing_that_was_acknowledged() {
    for chunk in [1, 64] {
        for cut in 0.. {
            let mut pair = Pair::new();
            pair.a.queue.extend(0..5);
            pair.b.queue.extend(10..13);
            let all = pair.settle(&[chunk], cut);
            let now = pair.now;
            let stored = |side: &Side| numbers(&side.stored);
            for side in [&mut pair.a, &mut pair.b] {
                side.session.on_closed(now);
                side.run(now, &short);
                assert!(side.ended.is_some() && side.under_way.is_empty());
            }
            for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
                assert!(from.delivered.iter().all(|n| stored(to).contains(n)), "cut at {cut}: told, and not stored");
                let mut once = stored(to);
                once.dedup();
                assert_eq!(once, stored(to), "cut at {cut}: twice in one session");
            }
            // What was not told as delivered comes again in the next session.
            let mut next = Pair::new();
            let (again_a, again_b) = (pair.a.queue.clone(), pair.b.queue.clone());
            (next.a.queue, next.b.queue) = (again_a, again_b);
            assert!(next.settle(&[4096], usize::MAX));
            for (first, then, want) in [(&pair.b, &next.b, 0..5), (&pair.a, &next.a, 10..13)] {
                let all: Vec<u8> = stored(first).into_iter().chain(stored(then)).collect();
                assert!(want.into_iter().all(|n| all.contains(&n)), "cut at {cut}: lost");
            }
            // Twice only what was stored when its acknowledgement was lost.
            for (from, first, then) in [(&pair.a, &pair.b, &next.b), (&pair.b, &pair.a, &next.a)] {
                let twice: Vec<u8> = stored(then).into_iter().filter(|n| stored(first).contains(n)).collect();
                assert!(twice.iter().all(|n| !from.delivered.contains(n)), "cut at {cut}: again though told");
            }
            if all {
                assert!(cut > 6_000, "the cuts went through all that there is to say");
                break;
            }
        }
    }
}

#[test]
fn the_last_acknowledgement_waits_for_the_caller() {
    let mut pair = Pair::new();
    pair.b.accepts = false;
    pair.a.queue.extend([1, 2, 4]);
    pair.settle(&[4096], usize::MAX);
    assert_eq!(pair.a.delivered, []);
    // Two wait for the caller, and the third is not read before it has decided about one.
    assert_eq!(pair.b.received.len(), 2);
    assert!(!pair.b.session.wants_input());
    let (second, _) = pair.b.received.pop().expect("two");
    let (first, _) = pair.b.received.pop().expect("two");
    assert!(pair.b.session.accept(pair.now, second));
    pair.settle(&[4096], usize::MAX);
    assert_eq!(pair.a.delivered, [], "answers go in the order in which segments came");
    assert!(pair.b.session.accept(pair.now, first));
    assert!(!pair.b.session.accept(pair.now, first), "once");
    pair.settle(&[4096], usize::MAX);
    assert_eq!(pair.a.delivered, [1, 2]);
    let (third, _) = pair.b.received.pop().expect("came");
    assert!(pair.b.session.refuse(pair.now, third, Refusal::NoResources));
    pair.settle(&[4096], usize::MAX);
    assert_eq!(pair.a.refused, [Refusal::NoResources]);
}

#[test]
fn a_bundle_that_is_there_already_counts_as_delivered() {
    let mut pair = Pair::new();
    pair.b.accepts = false;
    pair.a.queue.push_back(1);
    pair.settle(&[4096], usize::MAX);
    let (id, _) = pair.b.received.pop().expect("came");
    pair.b.session.refuse(pair.now, id, Refusal::Completed);
    pair.settle(&[4096], usize::MAX);
    assert_eq!(pair.a.delivered, [1]);
}

#[test]
fn a_bundle_that_is_too_large_is_refused_before_it_is_read() {
    let mut small = config("dtn://b/");
    small.transfer = 1000;
    let mut pair = Pair::with(SessionConfig { ignore_transfer_mru: true, ..config("dtn://a/") }, small.clone());
    pair.a.queue.extend([5, 0]);
    pair.settle(&[100], usize::MAX);
    assert_eq!((pair.a.refused.as_slice(), pair.a.delivered.as_slice()), (&[Refusal::NotAcceptable][..], &[0][..]));
    assert_eq!(pair.b.session.buffered(), 0);
    // Who keeps to what was said does not send it at all.
    let mut pair = Pair::with(config("dtn://a/"), small);
    pair.settle(&[100], usize::MAX);
    let error = pair.a.session.send(pair.now, vec![Bytes::from(vec![0; 2048])]);
    assert_eq!(error, Err(SendError::TooLarge { len: 2048, limit: 1000 }));
    assert_eq!(pair.a.session.send(pair.now, vec![]), Err(SendError::Empty));
}

#[test]
fn what_is_refused_while_it_comes_is_passed_over() {
    let mut pair = Pair::new();
    pair.settle(&[4096], usize::MAX);
    pair.a.queue.extend([5, 1]);
    pair.a.run(pair.now, &short);
    pair.settle(&[600], 600);
    assert!(pair.b.session.buffered() > 0);
    assert!(pair.b.session.refuse(pair.now, TransferId(0), Refusal::NoResources));
    pair.settle(&[4096], usize::MAX);
    assert_eq!((pair.a.refused.as_slice(), pair.a.delivered.as_slice()), (&[Refusal::NoResources][..], &[1][..]));
}

#[test]
fn keepalives_keep_it_and_silence_ends_it() {
    let quick = |name| SessionConfig { keepalive: Duration::from_secs(10), idle: Duration::ZERO, ..config(name) };
    let slow = SessionConfig { keepalive: Duration::from_secs(50), ..quick("dtn://b/") };
    let mut pair = Pair::with(quick("dtn://a/"), slow);
    pair.settle(&[4096], usize::MAX);
    assert_eq!(pair.b.session.peer().expect("up").keepalive, Duration::from_secs(10));
    pair.pass(Duration::from_secs(300));
    assert_eq!((&pair.a.ended, &pair.b.ended), (&None, &None));
    // Nothing comes through any more.
    pair.now += Duration::from_secs(20);
    pair.a.session.handle_timeout(pair.now);
    pair.a.run(pair.now, &short);
    assert_eq!(pair.a.ended, Some(End::Silent));
}

#[test]
fn without_anything_to_do_it_ends_in_order() {
    let mut pair = Pair::new();
    pair.a.queue.push_back(3);
    pair.settle(&[4096], usize::MAX);
    pair.pass(Duration::from_secs(61));
    assert_eq!(pair.a.delivered, [3]);
    let ended = (pair.a.ended.clone().expect("over"), pair.b.ended.clone().expect("over"));
    // Both had nothing to do at the same time: each one's message is the answer to the other's.
    assert_eq!(ended, (End::Ours(TermReason::IdleTimeout), End::Ours(TermReason::IdleTimeout)));
}

#[test]
fn what_is_under_way_is_done_before_the_end() {
    let mut pair = Pair::new();
    pair.settle(&[4096], usize::MAX);
    pair.a.queue.extend([5, 4, 1]);
    pair.a.run(pair.now, &short);
    // Nothing of them has left the session but what the wire has: all have begun.
    pair.b.session.terminate(pair.now, TermReason::Busy);
    assert_eq!(pair.b.session.send(pair.now, vec![Bytes::from_static(b"x")]), Err(SendError::NotUp));
    pair.settle(&[4096], usize::MAX);
    assert_eq!(
        (&pair.a.ended, &pair.b.ended),
        (&Some(End::Theirs(TermReason::Busy)), &Some(End::Ours(TermReason::Busy)))
    );
    // The first segment came before SESS_TERM; bundles that began after it are refused.
    assert_eq!(pair.a.delivered.len() + pair.a.refused.len() + pair.a.queue.len(), 3);
    assert!(pair.a.refused.iter().all(|reason| *reason == Refusal::SessionTerminating));
}

#[test]
fn a_bundle_that_does_not_come_on_ends_the_session() {
    let mut pair = Pair::new();
    pair.settle(&[4096], usize::MAX);
    pair.a.queue.push_back(5);
    pair.a.run(pair.now, &short);
    pair.settle(&[600], 600);
    pair.now += Duration::from_secs(31);
    pair.b.session.handle_timeout(pair.now);
    pair.b.run(pair.now, &short);
    assert_eq!(pair.b.ended, Some(End::Stalled));
    pair.a.session.handle_timeout(pair.now);
    pair.a.run(pair.now, &short);
    assert_eq!((&pair.a.ended, pair.a.queue.len()), (&Some(End::Stalled), 1));
}

/// A passive session that hears this, and what it says in the end.
fn hears(bytes: &[u8]) -> (Session, Vec<u8>, Vec<Event>) {
    let now = Instant::now();
    let mut session = Session::new(Role::Passive, config("dtn://b/"), now);
    session.handle_input(now, bytes);
    let mut said = Vec::new();
    let mut events = Vec::new();
    loop {
        said.extend(std::iter::from_fn(|| session.poll_transmit(now)).flatten());
        match session.poll_event() {
            Some(event) => events.push(event),
            None => return (session, said, events),
        }
    }
}

fn init(extensions: Vec<Extension>) -> Bytes {
    let node = Bytes::from_static(b"ipn:7.0");
    Message::SessInit { keepalive: 0, segment_mru: 100, transfer_mru: 1000, node, extensions }.encode()
}

fn ended(bytes: &[&[u8]]) -> End {
    let (_, _, events) = hears(&bytes.concat());
    match events.last() {
        Some(Event::Ended(end)) => end.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn contacts_that_are_none() {
    assert_eq!(ended(&[b"GET / HTTP/1.1"]), End::Unreadable(DecodeError::Magic));
    assert_eq!(ended(&[&[0x16, 0x03, 0x01, 0x02]]), End::Tls);
    assert_eq!(ended(&[b"dtn!\x03\x00"]), End::Version(3));
    let (_, said, _) = hears(b"dtn!\x05\x00");
    assert_eq!(said, [&b"dtn!\x04\x00"[..], &[5, 0, 2]].concat(), "our version, and SESS_TERM: version mismatch");
    assert_eq!(ended(&[b"dtn!\x04\x01", &[codec::code::SESS_TERM, 0, 4]]), End::Tls);
    assert_eq!(ended(&[b"dtn!\x04\x00", &[codec::code::SESS_TERM, 0, 3]]), End::Theirs(TermReason::Busy));
    let contact = codec::contact();
    let critical = Extension { critical: true, kind: 9, value: Bytes::from_static(b"?") };
    assert_eq!(ended(&[&contact, &init(vec![critical.clone()])]), End::Extension(9));
    let node = Bytes::from_static(b"dtn://b/");
    let ours = Message::SessInit { keepalive: 0, segment_mru: 1, transfer_mru: 1, node, extensions: vec![] };
    assert_eq!(ended(&[&contact, &ours.encode()]), End::Ourselves);
    let node = Bytes::from_static(b"dtn://b/service");
    let service = Message::SessInit { keepalive: 0, segment_mru: 1, transfer_mru: 1, node, extensions: vec![] };
    assert_eq!(ended(&[&contact, &service.encode()]), End::PeerName);
    let unknown = Extension { critical: false, ..critical };
    let (session, _, _) = hears(&[&contact[..], &init(vec![unknown])].concat());
    assert_eq!(session.peer().expect("up").node.to_string(), "ipn:7.0");
}

fn segment(start: bool, end: bool, id: u64, extensions: Vec<Extension>, data: &[u8]) -> Vec<u8> {
    let head = Message::Segment { start, end, id: TransferId(id), extensions, len: data.len() as u64 };
    [&head.encode()[..], data].concat()
}

fn length(len: u64) -> Extension {
    Extension { critical: true, kind: codec::TRANSFER_LENGTH, value: len.to_be_bytes().to_vec().into() }
}

/// What is said to this behind contact and SESS_INIT, and what happens.
fn answers(messages: &[Vec<u8>]) -> (Vec<Item>, Vec<Event>) {
    let before = [&codec::contact()[..], &init(vec![])].concat();
    let (_, said, mut events) = hears(&[before, messages.concat()].concat());
    let mut decoder = Decoder::default();
    decoder.push(&said);
    let mut items: Vec<Item> = std::iter::from_fn(|| decoder.next_item().expect("readable")).collect();
    events.remove(0);
    (items.split_off(2), events)
}

fn refusal(reason: Refusal) -> Item {
    Item::Message(Message::Refuse { reason, id: TransferId(1) })
}

#[test]
fn transfers_that_are_refused() {
    let text = Extension { critical: false, kind: 1, value: Bytes::from_static(b"dtn://n1/-1-0") };
    let (said, events) = answers(&[segment(true, true, 1, vec![text.clone()], b"bundle")]);
    assert_eq!((said.len(), events.len()), (0, 2), "dtn7's extension of that number is not a length");
    let critical = Extension { critical: true, ..text };
    let (said, events) = answers(&[segment(true, true, 1, vec![critical], b"bundle")]);
    assert_eq!((said, events.len()), (vec![refusal(Refusal::ExtensionFailure)], 0));
    let (said, _) = answers(&[segment(true, true, 1, vec![length(3), length(3)], b"abc")]);
    assert_eq!(said, [refusal(Refusal::ExtensionFailure)]);
    let (said, _) = answers(&[segment(true, false, 1, vec![length(1 << 40)], b"abc")]);
    assert_eq!(said, [refusal(Refusal::NotAcceptable)]);
    let (said, _) = answers(&[segment(true, true, 1, vec![length(4)], b"abc")]);
    assert_eq!(said, [refusal(Refusal::NotAcceptable)], "shorter than it said");
    let (said, _) = answers(&[segment(true, false, 1, vec![length(2)], b"abc")]);
    assert_eq!(said, [refusal(Refusal::NotAcceptable)], "longer than it said");
}

#[test]
fn messages_out_of_place() {
    let fault = |messages: &[Vec<u8>]| match answers(messages).1.last() {
        Some(Event::Ended(end)) => end.clone(),
        other => panic!("{other:?}"),
    };
    let begin = segment(true, false, 1, vec![], b"abc");
    assert_eq!(fault(&[begin.clone(), begin.clone()]), End::Fault(Fault::Interleaved));
    assert_eq!(fault(&[begin, segment(false, false, 2, vec![], b"abc")]), End::Fault(Fault::NoTransfer));
    assert_eq!(fault(&[segment(false, true, 1, vec![], b"abc")]), End::Fault(Fault::NoTransfer));
    assert_eq!(fault(&[segment(true, true, 1, vec![], &[0; 513])]), End::Fault(Fault::SegmentLength));
    let whole = segment(true, true, 1, vec![], b"abc");
    assert_eq!(fault(&[whole.clone(), whole]), End::Fault(Fault::SameTransfer));
    let ack = Message::Ack { flags: 0, id: TransferId(0), len: 1 }.encode().to_vec();
    assert_eq!(fault(&[ack]), End::Fault(Fault::NoTransfer));
    let (said, events) = answers(&[vec![99]]);
    assert_eq!(said, [Item::Message(Message::Reject { reason: RejectReason::TypeUnknown, code: 99 })]);
    assert_eq!(events, [Event::Ended(End::Unreadable(DecodeError::Unknown(99)))]);
    let again = init(vec![]).to_vec();
    let (said, events) = answers(std::slice::from_ref(&again));
    assert_eq!(said, [Item::Message(Message::Reject { reason: RejectReason::Unexpected, code: 7 })]);
    assert_eq!(events, []);
    assert_eq!(fault(&vec![again; 17]), End::Fault(Fault::Unexpected));
    let mut long = init(vec![]).to_vec();
    long.truncate(19);
    long.extend([0xff, 0xff]);
    assert_eq!(fault(&[long]), End::Unreadable(DecodeError::Length(7)));
}

proptest! {
    #[test]
    fn messages_are_read_as_written(kind in 0..7u8, a: u64, b: u64, c: u8, flag: bool, value in proptest::collection::vec(any::<u8>(), 0..40)) {
        let extensions = vec![Extension { critical: flag, kind: c.into(), value: value.clone().into() }];
        let id = TransferId(a);
        let message = match kind {
            0 => Message::SessInit { keepalive: c.into(), segment_mru: a, transfer_mru: b, node: value.into(), extensions },
            1 => Message::Segment { start: true, end: flag, id, extensions, len: b },
            2 => Message::Ack { flags: c, id, len: b },
            3 => Message::Refuse { reason: c.into(), id },
            4 => Message::Keepalive,
            5 => Message::Term { reply: flag, reason: c.into() },
            _ => Message::Reject { reason: c.into(), code: c },
        };
        let mut decoder = Decoder::default();
        decoder.push(&codec::contact());
        prop_assert_eq!(decoder.next_item(), Ok(Some(Item::Contact { version: 4, flags: 0 })));
        // Nothing comes of a part of it.
        let bytes = message.encode();
        for byte in &bytes[..bytes.len() - 1] {
            decoder.push(&[*byte]);
            prop_assert_eq!(decoder.next_item(), Ok(None));
        }
        decoder.push(&bytes[bytes.len() - 1..]);
        prop_assert_eq!(decoder.next_item(), Ok(Some(Item::Message(message))));
    }

    #[test]
    fn any_bytes_do_no_harm(start in 0..3usize, chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..30)) {
        let now = Instant::now();
        let mut session = Session::new(Role::Passive, config("dtn://b/"), now);
        let before = [&codec::contact()[..], &init(vec![])].concat();
        session.handle_input(now, [&[][..], &codec::contact(), &before][start]);
        for chunk in chunks {
            session.handle_input(now, &chunk);
            while session.poll_transmit(now).is_some() {}
            while let Some(event) = session.poll_event() {
                if let Event::Received { id, .. } = event {
                    session.accept(now, id);
                }
            }
            prop_assert!(session.buffered() <= 100_000);
        }
    }

    #[test]
    fn cut_into_any_pieces_it_says_the_same(chunks in proptest::collection::vec(1..2000usize, 1..12)) {
        let mut pair = Pair::new();
        pair.a.queue.extend(0..7);
        pair.b.queue.extend(30..35);
        prop_assert!(pair.settle(&chunks, usize::MAX));
        prop_assert_eq!(numbers(&pair.b.stored), (0..7).collect::<Vec<u8>>());
        prop_assert_eq!(numbers(&pair.a.stored), (30..35).collect::<Vec<u8>>());
        prop_assert_eq!((pair.a.delivered.len(), pair.b.delivered.len()), (7, 5));
    }
}
