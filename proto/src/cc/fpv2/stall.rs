//! Blackouts: nothing is heard though something should be.

use std::time::{Duration, Instant};

/// Silence beyond the round trip that makes a blackout.
const PATIENCE: Duration = Duration::from_millis(120);

/// Watches for silence.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// When the first packet left since something was last heard.
    unanswered: Option<Instant>,
    stalled: bool,
}

impl Stall {
    /// Something leaves of which the other side tells at once.
    pub fn on_sent(&mut self, now: Instant) {
        self.unanswered.get_or_insert(now);
    }

    /// Something is heard; whether that ends a blackout.
    pub fn on_word(&mut self) -> bool {
        self.unanswered = None;
        std::mem::take(&mut self.stalled)
    }

    /// Time passes. `caution`: from 0 to 1, makes it more impatient.
    pub fn poll(&mut self, now: Instant, rtt: Duration, caution: f64) {
        let patience = PATIENCE.mul_f64(1.0 - 0.5 * caution.clamp(0.0, 1.0));
        self.stalled |= self.unanswered.is_some_and(|since| now.saturating_duration_since(since) > rtt + patience);
    }

    /// Whether a blackout lasts.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }
}
