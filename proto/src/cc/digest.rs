//! What reports say to a controller that has a window.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Reports;

/// Longest round trip that is believed; more is a clock that jumped, or a lie.
const MAX_RTT: Duration = Duration::from_secs(10);

/// A report in short.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Digest {
    /// Datagrams that arrived, their bytes, and those of them that were marked.
    pub packets: u64,
    pub bytes: u64,
    pub marked: u64,
    pub marked_bytes: u64,
    /// Datagrams that were lost.
    pub lost: u64,
    /// Round-trip time of the newest that arrived.
    pub rtt: Option<Duration>,
    /// Its delay on the way there, with the unknown offset of the clocks, microseconds.
    pub delay_us: Option<i64>,
}

impl Digest {
    pub fn of(reports: &Reports<'_>) -> Self {
        let mut digest = Self::default();
        let mut newest = None;
        for packet in reports.packets {
            let Some(arrived_us) = packet.arrived_us else {
                digest.lost += 1;
                continue;
            };
            digest.packets += 1;
            digest.bytes = digest.bytes.saturating_add(packet.bytes.0);
            if packet.ce {
                digest.marked += 1;
                digest.marked_bytes = digest.marked_bytes.saturating_add(packet.bytes.0);
            }
            if newest.is_none_or(|(sent_us, _)| sent_us <= packet.sent_us) {
                newest = Some((packet.sent_us, arrived_us));
            }
        }
        if let Some((sent_us, arrived_us)) = newest {
            let rtt = reports.now_us.checked_sub(sent_us).map(Duration::from_micros);
            digest.rtt = rtt.filter(|rtt| *rtt <= MAX_RTT);
            digest.delay_us = Some((arrived_us as i64).wrapping_sub(sent_us as i64));
        }
        digest
    }
}

/// The smoothed round-trip time (RFC 6298 §2).
#[derive(Debug, Clone, Copy)]
pub(super) struct SmoothedRtt {
    seconds: Option<f64>,
    gain: f64,
}

impl SmoothedRtt {
    /// A new sample has this weight.
    pub fn new(gain: f64) -> Self {
        Self { seconds: None, gain }
    }

    pub fn update(&mut self, sample: Duration) {
        // A clock of microseconds may show none at all.
        let sample = sample.as_secs_f64().max(1e-4);
        let smoothed = self.seconds.get_or_insert(sample);
        *smoothed += (sample - *smoothed) * self.gain;
    }

    /// Seconds, at least 0.1 ms; `None` before the first sample.
    pub fn seconds(&self) -> Option<f64> {
        self.seconds
    }
}

/// The smallest value of the last so many buckets of time, exact to a bucket.
#[derive(Debug, Clone)]
pub(super) struct History<T> {
    bucket: Duration,
    buckets: usize,
    /// (begin, minimum), oldest first.
    minima: VecDeque<(Instant, T)>,
}

impl<T: PartialOrd + Copy> History<T> {
    pub fn new(bucket: Duration, buckets: usize) -> Self {
        Self { bucket, buckets, minima: VecDeque::new() }
    }

    pub fn update(&mut self, now: Instant, value: T) {
        let span = self.bucket.saturating_mul(self.buckets as u32);
        self.minima.retain(|(began, _)| now.saturating_duration_since(*began) < span);
        match self.minima.back_mut().filter(|(began, _)| now.saturating_duration_since(*began) < self.bucket) {
            Some((_, least)) if value < *least => *least = value,
            Some(_) => {}
            None => self.minima.push_back((now, value)),
        }
    }

    pub fn least(&self) -> Option<T> {
        self.minima.iter().map(|(_, least)| *least).reduce(|a, b| if b < a { b } else { a })
    }

    pub fn clear(&mut self) {
        self.minima.clear();
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;
    use crate::ByteCount;
    use crate::cc::{Load, PacketReport};

    #[test]
    fn a_digest_counts_what_came_and_times_the_newest() {
        let packet = |sent_us, arrived_us, ce| PacketReport {
            number: 0,
            sent_us,
            bytes: ByteCount(100),
            arrived_us,
            ce,
            leads: false,
        };
        let packets = [packet(1000, Some(61_000), true), packet(2000, None, false), packet(3000, Some(64_000), false)];
        let digest =
            Digest::of(&Reports { now_us: 83_000, packets: &packets, held: Duration::ZERO, load: Load::default() });
        assert_eq!((digest.packets, digest.bytes, digest.marked, digest.lost), (2, 200, 1, 1));
        assert_eq!((digest.rtt, digest.delay_us), (Some(Duration::from_millis(80)), Some(61_000)));
        let before =
            Digest::of(&Reports { now_us: 10, packets: &packets, held: Duration::ZERO, load: Load::default() });
        assert_eq!(before.rtt, None, "heard of before it was sent");
    }

    #[test]
    fn a_history_forgets_after_its_span() {
        let start = Instant::now();
        let mut history = History::new(Duration::from_millis(100), 10);
        history.update(start, 5);
        history.update(start + Duration::from_millis(150), 9);
        assert_eq!(history.least(), Some(5));
        history.update(start + Duration::from_millis(999), 8);
        assert_eq!(history.least(), Some(5));
        history.update(start + Duration::from_millis(1001), 8);
        assert_eq!(history.least(), Some(8));
    }
}
