//! What the link carries, read off busy pairs of packets.
//!
//! Two packets are a *busy pair* if the second would have arrived before the first had the link been free: then the link
//! was busy from one arrival to the next, and size over that time is its capacity. No queue has to be built to find it:
//! the packets of one frame, sent a little faster than the link, are probe enough.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Bitrate, ByteCount};

/// Span of a measurement, and how far it reaches back for [`MIN_PAIRS`].
const SPAN_US: u64 = 120_000;
const LONG_SPAN_US: u64 = 480_000;
const MIN_PAIRS: usize = 8;
/// A packet must be this much earlier than free flow for its pair to count as busy: timestamps are not perfect.
const BUSY_MARGIN_US: i64 = 1_500;
/// The link was the limit if this share of what arrived was in busy pairs.
const BUSY_SHARE: f64 = 0.4;
/// Samples kept: 480 ms at 100 Mbit/s.
const MAX_SAMPLES: usize = 4096;

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub sent_us: u64,
    pub arrived_us: u64,
    pub bytes: u64,
}

/// What the arrivals of late say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// The link was the limit, and carried this.
    Limited(Bitrate),
    /// Nothing waited; this arrived.
    Free(Bitrate),
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    arrived_us: u64,
    bytes: u64,
    /// Since the arrival before it, if the link was busy in between.
    busy_us: Option<u64>,
}

/// Arrivals of late.
#[derive(Debug, Default)]
pub(super) struct BusyPairs {
    samples: VecDeque<Sample>,
    last_arrival_us: Option<u64>,
}

impl BusyPairs {
    /// Takes in an arrival, in order of sending. `free_us`: smallest (receive clock - send clock) of a packet that meets no
    /// queue.
    pub fn on_arrival(&mut self, packet: Arrival, free_us: i64) {
        let Arrival { sent_us, arrived_us, bytes } = packet;
        let before = self.last_arrival_us.replace(self.last_arrival_us.map_or(arrived_us, |last| last.max(arrived_us)));
        let busy_us = before.and_then(|before| {
            let free_flow = sent_us as i64 + free_us + BUSY_MARGIN_US;
            (free_flow < before as i64).then(|| arrived_us.checked_sub(before)).flatten()
        });
        if self.samples.len() == MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { arrived_us, bytes, busy_us });
    }

    /// What the arrivals up to now say; `None` before the first.
    pub fn verdict(&mut self) -> Option<Verdict> {
        let newest = self.last_arrival_us?;
        while self.samples.front().is_some_and(|sample| sample.arrived_us + LONG_SPAN_US < newest) {
            self.samples.pop_front();
        }
        let (mut all, mut busy, mut busy_us, mut pairs) = (0, 0, 0, 0);
        for sample in self.samples.iter().rev() {
            if sample.arrived_us + SPAN_US < newest && pairs >= MIN_PAIRS {
                break;
            }
            all += sample.bytes;
            if let Some(us) = sample.busy_us {
                busy += sample.bytes;
                busy_us += us;
                pairs += 1;
            }
        }
        if pairs >= MIN_PAIRS / 2 && busy as f64 > BUSY_SHARE * all as f64 && busy_us > 0 {
            let rate = Bitrate::from_transfer(ByteCount(busy), Duration::from_micros(busy_us));
            return Some(Verdict::Limited(rate));
        }
        let span = self.samples.front().map_or(0, |first| newest.saturating_sub(first.arrived_us));
        let bytes = self.samples.iter().map(|sample| sample.bytes).sum();
        Some(Verdict::Free(Bitrate::from_transfer(ByteCount(bytes), Duration::from_micros(span.max(SPAN_US)))))
    }

    /// Forgets everything: what comes next came another way, or after a pause.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
