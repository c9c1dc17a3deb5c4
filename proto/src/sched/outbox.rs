//! Messages that must arrive: waiting, then sent and kept until the peer acknowledges them.
//!
//! Control waits in order and leaves first; setpoints in it are superseded by newer ones of the same kind. Messages of
//! class Telemetry come here already batched, only to be kept until acknowledged.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::Class;
use crate::mavlink::treatment::StateKey;
use crate::quic::StreamRef;

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
    /// Its sequence number among the messages of its class; [`Outgoing::token`] tells both classes apart.
    pub seq: u64,
    /// Control or Telemetry.
    pub class: Class,
    /// One or more MAVLink frames.
    pub frames: Bytes,
    /// When it came in.
    pub origin: Instant,
    /// When it is given up.
    pub expires: Instant,
    /// Set for setpoints: which kind.
    pub slot: Option<u64>,
    stream: Option<StreamRef>,
    last_sent: Option<Instant>,
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
    /// Batches of telemetry that were lost with a connection.
    resend: VecDeque<Outgoing>,
    sent: BTreeMap<u64, Outgoing>,
    /// Control only; batches of telemetry are bounded by their own queue and window.
    control_bytes: usize,
    next_seq: u64,
    next_batch: u64,
    slots: BTreeMap<StateKey, u64>,
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
            resend: VecDeque::new(),
            sent: BTreeMap::new(),
            control_bytes: 0,
            next_seq: 1,
            next_batch: 1,
            slots: BTreeMap::new(),
            drops: OutboxDrops::default(),
        }
    }

    /// Queues a command.
    pub fn push_command(&mut self, now: Instant, frame: Bytes) {
        let expires = now + self.limits.command_age;
        self.push(now, frame, expires, None);
    }

    /// Queues a setpoint or liveness message in place of an older one with the same key. Returns the stream of one that
    /// is under way and now worthless.
    pub fn push_setpoint(&mut self, now: Instant, key: StateKey, frame: Bytes, liveness: bool) -> Option<StreamRef> {
        let max_age = if liveness { self.limits.liveness_age } else { self.limits.setpoint_age };
        let slot = self.slot(key);
        let of_slot = |message: &Outgoing| message.slot == Some(slot);
        if let Some(index) = self.waiting.iter().position(of_slot) {
            let old = self.waiting.remove(index);
            self.forget_bytes(old.as_ref());
            self.drops.superseded += 1;
        }
        let under_way = self.sent.values().find(|message| of_slot(message)).map(|message| message.seq);
        let cancelled = under_way.and_then(|seq| self.take_sent(seq)).and_then(|old| {
            self.drops.superseded += 1;
            old.stream
        });
        self.push(now, frame, now + max_age, Some(slot));
        cancelled
    }

    /// Makes a message of a batch of telemetry frames, to be sent at once and kept until acknowledged.
    pub fn telemetry_batch(&mut self, now: Instant, origin: Instant, frames: Bytes) -> Outgoing {
        let expires = now + self.limits.command_age;
        Outgoing { origin, ..self.outgoing(Class::Telemetry, now, frames, expires, None) }
    }

    /// The next message to send for the first time.
    pub fn pop_waiting(&mut self) -> Option<Outgoing> {
        self.waiting.pop_front()
    }

    /// Puts a message back that could not be sent.
    pub fn unpop(&mut self, message: Outgoing) {
        self.put_back(message);
    }

    /// Notes that a message has been sent on `stream`.
    pub fn on_sent(&mut self, now: Instant, mut message: Outgoing, stream: StreamRef) {
        message.stream = Some(stream);
        message.last_sent = Some(now);
        self.sent.insert(message.token(), message);
    }

    /// Notes that the peer has a message; returns it.
    pub fn on_acknowledged(&mut self, token: u64) -> Option<Outgoing> {
        self.take_sent(token)
    }

    /// The connection is gone, or its early data was not taken: everything not acknowledged waits again, in order.
    pub fn requeue(&mut self) {
        for (_, message) in std::mem::take(&mut self.sent).into_iter().rev() {
            self.put_back(message);
        }
    }

    /// The peer has refused one message: it waits again.
    pub fn requeue_one(&mut self, token: u64) {
        if let Some(message) = self.sent.remove(&token) {
            self.put_back(message);
        }
    }

    /// The next batch of telemetry that has to be sent again.
    pub fn pop_resend(&mut self) -> Option<Outgoing> {
        self.resend.pop_front()
    }

    /// Whether there is one.
    pub fn has_resend(&self) -> bool {
        !self.resend.is_empty()
    }

    /// At the front of its queue: control's, or that of telemetry, which leaves through the gate.
    fn put_back(&mut self, mut message: Outgoing) {
        message.stream = None;
        message.last_sent = None;
        match message.class {
            Class::Control => self.waiting.push_front(message),
            _ => self.resend.push_front(message),
        }
    }

    /// Drops what has passed its deadline, calling `cancel` for what is under way.
    pub fn expire(&mut self, now: Instant, mut cancel: impl FnMut(StreamRef)) {
        while let Some(index) = self.waiting.iter().position(|message| message.expires <= now) {
            let old = self.waiting.remove(index);
            self.on_expired(old);
        }
        self.resend.retain(|message| message.expires > now);
        let expired: Vec<u64> =
            self.sent.values().filter(|message| message.expires <= now).map(Outgoing::token).collect();
        for seq in expired {
            let old = self.take_sent(seq);
            if let Some(stream) = old.as_ref().and_then(|old| old.stream) {
                cancel(stream);
            }
            // Its bytes are forgotten already.
            self.count_expired(old.as_ref());
        }
    }

    /// When [`Outbox::expire`] next has something to do.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.waiting.iter().chain(&self.resend).chain(self.sent.values()).map(|message| message.expires).min()
    }

    /// Control messages last sent at `before` or earlier, oldest first: due for another copy.
    pub fn due_copies(&self, before: Instant) -> impl Iterator<Item = &Outgoing> {
        self.sent
            .values()
            .filter(move |message| message.class == Class::Control && message.last_sent.is_some_and(|at| at <= before))
    }

    /// When the oldest unacknowledged control message was last sent.
    pub fn earliest_sent(&self) -> Option<Instant> {
        self.sent
            .values()
            .filter(|message| message.class == Class::Control)
            .filter_map(|message| message.last_sent)
            .min()
    }

    /// Notes that another copy of a message has been sent.
    pub fn on_copied(&mut self, now: Instant, seq: u64) {
        if let Some(message) = self.sent.get_mut(&seq) {
            message.last_sent = Some(now);
        }
    }

    /// Control messages that wait, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting.iter().map(|message| message.frames.len()).sum())
    }

    /// Messages sent and not acknowledged, and their bytes, of one class.
    pub fn unacknowledged(&self, class: Class) -> (usize, usize) {
        let of_class = self.sent.values().filter(|message| message.class == class);
        of_class.fold((0, 0), |(count, bytes), message| (count + 1, bytes + message.frames.len()))
    }

    /// Counters of what was dropped.
    pub fn drops(&self) -> OutboxDrops {
        self.drops
    }

    fn push(&mut self, now: Instant, frames: Bytes, expires: Instant, slot: Option<u64>) {
        while self.control_messages() >= self.limits.messages
            || (self.control_bytes + frames.len() > self.limits.bytes && self.control_messages() > 0)
        {
            self.drop_oldest();
        }
        self.control_bytes += frames.len();
        let message = self.outgoing(Class::Control, now, frames, expires, slot);
        self.waiting.push_back(message);
    }

    fn outgoing(&mut self, class: Class, now: Instant, frames: Bytes, expires: Instant, slot: Option<u64>) -> Outgoing {
        let next = if class == Class::Control { &mut self.next_seq } else { &mut self.next_batch };
        let seq = *next;
        *next += 1;
        Outgoing { seq, class, frames, origin: now, expires, slot, stream: None, last_sent: None }
    }

    fn slot(&mut self, key: StateKey) -> u64 {
        if self.slots.len() >= MAX_SLOTS && !self.slots.contains_key(&key) {
            self.slots.clear();
        }
        let next = self.next_seq;
        // Numbers are never reused, or the peer would take a new kind of setpoint for an old one.
        *self.slots.entry(key).or_insert(next)
    }

    fn control_messages(&self) -> usize {
        let kept = self.sent.values().filter(|message| message.class == Class::Control).count();
        self.waiting.len() + kept
    }

    fn drop_oldest(&mut self) {
        let oldest = self.sent.values().find(|message| message.class == Class::Control).map(|message| message.seq);
        match oldest {
            Some(seq) => drop(self.take_sent(seq)),
            None => {
                let old = self.waiting.pop_front();
                self.forget_bytes(old.as_ref());
            }
        }
        self.drops.full += 1;
    }

    fn take_sent(&mut self, seq: u64) -> Option<Outgoing> {
        let message = self.sent.remove(&seq);
        self.forget_bytes(message.as_ref());
        message
    }

    fn forget_bytes(&mut self, message: Option<&Outgoing>) {
        if let Some(message) = message.filter(|message| message.class == Class::Control) {
            self.control_bytes -= message.frames.len();
        }
    }

    fn on_expired(&mut self, old: Option<Outgoing>) {
        self.forget_bytes(old.as_ref());
        self.count_expired(old.as_ref());
    }

    fn count_expired(&mut self, old: Option<&Outgoing>) {
        match old {
            Some(old) if old.slot.is_some() => self.drops.stale += 1,
            Some(_) => self.drops.expired += 1,
            None => {}
        }
    }
}

impl Outgoing {
    /// Names the message to the bearer: its sequence number, marked if it is a batch of telemetry.
    pub fn token(&self) -> u64 {
        if self.class == Class::Control { self.seq } else { self.seq | BATCH }
    }
}

/// Above all sequence numbers (varints end at 2^62), so that control comes first in the order of tokens.
const BATCH: u64 = 1 << 62;
