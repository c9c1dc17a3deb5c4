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
/// Clocks are set once in a while, and not again within this time: whoever believes a new one begins anew.
const SET_AGAIN_US: u64 = 10_000_000;
/// Two clocks differ by less than this share of the time that passes: by twenty times less, if they are no worse than those of computers.
const DRIFT: f64 = 0.002;

/// A clock, as its reports show it.
#[derive(Debug, Default)]
pub(super) struct ReporterClock {
    /// What the newest report showed that was believed, unwrapped.
    newest_us: Option<u64>,
    /// What it is ahead of ours.
    ahead: Option<Ahead>,
    /// What it was ahead in a report that was not believed, and how many there were like it.
    leapt: Option<(i64, u32)>,
    /// What it was ahead in a report that was not believed since it had fallen behind, and when that came.
    behind: Option<(i64, u64)>,
    /// When it was another one last.
    set_us: Option<u64>,
}

/// Why it cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Impossible {
    WentBack,
    Leapt,
    FellBehind,
}

/// What a clock is ahead of ours: so much at least, and at most, each as a report showed and with when it came. A report that came at once shows the
/// least of it, one that left as early as it can have the most.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    least: (i64, u64),
    most: (i64, u64),
}

impl Ahead {
    fn new(shown_us: i64, took_us: u64, now_us: u64) -> Self {
        Self { least: (shown_us, now_us), most: (shown_us.saturating_add_unsigned(took_us), now_us) }
    }

    /// The least, as it may be by now.
    fn least_us(&self, now_us: u64) -> i64 {
        self.least.0 - drift(self.least.1, now_us)
    }

    /// The most, likewise.
    fn most_us(&self, now_us: u64) -> i64 {
        self.most.0 + drift(self.most.1, now_us)
    }

    /// What this one does not allow of another: less than the least, or more than the most, beyond what clocks that differ do.
    fn excess(&self, other: Self, now_us: u64) -> (u64, u64) {
        let beyond = |more_us: i64, than_us: i64| more_us.saturating_sub(than_us).max(0) as u64;
        (beyond(self.least_us(now_us), other.most.0), beyond(other.least.0, self.most_us(now_us)))
    }

    /// Another is believed.
    fn narrow(&mut self, other: Self, now_us: u64) {
        if other.least.0 >= self.least_us(now_us) {
            self.least = other.least;
        }
        if other.most.0 <= self.most_us(now_us) {
            self.most = other.most;
        }
    }
}

fn drift(since_us: u64, now_us: u64) -> i64 {
    (now_us.saturating_sub(since_us) as f64 * DRIFT) as i64
}

impl ReporterClock {
    /// Whether what left at `sent_us` by our clock, and of which a report tells at `now_us`, can have arrived at `arrived_us` by the reporter's: not
    /// before it left.
    pub fn can_have_arrived(&self, arrived_us: u64, sent_us: u64, now_us: u64) -> bool {
        let took_us = (arrived_us as i64).saturating_sub_unsigned(sent_us);
        self.ahead.is_none_or(|ahead| took_us.saturating_add(TOLERATED_US as i64) >= ahead.least_us(now_us))
    }

    /// What it showed last; before the first report what `shown_us` is to be taken for: clocks begin anywhere, and half a wrap up keeps them
    /// positive.
    pub fn near_us(&self, shown_us: u32) -> u64 {
        self.newest_us.unwrap_or((1 << 33) + u64::from(shown_us))
    }

    /// A report that left at `clock_us` by it comes at `now_us` by ours. It has taken `took_us` at most: so long ago left what it tells of; `None`
    /// if it tells of nothing. Gives whether this is another clock than until now, which is believed by now.
    pub fn on_report(&mut self, clock_us: u64, now_us: u64, took_us: Option<u64>) -> Result<bool, Impossible> {
        let newest_us = self.newest_us.unwrap_or(clock_us);
        let went_back = clock_us + TOLERATED_US < newest_us;
        let Some(took_us) = took_us else {
            self.newest_us = Some(newest_us.max(clock_us));
            return if went_back { Err(Impossible::WentBack) } else { Ok(false) };
        };
        let shown_us = clock_us as i64 - now_us as i64;
        let other = Ahead::new(shown_us, took_us, now_us);
        let ahead = *self.ahead.get_or_insert(other);
        let (less_us, more_us) = ahead.excess(other, now_us);
        let is_another = match () {
            () if went_back || less_us > TOLERATED_US => {
                let fault = if clock_us < newest_us { Impossible::WentBack } else { Impossible::FellBehind };
                self.goes_on(shown_us, now_us, took_us, fault)?
            }
            () if more_us > TOLERATED_US => self.leaps(shown_us)?,
            () => false,
        };
        if is_another && self.set_us.is_some_and(|set_us| now_us.saturating_sub(set_us) < SET_AGAIN_US) {
            return Err(if more_us > TOLERATED_US { Impossible::Leapt } else { Impossible::FellBehind });
        }
        if is_another {
            self.set_us = Some(now_us);
        }
        (self.leapt, self.behind) = (None, None);
        match &mut self.ahead {
            Some(ahead) if !is_another => ahead.narrow(other, now_us),
            ahead => *ahead = Some(other),
        }
        self.newest_us = Some(if is_another { clock_us } else { newest_us.max(clock_us) });
        Ok(is_another)
    }

