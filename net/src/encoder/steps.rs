//! When an encoder is told another rate. Most do not like to be told often: some write it to flash each time, some begin a
//! new sequence, all take some frames to follow. What the link wants changes many times a second.

use std::time::{Duration, Instant};

use aquila_proto::Bitrate;

/// How often and by how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StepConfig {
    /// Between a rate and a lower one.
    pub down_after: Duration,
    /// Between a rate and a higher one.
    pub up_after: Duration,
    /// A lower rate is not worth a step unless it is lower by this share.
    pub down_share: f64,
    /// Nor a higher one unless it is higher by this.
    pub up_share: f64,
    /// Steps in any hour; when they are used up, only downward ones are made, and at a quarter of the pace.
    pub an_hour: u32,
    /// After a step to half or less it makes so many times what it was told ...
    pub overshoot: f64,
    /// ... for this long, in which it is told as much less.
    pub settles: Duration,
}

/// What was told, if it is not what is wanted.
#[derive(Debug)]
struct Settling {
    until: Instant,
    /// The rate before.
    from: Bitrate,
}

/// The rate that was told, and the one that is wanted.
#[derive(Debug)]
pub(super) struct Steps {
    config: StepConfig,
    told: Option<(Instant, Bitrate)>,
    wanted: Option<Bitrate>,
    /// Begin of the hour that is counted, and steps in it.
    hour: Option<(Instant, u32)>,
    settling: Option<Settling>,
}

/// A step by less than this factor is followed well by all.
const SMALL: f64 = 1.25;
const HOUR: Duration = Duration::from_secs(3600);

impl Steps {
    pub fn new(config: StepConfig) -> Self {
        Self { config, told: None, wanted: None, hour: None, settling: None }
    }

    /// The link wants another rate.
    pub fn want(&mut self, rate: Bitrate) {
        self.wanted = Some(rate);
    }

    /// When to ask [`Steps::poll`] again, if nothing else happens.
    pub fn due(&self) -> Option<Instant> {
        self.step_due().into_iter().chain(self.settling.as_ref().map(|settling| settling.until)).min()
    }

    fn step_due(&self) -> Option<Instant> {
        let (wanted, (at, told)) = (self.wanted?, self.told?);
        let due = at + self.pause(wanted < told);
        // What is about the same waits until it has calmed down.
        let ratio = wanted.0 as f64 / told.0.max(1) as f64;
        let about_the_same = (1.0 / SMALL..SMALL).contains(&ratio);
        let settling = self.settling.as_ref().filter(|_| about_the_same);
        let due = settling.map_or(due, |settling| due.max(settling.until));
        self.is_worth_it(wanted, told).then_some(due)
    }

    /// The rate to tell now, if it is time. It counts as told.
    pub fn poll(&mut self, now: Instant) -> Option<Bitrate> {
        let wanted = self.wanted?;
        if let Some((_, told)) = self.told
            && self.step_due().is_none_or(|due| now < due)
        {
            // It has calmed down, and is told what was wanted in the first place.
            self.settling.take_if(|settling| settling.until <= now)?;
            return Some(told);
        }
        let hour = self.hour.filter(|(begin, _)| now.saturating_duration_since(*begin) < HOUR);
        let (begin, count) = hour.unwrap_or((now, 0));
        self.hour = Some((begin, count + 1));
        let before = self.told.replace((now, wanted)).map(|(_, told)| told);
        // While it settles, it has not come far from where it was.
        let settling = self.settling.take().filter(|settling| now < settling.until);
        let Some(from) = settling.map(|settling| settling.from).or(before) else { return Some(wanted) };
        let told = wanted * self.overshoot(from, wanted).recip();
        self.settling = (told != wanted).then(|| Settling { until: now + self.config.settles, from });
        Some(told)
    }

    /// Another encoder is there, which has been told nothing.
    pub fn forget(&mut self) {
        (self.told, self.settling) = (None, None);
    }

    /// The encoder did not hear it: it is to be told again.
    pub fn on_failure(&mut self) {
        self.settling = None;
        if let Some((_, told)) = &mut self.told {
            // As far away as can be, so that it is worth a step.
            *told = Bitrate(u64::MAX);
        }
    }

