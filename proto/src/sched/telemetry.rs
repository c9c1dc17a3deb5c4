//! The telemetry queue: last values, of which only the newest matters, and transactions, of which each does.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use crate::mavlink::treatment::StateKey;

/// Bounds of the telemetry queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TelemetryLimits {
    /// Different last values kept: an autopilot sends about 60.
    pub states: usize,
    /// Frames of transactions. A whole parameter set is 1348.
    pub transactions: usize,
    /// Bytes of transactions.
    pub bytes: usize,
    /// A transaction frame that has waited this long is dropped; the protocols above have asked again by then.
    pub age: Duration,
    /// How long small messages wait for others to share a packet with.
    pub aggregate: Duration,
}

impl Default for TelemetryLimits {
    fn default() -> Self {
        Self {
            states: 512,
            transactions: 8192,
            bytes: 1 << 20,
            age: Duration::from_secs(10),
            aggregate: Duration::from_millis(10),
        }
    }
}

/// Why telemetry was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TelemetryDrops {
    /// Last values replaced by newer ones while they waited. Normal on a slow link.
    pub superseded: u64,
    /// The queue was full.
    pub full: u64,
    /// Transactions older than the limit.
    pub expired: u64,
}

/// A packet's worth of telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    /// Last values: sent once.
    States(Bytes),
    /// Transactions: kept until acknowledged. The time is when the oldest of them came in.
    Transactions(Instant, Bytes),
}

/// The queue.
#[derive(Debug)]
pub struct TelemetryQueue {
    limits: TelemetryLimits,
    states: BTreeMap<StateKey, Bytes>,
    state_order: VecDeque<(StateKey, Instant)>,
    state_bytes: usize,
    transactions: VecDeque<(Instant, Bytes)>,
    transaction_bytes: usize,
    states_next: bool,
    drops: TelemetryDrops,
}

impl TelemetryQueue {
    /// An empty queue.
    pub fn new(limits: TelemetryLimits) -> Self {
        Self {
            limits,
            states: BTreeMap::new(),
            state_order: VecDeque::new(),
            state_bytes: 0,
            transactions: VecDeque::new(),
            transaction_bytes: 0,
            states_next: true,
            drops: TelemetryDrops::default(),
        }
    }

    /// Queues a last value in place of an older one with the same key; it keeps the older one's place.
    pub fn push_state(&mut self, now: Instant, key: StateKey, frame: Bytes) {
        self.state_bytes += frame.len();
        if let Some(old) = self.states.insert(key, frame) {
            self.state_bytes -= old.len();
            self.drops.superseded += 1;
            return;
        }
        self.state_order.push_back((key, now));
        if self.state_order.len() > self.limits.states {
            self.pop_state();
            self.drops.full += 1;
        }
    }

    /// Queues a frame of a transaction; refused when full, since what is queued came first.
    pub fn push_transaction(&mut self, now: Instant, frame: Bytes) {
        if self.transactions.len() >= self.limits.transactions
            || self.transaction_bytes + frame.len() > self.limits.bytes
        {
            self.drops.full += 1;
            return;
        }
        self.transaction_bytes += frame.len();
        self.transactions.push_back((now, frame));
    }

    /// The next packet's worth, of at most `max` bytes of frames, if one is due: either full or waited for long enough.
    /// The two kinds take turns, so that a parameter download does not stop the attitude, nor the other way round.
    pub fn pop_batch(&mut self, now: Instant, max: usize) -> Option<Batch> {
        let states_due = self.states_due(max).is_some_and(|due| due <= now);
        let transactions_due = self.transactions_due(max).is_some_and(|due| due <= now);
        match (states_due, transactions_due) {
            (false, false) => None,
            (true, false) => self.pop_states(max),
            (false, true) => self.pop_transactions(max),
            (true, true) => {
                self.states_next = !self.states_next;
                if self.states_next { self.pop_states(max) } else { self.pop_transactions(max) }
            }
        }
    }

    /// When [`TelemetryQueue::pop_batch`] has something next.
    pub fn next_due(&self, max: usize) -> Option<Instant> {
        self.states_due(max).into_iter().chain(self.transactions_due(max)).min()
    }

    /// Drops transactions older than the limit, and, with `all_states`, every last value: after an outage only new ones
    /// are worth sending.
    pub fn expire(&mut self, now: Instant, all_states: bool) {
        while self.transactions.front().is_some_and(|(since, _)| *since + self.limits.age <= now) {
            let (_, frame) = self.transactions.pop_front().expect("looked at");
            self.transaction_bytes -= frame.len();
            self.drops.expired += 1;
        }
        if all_states {
            self.drops.superseded += self.states.len() as u64;
            self.states.clear();
            self.state_order.clear();
            self.state_bytes = 0;
        }
    }

    /// Frames that wait, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        (self.states.len() + self.transactions.len(), self.state_bytes + self.transaction_bytes)
    }

    /// How full the queue is, 0 to 1, for the autopilot's flow control.
    pub fn fill(&self) -> f64 {
        let transactions = self.transactions.len() as f64 / self.limits.transactions as f64;
        let bytes = self.transaction_bytes as f64 / self.limits.bytes as f64;
        let states = self.states.len() as f64 / self.limits.states as f64;
        transactions.max(bytes).max(states)
    }

    /// Age of the oldest frame that waits.
    pub fn oldest_age(&self, now: Instant) -> Duration {
        let oldest = self.state_order.front().map(|(_, since)| *since);
        let oldest = oldest.into_iter().chain(self.transactions.front().map(|(since, _)| *since)).min();
        oldest.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Counters of what was dropped.
    pub fn drops(&self) -> TelemetryDrops {
        self.drops
    }

    fn states_due(&self, max: usize) -> Option<Instant> {
        let (_, since) = self.state_order.front()?;
        Some(if self.state_bytes >= max { *since } else { *since + self.limits.aggregate })
    }

    fn transactions_due(&self, max: usize) -> Option<Instant> {
        let (since, _) = self.transactions.front()?;
        Some(if self.transaction_bytes >= max { *since } else { *since + self.limits.aggregate })
    }

    fn pop_states(&mut self, max: usize) -> Option<Batch> {
        let mut out = BytesMut::new();
        while let Some((key, _)) = self.state_order.front() {
            let len = self.states.get(key).map_or(0, Bytes::len);
            if !out.is_empty() && out.len() + len > max {
                break;
            }
            out.extend_from_slice(&self.pop_state()?);
        }
        (!out.is_empty()).then(|| Batch::States(out.freeze()))
    }

    fn pop_state(&mut self) -> Option<Bytes> {
        let (key, _) = self.state_order.pop_front()?;
        let frame = self.states.remove(&key)?;
        self.state_bytes -= frame.len();
        Some(frame)
    }

    fn pop_transactions(&mut self, max: usize) -> Option<Batch> {
        let since = self.transactions.front()?.0;
        let mut out = BytesMut::new();
        while let Some((_, frame)) = self.transactions.front() {
            if !out.is_empty() && out.len() + frame.len() > max {
                break;
            }
            out.extend_from_slice(frame);
            self.transaction_bytes -= frame.len();
            self.transactions.pop_front();
        }
        Some(Batch::Transactions(since, out.freeze()))
    }
}
