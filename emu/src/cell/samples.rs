//! A link that changes with a list of samples: rate, delay and loss, each for a span of time, usually a second.
//!
//! A sample's values hold from its beginning to its end, exactly: a packet whose service spans several samples gets of
//! each what that one carries in its time, to the bit-nanosecond. A value that a sample does not have stays as it is.
//! After the last sample the list begins again. Loss acts behind the server: what is lost on the air has used its share
//! of the rate, so that a saturated link delivers rate × (1 − loss), which is what the paper's field logs are compared
//! by. Loss and delay of a packet are those of the sample in which its last bit leaves; at the very instant of a change
//! that is the sample that ends.

use std::time::{Duration, Instant};

use super::ccq::CcqMode;
use super::later;
use crate::trace::{Source, TraceError, TraceFault};

/// What a link is like for a span of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// How long it lasts; longer than 0.
    pub lasts: Duration,
    /// Rate in bits per second; with [`Sample::ccq`] the data rate that the radio used (TX rate).
    pub rate_bps: Option<u64>,
    /// Propagation delay, one way.
    pub delay: Option<Duration>,
    /// Probability of loss on the air, 0 to 1.
    pub loss: Option<f64>,
    /// Client connection quality, 0 to 1; what it does is [`CcqMode`]'s.
    pub ccq: Option<f64>,
}

/// Samples to play; see [`Path::play_samples`](crate::Path::play_samples).
#[derive(Debug)]
pub struct Samples {
    /// One after the other.
    pub source: Box<dyn Source<Sample>>,
    /// What CCQ means.
    pub ccq: CcqMode,
}

/// What changes at a sample's beginning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Conditions {
    pub(crate) rate_bps: Option<u64>,
    pub(crate) delay: Option<Duration>,
    pub(crate) loss: Option<f64>,
}

/// The samples on the clock of a run.
#[derive(Debug)]
pub(crate) struct SamplePlayer {
    samples: Samples,
    /// When the next sample begins; `None` when the source has failed.
    next: Option<Instant>,
    cycle_start: Instant,
    /// Length of a cycle, once one has ended.
    cycle: Option<Duration>,
    fault: Option<TraceError>,
}

impl SamplePlayer {
    pub(crate) fn new(start: Instant, samples: Samples) -> Self {
        Self { samples, next: Some(start), cycle_start: start, cycle: None, fault: None }
    }

    /// When the next sample begins.
    pub(crate) fn next_change(&self) -> Option<Instant> {
        self.next
    }

    /// The sample that begins at `next_change`.
    pub(crate) fn advance(&mut self) -> Option<Conditions> {
        let begins = self.next?;
        match self.read(begins) {
            Ok(sample) => {
                self.next = Some(later(begins, sample.lasts));
                let mut conditions = Conditions { rate_bps: sample.rate_bps, delay: sample.delay, loss: sample.loss };
                if let Some(ccq) = sample.ccq {
                    let (rate_bps, loss) = self.samples.ccq.conditions(sample.rate_bps, ccq);
                    conditions.rate_bps = rate_bps;
                    conditions.loss = Some(loss);
                }
                Some(conditions)
            }
            Err(error) => {
                self.fault = Some(error);
                self.next = None;
                // A link without a trace is a link that is down: a run that goes on by chance would look like a result.
                Some(Conditions { rate_bps: Some(0), delay: None, loss: None })
            }
        }
    }

    /// While nothing is inside, whole cycles before `until` need not be played.
    pub(crate) fn skip(&mut self, until: Instant) {
        let (Some(next), Some(cycle)) = (self.next, self.cycle) else { return };
        let cycles = until.saturating_duration_since(next).as_nanos() / cycle.as_nanos().max(1);
        if cycles > 1
            && let Ok(span) = u64::try_from((cycles - 1) * cycle.as_nanos())
        {
            self.next = Some(later(next, Duration::from_nanos(span)));
            self.cycle_start = later(self.cycle_start, Duration::from_nanos(span));
        }
    }

    pub(crate) fn fault(&self) -> Option<&TraceError> {
        self.fault.as_ref()
    }

    fn read(&mut self, begins: Instant) -> Result<Sample, TraceError> {
        let sample = match self.samples.source.next_item()? {
            Some(sample) => sample,
            None => {
                let cycle = begins.saturating_duration_since(self.cycle_start);
                if cycle.is_zero() {
                    return Err(TraceError::at(0, TraceFault::Empty));
                }
                self.cycle = Some(cycle);
                self.cycle_start = begins;
                self.samples.source.rewind()?;
                self.samples.source.next_item()?.ok_or(TraceError::at(0, TraceFault::Empty))?
            }
        };
        if sample.lasts.is_zero() {
            return Err(TraceError::at(0, TraceFault::NoLength));
        }
        Ok(sample)
    }
}

#[cfg(test)]
#[path = "samples/tests.rs"]
mod tests;