    /// What it makes over what it is told, at first, if it goes from one rate to another.
    fn overshoot(&self, from: Bitrate, to: Bitrate) -> f64 {
        // Not after a failure: then it is not known where it is.
        let ratio = if from.0 == u64::MAX { 1.0 } else { from.0 as f64 / to.0.max(1) as f64 };
        // Small steps are followed well.
        if ratio < SMALL { 1.0 } else { 1.0 + (self.config.overshoot - 1.0) * (ratio - 1.0).min(1.0) }
    }

    fn is_worth_it(&self, wanted: Bitrate, told: Bitrate) -> bool {
        let (wanted, told) = (wanted.0 as f64, told.0 as f64);
        wanted <= told * (1.0 - self.config.down_share) || wanted >= told * (1.0 + self.config.up_share)
    }

    fn pause(&self, is_down: bool) -> Duration {
        let used_up = self.hour.is_some_and(|(_, count)| count >= self.config.an_hour);
        match (is_down, used_up) {
            (true, false) => self.config.down_after,
            (true, true) => self.config.down_after * 4,
            (false, false) => self.config.up_after,
            (false, true) => HOUR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: StepConfig = StepConfig {
        down_after: Duration::from_secs(1),
        up_after: Duration::from_secs(5),
        down_share: 0.1,
        up_share: 0.2,
        an_hour: 4,
        overshoot: 1.0,
        settles: Duration::ZERO,
    };

    fn kbps(kbps: u64) -> Bitrate {
        Bitrate(kbps * 1000)
    }

    #[test]
    fn down_soon_up_late_and_not_for_little() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut steps = Steps::new(CONFIG);
        assert_eq!((steps.poll(start), steps.due()), (None, None));
        steps.want(kbps(1000));
        assert_eq!(steps.poll(start), Some(kbps(1000)));
        steps.want(kbps(910));
        assert_eq!((steps.poll(at(60_000)), steps.due()), (None, None), "too little");
        steps.want(kbps(900));
        assert_eq!(steps.due(), Some(at(1_000)));
        assert_eq!((steps.poll(at(999)), steps.poll(at(1_000))), (None, Some(kbps(900))));
        steps.want(kbps(2000));
        assert_eq!((steps.poll(at(5_999)), steps.poll(at(6_000))), (None, Some(kbps(2000))));
    }

    #[test]
    fn an_hour_has_so_many_steps_and_the_way_down_stays_open() {
        let start = Instant::now();
        let mut steps = Steps::new(CONFIG);
        let mut told = 0;
        for second in 0..3600 {
            steps.want(if second % 12 < 6 { kbps(1000) } else { kbps(3000) });
            told += u32::from(steps.poll(start + Duration::from_secs(second)).is_some());
        }
        assert!((4..=5).contains(&told), "{told}");
        steps.want(kbps(100));
        assert!(steps.poll(start + Duration::from_secs(3599)).is_some());
    }

    #[test]
    fn what_was_not_heard_is_told_again() {
        let start = Instant::now();
        let mut steps = Steps::new(CONFIG);
        steps.want(kbps(500));
        assert!(steps.poll(start).is_some());
        steps.on_failure();
        assert_eq!(steps.poll(start + CONFIG.down_after), Some(kbps(500)));
    }

    #[test]
    fn an_encoder_that_overshoots_is_asked_for_less_until_it_has_calmed_down() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let config = StepConfig { overshoot: 2.0, settles: Duration::from_millis(200), an_hour: 40, ..CONFIG };
        let mut steps = Steps::new(config);
        steps.want(kbps(3000));
        assert_eq!(steps.poll(at(0)), Some(kbps(3000)));
        steps.want(kbps(1000));
        assert_eq!(steps.poll(at(1_000)), Some(kbps(500)));
        assert_eq!((steps.poll(at(1_100)), steps.due()), (None, Some(at(1_200))));
        assert_eq!((steps.poll(at(1_200)), steps.poll(at(1_201)), steps.due()), (Some(kbps(1000)), None, None));
        // A small step is followed as it is; one of a half more by half as much.
        steps.want(kbps(850));
        assert_eq!(steps.poll(at(3_000)), Some(kbps(850)));
        steps.want(Bitrate(566_667));
        let less = steps.poll(at(5_000)).unwrap();
        assert!(less.0.abs_diff(377_778) < 10, "{less:?}");
        // Up at once in the meantime: no word of the old rate afterwards.
        steps.want(kbps(3000));
        assert_eq!(steps.poll(at(10_000)), Some(kbps(3000)));
        assert_eq!((steps.poll(at(10_001)), steps.due()), (None, None));
    }
}
