//! Words of our own, which are receipts, signs of life, and reports of what is little: how long they wait for something to go with.
//!
//! As they come they are 30 kbit/s in packets of their own, most of which is headers. On a trickle that would be what it is full of, with
//! commands behind it. RTCP takes a twentieth of a session for the same reason (RFC 3550 §6.2).

use std::time::{Duration, Instant};

use crate::{Bitrate, ByteCount};

/// Where less is carried, they take this share of it, if each is of so many bytes with all around it.
const TRICKLE: Bitrate = Bitrate::kbps(300);
const SHARE: f64 = 0.05;
const WORD: ByteCount = ByteCount(100);
/// Whoever hears less often than this knows too little.
const LONGEST: Duration = Duration::from_millis(250);

/// Where nobody has found out what is carried, a queue of more than this tells as much, for so long.
const LONG_QUEUE: Duration = Duration::from_millis(200);
const MEMORY: Duration = Duration::from_secs(10);

/// Of one bearer.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// The network's queue was long.
    long_queue: Option<Instant>,
}

impl Words {
    /// The network's queue is this long.
    pub fn on_queue(&mut self, now: Instant, queue: Duration) {
        if queue > LONG_QUEUE {
            self.long_queue = Some(now);
        }
    }

    /// How long they wait where so much is carried (zero: nobody knows); zero if they leave as they come.
    pub fn delay(&self, now: Instant, carried: Bitrate) -> Duration {
        if self.long_queue.is_some_and(|at| now.saturating_duration_since(at) < MEMORY) {
            return LONGEST;
        }
        match carried > Bitrate::ZERO && carried < TRICKLE {
            true => (carried * SHARE).time_for(WORD).min(LONGEST),
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    #[test]
    fn they_wait_on_a_trickle_and_nowhere_else() {
        let (start, mut words) = (Instant::now(), Words::default());
        let of = |words: &Words, kbps| words.delay(start, Bitrate::kbps(kbps)).as_millis();
        assert_eq!([5_000, 300, 0].map(|kbps| of(&words, kbps)), [0; 3]);
        assert_eq!([250, 160, 100, 64, 30].map(|kbps| of(&words, kbps)), [64, 100, 160, 250, 250]);
        assert_eq!(words.delay(start, Bitrate(1)), LONGEST);
        words.on_queue(start, LONG_QUEUE);
        assert_eq!(words.delay(start, Bitrate(u64::MAX)), Duration::ZERO);
        words.on_queue(start, Duration::MAX);
        words.on_queue(start + MEMORY / 2, Duration::ZERO);
        let later = start + MEMORY;
        assert_eq!(words.delay(later - Duration::from_millis(1), Bitrate::mbps(5)), LONGEST);
        assert_eq!(words.delay(later, Bitrate::mbps(5)), Duration::ZERO);
    }
}
