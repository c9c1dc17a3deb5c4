//! NewReno (RFC 5681, RFC 6582): one segment more each round trip, half of it after a loss. Which losses make one event
//! is decided by the sender, with SACK (RFC 6675 §5).

use std::time::{Duration, Instant};

use super::congestion::{Algorithm, Window};

/// See the module.
#[derive(Debug, Default)]
pub struct Reno;

impl Algorithm for Reno {
    fn on_ack(&mut self, _: Instant, window: &mut Window, mut acked: u32, _: Duration) {
        if window.is_in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            window.grow(window.size, acked);
        }
    }

    fn on_loss(&mut self, window: &Window) -> u32 {
        (window.size / 2).max(2)
    }
}
