//! Whether the clock that reports carry can be one.

/// Reports overtake each other, and are held up on their way: within this a clock has not gone back, and has not leapt.
const TOLERATED_US: u64 = 1_000_000;
/// Where a connection begins behind seconds of others' packets, its first reports make the clock look late, and the next ones make it leap. So
/// many that leap alike are believed.
const ALIKE: u32 = 8;
/// One that stood for a while and goes on, as that of a computer that slept, falls behind by as much from then on: believed after this time.
const GOES_ON_US: u64 = 3_000_000;
/// And by no more than that much meanwhile, beyond what its reports take.
const GOES_ON_WITHIN_US: u64 = 50_000;
/// Two clocks differ by less than this share of the time that passes: by twenty times less, if they are no worse than those of computers.
const DRIFT: f64 = 0.002;

/// A clock, as its reports show it.
#[derive(Debug, Default)]
pub(super) struct ReporterClock {
    /// What the newest report showed that was believed, unwrapped.
    newest_us: Option<u64>,
    /// What it was ahead of ours at first, or after it leapt and stayed there, and when, by ours.
    ahead: (i64, u64),
    /// What it was ahead in a report that was not believed, and how many there were like it.
    leapt: Option<(i64, u32)>,
    /// What it was ahead in a report that was not believed since it had fallen behind, and when that came.
    behind: Option<(i64, u64)>,
}

/// Why it cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Impossible {
    WentBack,
    Leapt,
    FellBehind,
}

impl ReporterClock {
    /// What it showed last; before the first report what `shown_us` is to be taken for: clocks begin anywhere, and half a wrap up keeps them
    /// positive.
    pub fn near_us(&self, shown_us: u32) -> u64 {
        self.newest_us.unwrap_or((1 << 33) + u64::from(shown_us))
    }

    /// A report that left at `clock_us` by it comes at `now_us` by ours. It has taken `took_us` at most: so long ago left what it tells of.
    pub fn on_report(&mut self, clock_us: u64, now_us: u64, took_us: Option<u64>) -> Result<(), Impossible> {
        let ahead_us = clock_us as i64 - now_us as i64;
        let Some(newest_us) = self.newest_us else {
            (self.newest_us, self.ahead) = (Some(clock_us), (ahead_us, now_us));
            return Ok(());
        };
        if clock_us + TOLERATED_US < newest_us {
            return Err(Impossible::WentBack);
        }
        let (before_us, since_us) = self.ahead;
        let drift_us = (now_us.saturating_sub(since_us) as f64 * DRIFT) as u64;
        let differs_us = before_us.abs_diff(ahead_us).saturating_sub(TOLERATED_US + drift_us);
        if ahead_us > before_us && differs_us > 0 {
            self.leaps(ahead_us, now_us)?;
        }
        if let Some(took_us) = took_us
            && ahead_us < before_us
        {
            match differs_us > took_us {
                true if clock_us < newest_us => return Err(Impossible::WentBack),
                true => self.falls_behind(ahead_us, now_us, took_us)?,
                false => self.behind = None,
            }
        }
        self.leapt = None;
        self.newest_us = Some(newest_us.max(clock_us));
        Ok(())
    }

    fn leaps(&mut self, ahead_us: i64, now_us: u64) -> Result<(), Impossible> {
        let alike = self.leapt.filter(|(before_us, _)| before_us.abs_diff(ahead_us) < TOLERATED_US);
        let (first_us, count) = alike.map_or((ahead_us, 1), |(first_us, count)| (first_us, count + 1));
        self.leapt = Some((first_us, count));
        if count < ALIKE {
            return Err(Impossible::Leapt);
        }
        self.ahead = (ahead_us, now_us);
        Ok(())
    }

