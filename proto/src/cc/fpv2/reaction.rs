//! What losses and marks say.

use std::time::{Duration, Instant};

/// More than this share lost in a round trip, while the queue is long, is the queue's end.
const LOSS: f64 = 0.02;
const LONG_QUEUE: Duration = Duration::from_millis(60);
const AT_LOSS: f64 = 0.9;
/// Weight of a round trip's share of marks (RFC 8257 §3.3: 1/16).
const MARKS_WEIGHT: f64 = 1.0 / 16.0;
/// Weight of a round trip's share of random loss; a round trip that has lost more is no random one.
const RANDOM_WEIGHT: f64 = 1.0 / 64.0;
const MOST_RANDOM: f64 = 0.3;
/// Marks are judged at most this often.
const MARKS_EVERY: Duration = Duration::from_millis(25);

/// Counts over a round trip.
#[derive(Debug, Default)]
pub(super) struct Reaction {
    since: Option<Instant>,
    arrived: u64,
    lost: u64,
    marked: u64,
    /// Smoothed share of marked packets.
    alpha: f64,
    /// Smoothed share of packets that were lost though nothing was full.
    random: f64,
    /// In the last round trip there were marks.
    marks: bool,
}

impl Reaction {
    pub fn on_packet(&mut self, arrived: bool, ce: bool) {
        self.arrived += u64::from(arrived);
        self.lost += u64::from(!arrived);
        self.marked += u64::from(ce);
    }

    /// Judges a round trip that is over; gives what the capacity has to be multiplied with.
    pub fn poll(&mut self, now: Instant, rtt: Duration, queue: Duration) -> f64 {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < rtt.max(MARKS_EVERY) || self.arrived + self.lost == 0 {
            return 1.0;
        }
        let total = (self.arrived + self.lost) as f64;
        let (lost, marked) = (self.lost as f64 / total, self.marked as f64 / total);
        self.alpha += (marked - self.alpha) * MARKS_WEIGHT;
        self.marks = self.marked > 0;
        (self.arrived, self.lost, self.marked, self.since) = (0, 0, 0, Some(now));
        if queue <= LONG_QUEUE && lost < MOST_RANDOM {
            self.random += (lost - self.random) * RANDOM_WEIGHT;
        }
        if lost > LOSS && queue > LONG_QUEUE { AT_LOSS } else { 1.0 }
    }

    /// Share of what is sent that random loss leaves.
    pub fn arrives(&self) -> f64 {
        1.0 - self.random
    }

    /// Share of the rate that marks leave (RFC 8257 §3.3: 1 - α/2).
    pub fn share(&self) -> f64 {
        if self.marks { 1.0 - self.alpha / 2.0 } else { 1.0 }
    }
}
