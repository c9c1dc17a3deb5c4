//! Control messages: waiting, then sent and kept until the peer acknowledges them.
//!
//! They wait in order and leave first; setpoints are superseded by newer ones of the same kind.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::mavlink::Frame;
use crate::mavlink::treatment::StateKey;
use crate::quic::StreamRef;
use crate::signing::{Place, PlaceIssuer, SigningStream};
use crate::{BearerId, Class};

/// Bounds of the outbox and lifetimes of what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxLimits {
    /// Control messages, waiting and unacknowledged together.
    pub messages: usize,
    /// Bytes of them.
    pub bytes: usize,
    /// After this age a command is given up: ground stations have reported its failure by then, and one executed later
    /// would surprise.
    pub command_age: Duration,
    /// After this age a setpoint is worthless.
    pub setpoint_age: Duration,
    /// After this age a liveness message (HEARTBEAT and the like) is.
    pub liveness_age: Duration,
}

impl Default for OutboxLimits {
    fn default() -> Self {
        Self {
            messages: 1024,
            bytes: 256 << 10,
            command_age: Duration::from_secs(10),
            setpoint_age: Duration::from_millis(300),
            liveness_age: Duration::from_secs(1),
        }
    }
}

/// A message on its way.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Its sequence number.
    pub seq: u64,
    /// A MAVLink frame.
    pub frame: Bytes,
    /// When it came in.
    pub origin: Instant,
    /// When it is given up.
    pub expires: Instant,
    /// Set for setpoints: which kind.
    pub slot: Option<u64>,
    /// Its place among the signed ones, from its first sending on.
    pub place: Option<Place>,
    signing: Option<SigningStream>,
    stream: Option<StreamRef>,
    /// Set once it has been sent.
    sent: Option<Sent>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    last: Instant,
    times: u32,
    /// So many copies belong together.
    each: u32,
    /// It went by a bearer that is gone.
    at_once: bool,
}

/// When copies of a message leave that is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    /// Copies that belong together are so far apart.
    pub spacing: Duration,
    /// They leave again this long after the first of them.
    pub again: Duration,
}

impl Outgoing {
    fn is_on(&self, bearers: &[BearerId]) -> bool {
        self.stream.is_some_and(|stream| bearers.contains(&stream.bearer()))
    }

    fn due(&self, cadence: Cadence) -> Option<Instant> {
        let sent = self.sent?;
        let after = match sent.times.is_multiple_of(sent.each) {
            _ if sent.at_once => Duration::ZERO,
            true => cadence.again.saturating_sub(cadence.spacing * (sent.each - 1)).max(cadence.spacing),
            false => cadence.spacing,
        };
        Some(sent.last + after)
    }
}

/// Why control messages were not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxDrops {
    /// The outbox was full; the oldest went.
    pub full: u64,
    /// Commands given up at their age limit.
    pub expired: u64,
    /// Setpoints replaced by newer ones before they were acknowledged. Normal.
    pub superseded: u64,
    /// Setpoints that passed their deadline. Normal in an outage.
    pub stale: u64,
}

/// The outbox.
#[derive(Debug)]
pub struct Outbox {
    limits: OutboxLimits,
    waiting: VecDeque<Outgoing>,
    sent: BTreeMap<u64, Outgoing>,
    bytes: usize,
    next_seq: u64,
    slots: BTreeMap<StateKey, u64>,
    /// Messages that were given up while under way.
    cancelled: Vec<(u64, Option<StreamRef>)>,
    drops: OutboxDrops,
}

/// Kinds of setpoint told apart; more than any vehicle has. Beyond it the table begins anew.
const MAX_SLOTS: usize = 256;

impl Outbox {
    /// An empty outbox.
    pub fn new(limits: OutboxLimits) -> Self {
        Self {
            limits,
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
            bytes: 0,
            next_seq: 1,
            slots: BTreeMap::new(),
            cancelled: Vec::new(),
            drops: OutboxDrops::default(),
        }
    }

    /// Queues a command.
    pub fn push_command(&mut self, now: Instant, frame: &Frame) {
        self.push(now, frame, self.limits.command_age, None);
    }

