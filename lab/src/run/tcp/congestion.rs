//! The congestion window, in segments as Linux counts it, and what makes it grow and shrink.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Segments that may be under way.
    pub size: u32,
    /// Slow start ends here.
    pub threshold: u32,
    /// Segments acknowledged since it last grew.
    pub count: u32,
}

/// Window of a new connection, in segments (RFC 6928 §2; Linux: `TCP_INIT_CWND`).
pub const INITIAL: u32 = 10;

/// A way to control it.
pub trait Algorithm: Debug {
    /// `acked` segments were acknowledged outside recovery, while the window was the limit.
    fn on_ack(&mut self, now: Instant, window: &mut Window, acked: u32, min_rtt: Duration);
    /// Something was lost; gives the threshold to go down to.
    fn on_loss(&mut self, window: &Window) -> u32;
    /// The retransmission timer expired.
    fn on_timeout(&mut self) {}
    /// Nothing was under way for so long.
    fn on_idle(&mut self, _idle: Duration) {}
}

impl Default for Window {
    fn default() -> Self {
        Self { size: INITIAL, threshold: u32::MAX, count: 0 }
    }
}

impl Window {
    /// Whether it doubles each round trip.
    pub fn is_in_slow_start(&self) -> bool {
        self.size < self.threshold
    }

    /// Grows by a segment for each that was acknowledged, up to the threshold; gives those left over.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.size.saturating_add(acked).min(self.threshold);
        let left = acked - (grown - self.size);
        self.size = grown;
        left
    }

    /// Grows by a segment for each `per` that were acknowledged.
    pub fn grow(&mut self, per: u32, acked: u32) {
        if self.count >= per {
            self.count = 0;
            self.size += 1;
        }
        self.count += acked;
        self.size += self.count / per;
        self.count %= per;
    }
}
