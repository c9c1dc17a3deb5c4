//! A pause for the queue to run empty.
//!
//! A link that is always the limit never shows its delay without a queue, and the oldest sample that did is forgotten: the
//! base would rise by the queue, and then the queue by the base, without end. So a floor that has not been low for long is
//! worked off at once.

use std::time::{Duration, Instant};

/// The floor is low below this.
const LOW: Duration = Duration::from_millis(8);
/// It has to be low this often.
const EVERY: Duration = Duration::from_secs(5);
/// The pause is this many times the floor, and at most so long.
const FACTOR: f64 = 1.5;
const LONGEST: Duration = Duration::from_millis(400);

/// When the next pause is due.
#[derive(Debug)]
pub(super) struct Drain {
    last_low: Option<Instant>,
    until: Option<Instant>,
}

impl Drain {
    pub fn new() -> Self {
        Self { last_low: None, until: None }
    }

    /// Takes in the floor.
    pub fn on_floor(&mut self, now: Instant, floor: Duration) {
        let last_low = *self.last_low.get_or_insert(now);
        if floor < LOW {
            self.last_low = Some(now);
        } else if now.saturating_duration_since(last_low) >= EVERY {
            self.last_low = Some(now);
            self.until = Some(now + floor.mul_f64(FACTOR).min(LONGEST));
        }
    }

    /// The base is another: the floor begins anew.
    pub fn on_base(&mut self, now: Instant) {
        self.last_low = Some(now);
    }

    /// When the pause is over.
    pub fn ends(&self) -> Option<Instant> {
        self.until
    }

    /// Whether no frame is to be encoded for the queue's sake.
    pub fn is_draining(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}