    /// Queues a setpoint or liveness message in place of an older one of the same kind.
    pub fn push_setpoint(&mut self, now: Instant, frame: &Frame, liveness: bool) {
        let max_age = if liveness { self.limits.liveness_age } else { self.limits.setpoint_age };
        let slot = self.slot(StateKey::of(frame));
        let of_slot = |message: &Outgoing| message.slot == Some(slot);
        if let Some(old) = self.waiting.iter().position(of_slot).and_then(|index| self.waiting.remove(index)) {
            self.bytes -= old.frame.len();
            self.drops.superseded += 1;
        }
        let under_way = self.sent.values().find(|message| of_slot(message)).map(|message| message.seq);
        if under_way.and_then(|seq| self.give_up(seq)).is_some() {
            self.drops.superseded += 1;
        }
        self.push(now, frame, max_age, Some(slot));
    }

    /// The next message to send. `places`: where the signed ones get theirs, in order of their first sending.
    pub fn pop_waiting(&mut self, places: &mut PlaceIssuer) -> Option<Outgoing> {
        let mut message = self.waiting.pop_front()?;
        if let Some(signing) = message.signing.filter(|_| message.place.is_none()) {
            message.place = places.issue(signing, Class::Control, message.slot.is_none());
        }
        Some(message)
    }

    /// Puts a message back that could not be sent.
    pub fn unpop(&mut self, message: Outgoing) {
        self.waiting.push_front(message);
    }

    /// Notes that a message has been sent for the first time, on `stream`.
    /// `each`: so many copies belong together.
    pub fn on_sent(&mut self, now: Instant, mut message: Outgoing, stream: StreamRef, each: u32) {
        message.stream = Some(stream);
        message.sent = Some(Sent { last: now, times: 1, each: each.max(1), at_once: false });
        self.sent.insert(message.seq, message);
    }

    /// Notes that the peer has a message. If that was not known: the stream that it was sent on.
    pub fn on_acknowledged(&mut self, seq: u64) -> Option<StreamRef> {
        self.take_sent(seq)?.stream
    }

    /// No connection is left, or its early data was not taken: everything not acknowledged waits again, in order.
    pub fn requeue(&mut self) {
        for (_, message) in std::mem::take(&mut self.sent).into_iter().rev() {
            self.wait_again(message);
        }
    }

    /// When a copy is next due of a message that is on a stream of none of these bearers.
    pub fn next_stray(&self, cadence: Cadence, bearers: &[BearerId]) -> Option<Instant> {
        let strays = self.sent.values().filter(|message| !message.is_on(bearers));
        strays.filter_map(|message| message.due(cadence)).min()
    }

    /// Messages that are due for a copy and on a stream of none of these bearers wait again, in order, to be sent on one; gives the
    /// streams that they were on.
    pub fn requeue_strays(&mut self, now: Instant, cadence: Cadence, bearers: &[BearerId]) -> Vec<Option<StreamRef>> {
        let is_due = |message: &Outgoing| message.due(cadence).is_some_and(|due| due <= now);
        let strays = self.sent.extract_if(.., |_, message| !message.is_on(bearers) && is_due(message));
        let strays: Vec<_> = strays.map(|(_, message)| message).collect();
        let streams = strays.iter().map(|message| message.stream).collect();
        strays.into_iter().rev().for_each(|message| self.wait_again(message));
        streams
    }

    /// The peer has refused one message: it waits again.
    pub fn requeue_one(&mut self, seq: u64) {
        if let Some(message) = self.sent.remove(&seq) {
            self.wait_again(message);
        }
    }

    /// A bearer is gone, and with it the streams of its connections: what is not acknowledged leaves again on the others.
    pub fn on_bearer_gone(&mut self, bearer: BearerId) {
        for message in self.sent.values_mut() {
            message.stream = message.stream.filter(|stream| stream.bearer() != bearer);
            message.sent = message.sent.map(|sent| Sent { at_once: true, ..sent });
        }
    }

    fn wait_again(&mut self, mut message: Outgoing) {
        message.stream = None;
        message.sent = None;
        self.waiting.push_front(message);
    }

    /// Drops what has passed its deadline.
    pub fn expire(&mut self, now: Instant) {
        while let Some(index) = self.waiting.iter().position(|message| message.expires <= now) {
            if let Some(old) = self.waiting.remove(index) {
                self.bytes -= old.frame.len();
                self.count_expired(&old);
            }
        }
        while let Some(seq) = self.sent.values().find(|message| message.expires <= now).map(|message| message.seq) {
            if let Some(old) = self.give_up(seq) {
                self.count_expired(&old);
            }
        }
    }

    /// A message that was given up while under way, and its stream: nothing of it need be sent any more.
    pub fn take_cancelled(&mut self) -> Option<(u64, Option<StreamRef>)> {
        self.cancelled.pop()
    }

