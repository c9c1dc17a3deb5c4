//! Words of our own, which are receipts, signs of life, and reports of what is little: how long they wait for something to go with.
//!
//! As they come they are 30 kbit/s in packets of their own, most of which is headers. On a trickle that would be what it is full of, with
//! commands behind it. RTCP takes a twentieth of a session for the same reason (RFC 3550 §6.2).

use std::time::{Duration, Instant};

use crate::{Bitrate, ByteCount};

/// A trickle is where less has left of late, and no more is carried, or nobody knows and the network's queue is long, or was.
const TRICKLE: Bitrate = Bitrate::kbps(300);
const LATELY: Duration = Duration::from_secs(3);
const LONG_QUEUE: Duration = Duration::from_millis(200);
const MEMORY: Duration = Duration::from_secs(10);
/// Of what is carried they take this share, if each is of so many bytes with all around it.
const SHARE: f64 = 0.05;
const WORD: ByteCount = ByteCount(100);
/// Whoever hears less often than this knows too little.
const LONGEST: Duration = Duration::from_millis(250);

/// Of one bearer.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// When what has left was last looked at, and how many bytes that were since the beginning.
    looked: Option<(Instant, u64)>,
    /// Little has left lately.
    is_little: bool,
    /// The network's queue was long.
    long_queue: Option<Instant>,
}

impl Words {
    /// So many bytes have left since the beginning, and the network's queue is this long.
    pub fn update(&mut self, now: Instant, bytes_out: u64, queue: Duration) {
        let (since, before) = *self.looked.get_or_insert((now, bytes_out));
        let elapsed = now.saturating_duration_since(since);
        let left = bytes_out.saturating_sub(before);
        if left > TRICKLE.bytes_in(LATELY).0 {
            (self.looked, self.is_little) = (Some((now, bytes_out)), false);
        } else if elapsed >= LATELY {
            (self.looked, self.is_little) = (Some((now, bytes_out)), left < TRICKLE.bytes_in(elapsed).0);
        }
        if queue > LONG_QUEUE {
            self.long_queue = Some(now);
        }
    }

    /// How long they wait where so much is carried (zero: nobody knows), and what has left waits in the network, if `all_waits`; zero if they
    /// leave as they come.
    pub fn delay(&self, now: Instant, carried: Bitrate, all_waits: bool) -> Duration {
        let was_long = self.long_queue.is_some_and(|at| now.saturating_duration_since(at) < MEMORY);
        let is_slow = carried > Bitrate::ZERO && carried < TRICKLE;
        match (self.is_little, is_slow, was_long || all_waits) {
            (true, true, false) => (carried * SHARE).time_for(WORD).min(LONGEST),
            (true, _, true) => LONGEST,
            (true, false, false) | (false, ..) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    /// After `seconds` in which so much has left.
    fn after(words: &mut Words, from: Instant, seconds: u64, left: Bitrate, queue: Duration) -> Instant {
        for tenth in 0..=10 * seconds {
            let time = Duration::from_millis(100 * tenth);
            words.update(from + time, left.bytes_in(time).0, queue);
        }
        from + Duration::from_secs(seconds)
    }

    #[test]
    fn they_wait_where_little_leaves_and_no_more_is_carried() {
        let mut words = Words::default();
        let of = |words: &Words, now, kbps| words.delay(now, Bitrate::kbps(kbps), false).as_millis();
        let now = after(&mut words, Instant::now(), 1, Bitrate::kbps(40), Duration::ZERO);
        assert_eq!(of(&words, now, 100), 0, "not known yet");
        let now = after(&mut words, now, 4, Bitrate::kbps(40), Duration::ZERO);
        assert_eq!([5_000, 300, 0].map(|kbps| of(&words, now, kbps)), [0; 3]);
        assert_eq!([250, 160, 100, 64, 30].map(|kbps| of(&words, now, kbps)), [64, 100, 160, 250, 250]);
        assert_eq!(words.delay(now, Bitrate(1), false), LONGEST);
        assert_eq!(words.delay(now, Bitrate::mbps(5), true), LONGEST, "what has left waits");
        // A link that has carried more until now pauses, or carries less at this moment.
        words.update(now, 1 << 30, Duration::ZERO);
        assert_eq!(of(&words, now, 100), 0);
        assert_eq!(words.delay(now, Bitrate::kbps(100), true), Duration::ZERO);
        assert_eq!(words.delay(now, Bitrate(u64::MAX), false), Duration::ZERO);
    }

    #[test]
    fn a_long_queue_before_which_little_leaves_is_remembered() {
        let mut words = Words::default();
        let now = after(&mut words, Instant::now(), 4, Bitrate::kbps(40), Duration::MAX);
        assert_eq!(words.delay(now, Bitrate::mbps(5), false), LONGEST);
        let later = after(&mut words, now, 9, Bitrate::kbps(40), Duration::ZERO);
        assert_eq!(words.delay(later, Bitrate::ZERO, false), LONGEST);
        let later = after(&mut words, now, 10, Bitrate::kbps(40), LONG_QUEUE);
        assert_eq!(words.delay(later, Bitrate::ZERO, false), Duration::ZERO);
        let mut words = Words::default();
        let now = after(&mut words, now, 4, Bitrate::mbps(2), Duration::MAX);
        assert_eq!(words.delay(now, Bitrate::kbps(700), false), Duration::ZERO, "it is no trickle");
    }
}
