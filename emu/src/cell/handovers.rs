//! Outages that come from a list or a generator.
//!
//! Each has a time after the start, a length, and optionally a shift of the base delay that holds from its end on: a
//! new cell is nearer or farther. The shift is relative to the delay that the path is configured with, not to the last
//! shift. A handover that would begin before the one ahead of it has ended begins at that end. What packets meet
//! meanwhile is [`Outage`]'s.

use std::time::{Duration, Instant};

use super::later;
use crate::path::Outage;
use crate::trace::{Source, TraceError};

/// The link goes away for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// When it begins, since the start; never before the one ahead of it.
    pub at: Duration,
    /// For how long.
    pub lasts: Duration,
    /// From its end on the base delay is changed by so many nanoseconds. `None`: as before.
    pub delay_shift: Option<i64>,
}

/// Handovers to play; see [`Path::play_handovers`](crate::Path::play_handovers). When the source ends there are no
/// more.
#[derive(Debug)]
pub struct Handovers {
    /// In order of time. It is never rewound.
    pub source: Box<dyn Source<Handover>>,
    /// What happens to packets meanwhile; [`Outage::Hold`] is what LTE does.
    pub outage: Outage,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandoverChange {
    Begin(Outage),
    End { delay_shift: Option<i64> },
}

/// The handovers on the clock of a run.
#[derive(Debug)]
pub(crate) struct HandoverPlayer {
    handovers: Handovers,
    start: Instant,
    /// The next to begin, or the one that is going on.
    current: Option<(Instant, Handover)>,
    is_out: bool,
    fault: Option<TraceError>,
}

impl HandoverPlayer {
    pub(crate) fn new(start: Instant, handovers: Handovers) -> Self {
        let mut player = Self { handovers, start, current: None, is_out: false, fault: None };
        player.read(start);
        player
    }

    pub(crate) fn next_change(&self) -> Option<Instant> {
        let (begins, handover) = self.current?;
        Some(if self.is_out { later(begins, handover.lasts) } else { begins })
    }

    /// What happens at `next_change`.
    pub(crate) fn advance(&mut self) -> Option<HandoverChange> {
        let (begins, handover) = self.current?;
        self.is_out = !self.is_out;
        if self.is_out {
            return Some(HandoverChange::Begin(self.handovers.outage));
        }
        self.read(later(begins, handover.lasts));
        Some(HandoverChange::End { delay_shift: handover.delay_shift })
    }

    pub(crate) fn fault(&self) -> Option<&TraceError> {
        self.fault.as_ref()
    }

    fn read(&mut self, earliest: Instant) {
        self.current = match self.handovers.source.next_item() {
            Ok(next) => next.map(|handover| (later(self.start, handover.at).max(earliest), handover)),
            Err(error) => {
                self.fault = Some(error);
                None
            }
        };
    }
}

#[cfg(test)]
#[path = "handovers/tests.rs"]
mod tests;
