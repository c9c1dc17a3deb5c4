//! No congestion control: a radio of ours alone, whose rate is known and whose queue is ours [AeroTP §III-A].

use std::time::{Duration, Instant};

use super::{Controller, Reports};
use crate::{Bitrate, ByteCount};

/// Of a line's rate, what data takes where all around it takes the rest, and answers their turn.
const DATA: f64 = 0.6;
/// Of that, what video gets: the rest is for control and telemetry.
const VIDEO: f64 = 0.7;

/// A controller that controls nothing.
#[derive(Debug)]
pub struct OpenLoop {
    rate: Bitrate,
}

impl OpenLoop {
    /// For a line of this rate.
    pub fn new(rate: Bitrate) -> Self {
        Self { rate }
    }
}

impl Controller for OpenLoop {
    fn name(&self) -> &'static str {
        "open-loop"
    }

    fn on_reports(&mut self, _now: Instant, _reports: Reports<'_>) {}

    fn on_path_change(&mut self, _now: Instant) {}

    fn window(&self, _now: Instant) -> ByteCount {
        ByteCount(u64::MAX)
    }

    fn pacing_rate(&self, _now: Instant) -> Bitrate {
        self.rate
    }

    fn target_rate(&self) -> Bitrate {
        self.capacity() * VIDEO
    }

    fn capacity(&self) -> Bitrate {
        self.rate * DATA
    }

    fn queue_delay(&self) -> Duration {
        Duration::ZERO
    }
}
