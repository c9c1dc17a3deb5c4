//! Timed changes of a link, and built-in sets of them.

use std::time::{Duration, Instant};

use crate::cell::loss::Loss;
use crate::packet::Payload;
use crate::path::{Outage, Path, PathConfig};
use crate::synth::Model;

mod builtin;
mod made_up;

/// One of the two directions of a link, named after what it carries most of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Air to ground: video and telemetry.
    Up,
    /// Ground to air: commands.
    Down,
}

/// Something that happens to a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The bottleneck's rate in bits per second; see [`PathConfig::rate_bps`].
    Rate(Direction, Option<u64>),
    /// The propagation delay.
    Delay(Direction, Duration),
    /// The probability of independent loss in front of the queue, 0 to 1.
    Loss(Direction, f64),
    /// An outage of both directions begins.
    OutageBegin(Outage),
    /// The outage ends.
    OutageEnd,
    /// The aircraft's address changes as seen from the ground, as when a modem is given a new one or a NAT rebinds. The
    /// paths are not affected: whoever runs the link must carry it out.
    AddressChange,
}

impl Change {
    /// Carries the change out on the two paths of a link. [`Change::AddressChange`] does nothing here.
    pub fn apply<T: Payload>(self, now: Instant, up: &mut Path<T>, down: &mut Path<T>) {
        let mut on = |direction, apply: &mut dyn FnMut(&mut Path<T>)| match direction {
            Direction::Up => apply(up),
            Direction::Down => apply(down),
        };
        match self {
            Self::Rate(direction, rate) => on(direction, &mut |path| path.set_rate(now, rate)),
            Self::Delay(direction, delay) => on(direction, &mut |path| path.set_delay(now, delay)),
            Self::Loss(direction, loss) => on(direction, &mut |path| path.set_loss(Loss::Independent(loss))),
            Self::OutageBegin(outage) => {
                up.begin_outage(now, outage);
                down.begin_outage(now, outage);
            }
            Self::OutageEnd => {
                up.end_outage(now);
                down.end_outage(now);
            }
            Self::AddressChange => {}
        }
    }
}

/// A change and its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Since the beginning of the cycle; shorter than the cycle.
    pub at: Duration,
    /// What happens.
    pub change: Change,
}

/// A link and what happens to it, repeated for as long as it is used.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Name as used on the command line and in reports.
    pub name: &'static str,
    /// One line that says what it stands for.
    pub summary: &'static str,
    /// Air to ground at the start.
    pub up: PathConfig,
    /// Ground to air at the start.
    pub down: PathConfig,
    /// After this time the steps begin again. The built-in profiles end a cycle as they began it, so that all cycles
    /// are alike.
    pub cycle: Duration,
    /// In order of time.
    pub steps: Vec<Step>,
}

