//! Made-up traces: what a cellular or a circling aircraft's link is like, for those who have no recording at hand.
//!
//! A [`Model`] says what a link is like in the mean; a seed makes one out of the links that are like that. Everything
//! is computed in integers, so a seed gives the same trace on every machine. The models are plausible, not measured:
//! the cellular ones' capacity has about the spread and the memory of recorded LTE uplinks, their handovers the distribution that
//! was measured on flights (IMC'22, "Understanding the performance of remotely piloted aircraft over LTE", doi
//! 10.1145/3517745.3561465), but the two do not know of each other, as in reality they do.

mod capacity;
mod fixed;
mod handovers;
mod loiter;

use std::time::Duration;

pub use capacity::{CapacityModel, Swing};
pub use handovers::{HandoverModel, HandoverTrain};
pub use loiter::LoiterModel;

use crate::cell::samples::Sample;
use crate::trace::{Source, TraceError};
use capacity::Capacity;
use loiter::Loiter;

/// A kind of link.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Name as used on the command line and in files.
    pub name: &'static str,
    /// One line that says what it stands for.
    pub summary: &'static str,
    /// The rate, but in handovers.
    pub rate: RateModel,
    /// The handovers, if there are any.
    pub handovers: Option<HandoverModel>,
    /// Propagation delay, one way, before any handover.
    pub delay: Duration,
}

/// How the rate of a link behaves.
#[derive(Debug, Clone, PartialEq)]
pub enum RateModel {
    /// It wanders and comes back.
    Wander(CapacityModel),
    /// It swings with the circles of an aircraft, and CCQ with it.
    Loiter(LoiterModel),
}

impl Model {
    fn all() -> [Self; 3] {
        [Self::lte(), Self::uav(), Self::loiter()]
    }

    /// Names of the built-in models.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::all().into_iter().map(|model| model.name)
    }

    /// The built-in model of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|model| model.name == name)
    }

    /// LTE on the ground, moving: a median of 6.5 Mbit/s, deep and frequent fades, few handovers. Its rates per second
    /// and per 100 ms spread as those of the mahimahi and NYC recordings do (1 to 2 octaves).
    pub fn lte() -> Self {
        Self {
            name: "lte",
            summary: "LTE uplink, moving on the ground",
            rate: RateModel::Wander(CapacityModel {
                median_bps: 6_500_000,
                slow: Swing { octaves: 0.9, time: Duration::from_secs(8) },
                fast: Swing { octaves: 0.8, time: Duration::from_millis(250) },
                floor_bps: 30_000,
                ceiling_bps: 25_000_000,
                step: Duration::from_millis(100),
            }),
            handovers: Some(HandoverModel { per_minute: 3, quiet: 0.5, ..HandoverModel::default() }),
            delay: Duration::from_millis(25),
        }
    }

    /// LTE in the air: a median of 14 Mbit/s, below 1 Mbit/s in one or two of a hundred seconds, up to 13 handovers a
    /// minute, after each of which the delay may have shifted.
    pub fn uav() -> Self {
        Self {
            name: "uav",
            summary: "LTE uplink of an aircraft above many cells",
            rate: RateModel::Wander(CapacityModel {
                median_bps: 14_000_000,
                slow: Swing { octaves: 1.6, time: Duration::from_secs(20) },
                fast: Swing { octaves: 0.6, time: Duration::from_millis(300) },
                floor_bps: 50_000,
                ceiling_bps: 40_000_000,
                step: Duration::from_millis(100),
            }),
            handovers: Some(HandoverModel::default()),
            delay: Duration::from_millis(30),
        }
    }

    /// A 5 GHz link to an aircraft that circles near a ship (data mules, parts III to V): 0 to 30 Mbit/s, 14.5 in the
    /// mean, with a period of 40 s, and a CCQ of 60 % where the rate is least to 90 % where it is best. The paper takes
    /// what is missing for loss: 10 to 40 %.
    pub fn loiter() -> Self {
        Self {
            name: "loiter",
            summary: "5 GHz link of an aircraft that circles near a ship",
            rate: RateModel::Loiter(LoiterModel {
                period: Duration::from_secs(40),
                mean_bps: 14_500_000,
                swing_bps: 15_000_000,
                noise_bps: 1_500_000,
                ceiling_bps: 30_000_000,
                ccq: (6_000, 9_000),
                ccq_noise: 200,
            }),
            handovers: None,
            delay: Duration::from_millis(3),
        }
    }
}

