//! Propagation: the delay in force when a packet leaves the server, a shift of it, and the packet's jitter.
//!
//! - The **delay** applies to packets that enter from then on; what is flying stays as it is. A **shift** is added to
//!   it, and may be negative: a handover to another cell changes the base delay by it. Their sum is at least 0.
//! - **Order**: without reordering, a packet that would overtake is delivered at the same instant as the one ahead of
//!   it, be that because of jitter or because the delay was lowered. With reordering jitter it overtakes; packets due
//!   at the same instant come out in the order in which they entered. Lowering the delay overtakes too then.
//! - **Grants**: a medium that lets this direction speak only now and then. What would be delivered between two grants
//!   is delivered together at the next one, in order.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use super::later;

/// The packets under way.
#[derive(Debug)]
pub(crate) struct DelayLine<P> {
    delay: Duration,
    /// Nanoseconds added to the delay.
    shift: i64,
    /// Deliveries are at the first and whole multiples of the second after it.
    grants: Option<(Instant, Duration)>,
    /// Those that keep their order.
    flying: VecDeque<(Instant, P)>,
    /// Those that may overtake. A path that changes its mind in mid-run has both.
    loose: BinaryHeap<Loose<P>>,
    /// Latest delivery time of all that entered.
    last: Option<Instant>,
    entered: u64,
}

impl<P> DelayLine<P> {
    pub(crate) fn new(delay: Duration) -> Self {
        Self {
            delay,
            shift: 0,
            grants: None,
            flying: VecDeque::new(),
            loose: BinaryHeap::new(),
            last: None,
            entered: 0,
        }
    }

    /// Applies to packets that enter from now on.
    pub(crate) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// Nanoseconds to add to the delay of packets that enter from now on.
    pub(crate) fn set_shift(&mut self, shift: i64) {
        self.shift = shift;
    }

    /// Applies to packets that enter from now on; a time of 0 is none.
    pub(crate) fn set_grants(&mut self, start: Instant, every: Duration) {
        self.grants = (!every.is_zero()).then_some((start, every));
    }

    /// The delay in force, shift included.
    pub(crate) fn delay(&self) -> Duration {
        let shift = Duration::from_nanos(self.shift.unsigned_abs());
        if self.shift < 0 { self.delay.saturating_sub(shift) } else { self.delay.saturating_add(shift) }
    }

    pub(crate) fn push(&mut self, entered: Instant, jitter: Duration, may_overtake: bool, packet: P) {
        let order = self.entered;
        self.entered += 1;
        if may_overtake {
            let due = self.granted(later(later(entered, self.delay()), jitter));
            self.last = self.last.max(Some(due));
            self.loose.push(Loose { due, order, packet });
        } else {
            let due = self.due_if_entering(entered, jitter);
            self.last = Some(due);
            self.flying.push_back((due, packet));
        }
    }

    /// When a packet that enters at `entered` and keeps its order will be delivered.
    pub(crate) fn due_if_entering(&self, entered: Instant, jitter: Duration) -> Instant {
        let due = self.granted(later(later(entered, self.delay()), jitter));
        self.last.map_or(due, |last| last.max(due))
    }

    /// The first grant from `due` on.
    fn granted(&self, due: Instant) -> Instant {
        let Some((start, every)) = self.grants else { return due };
        let since = due.saturating_duration_since(start).as_nanos();
        let missing = since.next_multiple_of(every.as_nanos()) - since;
        later(due.max(start), Duration::from_nanos(u64::try_from(missing).unwrap_or(u64::MAX)))
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        let ordered = self.flying.front().map(|(due, _)| *due);
        let loose = self.loose.peek().map(|loose| loose.due);
        match (ordered, loose) {
            (Some(ordered), Some(loose)) => Some(ordered.min(loose)),
            (ordered, loose) => ordered.or(loose),
        }
    }

    /// The next packet that is due at `now`, and when it was.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, P)> {
        let due = self.next_due().filter(|due| *due <= now)?;
        if self.flying.front().is_some_and(|(ordered, _)| *ordered == due) {
            return self.flying.pop_front();
        }
        self.loose.pop().map(|loose| (loose.due, loose.packet))
    }
}

#[derive(Debug)]
struct Loose<P> {
    due: Instant,
    order: u64,
    packet: P,
}

