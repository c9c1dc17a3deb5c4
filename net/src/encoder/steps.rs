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
    /// Steps in an hour, counted from the first of them; when they are used up, only downward ones are made until it is over, and at
    /// a quarter of the pace. None at all if it is not known where the encoder is: that could go on for ever.
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

/// What the encoder is taken to work for.
#[derive(Debug, Clone, Copy)]
enum Heard {
    /// This.
    Rate(Bitrate),
    /// Not known, after so many attempts in a row of which nobody knows whether they were carried out.
    Unknown { doubts: u32 },
}

/// The rate that was told, and the one that is wanted.
#[derive(Debug)]
pub(super) struct Steps {
    config: StepConfig,
    /// When it was last told something, and where that has left it.
    told: Option<(Instant, Heard)>,
    /// Where it was before.
    before: Heard,
    wanted: Option<Bitrate>,
    /// Begin of the hour that is counted, and steps in it.
    hour: Option<(Instant, u32)>,
    settling: Option<Settling>,
}

/// A step by less than this factor is followed well by all.
const SMALL: f64 = 1.25;
const HOUR: Duration = Duration::from_secs(3600);
/// Of an encoder that has been told nothing.
const NOTHING: Heard = Heard::Unknown { doubts: 0 };

impl Steps {
    pub fn new(config: StepConfig) -> Self {
        Self { config, told: None, before: NOTHING, wanted: None, hour: None, settling: None }
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
        let (wanted, (at, heard)) = (self.wanted?, self.told?);
        let told = match heard {
            Heard::Rate(told) => told,
            Heard::Unknown { doubts } => return Some(self.again_from(at, doubts)),
        };
        let due = self.step_from(at, wanted < told);
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
        let heard = self.told.map(|(_, heard)| heard);
        if heard.is_some() && self.step_due().is_none_or(|due| now < due) {
            // It has calmed down, and is told what was wanted in the first place.
            self.settling.take_if(|settling| settling.until <= now)?;
            let Some(Heard::Rate(told)) = heard else { return None };
            self.before = NOTHING;
            self.count(now);
            return Some(told);
        }
        self.count(now);
        self.told = Some((now, Heard::Rate(wanted)));
        self.before = heard.unwrap_or(NOTHING);
        // While it settles, it has not come far from where it was.
        let settling = self.settling.take().filter(|settling| now < settling.until);
        let from = match (settling, self.before) {
            (Some(settling), _) => settling.from,
            (None, Heard::Rate(before)) => before,
            (None, Heard::Unknown { .. }) => return Some(wanted),
        };
        let told = wanted * self.overshoot(from, wanted).recip();
        self.settling = (told != wanted).then(|| Settling { until: now + self.config.settles, from });
        Some(told)
    }

    /// Another encoder is there, which has been told nothing.
    pub fn forget(&mut self) {
        (self.told, self.settling) = (None, None);
    }

    /// The encoder did surely not do what it was told last: it is where it was, and nothing counts.
    pub fn on_refusal(&mut self) {
        self.hour = self.hour.filter(|(_, count)| *count > 1).map(|(begin, count)| (begin, count - 1));
        self.leave_at(self.before);
    }

    /// Nobody knows whether the encoder did what it was told last: that counts, and is told again, less and less often.
    pub fn on_doubt(&mut self) {
        let doubts = match self.before {
            Heard::Rate(_) => 0,
            Heard::Unknown { doubts } => doubts,
        };
        self.leave_at(Heard::Unknown { doubts: doubts + 1 });
    }

    fn leave_at(&mut self, heard: Heard) {
        self.settling = None;
        self.told = self.told.map(|(at, _)| (at, heard));
    }

    fn count(&mut self, now: Instant) {
        let hour = self.hour.filter(|(begin, _)| now.saturating_duration_since(*begin) < HOUR);
        let (begin, count) = hour.unwrap_or((now, 0));
        self.hour = Some((begin, count + 1));
    }

    /// What it makes over what it is told, at first, if it goes from one rate to another.
    fn overshoot(&self, from: Bitrate, to: Bitrate) -> f64 {
        let ratio = from.0 as f64 / to.0.max(1) as f64;
        // Small steps are followed well.
        if ratio < SMALL { 1.0 } else { 1.0 + (self.config.overshoot - 1.0) * (ratio - 1.0).min(1.0) }
    }

    fn is_worth_it(&self, wanted: Bitrate, told: Bitrate) -> bool {
        let (wanted, told) = (wanted.0 as f64, told.0 as f64);
        wanted <= told * (1.0 - self.config.down_share) || wanted >= told * (1.0 + self.config.up_share)
    }

    /// When a step may be made, if the last one was then.
    fn step_from(&self, at: Instant, is_down: bool) -> Instant {
        let StepConfig { down_after, up_after, .. } = self.config;
        match (is_down, self.used_up_until()) {
            (true, None) => at + down_after,
            (true, Some(end)) => (at + down_after * 4).min(end.max(at + down_after)),
            (false, None) => at + up_after,
            (false, Some(end)) => end.max(at + up_after),
        }
    }