    /// Whether it is believed.
    fn leaps(&mut self, shown_us: i64) -> Result<bool, Impossible> {
        let alike = self.leapt.filter(|(before_us, _)| before_us.abs_diff(shown_us) < TOLERATED_US);
        let (first_us, count) = alike.map_or((shown_us, 1), |(first_us, count)| (first_us, count + 1));
        self.leapt = Some((first_us, count));
        if count < ALIKE { Err(Impossible::Leapt) } else { Ok(true) }
    }

    /// One that went back, or fell behind. Whether it is believed.
    fn goes_on(&mut self, shown_us: i64, now_us: u64, took_us: u64, fault: Impossible) -> Result<bool, Impossible> {
        let goes_on = |(first_us, _): &(i64, u64)| first_us.abs_diff(shown_us) < GOES_ON_WITHIN_US + took_us;
        let (first_us, since_us) = self.behind.filter(goes_on).unwrap_or((shown_us, now_us));
        self.behind = Some((first_us, since_us));
        if now_us.saturating_sub(since_us) < GOES_ON_US { Err(fault) } else { Ok(true) }
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
            assert_eq!(clock.on_report(shown_us, left_us + held_us + 20_000, Some(held_us + 40_000)), Ok(false), "{n}");
        }
    }

    #[test]
    fn one_that_goes_back_is_not_until_it_has_caught_up() {
        let mut clock = ReporterClock::default();
        assert_eq!(clock.on_report(100 * SECOND, 0, None), Ok(false));
        assert_eq!(clock.on_report(99 * SECOND, 1, None), Ok(false), "overtaken");
        for n in 1..50 {
            assert_eq!(clock.on_report((99 - n) * SECOND, n * SECOND, None), Err(Impossible::WentBack), "{n}");
        }
        assert_eq!(clock.on_report(101 * SECOND, 50 * SECOND, None), Ok(false));
    }

    #[test]
    fn one_that_is_too_quick_to_be_a_clock_is_believed_once_in_ten_seconds() {
        let mut clock = ReporterClock::default();
        let mut believed = Vec::new();
        for n in 0..3_000u64 {
            // Half a second more each second: a second every two.
            let told = clock.on_report(77 * SECOND + n * 15_000, n * 10_000, Some(60_000));
            believed.extend((told == Ok(true)).then_some(n / 100));
        }
        assert_eq!(believed, [2, 12, 22], "as another clock, which is set no more often than that");
    }

    #[test]
    fn one_that_leaps_is_not_unless_it_stays_there() {
        let mut clock = ReporterClock::default();
        assert_eq!(clock.on_report(100 * SECOND, 0, Some(60_000)), Ok(false));
        for n in 1..20 {
            let leap = 100 + 7 * n * n;
            assert_eq!(clock.on_report(leap * SECOND, n * 10_000, Some(60_000)), Err(Impossible::Leapt), "{n}");
        }
        for n in 1..8 {
            assert_eq!(
                clock.on_report(5_000 * SECOND + n * 10_000, n * 10_000, Some(60_000)),
                Err(Impossible::Leapt),
                "{n}"
            );
        }
        assert_eq!(clock.on_report(5_000 * SECOND + 80_000, 80_000, Some(60_000)), Ok(true));
        assert_eq!(clock.on_report(5_000 * SECOND + 90_000, 90_000, Some(60_000)), Ok(false));
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
        assert_eq!(clock.on_report(100 * SECOND, 0, Some(60_000)), Ok(false));
        // What a report took is not known where it tells of nothing.
        assert_eq!(clock.on_report(100 * SECOND, 60 * SECOND, None), Ok(false));
        let mut goes_on = |n: u64| clock.on_report(100 * SECOND + n * 10_000, 60 * SECOND + n * 10_000, Some(60_000));
        (0..300).for_each(|n| assert_eq!(goes_on(n), Err(Impossible::FellBehind), "{n}"));
        assert_eq!(goes_on(300), Ok(true), "as another clock");
        (301..900).for_each(|n| assert_eq!(goes_on(n), Ok(false), "{n}"));
    }

    #[test]
    fn one_that_began_behind_what_others_sent_has_not_leapt_while_that_drains() {
        for (late_us, drains) in [(3 * SECOND, 0.2), (8 * SECOND, 0.5), (30 * SECOND, 1.0)] {
            let mut clock = ReporterClock::default();
            for n in 0..10_000u64 {
                let left_us = n * 10_000;
                let late_us = late_us.saturating_sub((left_us as f64 * drains) as u64);
                let told = clock.on_report(77 * SECOND + left_us, left_us + late_us + 20_000, Some(late_us + 40_000));
                assert_eq!(told, Ok(false), "{n} of {late_us} {drains}");
            }
        }
    }

    #[test]
    fn an_hour_is_no_excuse_for_a_leap() {
        let mut clock = ReporterClock::default();
        for n in 0..36_000u64 {
            assert_eq!(clock.on_report(n * 100_000, n * 100_000 + 20_000, Some(60_000)), Ok(false), "{n}");
        }
        assert_eq!(clock.on_report(3_602 * SECOND, 3_600 * SECOND, Some(60_000)), Err(Impossible::Leapt));
        assert_eq!(clock.on_report(3_601 * SECOND, 3_603 * SECOND, Some(60_000)), Err(Impossible::FellBehind));
    }
}
