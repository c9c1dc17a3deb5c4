//! How late word of a bearer may be before the bearer is given up: later than it has been for naught.
//!
//! On a line a report that is 10 ms late will not come. A cell pauses for longer each second, and who left it each time would never
//! have a picture. So what word was late by, and came after all, is remembered.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::bearer::OVERDUE;
use crate::cc::minimum::Minimum;

/// Pauses of the last one to two of these count.
const SPAN: Duration = Duration::from_secs(15);
/// This many times the longest.
const MARGIN: f64 = 1.25;
/// What was longer was no pause: the bearer was gone.
const LONGEST: Duration = Duration::from_millis(120);

/// Of one bearer.
#[derive(Debug)]
pub(super) struct Pauses {
    longest: Minimum<Reverse<Duration>>,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { longest: Minimum::new(SPAN) }
    }
}

impl Pauses {
    /// Word has come, so late.
    pub fn on_word(&mut self, now: Instant, overdue: Duration) {
        if overdue <= LONGEST {
            self.longest.update(now, Reverse(overdue));
        }
    }

    /// Word that is later than this will most likely not come.
    pub fn patience(&self) -> Duration {
        let longest = self.longest.value().map_or(Duration::ZERO, |Reverse(longest)| longest);
        longest.mul_f64(MARGIN).max(OVERDUE)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_that_pauses_is_waited_for_and_one_that_was_gone_is_not() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut pauses = Pauses::default();
        assert_eq!(pauses.patience(), OVERDUE);
        [3, 40, 8].into_iter().for_each(|late| pauses.on_word(start, ms(late)));
        assert_eq!(pauses.patience(), ms(50));
        pauses.on_word(start + ms(900), ms(4_000));
        assert_eq!(pauses.patience(), ms(50), "that was an outage");
        pauses.on_word(start + SPAN, ms(2));
        assert_eq!(pauses.patience(), ms(50), "not forgotten yet");
        pauses.on_word(start + 2 * SPAN, ms(2));
        assert_eq!(pauses.patience(), OVERDUE);
    }
}