/// The heap gives out the greatest first: that is the earliest here.
impl<P> Ord for Loose<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

impl<P> PartialOrd for Loose<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Loose<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<P> Eq for Loose<P> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::{epoch, ms};

    fn enter(line: &mut DelayLine<char>, at: Instant, packet: char) {
        line.push(at, Duration::ZERO, false, packet);
    }

    #[test]
    fn delivers_exactly_when_due() {
        let start = epoch();
        let mut line = DelayLine::new(ms(30));
        enter(&mut line, start, 'a');
        assert_eq!(line.pop(start + ms(30) - Duration::from_nanos(1)), None);
        assert_eq!(line.pop(start + ms(30)), Some((start + ms(30), 'a')));
    }

    #[test]
    fn a_lower_delay_does_not_reorder() {
        let start = epoch();
        let mut line = DelayLine::new(ms(100));
        enter(&mut line, start, 'a');
        line.set_delay(ms(10));
        enter(&mut line, start + ms(1), 'b');
        enter(&mut line, start + ms(95), 'c');
        assert_eq!(line.pop(start + ms(99)), None);
        assert_eq!(line.pop(start + ms(100)), Some((start + ms(100), 'a')));
        assert_eq!(line.pop(start + ms(100)), Some((start + ms(100), 'b')));
        assert_eq!(line.pop(start + ms(104)), None);
        assert_eq!(line.pop(start + ms(105)), Some((start + ms(105), 'c')));
    }

    #[test]
    fn a_higher_delay_leaves_what_is_already_flying_alone() {
        let start = epoch();
        let mut line = DelayLine::new(ms(10));
        enter(&mut line, start, 'a');
        line.set_delay(ms(100));
        assert_eq!(line.pop(start + ms(10)), Some((start + ms(10), 'a')));
    }

    #[test]
    fn what_comes_between_two_grants_is_delivered_with_the_next() {
        let start = epoch();
        let mut line = DelayLine::new(ms(10));
        line.set_grants(start, ms(25));
        for (at, packet) in [(1, 'a'), (14, 'b'), (15, 'c'), (16, 'd')] {
            enter(&mut line, start + ms(at), packet);
        }
        line.push(start + ms(17), ms(30), true, 'e');
        let mut due = |at| std::iter::from_fn(|| line.pop(start + at)).collect::<Vec<_>>();
        assert_eq!(due(ms(25) - Duration::from_nanos(1)), []);
        assert_eq!(due(ms(49)), ['a', 'b', 'c'].map(|packet| (start + ms(25), packet)));
        assert_eq!(due(ms(74)), [(start + ms(50), 'd')]);
        assert_eq!(due(ms(75)), [(start + ms(75), 'e')]);
        line.set_grants(start, Duration::ZERO);
        enter(&mut line, start + ms(80), 'f');
        assert_eq!(line.next_due(), Some(start + ms(90)));
    }

    #[test]
    fn a_shift_is_added_and_never_makes_the_delay_negative() {
        let mut line = DelayLine::<char>::new(ms(30));
        line.set_shift(60_000_000);
        assert_eq!(line.delay(), ms(90));
        line.set_shift(-20_000_000);
        assert_eq!(line.delay(), ms(10));
        line.set_shift(i64::MIN);
        assert_eq!(line.delay(), ms(0));
    }

    #[test]
    fn with_reordering_the_earlier_due_comes_first_and_equals_keep_their_order() {
        let start = epoch();
        let mut line = DelayLine::new(ms(10));
        for (jitter, packet) in [(9, 'a'), (0, 'b'), (4, 'c'), (4, 'd')] {
            line.push(start, ms(jitter), true, packet);
        }
        let mut order = Vec::new();
        while let Some((_, packet)) = line.pop(start + ms(19)) {
            order.push(packet);
        }
        assert_eq!(order, ['b', 'c', 'd', 'a']);
    }

    #[test]
    fn after_reordering_ends_nothing_overtakes_any_more() {
        let start = epoch();
        let mut line = DelayLine::new(ms(10));
        line.push(start, ms(50), true, 'a');
        line.push(start, ms(1), false, 'b');
        assert_eq!(line.pop(start + ms(59)), None);
        // Due at the same instant as the last one ahead.
        assert_eq!(line.next_due(), Some(start + ms(60)));
    }
}
