//! Whether the clock that reports carry can be one.

/// Reports overtake each other, and are held up on their way: within this a clock has not gone back, and has not leapt.
const TOLERATED_US: u64 = 1_000_000;
/// Where a connection begins behind seconds of others' packets, its first reports make the clock look late, and the next ones make it leap. So
/// many that leap alike are believed.
const ALIKE: u32 = 8;

/// A clock, as its reports show it.
#[derive(Debug, Default)]
pub(super) struct ReporterClock {
    /// What the newest report showed that was believed, unwrapped.
    newest_us: Option<u64>,
    /// The most that it was ahead of ours, as they are.
    ahead_us: i64,
    /// What it was ahead in a report that was not believed, and how many there were like it.
    leapt: Option<(i64, u32)>,
}

/// Why it cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Impossible {
    WentBack,
    Leapt,
}

impl ReporterClock {
    /// What it showed last; before the first report what `shown_us` is to be taken for: clocks begin anywhere, and half a wrap up keeps them
    /// positive.
    pub fn near_us(&self, shown_us: u32) -> u64 {
        self.newest_us.unwrap_or((1 << 33) + u64::from(shown_us))
    }

    /// A report that left at `clock_us` by it comes at `now_us` by ours.
    pub fn on_report(&mut self, clock_us: u64, now_us: u64) -> Result<(), Impossible> {
        let ahead_us = clock_us as i64 - now_us as i64;
        let Some(newest_us) = self.newest_us else {
            (self.newest_us, self.ahead_us) = (Some(clock_us), ahead_us);
            return Ok(());
        };
        if clock_us + TOLERATED_US < newest_us {
            return Err(Impossible::WentBack);
        }
        if ahead_us > self.ahead_us.saturating_add(TOLERATED_US as i64) {
            let alike = self.leapt.filter(|(before_us, _)| before_us.abs_diff(ahead_us) < TOLERATED_US);
            let (first_us, count) = alike.map_or((ahead_us, 1), |(first_us, count)| (first_us, count + 1));
            self.leapt = Some((first_us, count));
            if count < ALIKE {
                return Err(Impossible::Leapt);
            }
        }
        self.leapt = None;
        self.ahead_us = self.ahead_us.max(ahead_us);
        self.newest_us = Some(newest_us.max(clock_us));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_clock_that_runs_with_another_rate_behind_a_way_that_stands_is_believed() {
        let mut clock = ReporterClock::default();
        for n in 0..100_000u64 {
            let left_us = n * 10_000;
            // Half a minute in each ten the way holds everything back, and gives it out at once.
            let held_us = (left_us % (600 * SECOND)).checked_sub(570 * SECOND).map_or(0, |into| 30 * SECOND - into);
            let shown_us = 77 * SECOND + left_us + left_us / 2_500;
            assert_eq!(clock.on_report(shown_us, left_us + held_us + 20_000), Ok(()), "{n}");
        }
    }

    #[test]
    fn one_that_goes_back_is_not_until_it_has_caught_up() {
        let mut clock = ReporterClock::default();
        assert_eq!(clock.on_report(100 * SECOND, 0), Ok(()));
        assert_eq!(clock.on_report(99 * SECOND, 1), Ok(()), "overtaken");
        for n in 1..50 {
            assert_eq!(clock.on_report((99 - n) * SECOND, n * SECOND), Err(Impossible::WentBack), "{n}");
        }
        assert_eq!(clock.on_report(101 * SECOND, 50 * SECOND), Ok(()));
    }

    #[test]
    fn one_that_leaps_is_not_unless_it_stays_there() {
        let mut clock = ReporterClock::default();
        assert_eq!(clock.on_report(100 * SECOND, 0), Ok(()));
        for n in 1..20 {
            let leap = 100 + 7 * n * n;
            assert_eq!(clock.on_report(leap * SECOND, n * 10_000), Err(Impossible::Leapt), "{n}");
        }
        for n in 1..8 {
            assert_eq!(clock.on_report(5_000 * SECOND + n * 10_000, n * 10_000), Err(Impossible::Leapt), "{n}");
        }
        assert_eq!(clock.on_report(5_000 * SECOND + 80_000, 80_000), Ok(()));
        assert_eq!(clock.on_report(5_000 * SECOND + 90_000, 90_000), Ok(()));
    }
}
