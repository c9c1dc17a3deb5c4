//! When an encoder is told another rate. Most do not like to be told often: some write it to flash each time, some begin a
//! new sequence, all take some frames to follow. What the link wants changes many times a second.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aquila_proto::Bitrate;

/// How often and by how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepConfig {
    /// Between a rate and a lower one.
    pub down_after: Duration,
    /// Between a rate and a higher one.
    pub up_after: Duration,
    /// A lower rate is not worth a step before it has been wanted for so long.
    pub lower_for: Duration,
    /// Nor a higher one. What is told then is the least that was wanted meanwhile.
    pub higher_for: Duration,
    /// A lower rate is not worth a step unless it is lower by this share.
    pub down_share: f64,
    /// Nor a higher one unless it is higher by this.
    pub up_share: f64,
    /// Steps in any hour. A sixth of them may be made at once, and then as many as fit into the rest of an hour in equal times. While
    /// there are none, only downward ones are made, at a quarter of the pace; and none at all if it is not known where the encoder is:
    /// that could go on for ever.
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
pub struct Steps {
    config: StepConfig,
    /// When it was last told something, and where that has left it.
    told: Option<(Instant, Heard)>,
    /// Where it was before.
    before: Heard,
    /// What was wanted from when on, the newest last; of older ones as many as may decide.
    wanted: VecDeque<(Instant, Bitrate)>,
    budget: Budget,
    settling: Option<Settling>,
}

/// A step by less than this factor is followed well by all.
const SMALL: f64 = 1.25;
const HOUR: Duration = Duration::from_secs(3600);
/// Of an encoder that has been told nothing.
const NOTHING: Heard = Heard::Unknown { doubts: 0 };
/// Rates that are remembered at most: ten a second for [`StepConfig::higher_for`].
const MAX_WANTED: usize = 256;

impl Steps {
    /// Of an encoder that has been told nothing.
    pub fn new(config: StepConfig) -> Self {
        let budget = Budget::new(config.an_hour);
        Self { config, told: None, before: NOTHING, wanted: VecDeque::new(), budget, settling: None }
    }

    /// The link wants this rate from now on.
    pub fn want(&mut self, now: Instant, rate: Bitrate) {
        if self.wanted.back().is_none_or(|(_, last)| *last != rate) {
            self.wanted.push_back((now, rate));
        }
        let StepConfig { lower_for, higher_for, .. } = self.config;
        let is_over = |since: Instant| now.saturating_duration_since(since) >= lower_for.max(higher_for);
        while self.wanted.get(1).is_some_and(|(since, _)| is_over(*since)) || self.wanted.len() > MAX_WANTED {
            self.wanted.pop_front();
        }
    }

    /// When to ask [`Steps::poll`] again, if nothing else happens.
    pub fn due(&self) -> Option<Instant> {
        let step = self.next_step().map(|(due, _)| due);
        step.into_iter().chain(self.settling.as_ref().map(|settling| settling.until)).min()
    }

    /// The next step, if what is wanted stays as it is: when, and to which rate.
    fn next_step(&self) -> Option<(Instant, Bitrate)> {
        let ((_, newest), (at, heard)) = (*self.wanted.back()?, self.told?);
        let told = match heard {
            Heard::Rate(told) => told,
            Heard::Unknown { doubts } => return Some((self.again_from(at, doubts), newest)),
        };
        let StepConfig { lower_for, higher_for, down_share, up_share, .. } = self.config;
        let is_lower = |rate: Bitrate| rate.0 as f64 <= told.0 as f64 * (1.0 - down_share);
        let is_higher = |rate: Bitrate| rate.0 as f64 >= told.0 as f64 * (1.0 + up_share);
        let (due, rate) = match (self.wanted_since(is_lower), self.wanted_since(is_higher)) {
            (Some((since, _)), _) => (self.step_from(at, true).max(since + lower_for), newest),
            (_, Some((since, least))) => (self.step_from(at, false).max(since + higher_for), least),
            (None, None) => return None,
        };
        // What is about the same waits until it has calmed down.
        let ratio = rate.0 as f64 / told.0.max(1) as f64;
        let about_the_same = (1.0 / SMALL..SMALL).contains(&ratio);
        let settling = self.settling.as_ref().filter(|_| about_the_same);
        Some((settling.map_or(due, |settling| due.max(settling.until)), rate))
    }

