//! The delay of the path without its queue, and whether a delay that stays is a queue or a longer path.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::cc::minimum::Minimum;

/// The base is the minimum of this long.
const MEMORY: Duration = Duration::from_secs(10);
/// The floor is the smallest delay over the base in this time.
const FLOOR_SPAN: Duration = Duration::from_millis(150);
/// Delays are taken from packets of at least this many bytes: a small one serialises faster, which would look like an
/// empty queue. If there was no large one for [`LARGE_MEMORY`], small ones will do for the queue, and after [`LARGE_BASE`] for
/// the base.
const LARGE: u64 = 500;
const LARGE_MEMORY: Duration = Duration::from_millis(80);
const LARGE_BASE: Duration = Duration::from_secs(1);
/// A floor above this, or what three full packets take, is looked into, for this long and one and a half round trips: what is sent now is seen after one.
const SUSPICIOUS_BYTES: f64 = 3.0 * super::MSS as f64;
const SUSPICIOUS: Duration = Duration::from_millis(22);
const LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(2);
const LOOK_IF_TOLD: Duration = Duration::from_millis(50);
/// A path that became longer by more than this within [`MEMORY`] is not believed, unless the radio has told of another cell.
const MAX_RISE: Duration = Duration::from_millis(150);
/// The queue is not the reason if so much of it should have drained, and less than this has.
const SHOULD_HAVE: f64 = 0.5;
const HAS: f64 = 0.3;

/// Clocks drift apart by less than this, in µs a second, and so make the oldest base wrong by no more than this.
const DRIFT_US: f64 = 500.0;
const MAX_LIFT_US: f64 = 10_000.0;
/// Where delays vary, the least of both ways seldom meet in one round trip.
const LIFT_MARGIN_US: f64 = 3_000.0;

/// One-way delays, by two clocks that need not agree.
#[derive(Debug)]
pub(super) struct Base {
    minimum: Minimum<i64>,
    /// Of large packets alone: where heartbeats have told the base a full packet takes longer, and that is no queue.
    large: Minimum<i64>,
    /// What the clocks have drifted since then, as far as round trips tell, and when that was looked at.
    lift_us: f64,
    lifted: Option<Instant>,
    last_large: Option<Instant>,
    /// (when, queue delay in µs), increasing in both: the front is the floor.
    recent: VecDeque<(Instant, i64)>,
    test: Option<Test>,
    /// It was looked into and is a queue, whatever else it looks like, until it has been low.
    refused: bool,
    /// When the base was last raised, and by how much within [`MEMORY`] of each other.
    risen: Option<(Instant, Duration)>,
}

/// The floor is high: is it a queue?
#[derive(Debug, Clone, Copy)]
struct Test {
    began: Instant,
    floor_us: i64,
    /// Bytes that had been sent when it began.
    sent: u64,
}

impl Base {
    pub fn new() -> Self {
        Self {
            minimum: Minimum::new(MEMORY),
            large: Minimum::new(MEMORY),
            lift_us: 0.0,
            lifted: None,
            last_large: None,
            recent: VecDeque::new(),
            test: None,
            refused: false,
            risen: None,
        }
    }

    /// Takes in the delay of a packet by both clocks; gives what it waited in queues, if that can be told from it.
    pub fn on_delay(&mut self, now: Instant, delay_us: i64, bytes: u64) -> Option<i64> {
        if bytes >= LARGE {
            self.last_large = Some(now);
            self.large.update(now, delay_us);
        }
        let without_large = self.last_large.map(|at| now.saturating_duration_since(at));
        if bytes < LARGE && without_large.is_some_and(|time| time < LARGE_MEMORY) {
            return None;
        }
        let is_less = self.minimum.value().is_none_or(|base| delay_us < base);
        if bytes >= LARGE || is_less || without_large.is_none_or(|time| time >= LARGE_BASE) {
            self.minimum.update(now, delay_us);
        }
        let queue_us = delay_us - self.value()?;
        while self.recent.back().is_some_and(|(_, other)| *other >= queue_us) {
            self.recent.pop_back();
        }
        self.recent.push_back((now, queue_us));
        self.forget(now);
        Some(queue_us)
    }

