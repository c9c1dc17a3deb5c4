//! Propagation delay.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Holds each packet for the delay that was in force when it entered, and never lets one overtake another.
///
/// When the delay is lowered, a packet that would overtake is delivered at the same instant as the one ahead of it.
#[derive(Debug)]
pub(crate) struct DelayLine<P> {
    delay: Duration,
    flying: VecDeque<(Instant, P)>,
    /// Delivery time of the last packet that entered.
    last: Option<Instant>,
}

impl<P> DelayLine<P> {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, flying: VecDeque::new(), last: None }
    }

    /// Applies to packets that enter from now on.
    pub(crate) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    pub(crate) fn push(&mut self, entered: Instant, packet: P) {
        let due = self.due_if_entering(entered);
        self.last = Some(due);
        self.flying.push_back((due, packet));
    }

    /// When a packet that enters at `entered` will be delivered.
    pub(crate) fn due_if_entering(&self, entered: Instant) -> Instant {
        let due = entered + self.delay;
        self.last.map_or(due, |last| last.max(due))
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.flying.front().map(|(due, _)| *due)
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Option<P> {
        if self.next_due()? > now {
            return None;
        }
        self.flying.pop_front().map(|(_, packet)| packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::{epoch, ms};

    #[test]
    fn delivers_exactly_when_due() {
        let start = epoch();
        let mut line = DelayLine::new(ms(30));
        line.push(start, 'a');
        assert_eq!(line.pop(start + ms(30) - Duration::from_nanos(1)), None);
        assert_eq!(line.pop(start + ms(30)), Some('a'));
    }

    #[test]
    fn a_lower_delay_does_not_reorder() {
        let start = epoch();
        let mut line = DelayLine::new(ms(100));
        line.push(start, 'a');
        line.set_delay(ms(10));
        line.push(start + ms(1), 'b');
        line.push(start + ms(95), 'c');
        assert_eq!(line.pop(start + ms(99)), None);
        assert_eq!(line.pop(start + ms(100)), Some('a'));
        assert_eq!(line.pop(start + ms(100)), Some('b'));
        assert_eq!(line.pop(start + ms(104)), None);
        assert_eq!(line.pop(start + ms(105)), Some('c'));
    }

    #[test]
    fn a_higher_delay_leaves_what_is_already_flying_alone() {
        let start = epoch();
        let mut line = DelayLine::new(ms(10));
        line.push(start, 'a');
        line.set_delay(ms(100));
        assert_eq!(line.pop(start + ms(10)), Some('a'));
    }
}
