//! Made-up traces: what a cellular link is like, for those who have no recording at hand.
//!
//! A [`Model`] says what a link is like in the mean; a seed makes one out of the links that are like that. Everything
//! is computed in integers, so a seed gives the same trace on every machine. The models are plausible, not measured:
//! their capacity has about the spread and the memory of recorded LTE uplinks, their handovers the distribution that
//! was measured on flights (IMC'22, "Understanding the performance of remotely piloted aircraft over LTE", doi
//! 10.1145/3517745.3561465), but the two do not know of each other, as in reality they do.

mod capacity;
mod fixed;
mod handovers;

use std::time::Duration;

pub use capacity::{CapacityModel, Swing};
pub use handovers::{HandoverModel, HandoverTrain};

use crate::cell::samples::Sample;
use crate::trace::{Source, TraceError};
use capacity::Capacity;

/// A kind of link.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Name as used on the command line and in files.
    pub name: &'static str,
    /// One line that says what it stands for.
    pub summary: &'static str,
    /// The rate, but in handovers.
    pub capacity: CapacityModel,
    /// The handovers, if there are any.
    pub handovers: Option<HandoverModel>,
    /// Propagation delay, one way, before any handover.
    pub delay: Duration,
}

impl Model {
    /// Names of the built-in models.
    pub fn names() -> impl Iterator<Item = &'static str> {
        [Self::lte(), Self::uav()].into_iter().map(|model| model.name)
    }

    /// The built-in model of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::lte(), Self::uav()].into_iter().find(|model| model.name == name)
    }

    /// LTE on the ground, moving: a median of 6.5 Mbit/s, deep and frequent fades, few handovers. Its rates per second
    /// and per 100 ms spread as those of the mahimahi and NYC recordings do (1 to 2 octaves).
    pub fn lte() -> Self {
        Self {
            name: "lte",
            summary: "LTE uplink, moving on the ground",
            capacity: CapacityModel {
                median_bps: 6_500_000,
                slow: Swing { octaves: 0.9, time: Duration::from_secs(8) },
                fast: Swing { octaves: 0.8, time: Duration::from_millis(250) },
                floor_bps: 30_000,
                ceiling_bps: 25_000_000,
                step: Duration::from_millis(100),
            },
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
            capacity: CapacityModel {
                median_bps: 14_000_000,
                slow: Swing { octaves: 1.6, time: Duration::from_secs(20) },
                fast: Swing { octaves: 0.6, time: Duration::from_millis(300) },
                floor_bps: 50_000,
                ceiling_bps: 40_000_000,
                step: Duration::from_millis(100),
            },
            handovers: Some(HandoverModel::default()),
            delay: Duration::from_millis(30),
        }
    }
}

/// The trace that a model and a seed give: samples of rate and delay, with a rate of 0 in handovers.
///
/// It is exactly `length` long and then begins again; written as CSV it stays as it is, but for the length of its last
/// row.
#[derive(Debug, Clone)]
pub struct Trace {
    model: Model,
    seed: u64,
    length: u64,
    capacity: Capacity,
    handovers: Option<HandoverTrain>,
    /// Nanoseconds since the start.
    at: u64,
    /// End of the step, and its rate.
    step_end: u64,
    rate_bps: u64,
    /// Begin and end of the next handover or of the one that is going on, and the shift after it.
    handover: Option<(u64, u64, i64)>,
    /// Of the delay, in nanoseconds.
    shift: i64,
}

impl Trace {
    /// A trace of that length, in whole microseconds and at most 30 years.
    pub fn new(model: Model, seed: u64, length: Duration) -> Self {
        let mut trace = Self {
            length: nanos(length) / 1_000 * 1_000,
            capacity: Capacity::new(&model.capacity, seed),
            handovers: model.handovers.clone().map(|handovers| HandoverTrain::new(handovers, seed)),
            model,
            seed,
            at: 0,
            step_end: 0,
            rate_bps: 0,
            handover: None,
            shift: 0,
        };
        trace.next_handover();
        trace
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
            self.rate_bps = self.capacity.next_rate();
            self.step_end = self.step_end.saturating_add(self.capacity.step_nanos());
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
            ccq: None,
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