    fn forget(&mut self, now: Instant) {
        while self.recent.len() > 1
            && self.recent.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > FLOOR_SPAN)
        {
            self.recent.pop_front();
        }
    }

    /// Smallest (receive clock - send clock), µs.
    pub fn value(&self) -> Option<i64> {
        self.minimum.value().map(|least| least.saturating_add(self.lift_us as i64))
    }

    /// `waited_us` of [`Self::on_delay`] without what a packet of `bytes` takes longer than a small one, which the base may be of: no more
    /// than it takes at `capacity` bytes a second, so that a queue that was always there remains one.
    pub fn met_us(&self, waited_us: i64, bytes: u64, capacity: f64) -> i64 {
        let longer = self.large.value().zip(self.minimum.value()).map_or(0, |(large, least)| large - least);
        let takes = (bytes as f64 / capacity.max(1.0) * 1e6) as i64;
        waited_us - longer.min(takes)
    }

    /// Both ways together cannot take less than the least round trip; if they seem to, the receiver's clock is the faster one,
    /// and the base is of a time when it showed less. `back_us`: the least of feedback by both clocks.
    pub fn on_round_trip(&mut self, now: Instant, rtt: Duration, back_us: i64) {
        let Some(there_us) = self.minimum.value() else { return };
        let elapsed = self.lifted.map_or(Duration::ZERO, |at| now.saturating_duration_since(at)).as_secs_f64();
        self.lifted = Some(now);
        let missing_us = rtt.as_micros() as f64 - there_us.saturating_add(back_us) as f64;
        self.lift_us =
            (missing_us - LIFT_MARGIN_US).min(self.lift_us + DRIFT_US * elapsed.min(1.0)).clamp(0.0, MAX_LIFT_US);
    }

    /// Smallest delay over the base of late, µs.
    pub fn floor_us(&self) -> i64 {
        self.recent.front().map_or(0, |(_, queue_us)| (*queue_us).max(0))
    }

    /// Whether the floor is being looked into.
    pub fn is_in_doubt(&self) -> bool {
        self.test.is_some()
    }

    /// Looks into a floor that stays high. `sent`: bytes sent so far; `capacity`: bytes a second; `rtt`: without queues;
    /// `is_told`: the radio said that the path is another; `caution`, from 0 to 1: that it may become one soon. Gives by how much the path became longer, if it did; the base
    /// already includes it.
    pub fn test(
        &mut self,
        now: Instant,
        sent: u64,
        capacity: f64,
        rtt: Duration,
        is_told: bool,
        caution: f64,
    ) -> Option<Duration> {
        let floor_us = self.floor_us();
        if floor_us < suspicious_us(capacity) {
            self.test = None;
            self.refused = false;
            return None;
        }
        if self.refused {
            return None;
        }
        let test = *self.test.get_or_insert(Test { began: now, floor_us, sent });
        let elapsed = now.saturating_duration_since(test.began);
        let sooner = (LOOK - LOOK_IF_TOLD).mul_f64(if is_told { 1.0 } else { caution.clamp(0.0, 1.0) });
        let wait = LOOK - sooner + rtt * 3 / 2;
        if elapsed < wait {
            return None;
        }
        let should_have = elapsed.as_secs_f64() * capacity - sent.saturating_sub(test.sent) as f64;
        let queue = test.floor_us as f64 / 1e6 * capacity;
        if (floor_us as f64) < (1.0 - HAS) * test.floor_us as f64 {
            // It drains: a queue. What is left is looked into anew.
            self.test = Some(Test { began: now, floor_us, sent });
            return None;
        }
        if should_have < SHOULD_HAVE * queue {
            self.refuse_if(elapsed > LONGEST_LOOK);
            return None;
        }
        let rise = Duration::from_micros(floor_us as u64);
        let before = self.risen.filter(|(at, _)| now.saturating_duration_since(*at) < MEMORY);
        let before = before.map_or(Duration::ZERO, |(_, rise)| rise);
        if !is_told && before + rise > MAX_RISE {
            self.refuse_if(true);
            return None;
        }
        self.risen = Some((now, before + rise));
        let by = rise.as_micros() as i64 + self.lift_us as i64;
        for minimum in [&mut self.minimum, &mut self.large] {
            if let Some(least) = minimum.value() {
                minimum.reset_to(now, least.saturating_add(by));
            }
        }
        self.lift_us = 0.0;
        self.recent.clear();
        self.test = None;
        Some(rise)
    }

    /// Others keep a queue: the base stays what it was, and whether it has risen cannot be found out.
    pub fn hold(&mut self, now: Instant) {
        for minimum in [&mut self.minimum, &mut self.large] {
            if let Some(least) = minimum.value() {
                minimum.update(now, least);
            }
        }
        self.test = None;
    }

    fn refuse_if(&mut self, refuse: bool) {
        if refuse {
            self.refused = true;
            self.test = None;
        }
    }

    /// Another path: nothing is known.
    pub fn reset(&mut self) {
        *self = Self::new();
    }
}

/// The delay over the base from which on it may be the path's, µs, at so many bytes a second.
pub(super) fn suspicious_us(capacity: f64) -> i64 {
    (SUSPICIOUS.as_micros() as i64).max((SUSPICIOUS_BYTES / capacity.max(1.0) * 1e6) as i64)
}
