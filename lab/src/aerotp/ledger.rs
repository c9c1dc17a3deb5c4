//! When each byte was written, sent for the first time, and delivered.

use std::time::{Duration, Instant};

/// Bytes are known by their place among all that are written, messages as well.
#[derive(Debug)]
pub struct Ledger {
    start: Instant,
    /// Ends of what was written, and when.
    written: Vec<(u64, Instant)>,
    /// Ends of what left for the first time in one packet, and when.
    sent: Vec<(u64, Instant)>,
    /// Beginnings and ends of what was delivered, and when.
    delivered: Vec<(u64, u64, Instant)>,
    /// Bytes that were delivered with wrong bits in their message.
    damaged: u64,
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Bytes that were written.
    pub written: u64,
    /// Bytes that were delivered as they were written.
    pub delivered: u64,
    /// Bytes that were delivered in messages with wrong bits.
    pub damaged: u64,
    /// Packets' worth of data that left, and of these, how many never came out.
    pub segments: u64,
    /// See `segments`.
    pub lost: u64,
    /// From the beginning to the last delivery if everything was delivered or is given up for good, else to the limit.
    pub took: Duration,
    /// Whether all was delivered.
    pub is_complete: bool,
    /// From the beginning to the first delivery.
    pub first: Option<Duration>,
    /// Bytes on the wire of what the sender sent, and of what came back.
    pub wire: [u64; 2],
    /// Packets likewise.
    pub packets: [u64; 2],
    /// From the first transmission to the delivery, sorted.
    pub since_sent: Vec<Duration>,
    /// From the write to the delivery, sorted.
    pub since_written: Vec<Duration>,
}

impl Ledger {
    /// Nothing happened yet.
    pub fn new(start: Instant) -> Self {
        Self { start, written: Vec::new(), sent: Vec::new(), delivered: Vec::new(), damaged: 0 }
    }

    /// So many bytes more are written.
    pub fn on_written(&mut self, now: Instant, bytes: u64) {
        self.written.push((self.written() + bytes, now));
    }

    /// So many of them have left for the first time.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        let before = self.sent.last().map_or(0, |(end, _)| *end);
        if bytes > 0 {
            self.sent.push((before + bytes, now));
        }
    }

    /// The bytes that left for the first time in that packet.
    pub fn span(&self, packet: usize) -> Option<(u64, u64)> {
        let from = if packet > 0 { self.sent.get(packet - 1)?.0 } else { 0 };
        Some((from, self.sent.get(packet)?.0))
    }

    /// These have come out.
    pub fn on_delivered(&mut self, now: Instant, from: u64, to: u64) {
        self.delivered.push((from, to, now));
    }

    /// These have come out, with wrong bits.
    pub fn on_damaged(&mut self, bytes: u64) {
        self.damaged += bytes;
    }

    /// All bytes written until now.
    pub fn written(&self) -> u64 {
        self.written.last().map_or(0, |(end, _)| *end)
    }

    /// The last delivery.
    pub fn latest(&self) -> Option<Instant> {
        self.delivered.last().map(|(_, _, at)| *at)
    }

    /// What came of it, but for what was on the wire. `limit`: the run was given up then.
    pub fn close(mut self, limit: Option<Duration>) -> Outcome {
        let first = self.delivered.first().map(|(_, _, at)| *at - self.start);
        let latest = self.latest().map_or(Duration::ZERO, |at| at - self.start);
        self.delivered.sort_by_key(|(from, _, _)| *from);
        let delivered = self.delivered.iter().map(|(from, to, _)| to - from).sum();
        let mut outcome = Outcome {
            written: self.written(),
            delivered,
            damaged: self.damaged,
            segments: self.sent.len() as u64,
            took: limit.unwrap_or(latest),
            is_complete: delivered == self.written(),
            first,
            ..Outcome::default()
        };
        let mut writes = self.written.iter().peekable();
        let mut arrivals = self.delivered.iter().peekable();
        for (end, sent) in &self.sent {
            while writes.next_if(|(to, _)| to < end).is_some() {}
            while arrivals.next_if(|(_, to, _)| to < end).is_some() {}
            match (arrivals.peek().filter(|(from, _, _)| from < end), writes.peek()) {
                (Some((_, _, at)), Some((_, written))) => {
                    outcome.since_sent.push(*at - *sent);
                    outcome.since_written.push(*at - *written);
                }
                _ => outcome.lost += 1,
            }
        }
        outcome.since_sent.sort_unstable();
        outcome.since_written.sort_unstable();
        outcome
    }
}

impl Outcome {
    /// Bit/s that came out.
    pub fn goodput(&self) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 { self.delivered as f64 * 8.0 / seconds } else { 0.0 }
    }

    /// Bytes on the wire, both ways, for each byte delivered, less that one; infinite if none was.
    pub fn overhead(&self) -> f64 {
        self.wire.iter().sum::<u64>() as f64 / self.delivered as f64 - 1.0
    }
}

/// A quantile of sorted times, zero if there is none.
pub fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_those_of_what_left_together() {
        let start = crate::run::origin();
        let ms = |n| start + Duration::from_millis(n);
        let mut ledger = Ledger::new(start);
        ledger.on_written(ms(0), 100);
        ledger.on_written(ms(10), 100);
        ledger.on_sent(ms(1), 60);
        ledger.on_sent(ms(11), 60);
        ledger.on_sent(ms(12), 80);
        // The second comes first, and the third never.
        ledger.on_delivered(ms(20), 60, 120);
        ledger.on_delivered(ms(30), 0, 60);
        let outcome = ledger.close(None);
        assert_eq!((outcome.segments, outcome.lost, outcome.delivered, outcome.is_complete), (3, 1, 120, false));
        let ms = Duration::from_millis;
        assert_eq!(outcome.since_sent, [ms(9), ms(29)]);
        assert_eq!(outcome.since_written, [ms(10), ms(30)]);
        assert_eq!((outcome.first, outcome.took), (Some(ms(20)), ms(30)));
        assert_eq!(outcome.goodput(), 32_000.0);
    }
}
