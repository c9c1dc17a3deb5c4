//! Controlled delay (RFC 8289): when to drop at the head of the queue.
//!
//! A packet's sojourn is taken when the server takes it. Once sojourns have been at or above `target` for `interval`, a
//! packet is dropped, the next one `interval / √count` later, until a packet waited less than `target` or no more than
//! one `mtu` waits. With `ecn` ECN-capable packets are marked instead of dropped, at the same times; the RFC leaves
//! that open, and Linux does the same.

use std::time::{Duration, Instant};

use super::later;

/// Parameters of CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDel {
    /// A standing queue of this is accepted (RFC 8289 §4.4).
    pub target: Duration,
    /// About the longest round trip that is usual (RFC 8289 §4.3).
    pub interval: Duration,
    /// Nothing is dropped while no more than so many bytes wait.
    pub mtu: usize,
    /// Mark what is ECN-capable instead of dropping it.
    pub ecn: bool,
}

impl Default for CoDel {
    /// 5 ms, 100 ms, 1500 bytes, without ECN.
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), mtu: 1500, ecn: false }
    }
}

/// The variables of RFC 8289 §5.3.
#[derive(Debug, Default)]
pub(crate) struct CoDelState {
    dropping: bool,
    /// When sojourns will have been above the target for an interval.
    first_above: Option<Instant>,
    /// When to drop next, or when the last drop was due.
    drop_next: Option<Instant>,
    /// Drops since this dropping state began, and how many it began with.
    count: u64,
    last_count: u64,
}

impl CoDelState {
    /// Whether the packet that is being taken may be dropped. `sojourn`: `None` when the queue is empty. `waiting`:
    /// bytes behind it.
    pub(crate) fn is_above(&mut self, codel: &CoDel, now: Instant, sojourn: Option<Duration>, waiting: usize) -> bool {
        if sojourn.is_none_or(|sojourn| sojourn < codel.target) || waiting <= codel.mtu {
            self.first_above = None;
            return false;
        }
        let first_above = *self.first_above.get_or_insert_with(|| later(now, codel.interval));
        // With an interval of zero it is above at once, else at the earliest with the next packet.
        now >= first_above
    }

    pub(crate) fn is_dropping(&self) -> bool {
        self.dropping
    }

    /// Whether, in the dropping state, a drop is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.dropping && self.drop_next.is_some_and(|due| now >= due)
    }

    /// After a drop in the dropping state: when the next one is due.
    pub(crate) fn next(&mut self, codel: &CoDel) {
        self.count += 1;
        self.drop_next = self.drop_next.map(|due| self.control_law(codel, due));
    }

    pub(crate) fn leave(&mut self) {
        self.dropping = false;
    }

    /// After a drop that ended the dropping state.
    pub(crate) fn leave_counted(&mut self) {
        self.count += 1;
        self.dropping = false;
    }

    /// After the first drop. If the last dropping state was not long ago, it goes on where that one ended.
    pub(crate) fn begin(&mut self, codel: &CoDel, now: Instant) {
        let delta = self.count.saturating_sub(self.last_count);
        let recent = self.drop_next.is_some_and(|last| now.saturating_duration_since(last) < codel.interval * 16);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = Some(self.control_law(codel, now));
        self.dropping = true;
    }

    /// `interval / √count` after `from`, in integers: the root to 16 fractional bits.
    fn control_law(&self, codel: &CoDel, from: Instant) -> Instant {
        let root = (self.count.clamp(1, u64::from(u32::MAX)) << 32).isqrt();
        let nanos = (codel.interval.as_nanos() << 16) / u128::from(root);
        // An interval of zero would otherwise never let time pass.
        later(from, Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::{epoch, ms};

    #[test]
    fn the_control_law_shrinks_with_the_root_of_the_count() {
        let start = epoch();
        let codel = CoDel::default();
        let after = |count| {
            let state = CoDelState { count, ..CoDelState::default() };
            state.control_law(&codel, start) - start
        };
        assert_eq!(after(1), ms(100));
        assert_eq!(after(4), ms(50));
        assert_eq!(after(100), ms(10));
        // √2 to 16 bits: within 10 µs of 70.7107 ms.
        assert!(after(2).abs_diff(Duration::from_nanos(70_710_678)) < Duration::from_micros(10));
    }

    #[test]
    fn above_only_after_an_interval_without_a_break() {
        let start = epoch();
        let codel = CoDel::default();
        let mut state = CoDelState::default();
        assert!(!state.is_above(&codel, start, Some(ms(5)), 1_501));
        assert!(!state.is_above(&codel, start + ms(100) - Duration::from_nanos(1), Some(ms(5)), 1_501));
        assert!(state.is_above(&codel, start + ms(100), Some(ms(5)), 1_501));
        // One packet below the target, or no more than an MTU waiting, and it begins anew.
        assert!(!state.is_above(&codel, start + ms(101), Some(ms(5) - Duration::from_nanos(1)), 1_501));
        assert!(!state.is_above(&codel, start + ms(102), Some(ms(5)), 1_501));
        assert!(!state.is_above(&codel, start + ms(202), Some(ms(5)), 1_500));
    }
}