impl Profile {
    /// Names of the built-in profiles, the demo's own first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        builtin::ALL.iter().map(|(name, _)| *name)
    }

    /// The built-in profile of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        builtin::ALL.iter().find(|(known, _)| *known == name).map(|(_, build)| build())
    }

    /// A flight over a made-up link, another one with each seed. It is as long as asked, at least a second, and then begins
    /// again. All of its steps are in memory, some 20 for a second.
    pub fn made_up(model: &Model, seed: u64, length: Duration) -> Self {
        made_up::of_model(model, seed, length)
    }

    /// One line for people: what it stands for and its figures.
    pub fn describe(&self) -> String {
        let (low, high) = self.uplink_range_bps();
        let rate = match (low, high) {
            (Some(low), Some(high)) if low == high => format!("{} up", mbit(low)),
            (Some(low), Some(high)) => format!("{} to {} up", mbit(low), mbit(high)),
            _ => "no limit up".to_owned(),
        };
        let mut parts = vec![rate, format!("{} ms one way", self.up.delay.as_millis())];
        if self.up.loss.mean() > 0.0 {
            parts.push(format!("{} % loss", self.up.loss.mean() * 100.0));
        }
        let outages = self.outages();
        match outages.iter().map(|(_, lasts)| *lasts).max() {
            Some(longest) if outages.len() > NAMED_OUTAGES => {
                parts.push(format!("{} outages, the longest {}", outages.len(), seconds(longest)));
            }
            _ => parts.extend(
                outages.iter().map(|(at, lasts)| format!("outage of {} at {:.1} s", seconds(*lasts), at.as_secs_f64())),
            ),
        }
        parts.extend(self.address_changes().map(|at| format!("new address at {:.1} s", at.as_secs_f64())));
        if !self.steps.is_empty() {
            parts.push(format!("every {} s", self.cycle.as_secs()));
        }
        format!("{}: {}", self.summary, parts.join(", "))
    }

    /// Lowest and highest uplink rate within a cycle, in bits per second; `None` stands for no limit.
    pub fn uplink_range_bps(&self) -> (Option<u64>, Option<u64>) {
        let changes = self.steps.iter().filter_map(|step| match step.change {
            Change::Rate(Direction::Up, rate) => Some(rate),
            _ => None,
        });
        let rates: Vec<Option<u64>> = std::iter::once(self.up.rate_bps).chain(changes).collect();
        let low = rates.iter().flatten().copied().min();
        let high = if rates.contains(&None) { None } else { rates.iter().flatten().copied().max() };
        (low, high)
    }

    /// Start and length of each outage within a cycle.
    pub fn outages(&self) -> Vec<(Duration, Duration)> {
        let mut since = None;
        let mut found = Vec::new();
        for step in &self.steps {
            match step.change {
                Change::OutageBegin(_) => since = since.or(Some(step.at)),
                Change::OutageEnd => found.extend(since.take().map(|at| (at, step.at - at))),
                _ => {}
            }
        }
        found
    }

    /// Time of each address change within a cycle.
    pub fn address_changes(&self) -> impl Iterator<Item = Duration> {
        self.steps.iter().filter(|step| step.change == Change::AddressChange).map(|step| step.at)
    }
}

/// Plays the steps of a profile from a given start, cycle after cycle.
#[derive(Debug, Clone)]
pub struct Schedule {
    steps: Vec<Step>,
    cycle: Duration,
    /// Start of the current cycle.
    cycle_start: Instant,
    /// Next step within it.
    next: usize,
}

impl Schedule {
    /// The profile's first cycle begins at `start`.
    pub fn new(profile: &Profile, start: Instant) -> Self {
        debug_assert!(profile.steps.is_sorted_by_key(|step| step.at), "steps in order of time");
        debug_assert!(profile.steps.iter().all(|step| step.at < profile.cycle), "steps within the cycle");
        // A cycle of no length would never let time pass.
        let steps = if profile.cycle.is_zero() { Vec::new() } else { profile.steps.clone() };
        Self { steps, cycle: profile.cycle, cycle_start: start, next: 0 }
    }

    /// When the next change is due. `None`: nothing will ever change.
    pub fn next_change(&self) -> Option<Instant> {
        self.steps.get(self.next).map(|step| self.cycle_start + step.at)
    }

    /// The next change that is due at `now`, and the time at which it was due. Call until `None`.
    pub fn poll_change(&mut self, now: Instant) -> Option<(Instant, Change)> {
        let due = self.next_change().filter(|due| *due <= now)?;
        let change = self.steps[self.next].change;
        self.next += 1;
        if self.next == self.steps.len() {
            self.next = 0;
            self.cycle_start += self.cycle;
        }
        Some((due, change))
    }
}

/// More outages than this are counted rather than listed.
const NAMED_OUTAGES: usize = 2;

/// `2.5 Mbit/s`.
fn mbit(bps: u64) -> String {
    format!("{} Mbit/s", (bps as f64 / 1e4).round() / 100.0)
}

/// `1.2 s`, or `2 ms`.
fn seconds(time: Duration) -> String {
    match time < Duration::from_millis(50) {
        true => format!("{:.0} ms", time.as_secs_f64() * 1e3),
        false => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests;
