//! The telemetry queue: last values, of which only the newest matters, and transactions, of which each does.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use crate::mavlink::Frame;
use crate::mavlink::treatment::StateKey;
use crate::signing::SigningStream;

/// What could leave does within this, or there is no room.
const ROOM_WITHIN: Duration = Duration::from_millis(20);

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
pub struct Batch {
    /// One or more MAVLink frames.
    pub frames: Bytes,
    /// When the oldest of them came in.
    pub origin: Instant,
    /// The signing stream that all of them belong to; `None`: none is signed.
    pub signing: Option<SigningStream>,
    /// Transactions, to be kept until they have arrived; last values are sent once.
    pub reliable: bool,
}

/// A frame that waits.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    frame: Bytes,
    signing: Option<SigningStream>,
}

impl Waiting {
    fn new(since: Instant, frame: &Frame) -> Self {
        Self { since, frame: frame.bytes().clone(), signing: SigningStream::of(frame) }
    }
}

/// The queue.
#[derive(Debug)]
pub struct TelemetryQueue {
    limits: TelemetryLimits,
    states: BTreeMap<StateKey, Waiting>,
    /// Their order of sending, and since when each place has waited.
    state_order: VecDeque<(StateKey, Instant)>,
    state_bytes: usize,
    transactions: VecDeque<Waiting>,
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

