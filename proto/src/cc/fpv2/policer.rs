//! Somebody who drops what is more than he lets through. What he lets through has waited for nothing, so no queue tells of him, and busy pairs tell of
//! the line in front of him; what is lost is the only sign (as where BBR judges by its "long-term" bandwidth). Random loss, a fade and an outage have
//! the same sign for a while. So what arrives is a guess at the limit that has to prove right: if as much is lost below it, it was none.

use std::time::{Duration, Instant};

use crate::{Bitrate, ByteCount};

/// So much of a window is lost, and of so many packets at least.
const HEAVY: f64 = 0.3;
const LEAST: u64 = 20;
const WINDOW: Duration = Duration::from_millis(250);
/// In one that takes longer too little was sent to tell anything.
const LONGEST: Duration = Duration::from_secs(1);
/// In this many windows in a row, which is more than an outage lasts of which one would hear meanwhile.
const SUSPECTED: u32 = 8;
/// Of two windows, each this long after it was guessed, one has to be better; else it is not guessed again for so long.
const PROVED_AFTER: Duration = Duration::from_secs(1);
const DISPROVED: u32 = 2;
const NOT_AGAIN: Duration = Duration::from_secs(60);
/// A limit that proves right is one for so long.
const LASTS: Duration = Duration::from_secs(60);
/// More packets than these wait for something.
const LONG_QUEUE: Duration = Duration::from_millis(60);
/// What arrives says something of a limit only if at least this share of what might leave did; and the limit is no less than this share of it.
const OFFERED: f64 = 0.5;
const LEAST_SHARE: f64 = 0.1;

/// Looks for one.
#[derive(Debug, Default)]
pub(super) struct Policer {
    since: Option<Instant>,
    arrived: u64,
    lost: u64,
    offered: ByteCount,
    received: ByteCount,
    /// Windows in a row that lost much.
    heavy: u32,
    limit: Option<(Bitrate, Instant)>,
    /// None is guessed before then.
    not_before: Option<Instant>,
}

impl Policer {
    pub fn on_packet(&mut self, arrived: bool, bytes: ByteCount) {
        self.arrived += u64::from(arrived);
        self.lost += u64::from(!arrived);
        self.offered += bytes;
        if arrived {
            self.received += bytes;
        }
    }

    /// Time passes; so much might leave, as far as is known, and so long is the queue.
    pub fn poll(&mut self, now: Instant, capacity: Bitrate, queue: Duration) {
        self.limit = self.limit.filter(|(_, since)| now < *since + LASTS);
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        let total = self.arrived + self.lost;
        if passed < WINDOW || total < LEAST && passed < LONGEST {
            return;
        }
        let rate = |bytes| Bitrate::from_transfer(bytes, passed);
        let (offered, received) = (rate(self.offered), rate(self.received));
        let is_heavy = total >= LEAST && self.lost as f64 >= total as f64 * HEAVY && queue <= LONG_QUEUE;
        (self.since, self.arrived, self.lost) = (Some(now), 0, 0);
        (self.offered, self.received) = (ByteCount::ZERO, ByteCount::ZERO);
        match self.limit {
            // What left before it was guessed is no matter.
            Some((_, guessed)) if since < guessed + PROVED_AFTER => self.heavy = 0,
            Some(_) => {
                self.heavy = if is_heavy { self.heavy + 1 } else { 0 };
                if self.heavy >= DISPROVED {
                    (self.limit, self.heavy, self.not_before) = (None, 0, Some(now + NOT_AGAIN));
                }
            }
            None => {
                self.heavy = if is_heavy && offered >= capacity * OFFERED { self.heavy + 1 } else { 0 };
                if self.heavy >= SUSPECTED && self.not_before.is_none_or(|at| at <= now) {
                    (self.limit, self.heavy) = (Some((received.max(capacity * LEAST_SHARE), now)), 0);
                }
            }
        }
    }

    /// What he lets through, if there is one.
    pub fn limit(&self) -> Option<Bitrate> {
        self.limit.map(|(rate, _)| rate)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    const CAPACITY: Bitrate = Bitrate::mbps(12);
    const PACKET: ByteCount = ByteCount(1_250);
    const STEP: Duration = Duration::from_millis(10);

    /// A stretch of time: of so many packets each 10 ms, and so many of a hundred lost.
    struct Stretch {
        packets: u64,
        lost: u64,
        queue_ms: u64,
    }

    impl Policer {
        fn pass(&mut self, now: &mut Instant, time: Duration, stretch: &Stretch) {
            let until = *now + time;
            let mut count = 0;
            while *now < until {
                for _ in 0..stretch.packets {
                    count += 1;
                    self.on_packet(count * 37 % 100 >= stretch.lost, PACKET);
                }
                *now += STEP;
                self.poll(*now, CAPACITY, Duration::from_millis(stretch.queue_ms));
            }
        }
    }

    fn after(parts: &[(u64, u64, u64, u64)]) -> (Policer, Instant) {
        let (mut policer, mut now) = (Policer::default(), Instant::now());
        for (ms, packets, lost, queue_ms) in parts.iter().copied() {
            policer.pass(&mut now, Duration::from_millis(ms), &Stretch { packets, lost, queue_ms });
        }
        (policer, now)
    }

    #[test]
    fn who_drops_all_that_is_more_is_found_and_kept_to() {
        // 12 Mbit/s are sent, of which 4 arrive.
        let (mut policer, mut now) = after(&[(2_500, 12, 67, 0)]);
        let limit = policer.limit().expect("that is one");
        assert!((3.5..4.5).contains(&limit.as_mbps()), "{limit:?}");
        policer.pass(&mut now, Duration::from_secs(57), &Stretch { packets: 3, lost: 1, queue_ms: 0 });
        assert_eq!(policer.limit(), Some(limit), "as long as nothing is lost below it");
        policer.pass(&mut now, Duration::from_secs(4), &Stretch { packets: 3, lost: 1, queue_ms: 0 });
        assert_eq!(policer.limit(), None, "he may be gone: tried again");
    }

    #[test]
    fn what_is_lost_as_much_below_a_limit_was_none() {
        let (mut policer, mut now) = after(&[(2_500, 12, 50, 0)]);
        assert!(policer.limit().is_some());
        policer.pass(&mut now, Duration::from_millis(2_000), &Stretch { packets: 6, lost: 50, queue_ms: 0 });
        assert_eq!(policer.limit(), None);
        policer.pass(&mut now, Duration::from_secs(58), &Stretch { packets: 12, lost: 50, queue_ms: 0 });
        assert_eq!(policer.limit(), None, "not again for a minute");
    }

    #[test]
    fn nothing_else_is_one() {
        for (what, parts) in [
            ("random loss", &[(60_000, 12, 25, 0)][..]),
            ("a fade", &[(5_000, 12, 0, 0), (1_600, 12, 90, 0), (5_000, 12, 0, 0)]),
            ("the end of a long queue", &[(60_000, 12, 60, 61)]),
            ("little that is sent, and lost at random", &[(60_000, 1, 50, 0)]),
            ("too few packets", &[(60_000, 0, 0, 0)]),
        ] {
            assert_eq!(after(parts).0.limit(), None, "{what}");
        }
    }
}