    /// Since when all that was wanted is like this, and the least of it; `None` if the newest is not.
    fn wanted_since(&self, is_so: impl Fn(Bitrate) -> bool) -> Option<(Instant, Bitrate)> {
        let run = self.wanted.iter().rev().take_while(|(_, rate)| is_so(*rate)).copied();
        run.reduce(|(_, least), (since, rate)| (since, least.min(rate)))
    }

    /// The rate to tell now, if it is time. It counts as told.
    pub fn poll(&mut self, now: Instant) -> Option<Bitrate> {
        let heard = self.told.map(|(_, heard)| heard);
        let step = match heard {
            None => self.wanted.back().map(|(_, newest)| *newest),
            Some(_) => self.next_step().filter(|(due, _)| *due <= now).map(|(_, rate)| rate),
        };
        let Some(wanted) = step else {
            // It has calmed down, and is told what was wanted in the first place.
            self.settling.take_if(|settling| settling.until <= now)?;
            let Some(Heard::Rate(told)) = heard else { return None };
            self.before = NOTHING;
            self.budget.spend(now);
            return Some(told);
        };
        self.budget.spend(now);
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
        self.budget.refund();
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

    /// What it makes over what it is told, at first, if it goes from one rate to another.
    fn overshoot(&self, from: Bitrate, to: Bitrate) -> f64 {
        let ratio = from.0 as f64 / to.0.max(1) as f64;
        // Small steps are followed well.
        if ratio < SMALL { 1.0 } else { 1.0 + (self.config.overshoot - 1.0) * (ratio - 1.0).min(1.0) }
    }

    /// When a step may be made, if the last one was then.
    fn step_from(&self, at: Instant, is_down: bool) -> Instant {
        let StepConfig { down_after, up_after, .. } = self.config;
        let granted = self.budget.grants_from(at);
        match is_down {
            true => (at + down_after).max(granted.min(at + down_after * 4)),
            false => (at + up_after).max(granted),
        }
    }

    /// When to tell again what was perhaps not heard. Such steps alone do not use up the hour's.
    fn again_from(&self, at: Instant, doubts: u32) -> Instant {
        let StepConfig { down_after, an_hour, .. } = self.config;
        let pause = (down_after * 2u32.pow(doubts.saturating_sub(1).min(16))).min(HOUR / an_hour).max(down_after);
        (at + pause).max(self.budget.grants_from(at))
    }
}

/// How many steps may be made: a bucket of tokens.
#[derive(Debug)]
struct Budget {
    /// Steps that it holds.
    size: f64,
    /// What one more takes to come.
    refill: Duration,
    /// Steps that were made and have not come again, as of then.
    spent: Option<(Instant, f64)>,
}

impl Budget {
    /// Of so many steps in any hour.
    fn new(an_hour: u32) -> Self {
        let at_once = (an_hour / 6).max(1);
        Self { size: at_once.into(), refill: HOUR / an_hour.saturating_sub(at_once).max(1), spent: None }
    }

    fn spend(&mut self, now: Instant) {
        self.spent = Some((now, self.spent_at(now) + 1.0));
    }

    fn refund(&mut self) {
        self.spent = self.spent.map(|(at, spent)| (at, (spent - 1.0).max(0.0)));
    }

    fn spent_at(&self, now: Instant) -> f64 {
        let Some((at, spent)) = self.spent else { return 0.0 };
        let refilled = now.saturating_duration_since(at).as_secs_f64() / self.refill.as_secs_f64();
        (spent - refilled).max(0.0)
    }

