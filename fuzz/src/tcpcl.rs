//! A session of TCPCL that hears anything, and two that are cut off each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use aquila_bundle::tcpcl::{Event, Message, Refusal, Role, SendError, Session, SessionConfig, TermReason, TransferId};
use bytes::Bytes;

use crate::input::{Input, epoch};

const TRANSFER: u64 = 3000;

/// What a peer says, or a list of steps of two sessions.
pub fn tcpcl(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind & 3 {
        0 => hears(Role::Passive, false, &mut Input(bytes)),
        1 => hears(Role::Active, false, &mut Input(bytes)),
        2 => hears(Role::Passive, true, &mut Input(bytes)),
        _ => two(&mut Input(bytes)),
    }
}

fn config(node: &str) -> SessionConfig {
    let mut config = SessionConfig::new(node.parse().expect("a node"));
    (config.segment, config.transfer) = (500, TRANSFER);
    config
}

/// A session, and what its caller sees to.
struct Side {
    session: Session,
    next: u64,
    under_way: BTreeMap<TransferId, u64>,
    undecided: VecDeque<(TransferId, Vec<u8>)>,
    delivered: BTreeSet<u64>,
    stored: Vec<Vec<u8>>,
    wire: VecDeque<u8>,
    ended: bool,
}

impl Side {
    fn new(role: Role, node: &str, now: Instant) -> Self {
        Self {
            session: Session::new(role, config(node), now),
            next: 0,
            under_way: BTreeMap::new(),
            undecided: VecDeque::new(),
            delivered: BTreeSet::new(),
            stored: Vec::new(),
            wire: VecDeque::new(),
            ended: false,
        }
    }

    /// Takes what the session has to say.
    fn drain(&mut self, now: Instant) {
        for round in 0.. {
            assert!(round < 10_000, "a drain that does not end");
            while let Some(bytes) = self.session.poll_transmit(now) {
                assert!(!bytes.is_empty());
                self.wire.extend(bytes);
            }
            let Some(event) = self.session.poll_event() else { break };
            assert!(!self.ended, "nothing comes behind the end");
            match event {
                Event::Received { id, bundle } => {
                    assert!(bundle.len() as u64 <= TRANSFER);
                    self.undecided.push_back((id, bundle));
                }
                Event::Delivered(id) => {
                    self.delivered.insert(self.under_way.remove(&id).expect("was sent"));
                }
                Event::Refused(id, _) | Event::Failed(id) => {
                    self.under_way.remove(&id).expect("was sent");
                }
                Event::Ended(_) => self.ended = true,
                Event::Up(_) | Event::Begun { .. } => {}
            }
        }
        assert_eq!(self.ended, self.session.is_over());
        assert!(!self.ended || self.under_way.is_empty(), "all that was sent is accounted for");
        assert!(self.session.buffered() <= TRANSFER && self.undecided.len() <= 2);
    }

    /// One thing that a caller does.
    fn act(&mut self, now: Instant, input: &mut Input<'_>, name: u64) {
        match input.below(8) {
            0..=2 => {
                let n = name + self.next;
                match self.session.send(now, vec![Bytes::from(content(n, usize::from(input.u16()) % 3500))]) {
                    Ok(id) => {
                        self.next += 1;
                        assert_eq!(self.under_way.insert(id, n), None);
                    }
                    Err(SendError::TooLarge { len, limit }) => assert!(len > limit),
                    Err(_) => {}
                }
            }
            3 | 4 => {
                if let Some((id, bundle)) = self.undecided.pop_front() {
                    // After the end nobody hears of it.
                    self.session.accept(now, id);
                    self.stored.push(bundle);
                }
            }
            5 => {
                if let Some((id, _)) = self.undecided.pop_front() {
                    self.session.refuse(now, id, Refusal::NoResources);
                }
            }
            6 => {
                let id = TransferId(input.u8().into());
                if self.session.refuse(now, id, Refusal::NotAcceptable) {
                    self.undecided.retain(|(waiting, _)| *waiting != id);
                }
            }
            _ => self.session.terminate(now, TermReason::Busy),
        }
    }
}

/// Bundle `n`: its number, and then anything.
fn content(n: u64, len: usize) -> Vec<u8> {
    let mut bytes = n.to_be_bytes().to_vec();
    bytes.resize(len.max(8), n as u8);
    bytes
}

/// `up`: contact and parameters were said before.
fn hears(role: Role, up: bool, input: &mut Input<'_>) {
    let mut now = epoch();
    let mut side = Side::new(role, "dtn://b/", now);
    if up {
        let node = Bytes::from_static(b"ipn:7.0");
        let extensions = Vec::new();
        let init = Message::SessInit { keepalive: 30, segment_mru: 100, transfer_mru: 2000, node, extensions };
        side.session.handle_input(now, &[b"dtn!\x04\x00", &init.encode()[..]].concat());
        side.drain(now);
        assert!(side.session.peer().is_some());
    }
    while !input.is_empty() {
        match input.below(8) {
            0 => side.act(now, input, 0),
            1 => {
                now += input.step();
                side.session.handle_timeout(now);
            }
            _ => side.session.handle_input(now, input.short_bytes()),
        }
        if side.session.is_over() {
            side.undecided.clear();
        }
        side.drain(now);
        side.wire.clear();
    }
    side.session.on_closed(now);
    side.drain(now);
    assert!(side.ended);
}

fn two(input: &mut Input<'_>) {
    let mut now = epoch();
    let (mut a, mut b) = (Side::new(Role::Active, "dtn://a/", now), Side::new(Role::Passive, "dtn://b/", now));
    a.drain(now);
    while !input.is_empty() {
        match input.below(8) {
            0 => a.act(now, input, 0),
            1 => b.act(now, input, 1 << 32),
            2 => {
                now += input.step().min(Duration::from_secs(9));
                for side in [&mut a, &mut b] {
                    side.session.handle_timeout(now);
                }
            }
            n => {
                let len = usize::from(input.u16());
                let (from, to) = if n & 1 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
                if to.session.wants_input() {
                    let bytes: Vec<u8> = from.wire.drain(..len.min(from.wire.len())).collect();
                    to.session.handle_input(now, &bytes);
                }
            }
        }
        a.drain(now);
        b.drain(now);
    }
    for side in [&mut a, &mut b] {
        side.session.on_closed(now);
        side.drain(now);
        assert!(side.ended);
    }
    for (from, to) in [(&a, &b), (&b, &a)] {
        let name = |bundle: &Vec<u8>| u64::from_be_bytes(bundle[..8].try_into().expect("a number"));
        let stored: BTreeSet<u64> = to.stored.iter().map(name).collect();
        assert_eq!(stored.len(), to.stored.len(), "twice in one session");
        assert!(to.stored.iter().all(|bundle| *bundle == content(name(bundle), bundle.len())), "another bundle");
        assert!(from.delivered.iter().all(|n| stored.contains(n)), "told as delivered, and not stored");
    }
}