/// The trace that a model and a seed give: samples of rate and delay, and of CCQ if the model has it, with a rate of 0 in
/// handovers.
///
/// It is exactly `length` long and then begins again; written as CSV it stays as it is, but for the length of its last
/// row.
#[derive(Debug, Clone)]
pub struct Trace {
    model: Model,
    seed: u64,
    length: u64,
    rate: Rate,
    handovers: Option<HandoverTrain>,
    /// Nanoseconds since the start.
    at: u64,
    /// End of the step, and its rate.
    step_end: u64,
    rate_bps: u64,
    ccq: Option<u16>,
    /// Begin and end of the next handover or of the one that is going on, and the shift after it.
    handover: Option<(u64, u64, i64)>,
    /// Of the delay, in nanoseconds.
    shift: i64,
}

#[derive(Debug, Clone)]
enum Rate {
    Wander(Capacity),
    Loiter(Loiter),
}

impl Trace {
    /// A trace of that length, in whole microseconds and at most 30 years.
    pub fn new(model: Model, seed: u64, length: Duration) -> Self {
        let mut trace = Self {
            length: nanos(length) / 1_000 * 1_000,
            rate: match &model.rate {
                RateModel::Wander(capacity) => Rate::Wander(Capacity::new(capacity, seed)),
                RateModel::Loiter(loiter) => Rate::Loiter(Loiter::new(loiter, seed)),
            },
            handovers: model.handovers.clone().map(|handovers| HandoverTrain::new(handovers, seed)),
            model,
            seed,
            at: 0,
            step_end: 0,
            rate_bps: 0,
            ccq: None,
            handover: None,
            shift: 0,
        };
        trace.next_handover();
        trace
    }

    fn next_step(&mut self) {
        let step = match &mut self.rate {
            Rate::Wander(capacity) => {
                self.rate_bps = capacity.next_rate();
                capacity.step_nanos()
            }
            Rate::Loiter(loiter) => {
                let (rate_bps, ccq) = loiter.next();
                (self.rate_bps, self.ccq) = (rate_bps, Some(ccq));
                loiter::STEP
            }
        };
        self.step_end = self.step_end.saturating_add(step);
    }

    fn next_handover(&mut self) {
        let ended = self.handover.map_or(0, |(_, end, _)| end);
        self.handover = self.handovers.as_mut().and_then(Iterator::next).map(|handover| {
            let begin = nanos(handover.at).max(ended);
            (begin, begin.saturating_add(nanos(handover.lasts)), handover.delay_shift.unwrap_or(self.shift))
        });
    }
}

impl Iterator for Trace {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        if self.at >= self.length {
            return None;
        }
        while let Some((_, _, shift)) = self.handover.filter(|(_, end, _)| *end <= self.at) {
            self.shift = shift;
            self.next_handover();
        }
        while self.step_end <= self.at {
            self.next_step();
        }
        let (is_out, change) = match self.handover {
            Some((begin, end, _)) if begin <= self.at => (true, end),
            Some((begin, _, _)) => (false, begin),
            None => (false, u64::MAX),
        };
        let end = self.step_end.min(change).min(self.length);
        let delay = i64::try_from(nanos(self.model.delay)).unwrap_or(i64::MAX).saturating_add(self.shift);
        let sample = Sample {
            lasts: Duration::from_nanos(end - self.at),
            rate_bps: Some(if is_out { 0 } else { self.rate_bps }),
            delay: Some(Duration::from_nanos(delay.max(0) as u64)),
            loss: None,
            ccq: self.ccq.map(|ccq| f64::from(ccq) / 10_000.0),
        };
        self.at = end;
        Some(sample)
    }
}

impl Source<Sample> for Trace {
    fn next_item(&mut self) -> Result<Option<Sample>, TraceError> {
        Ok(self.next())
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        *self = Self::new(self.model.clone(), self.seed, Duration::from_nanos(self.length));
        Ok(())
    }
}

/// At most 30 years.
fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().min(30 * 365 * 86_400 * 1_000_000_000) as u64
}

#[cfg(test)]
mod tests;
