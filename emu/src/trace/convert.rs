//! From one format to the other.

use std::time::Duration;

use super::{Source, TraceError, TraceFault};
use crate::cell::samples::Sample;
use crate::cell::server::NANOS_PER_SEC;

/// Opportunities to samples of `span` each (a second, usually): the rate of each is what its opportunities carry. Reads
/// one cycle.
///
/// Lost is where in a span its opportunities were, so bursts and gaps shorter than one. The last span ends with the
/// trace; if the last opportunity is at its very beginning, it lasts a millisecond. Rates are rounded down. A gap of
/// more than [`LONGEST_GAP`] empty spans becomes one sample, so that a few lines that stand for years stay a few lines.
#[derive(Debug)]
pub struct ToSamples<S> {
    opportunities: S,
    bytes: usize,
    /// Nanoseconds.
    span: u64,
    /// Beginning of the span that is being counted, in nanoseconds.
    begin: u64,
    count: u64,
    /// The first opportunity that is not counted, in nanoseconds.
    ahead: Option<u64>,
    last: u64,
    ended: bool,
}

/// More empty spans than this become one sample.
pub const LONGEST_GAP: u64 = 3_600;

impl<S: Source<Duration>> ToSamples<S> {
    /// `bytes` of each opportunity; a `span` of at least a millisecond (less is taken as one).
    pub fn new(opportunities: S, bytes: usize, span: Duration) -> Self {
        let span = nanos(span.max(Duration::from_millis(1)));
        Self { opportunities, bytes, span, begin: 0, count: 0, ahead: None, last: 0, ended: false }
    }

    fn sample(&mut self, lasts: u64) -> Sample {
        let bits = u128::from(std::mem::take(&mut self.count)) * self.bytes as u128 * 8;
        let rate = bits * NANOS_PER_SEC / u128::from(lasts.max(1));
        self.begin = self.begin.saturating_add(lasts);
        let rate_bps = Some(u64::try_from(rate).unwrap_or(u64::MAX));
        Sample { lasts: Duration::from_nanos(lasts), rate_bps, delay: None, loss: None, ccq: None }
    }

    fn next_sample(&mut self) -> Result<Option<Sample>, TraceError> {
        while !self.ended {
            match self.ahead {
                Some(at) if at - self.begin >= self.span => {
                    let spans = (at - self.begin) / self.span;
                    let is_gap = self.count == 0 && spans > LONGEST_GAP;
                    return Ok(Some(self.sample(if is_gap { spans * self.span } else { self.span })));
                }
                Some(_) => {
                    self.count += 1;
                    self.ahead = None;
                }
                None => {}
            }
            match self.opportunities.next_item()?.map(nanos) {
                Some(at) if at < self.last => return Err(TraceError::at(0, TraceFault::GoesBack)),
                Some(at) => (self.ahead, self.last) = (Some(at), at),
                None => self.ended = true,
            }
        }
        if self.count == 0 {
            return Ok(None);
        }
        // Less than a span is left, and the last opportunity is in it.
        Ok(Some(self.sample((self.last - self.begin).max(1_000_000))))
    }
}

/// At most 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<S: Source<Duration>> Iterator for ToSamples<S> {
    type Item = Result<Sample, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_sample().transpose()
    }
}

/// Samples to opportunities: one as soon as the rate has carried its bytes, rounded up to a whole millisecond. Reads
/// one cycle, and gives as many as the samples carry, rounded down.
///
/// Lost are delay and loss, times within a millisecond, and what remains at the end: less than an opportunity. A trace
/// of opportunities ends with the last one; if the samples end later (in an outage, or between two opportunities), one
/// more is added at their end, because their length would be lost else.
#[derive(Debug)]
pub struct ToOpportunities<S> {
    samples: S,
    /// Bit-nanoseconds of one opportunity.
    work: u128,
    /// Beginning of the sample, its rate and its end, in nanoseconds.
    begin: u128,
    end: u128,
    rate: u64,
    /// Work done at `begin` for the next opportunity.
    done: u128,
    last: Option<Duration>,
    ended: bool,
}