    /// Queues a last value in place of an older one of the same kind; it keeps the older one's place.
    pub fn push_state(&mut self, now: Instant, frame: &Frame) {
        let key = StateKey::of(frame);
        self.state_bytes += frame.bytes().len();
        if let Some(old) = self.states.insert(key, Waiting::new(now, frame)) {
            self.state_bytes -= old.frame.len();
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
    pub fn push_transaction(&mut self, now: Instant, frame: &Frame) {
        let len = frame.bytes().len();
        if self.transactions.len() >= self.limits.transactions || self.transaction_bytes + len > self.limits.bytes {
            self.drops.full += 1;
            return;
        }
        self.transaction_bytes += len;
        self.transactions.push_back(Waiting::new(now, frame));
    }

    /// The next packet's worth, of at most `max` bytes of frames, if one is due: either full or waited for long enough.
    /// The two kinds take turns, so that a parameter download does not stop the attitude, nor the other way round. Signed
    /// ones go by age instead and wait for no company: a frame behind a newer one would be refused. `transactions`:
    /// whether they may leave now.
    pub fn pop_batch(&mut self, now: Instant, max: usize, transactions: bool) -> Option<Batch> {
        let states_due = self.states_due(max).filter(|due| *due <= now);
        let transactions_due = self.transactions_due(max).filter(|due| transactions && *due <= now);
        match (states_due, transactions_due) {
            (None, None) => None,
            (Some(_), None) => self.pop_states(max),
            (None, Some(_)) => self.pop_transactions(max),
            (Some(state), Some(transaction)) => {
                let signed = self.transactions.front().is_some_and(|waiting| waiting.signing.is_some());
                self.states_next = if signed { state < transaction } else { !self.states_next };
                if self.states_next { self.pop_states(max) } else { self.pop_transactions(max) }
            }
        }
    }

    /// When [`TelemetryQueue::pop_batch`] has something next.
    pub fn next_due(&self, max: usize, transactions: bool) -> Option<Instant> {
        let transactions = self.transactions_due(max).filter(|_| transactions);
        self.states_due(max).into_iter().chain(transactions).min()
    }

    /// Drops transactions older than the limit, and, with `all_states`, every last value: after an outage only new ones
    /// are worth sending.
    pub fn expire(&mut self, now: Instant, all_states: bool) {
        while let Some(old) = self.transactions.pop_front_if(|waiting| waiting.since + self.limits.age <= now) {
            self.transaction_bytes -= old.frame.len();
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

    /// Bytes that could have left for a while and have not, since there is no room. What waits for more to share its packet is not among them.
    pub fn held_back(&self, now: Instant) -> usize {
        let patience = self.limits.aggregate + ROOM_WITHIN;
        let is_overdue = |since: Instant| now.saturating_duration_since(since) > patience;
        let states = self.state_order.front().filter(|(_, since)| is_overdue(*since)).map_or(0, |_| self.state_bytes);
        let transactions = self.transactions.front().filter(|waiting| is_overdue(waiting.since));
        states + transactions.map_or(0, |_| self.transaction_bytes)
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
        let oldest = oldest.into_iter().chain(self.transactions.front().map(|waiting| waiting.since)).min();
        oldest.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Counters of what was dropped.
    pub fn drops(&self) -> TelemetryDrops {
        self.drops
    }

    fn states_due(&self, max: usize) -> Option<Instant> {
        let (key, since) = self.state_order.front()?;
        let signed = self.states.get(key).is_some_and(|waiting| waiting.signing.is_some());
        Some(if signed || self.state_bytes >= max { *since } else { *since + self.limits.aggregate })
    }

    fn transactions_due(&self, max: usize) -> Option<Instant> {
        let front = self.transactions.front()?;
        let at_once = front.signing.is_some() || self.transaction_bytes >= max;
        Some(if at_once { front.since } else { front.since + self.limits.aggregate })
    }

    fn pop_states(&mut self, max: usize) -> Option<Batch> {
        let mut taken: Vec<Waiting> = Vec::new();
        let mut len = 0;
        while let Some(next) = self.state_order.front().and_then(|(key, _)| self.states.get(key)) {
            let fits = len + next.frame.len() <= max && taken.first().is_none_or(|first| first.signing == next.signing);
            if !taken.is_empty() && !fits {
                break;
            }
            len += next.frame.len();
            taken.extend(self.pop_state());
        }
        // A place may hold a newer value than the places behind it: in a packet at least, they are in order of age.
        taken.sort_by_key(|waiting| waiting.since);
        batch(taken, false)
    }

    fn pop_state(&mut self) -> Option<Waiting> {
        let (key, _) = self.state_order.pop_front()?;
        let waiting = self.states.remove(&key)?;
        self.state_bytes -= waiting.frame.len();
        Some(waiting)
    }

    fn pop_transactions(&mut self, max: usize) -> Option<Batch> {
        let mut taken: Vec<Waiting> = Vec::new();
        let mut len = 0;
        while let Some(next) = self.transactions.front() {
            let fits = len + next.frame.len() <= max && taken.first().is_none_or(|first| first.signing == next.signing);
            if !taken.is_empty() && !fits {
                break;
            }
            len += next.frame.len();
            taken.extend(self.transactions.pop_front());
        }
        self.transaction_bytes -= len;
        batch(taken, true)
    }
}

fn batch(frames: Vec<Waiting>, reliable: bool) -> Option<Batch> {
    let first = frames.first()?;
    let (origin, signing) = (first.since, first.signing);
    let mut out = BytesMut::with_capacity(frames.iter().map(|waiting| waiting.frame.len()).sum());
    frames.iter().for_each(|waiting| out.extend_from_slice(&waiting.frame));
    Some(Batch { frames: out.freeze(), origin, signing, reliable })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    /// A frame of an id that nobody knows, from a system, `n` being its message id and content; `stamp` signs it.
    fn frame(n: u8, stamp: Option<u8>) -> Frame {
        let mut raw = vec![0xfd, 1, u8::from(stamp.is_some()), 0, 0, 1, 1, n, 0x30, 0xbb, n, 0xab, 0xcd];
        raw.extend(stamp.into_iter().flat_map(|stamp| [0, stamp, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9]));
        Frame::from_bytes(Bytes::from(raw)).unwrap()
    }

    fn contents(batch: &Batch) -> Vec<u8> {
        let mut rest = &batch.frames[..];
        let mut out = Vec::new();
        while !rest.is_empty() {
            let (frame, len) = Frame::parse(rest).unwrap();
            out.push(frame.payload()[0]);
            rest = &rest[len..];
        }
        out
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn small_ones_wait_for_company_and_kinds_take_turns() {
        let start = Instant::now();
        let mut queue = TelemetryQueue::new(TelemetryLimits::default());
        queue.push_state(start, &frame(1, None));
        queue.push_state(start + ms(1), &frame(2, None));
        queue.push_transaction(start + ms(2), &frame(3, None));
        assert_eq!(queue.next_due(1000, true), Some(start + ms(10)));
        assert_eq!(queue.pop_batch(start + ms(9), 1000, true), None);
        let batch = queue.pop_batch(start + ms(12), 1000, true).unwrap();
        assert_eq!((contents(&batch), batch.reliable, batch.origin), (vec![3], true, start + ms(2)));
        let batch = queue.pop_batch(start + ms(12), 1000, true).unwrap();
        assert_eq!((contents(&batch), batch.reliable, batch.origin), (vec![1, 2], false, start));
        assert_eq!(queue.pop_batch(start + ms(99), 1000, true), None);
        assert_eq!(queue.waiting(), (0, 0));
    }

    #[test]
    fn what_waits_for_company_has_room() {
        let start = Instant::now();
        let mut queue = TelemetryQueue::new(TelemetryLimits::default());
        assert_eq!(queue.held_back(start), 0);
        queue.push_state(start, &frame(1, None));
        queue.push_transaction(start + ms(5), &frame(3, None));
        let len = frame(1, None).bytes().len();
        assert_eq!([30, 31, 35, 36].map(|after| queue.held_back(start + ms(after))), [0, len, len, 2 * len]);
        queue.pop_batch(start + ms(36), 1000, false);
        assert_eq!(queue.held_back(start + ms(36)), len, "what may not leave");
    }

    #[test]
    fn transactions_wait_while_they_may_not_leave() {
        let start = Instant::now();
        let mut queue = TelemetryQueue::new(TelemetryLimits::default());
        queue.push_transaction(start, &frame(3, None));
        assert_eq!((queue.next_due(1000, false), queue.pop_batch(start + ms(50), 1000, false)), (None, None));
        assert!(queue.pop_batch(start + ms(50), 1000, true).is_some());
    }

    #[test]
    fn a_newer_value_takes_the_place_of_the_older_and_a_packet_is_in_order_of_age() {
        let start = Instant::now();
        let mut queue = TelemetryQueue::new(TelemetryLimits::default());
        queue.push_state(start, &frame(1, None));
        queue.push_state(start + ms(1), &frame(2, None));
        queue.push_state(start + ms(2), &frame(1, None));
        assert_eq!(queue.waiting().0, 2);
        assert_eq!(contents(&queue.pop_batch(start + ms(10), 1000, true).unwrap()), [2, 1]);
        assert_eq!(queue.drops().superseded, 1);
        // With room for one frame a packet, the first place goes first.
        queue.push_state(start, &frame(1, None));
        queue.push_state(start + ms(1), &frame(2, None));
        queue.push_state(start + ms(2), &frame(1, None));
        assert_eq!(contents(&queue.pop_batch(start + ms(10), 14, true).unwrap()), [1]);
    }

    #[test]
    fn signed_ones_leave_at_once_by_age_and_never_with_those_of_another_stream() {
        let start = Instant::now();
        let mut queue = TelemetryQueue::new(TelemetryLimits::default());
        queue.push_transaction(start, &frame(1, Some(1)));
        queue.push_state(start + ms(1), &frame(2, Some(2)));
        queue.push_transaction(start + ms(2), &frame(3, Some(3)));
        queue.push_transaction(start + ms(2), &frame(4, None));
        assert_eq!(queue.next_due(1000, true), Some(start));
        // The oldest first; those of one kind behind it share its packet.
        let batch = queue.pop_batch(start + ms(2), 1000, true).unwrap();
        assert_eq!((contents(&batch), batch.signing.is_some()), (vec![1, 3], true));
        assert_eq!(contents(&queue.pop_batch(start + ms(2), 1000, true).unwrap()), [2]);
        assert_eq!(queue.pop_batch(start + ms(2), 1000, true), None, "the unsigned one waits for company");
        let batch = queue.pop_batch(start + ms(12), 1000, true).unwrap();
        assert_eq!((contents(&batch), batch.signing), (vec![4], None));
    }
}