    /// When [`Outbox::expire`] next has something to do.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.waiting.iter().chain(self.sent.values()).map(|message| message.expires).min()
    }

    /// Messages that are due for another copy: first those of which the last copy was sent longest ago, so that none is forgotten
    /// where there is room for few.
    pub fn due_copies(&self, now: Instant, cadence: Cadence) -> impl Iterator<Item = &Outgoing> {
        let is_due = |message: &&Outgoing| message.due(cadence).is_some_and(|due| due <= now);
        let mut due: Vec<&Outgoing> = self.sent.values().filter(is_due).collect();
        due.sort_by_key(|message| message.sent.map(|sent| sent.last));
        due.into_iter()
    }

    /// Messages sent and not acknowledged, oldest first.
    pub fn under_way(&self) -> impl Iterator<Item = &Outgoing> {
        self.sent.values()
    }

    /// When the next copy is due.
    pub fn next_copy(&self, cadence: Cadence) -> Option<Instant> {
        self.sent.values().filter_map(|message| message.due(cadence)).min()
    }

    /// Notes that another copy of a message has been sent; whether it was one of those that belong to the first.
    pub fn on_copied(&mut self, now: Instant, seq: u64) -> bool {
        let Some(sent) = self.sent.get_mut(&seq).and_then(|message| message.sent.as_mut()) else { return false };
        sent.times = sent.times.saturating_add(1);
        (sent.last, sent.at_once) = (now, false);
        sent.times <= sent.each
    }

    /// Messages from number `seq` on, sent or waiting, in order; but for signed ones that have no place yet.
    pub fn from(&self, seq: u64) -> impl Iterator<Item = &Outgoing> {
        let waiting = self.waiting.iter().filter(move |message| message.seq >= seq);
        let in_place = |message: &&Outgoing| message.signing.is_none() || message.place.is_some();
        self.sent.range(seq..).map(|(_, message)| message).chain(waiting).filter(in_place)
    }

    /// Whether a message waits.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Messages that wait, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting.iter().map(|message| message.frame.len()).sum())
    }

    /// Messages sent and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.sent.len()
    }

    /// Messages that it holds, sent or not, and their bytes.
    pub fn held(&self) -> (usize, usize) {
        (self.len(), self.bytes)
    }

    /// Counters of what was dropped.
    pub fn drops(&self) -> OutboxDrops {
        self.drops
    }

    fn push(&mut self, now: Instant, frame: &Frame, max_age: Duration, slot: Option<u64>) {
        let bytes = frame.bytes().len();
        while self.len() > 0 && (self.len() >= self.limits.messages || self.bytes + bytes > self.limits.bytes) {
            self.drop_oldest();
        }
        self.bytes += bytes;
        let seq = self.next_seq;
        self.next_seq += 1;
        self.waiting.push_back(Outgoing {
            seq,
            frame: frame.bytes().clone(),
            origin: now,
            expires: now + max_age,
            slot,
            place: None,
            signing: SigningStream::of(frame),
            stream: None,
            sent: None,
        });
    }

    fn len(&self) -> usize {
        self.waiting.len() + self.sent.len()
    }

    fn slot(&mut self, key: StateKey) -> u64 {
        if self.slots.len() >= MAX_SLOTS && !self.slots.contains_key(&key) {
            self.slots.clear();
        }
        let next = self.next_seq;
        // Numbers are never reused, or the peer would take a new kind of setpoint for an old one.
        *self.slots.entry(key).or_insert(next)
    }

    fn drop_oldest(&mut self) {
        match self.sent.first_key_value().map(|(seq, _)| *seq) {
            Some(seq) => drop(self.give_up(seq)),
            None => {
                let old = self.waiting.pop_front();
                self.bytes -= old.map_or(0, |old| old.frame.len());
            }
        }
        self.drops.full += 1;
    }

    fn give_up(&mut self, seq: u64) -> Option<Outgoing> {
        let old = self.take_sent(seq)?;
        self.cancelled.push((seq, old.stream));
        Some(old)
    }

    fn take_sent(&mut self, seq: u64) -> Option<Outgoing> {
        let message = self.sent.remove(&seq)?;
        self.bytes -= message.frame.len();
        Some(message)
    }

    fn count_expired(&mut self, old: &Outgoing) {
        match old.slot {
            Some(_) => self.drops.stale += 1,
            None => self.drops.expired += 1,
        }
    }
}
