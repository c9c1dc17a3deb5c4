//! A server that follows a packet-delivery trace, with mahimahi's semantics (its `LinkQueue::rationalize`).
//!
//! Each item of the trace is one *opportunity* to deliver so many bytes (1500) at once, at its time after the start:
//!
//! - An opportunity serves the packets that wait, in order, until its bytes are used up. Several small packets share
//!   one; a packet larger than what is left of it keeps what it got and takes the next ones. A packet leaves at the
//!   opportunity that sends its last byte.
//! - What no packet uses is lost: an opportunity that finds nothing (more) to send is gone.
//! - An opportunity serves only packets that came before it. One pushed at the very instant comes too late, as one that
//!   reaches mahimahi in the same millisecond does.
//! - Whatever waits for an opportunity waits in the queue and counts against its bound. A packet that has got a part of
//!   an opportunity has left the queue.
//! - The trace repeats: the time of its last item is the length of a cycle, so that item and the next cycle's item at 0
//!   coincide.
//!
//! mahimahi works on a clock of whole milliseconds; here packets come at any nanosecond, which changes nothing, because
//! opportunities are at whole milliseconds. mahimahi counts 1504 bytes an opportunity, since its packets carry a TUN
//! header of 4 bytes; here it is 1500 bytes of IP packet, the number its documentation gives, unless
//! [`Opportunities::bytes`] says otherwise. mahimahi stops at a packet larger than an opportunity; here it takes
//! several.

use std::time::{Duration, Instant};

use super::later;
use super::server::work_of;
use crate::trace::{Source, TraceError, TraceFault};

/// A packet-delivery trace to play; see [`Path::play_opportunities`](crate::Path::play_opportunities).
#[derive(Debug)]
pub struct Opportunities {
    /// Times of the opportunities since the start of the trace, never going back, the last one later than 0.
    pub source: Box<dyn Source<Duration>>,
    /// Bytes of one opportunity, at least 1; 1500 in mahimahi's documentation.
    pub bytes: usize,
    /// Mean rate in bits per second, for a queue that is bounded in time.
    pub mean_rate_bps: u64,
}

/// The opportunities on the clock of a run.
#[derive(Debug)]
pub(crate) struct Timetable {
    source: Box<dyn Source<Duration>>,
    bytes: usize,
    mean_rate_bps: u64,
    /// Start of the current cycle.
    base: Instant,
    /// The next opportunity; `None` when the trace has failed.
    next: Option<Instant>,
    /// Time of the item read last, within the cycle.
    last: Duration,
    /// Items read in this cycle.
    items: u64,
    /// Length of a cycle and its number of items, once one has ended.
    cycle: Option<(Duration, u64)>,
    /// The opportunity that is being used, and the bit-nanoseconds left of it.
    now: Option<Instant>,
    left: u128,
    passed: u64,
    used: u128,
    fault: Option<TraceError>,
}

impl Timetable {
    pub(crate) fn new(start: Instant, opportunities: Opportunities) -> Self {
        let Opportunities { source, bytes, mean_rate_bps } = opportunities;
        let mut timetable = Self {
            source,
            bytes: bytes.max(1),
            mean_rate_bps,
            base: start,
            next: None,
            last: Duration::ZERO,
            items: 0,
            cycle: None,
            now: None,
            left: 0,
            passed: 0,
            used: 0,
            fault: None,
        };
        timetable.read();
        timetable
    }

    /// Goes to the next opportunity if it is not after `until`.
    pub(crate) fn open(&mut self, until: Instant) -> bool {
        match self.next.filter(|next| *next <= until) {
            Some(next) => {
                self.now = Some(next);
                self.left = work_of(self.bytes);
                self.passed += 1;
                self.read();
                true
            }
            None => false,
        }
    }

    /// Lets all opportunities up to `until` pass; whole cycles at once.
    pub(crate) fn skip(&mut self, until: Instant) {
        while self.next.is_some_and(|next| next <= until) {
            if let Some((length, items)) = self.cycle
                && let Some(next) = self.next
            {
                let cycles = until.saturating_duration_since(next).as_nanos() / length.as_nanos().max(1);
                let span = u64::try_from(cycles * length.as_nanos()).map(Duration::from_nanos);
                if cycles > 0
                    && let Ok(span) = span
                {
                    self.base = later(self.base, span);
                    self.next = Some(later(next, span));
                    self.passed += items * cycles as u64;
                }
            }
            if !self.open(until) {
                break;
            }
        }
        self.close();
    }

    /// Uses up to `work` of what is left of the opportunity, and says how much.
    pub(crate) fn spend(&mut self, work: u128) -> u128 {
        let spent = work.min(self.left);
        self.left -= spent;
        self.used += spent;
        spent
    }

    /// The rest of the opportunity is lost.
    pub(crate) fn close(&mut self) {
        self.left = 0;
    }

    /// Bit-nanoseconds left of the opportunity that is open.
    pub(crate) fn left(&self) -> u128 {
        self.left
    }

    /// The opportunity that was opened last.
    pub(crate) fn now(&self) -> Option<Instant> {
        self.now
    }

    /// The next opportunity.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(crate) fn mean_rate_bps(&self) -> u64 {
        self.mean_rate_bps
    }

    /// Opportunities that have passed.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// Bytes of them that packets used.
    pub(crate) fn used_bytes(&self) -> u64 {
        (self.used / work_of(1)) as u64
    }

    /// Why there are no more opportunities.
    pub(crate) fn fault(&self) -> Option<&TraceError> {
        self.fault.as_ref()
    }

    fn read(&mut self) {
        self.next = match self.read_item() {
            Ok(next) => Some(next),
            Err(error) => {
                self.fault = Some(error);
                None
            }
        };
    }

    fn read_item(&mut self) -> Result<Instant, TraceError> {
        let item = match self.source.next_item()? {
            Some(item) => item,
            None => {
                if self.last.is_zero() {
                    return Err(TraceError::at(0, TraceFault::NoLength));
                }
                self.base = later(self.base, self.last);
                self.cycle = Some((self.last, self.items));
                self.last = Duration::ZERO;
                self.items = 0;
                self.source.rewind()?;
                self.source.next_item()?.ok_or(TraceError::at(0, TraceFault::Empty))?
            }
        };
        if item < self.last {
            return Err(TraceError::at(0, TraceFault::GoesBack));
        }
        self.last = item;
        self.items += 1;
        Ok(later(self.base, item))
    }
}

#[cfg(test)]
#[path = "opportunities/tests.rs"]
mod tests;