    fn falls_behind(&mut self, ahead_us: i64, now_us: u64, took_us: u64) -> Result<(), Impossible> {
        let goes_on = |(first_us, _): &(i64, u64)| first_us.abs_diff(ahead_us) < GOES_ON_WITHIN_US + took_us;
        let (first_us, since_us) = self.behind.filter(goes_on).unwrap_or((ahead_us, now_us));
        self.behind = Some((first_us, since_us));
        if now_us.saturating_sub(since_us) < GOES_ON_US {
            return Err(Impossible::FellBehind);
        }
        (self.ahead, self.behind) = ((ahead_us, now_us), None);
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
            assert_eq!(clock.on_report(shown_us, left_us + held_us + 20_000, Some(held_us + 40_000)), Ok(()), "{n}");
        }
    }

    #[test]
    fn one_that_goes_back_is_not_until_it_has_caught_up() {
        let mut clock = ReporterClock::default();
        assert_eq!(clock.on_report(100 * SECOND, 0, None), Ok(()));
        assert_eq!(clock.on_report(99 * SECOND, 1, None), Ok(()), "overtaken");
        for n in 1..50 {
            assert_eq!(clock.on_report((99 - n) * SECOND, n * SECOND, None), Err(Impossible::WentBack), "{n}");
        }
        assert_eq!(clock.on_report(101 * SECOND, 50 * SECOND, None), Ok(()));
    }

    #[test]
    fn one_that_is_too_quick_to_be_a_clock_leaps_again_and_again() {
        let mut clock = ReporterClock::default();
        let mut leaps = 0;
        for n in 0..3_000u64 {
            leaps += u32::from(clock.on_report(77 * SECOND + n * 15_000, n * 10_000, None).is_err());
        }
        // Half a second more each second: a second every two, and seven reports until it is believed.
        assert_eq!(leaps, 14 * 7);
    }

    #[test]
    fn one_that_leaps_is_not_unless_it_stays_there() {
        let mut clock = ReporterClock::default();
        assert_eq!(clock.on_report(100 * SECOND, 0, None), Ok(()));
        for n in 1..20 {
            let leap = 100 + 7 * n * n;
            assert_eq!(clock.on_report(leap * SECOND, n * 10_000, None), Err(Impossible::Leapt), "{n}");
        }
        for n in 1..8 {
            assert_eq!(clock.on_report(5_000 * SECOND + n * 10_000, n * 10_000, None), Err(Impossible::Leapt), "{n}");
        }
        assert_eq!(clock.on_report(5_000 * SECOND + 80_000, 80_000, None), Ok(()));
        assert_eq!(clock.on_report(5_000 * SECOND + 90_000, 90_000, None), Ok(()));
    }

    #[test]
    fn one_that_is_too_slow_falls_behind_and_is_not_believed_again() {
        for (tenths, believed) in [(1, 119), (9, 1082)] {
            let mut clock = ReporterClock::default();
            let ok = (0..6_000u64)
                .filter(|n| clock.on_report(77 * SECOND + n * 1_000 * tenths, n * 10_000, Some(60_000)).is_ok());
            // A second and what the report may have taken, at a tenth less each second or nine.
            assert!(ok.count().abs_diff(believed) < 3, "{tenths}");
        }
    }

    #[test]
    fn one_that_stood_for_a_while_is_believed_once_it_goes_on() {
        let mut clock = ReporterClock::default();
        assert_eq!(clock.on_report(100 * SECOND, 0, Some(60_000)), Ok(()));
        // What a report took is not known where it tells of nothing.
        assert_eq!(clock.on_report(100 * SECOND, 60 * SECOND, None), Ok(()));
        let mut goes_on = |n: u64| clock.on_report(100 * SECOND + n * 10_000, 60 * SECOND + n * 10_000, Some(60_000));
        (0..300).for_each(|n| assert_eq!(goes_on(n), Err(Impossible::FellBehind), "{n}"));
        (300..900).for_each(|n| assert_eq!(goes_on(n), Ok(()), "{n}"));
    }
}