impl<S: Source<Sample>> ToOpportunities<S> {
    /// `bytes` of each opportunity, at least 1.
    pub fn new(samples: S, bytes: usize) -> Self {
        let work = crate::cell::server::work_of(bytes.max(1));
        Self { samples, work, begin: 0, end: 0, rate: 0, done: 0, last: None, ended: false }
    }

    fn next_opportunity(&mut self) -> Result<Option<Duration>, TraceError> {
        loop {
            let rate = u128::from(self.rate);
            let needed = if rate == 0 { u128::MAX } else { (self.work - self.done).div_ceil(rate) };
            if needed <= self.end - self.begin {
                self.begin += needed;
                self.done = self.done + needed * rate - self.work;
                return Ok(self.at(self.begin));
            }
            if self.ended {
                return Ok(None);
            }
            self.done += (self.end - self.begin) * rate;
            self.begin = self.end;
            match self.samples.next_item()? {
                Some(sample) => {
                    self.rate = sample.rate_bps.unwrap_or(self.rate);
                    self.end += sample.lasts.as_nanos();
                }
                None => {
                    self.ended = true;
                    self.rate = 0;
                    let end = millis(self.end);
                    if end > self.last {
                        self.last = end;
                        return Ok(end);
                    }
                }
            }
        }
    }

    fn at(&mut self, nanos: u128) -> Option<Duration> {
        self.last = millis(nanos);
        self.last
    }
}

/// Rounded up to a whole millisecond.
fn millis(nanos: u128) -> Option<Duration> {
    u64::try_from(nanos.div_ceil(1_000_000)).ok().map(Duration::from_millis)
}

impl<S: Source<Sample>> Iterator for ToOpportunities<S> {
    type Item = Result<Duration, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_opportunity().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::List;

    fn ms(times: &[u64]) -> List<Duration> {
        List::new(times.iter().map(|ms| Duration::from_millis(*ms)).collect())
    }

    fn sample(ms: u64, rate: u64) -> Sample {
        Sample { lasts: Duration::from_millis(ms), rate_bps: Some(rate), delay: None, loss: None, ccq: None }
    }

    fn rates(times: &[u64]) -> Vec<(u64, u64)> {
        let samples = ToSamples::new(ms(times), 1500, Duration::from_secs(1));
        samples.map(|sample| sample.unwrap()).map(|s| (s.lasts.as_millis() as u64, s.rate_bps.unwrap())).collect()
    }

    fn times(samples: &[Sample]) -> Vec<u64> {
        let opportunities = ToOpportunities::new(List::new(samples.to_vec()), 1500);
        opportunities.map(|at| at.unwrap().as_millis() as u64).collect()
    }

    #[test]
    fn opportunities_to_rates() {
        assert_eq!(rates(&[0, 999, 1000, 3500]), [(1000, 24_000), (1000, 12_000), (1000, 0), (500, 24_000)]);
        assert_eq!(rates(&[500, 1000]), [(1000, 12_000), (1, 12_000_000)]);
        assert_eq!(rates(&[]), []);
        // A gap of years is one sample, and the span with the next opportunity another.
        assert_eq!(rates(&[500, 9_000_000_500]), [(1000, 12_000), (8_999_999_000, 0), (500, 24_000)]);
    }

    #[test]
    fn rates_to_opportunities() {
        // 12 Mbit/s: one opportunity a millisecond.
        assert_eq!(times(&[sample(5, 12_000_000)]), [1, 2, 3, 4, 5]);
        // 18 Mbit/s: each 2/3 ms, rounded up.
        assert_eq!(times(&[sample(4, 18_000_000)]), [1, 2, 2, 3, 4, 4]);
        // What was begun before an outage is finished behind it; the length is kept.
        assert_eq!(times(&[sample(1, 6_000_000), sample(10, 0), sample(2, 12_000_000), sample(3, 0)]), [12, 13, 16]);
    }

    #[test]
    fn there_and_back_keeps_the_bytes() {
        let samples: Vec<Sample> = (1..40).map(|n| sample(1000, n * 377_000)).collect();
        let bits: u64 = samples.iter().filter_map(|sample| sample.rate_bps).sum();
        let count = times(&samples).len() as u64;
        assert!(count == bits / 12_000 || count == bits / 12_000 + 1, "{count} for {bits} bits");
    }
}