    /// When there is one, not before `from`.
    fn grants_from(&self, from: Instant) -> Instant {
        let Some((at, spent)) = self.spent else { return from };
        let missing = (spent + 1.0 - self.size).max(0.0);
        from.max(at + self.refill.mul_f64(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four at once, and one more every three minutes.
    const CONFIG: StepConfig = StepConfig {
        down_after: Duration::from_secs(1),
        up_after: Duration::from_secs(5),
        lower_for: Duration::ZERO,
        higher_for: Duration::ZERO,
        down_share: 0.1,
        up_share: 0.2,
        an_hour: 24,
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
        steps.want(start, kbps(1000));
        assert_eq!(steps.poll(start), Some(kbps(1000)));
        steps.want(start, kbps(910));
        assert_eq!((steps.poll(at(60_000)), steps.due()), (None, None), "too little");
        steps.want(at(100), kbps(900));
        assert_eq!(steps.due(), Some(at(1_000)));
        assert_eq!((steps.poll(at(999)), steps.poll(at(1_000))), (None, Some(kbps(900))));
        steps.want(at(1_000), kbps(2000));
        assert_eq!((steps.poll(at(5_999)), steps.poll(at(6_000))), (None, Some(kbps(2000))));
    }

    #[test]
    fn a_dip_is_no_reason_and_a_rise_is_as_large_as_it_was_throughout() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let (lower_for, higher_for) = (Duration::from_millis(300), Duration::from_secs(10));
        let mut steps = Steps::new(StepConfig { lower_for, higher_for, ..CONFIG });
        steps.want(start, kbps(1000));
        assert_eq!(steps.poll(start), Some(kbps(1000)));
        for second in 2..60 {
            steps.want(at(second * 1000), kbps(200));
            assert_eq!((steps.poll(at(second * 1000 + 250)), steps.due()), (None, Some(at(second * 1000 + 300))));
            steps.want(at(second * 1000 + 250), kbps(1500));
            assert_eq!(steps.poll(at(second * 1000 + 990)), None);
        }
        // What lasts counts, and what it has become meanwhile.
        steps.want(at(60_000), kbps(800));
        steps.want(at(60_200), kbps(500));
        assert_eq!((steps.poll(at(60_299)), steps.poll(at(60_300))), (None, Some(kbps(500))));
        for second in 61..80 {
            steps.want(at(second * 1000), kbps(if second % 3 == 0 { 1500 } else { 900 + second }));
        }
        assert!(steps.due().is_some_and(|due| due <= at(79_000)));
        assert_eq!(steps.poll(at(80_000)), Some(kbps(970)), "the least of the last ten seconds");
        steps.want(at(80_000), kbps(1100));
        assert_eq!((steps.poll(at(100_000)), steps.due()), (None, None));
    }

    #[test]
    fn an_hour_has_so_many_steps_and_the_way_down_stays_open() {
        let start = Instant::now();
        let mut steps = Steps::new(CONFIG);
        let mut told = Vec::new();
        for second in 0..7200 {
            let now = start + Duration::from_secs(second);
            steps.want(now, if second % 12 < 6 { kbps(1000) } else { kbps(3000) });
            told.extend(steps.poll(now).map(|_| second));
        }
        for hour in [0..3600, 1800..5400, 3600..7200] {
            let count = told.iter().filter(|second| hour.contains(*second)).count();
            assert!((19..=25).contains(&count), "{count} in {hour:?}: {told:?}");
        }
        let longest = told.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest < Some(400), "never long at a time without: {told:?}");
        steps.want(start + Duration::from_secs(7200), kbps(100));
        assert!(steps.poll(start + Duration::from_secs(7210)).is_some());
    }

    #[test]
    fn what_was_not_heard_is_told_again() {
        for failed in [Steps::on_refusal, Steps::on_doubt] {
            let start = Instant::now();
            let mut steps = Steps::new(CONFIG);
            steps.want(start, kbps(500));
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
        steps.want(start, kbps(1000));
        assert!(steps.poll(start).is_some());
        steps.want(start, kbps(500));
        let refused = run(&mut steps, at(1), Duration::from_secs(120), Steps::on_refusal);
        assert_eq!(refused.len(), 120, "as often as ever");
        assert_eq!(steps.poll(at(121)), Some(kbps(500)));
        steps.want(at(121), kbps(1000));
        assert_eq!(steps.poll(at(126)), Some(kbps(1000)), "the hour's are not used up");
        steps.want(at(126), kbps(500));
        assert!(steps.poll(at(127)).is_some());
        steps.on_refusal();
        steps.want(at(127), kbps(1000));
        assert_eq!((steps.poll(at(400)), steps.due()), (None, None), "it makes that as it is");
    }

    #[test]
    fn what_was_perhaps_done_counts_and_never_exceeds_an_hour() {
        let config = StepConfig { an_hour: 120, ..CONFIG };
        let start = Instant::now();
        let mut steps = Steps::new(config);
        // Of the 20 that may be made at once, most have been.
        for step in 0..15 {
            let now = start + config.up_after * step;
            steps.want(now, if step % 2 == 0 { kbps(1000) } else { kbps(3000) });
            assert!(steps.poll(now).is_some());
        }
        let from = start + config.up_after * 15;
        steps.want(from, kbps(500));
        let again = run(&mut steps, from, 3 * HOUR, Steps::on_doubt);
        let seconds: Vec<u64> = again.iter().take(8).map(Duration::as_secs).collect();
        assert_eq!(seconds, [0, 1, 3, 7, 15, 31, 61, 91], "soon at first");
        for hour in 0..3 {
            let in_it = again.iter().filter(|after| (from + **after - start).as_secs() / 3600 == hour).count();
            let before = if hour == 0 { 15 } else { 0 };
            assert!((95..=120).contains(&(in_it + before)), "{in_it} in hour {hour}");
        }
        // It is heard at last, and what comes then is paced as with few left.
        let heard = from + again[again.len() - 1] + Duration::from_secs(40);
        assert!(steps.poll(heard).is_some());
        steps.want(heard, kbps(400));
        assert_eq!(steps.due(), Some(heard + config.down_after * 4));
    }

    #[test]
    fn a_rise_waits_for_the_next_step_that_there_is() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut steps = Steps::new(CONFIG);
        for (second, rate) in [(0, 4000), (1, 3000), (2, 2000), (3, 1000)] {
            steps.want(at(second), kbps(rate));
            assert!(steps.poll(at(second)).is_some());
        }
        steps.want(at(3), kbps(900));
        assert_eq!(steps.due(), Some(at(7)), "a quarter of the pace");
        assert_eq!((steps.poll(at(6)), steps.poll(at(7))), (None, Some(kbps(900))));
        steps.want(at(7), kbps(4000));
        let due = steps.due().unwrap();
        assert!((at(350)..at(365)).contains(&due), "{:?}: what went beyond is made up for", due - start);
        assert_eq!((steps.poll(at(340)), steps.poll(due)), (None, Some(kbps(4000))));
    }

    #[test]
    fn an_encoder_that_overshoots_is_asked_for_less_until_it_has_calmed_down() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let config = StepConfig { overshoot: 2.0, settles: Duration::from_millis(200), an_hour: 40, ..CONFIG };
        let mut steps = Steps::new(config);
        steps.want(at(0), kbps(3000));
        assert_eq!(steps.poll(at(0)), Some(kbps(3000)));
        steps.want(at(0), kbps(1000));
        assert_eq!(steps.poll(at(1_000)), Some(kbps(500)));
        assert_eq!((steps.poll(at(1_100)), steps.due()), (None, Some(at(1_200))));
        assert_eq!((steps.poll(at(1_200)), steps.poll(at(1_201)), steps.due()), (Some(kbps(1000)), None, None));
        // A small step is followed as it is; one of a half more by half as much.
        steps.want(at(1_201), kbps(850));
        assert_eq!(steps.poll(at(3_000)), Some(kbps(850)));
        steps.want(at(3_000), Bitrate(566_667));
        let less = steps.poll(at(5_000)).unwrap();
        assert!(less.0.abs_diff(377_778) < 10, "{less:?}");
        // Up at once in the meantime: no word of the old rate afterwards.
        steps.want(at(5_000), kbps(3000));
        assert_eq!(steps.poll(at(10_000)), Some(kbps(3000)));
        assert_eq!((steps.poll(at(10_001)), steps.due()), (None, None));
    }
}