    /// When to tell again what was perhaps not heard. Such steps alone do not use up the hour.
    fn again_from(&self, at: Instant, doubts: u32) -> Instant {
        let StepConfig { down_after, an_hour, .. } = self.config;
        let pause = (down_after * 2u32.pow(doubts.saturating_sub(1).min(16))).min(HOUR / an_hour).max(down_after);
        self.used_up_until().map_or(at + pause, |end| end.max(at + pause))
    }

    /// When the hour is over whose steps are used up.
    fn used_up_until(&self) -> Option<Instant> {
        self.hour.filter(|(_, count)| *count >= self.config.an_hour).map(|(begin, _)| begin + HOUR)
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
        for failed in [Steps::on_refusal, Steps::on_doubt] {
            let start = Instant::now();
            let mut steps = Steps::new(CONFIG);
            steps.want(kbps(500));
            assert!(steps.poll(start).is_some());
            failed(&mut steps);
            assert_eq!(steps.due(), Some(start + CONFIG.down_after));
            assert_eq!(steps.poll(start + CONFIG.down_after), Some(kbps(500)));
        }
    }

    /// Polls whenever it is due, for so long; `told` is asked after each step. Gives when there were steps.
    fn run(steps: &mut Steps, from: Instant, lasts: Duration, mut told: impl FnMut(&mut Steps)) -> Vec<Duration> {
        let (mut now, mut at) = (from, Vec::new());
        while now < from + lasts {
            if steps.poll(now).is_some() {
                at.push(now - from);
                told(steps);
            }
            let Some(due) = steps.due() else { break };
            assert!(due > now, "it would spin at {:?}", now - from);
            now = due;
        }
        at
    }

    #[test]
    fn what_was_refused_does_not_count_and_leaves_the_encoder_where_it_was() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut steps = Steps::new(CONFIG);
        steps.want(kbps(1000));
        assert!(steps.poll(start).is_some());
        steps.want(kbps(500));
        let refused = run(&mut steps, at(1), Duration::from_secs(120), Steps::on_refusal);
        assert_eq!(refused.len(), 120, "as often as ever");
        assert_eq!(steps.poll(at(121)), Some(kbps(500)));
        steps.want(kbps(1000));
        assert_eq!(steps.poll(at(126)), Some(kbps(1000)), "the hour is not used up");
        steps.want(kbps(500));
        assert!(steps.poll(at(127)).is_some());
        steps.on_refusal();
        steps.want(kbps(1000));
        assert_eq!((steps.poll(at(400)), steps.due()), (None, None), "it makes that as it is");
    }

    #[test]
    fn what_was_perhaps_done_counts_and_never_exceeds_an_hour() {
        let config = StepConfig { an_hour: 120, ..CONFIG };
        let start = Instant::now();
        let mut steps = Steps::new(config);
        // Half of the hour's has gone before.
        for second in 0..60 {
            steps.want(if second % 2 == 0 { kbps(1000) } else { kbps(3000) });
            assert!(steps.poll(start + config.up_after * second).is_some());
        }
        steps.want(kbps(500));
        let from = start + config.up_after * 60;
        let again = run(&mut steps, from, 3 * HOUR, Steps::on_doubt);
        let seconds: Vec<u64> = again.iter().take(8).map(Duration::as_secs).collect();
        assert_eq!(seconds, [0, 1, 3, 7, 15, 31, 61, 91], "soon at first");
        for hour in 0..3 {
            let in_it = again.iter().filter(|after| (from + **after - start).as_secs() / 3600 == hour).count();
            let before = if hour == 0 { 60 } else { 0 };
            assert!((100..=120).contains(&(in_it + before)), "{in_it} in hour {hour}");
        }
        // It is heard at last, and what comes then is paced as ever.
        let heard = from + again[again.len() - 1] + Duration::from_secs(30);
        assert!(steps.poll(heard).is_some());
        steps.want(kbps(400));
        assert_eq!(steps.due(), Some(heard + config.down_after));
    }

    #[test]
    fn a_rise_comes_as_soon_as_the_hour_is_over() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut steps = Steps::new(CONFIG);
        for (second, rate) in [(0, 4000), (1, 3000), (2, 2000), (3, 1000)] {
            steps.want(kbps(rate));
            assert!(steps.poll(at(second)).is_some());
        }
        steps.want(kbps(900));
        assert_eq!(steps.due(), Some(at(7)), "a quarter of the pace");
        assert_eq!((steps.poll(at(6)), steps.poll(at(3500))), (None, Some(kbps(900))));
        steps.want(kbps(4000));
        assert_eq!(steps.due(), Some(at(3600)), "and not an hour after the last step");
        assert_eq!((steps.poll(at(3599)), steps.poll(at(3600))), (None, Some(kbps(4000))));
        // The next hour has begun with that.
        for (second, rate) in [(3601, 3000), (3602, 2000), (7198, 1000), (7199, 900)] {
            steps.want(kbps(rate));
            assert_eq!(steps.poll(at(second)).is_some(), second != 7199);
        }
        assert_eq!(steps.due(), Some(at(7200)), "over before the slower pace would let it");
        assert_eq!(steps.poll(at(7200)), Some(kbps(900)));
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
