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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// When pauses began, and how long they lasted, of a floor that is taken in every 10 ms for 12 s; all in ms.
    fn pauses(floor_ms: impl Fn(u32) -> u32, base_at_ms: Option<u32>) -> Vec<(u32, u32)> {
        let (start, mut drain, mut pauses) = (Instant::now(), Drain::new(), Vec::new());
        for at in (0..12_000).step_by(10) {
            let now = start + MS * at;
            if base_at_ms == Some(at) {
                drain.on_base(now);
            }
            let before = drain.ends();
            drain.on_floor(now, MS * floor_ms(at));
            if let Some(ends) = drain.ends().filter(|_| drain.ends() != before) {
                assert!(drain.is_draining(now) && !drain.is_draining(ends));
                pauses.push((at, (ends - now).as_millis() as u32));
            }
        }
        pauses
    }

    #[test]
    fn a_floor_that_has_not_been_low_for_five_seconds_is_worked_off_by_half_as_much_again() {
        assert_eq!(pauses(|_| 20, None), [(5_000, 30), (10_000, 30)]);
        assert_eq!(pauses(|_| 8, None), [(5_000, 12), (10_000, 12)]);
        assert_eq!(pauses(|_| 7, None), [], "it is low");
        assert_eq!(pauses(|_| 1_000, None)[0], (5_000, 400), "not for longer");
    }

    #[test]
    fn one_low_floor_is_enough_and_another_base_begins_anew() {
        assert_eq!(pauses(|at| if at == 4_000 { 0 } else { 20 }, None), [(9_000, 30)]);
        assert_eq!(pauses(|_| 20, Some(3_000)), [(8_000, 30)]);
    }
}
