//! Clocks of nodes, which run too fast or too slow.

use std::time::{Duration, Instant};

use crate::plan::Drift;

const SECOND: i128 = 1_000_000_000;

/// A node's clock: it is right at the start of the run.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    /// Nanoseconds that it counts in a second.
    pace: i128,
}

impl Clock {
    pub fn new(start: Instant, drift: Drift) -> Self {
        Self { start, pace: SECOND + i128::from(drift.ppb()) }
    }

    /// What it shows at a time.
    pub fn shown(&self, at: Instant) -> Instant {
        self.after(at, |nanos| nanos * self.pace / SECOND)
    }

    /// The first time at which it shows that.
    pub fn when(&self, shown: Instant) -> Instant {
        self.after(shown, |nanos| (nanos * SECOND + self.pace - 1) / self.pace)
    }

    fn after(&self, at: Instant, turn: impl FnOnce(i128) -> i128) -> Instant {
        let since = at.saturating_duration_since(self.start).as_nanos() as i128;
        if self.pace == SECOND || since == 0 {
            return at;
        }
        let turned = u64::try_from(turn(since)).ok().map(Duration::from_nanos);
        turned.and_then(|turned| self.start.checked_add(turned)).unwrap_or(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::origin;

    #[test]
    fn a_clock_that_drifts_is_fast_or_slow_and_deadlines_are_met_to_the_nanosecond() {
        let start = origin();
        let minute = start + Duration::from_secs(60);
        for (drift, shown) in [("200 ppm", 60_012_000_000), ("-200 ppm", 59_988_000_000), ("0 ppm", 60_000_000_000)] {
            let clock = Clock::new(start, drift.parse().unwrap());
            assert_eq!(clock.shown(minute) - start, Duration::from_nanos(shown), "{drift}");
            for nanos in [0, 1, 4_999, 5_000, 5_001, 1_234_567_890, shown] {
                let (wanted, tick) = (start + Duration::from_nanos(nanos), Duration::from_nanos(1));
                let when = clock.when(wanted);
                assert!(clock.shown(when) >= wanted, "{drift}: {nanos}");
                assert!(when == start || clock.shown(when - tick) < wanted, "{drift}: {nanos}");
            }
        }
    }
}
