//! Relative one-way delay: how much longer a packet took than the fastest of late, without synchronised clocks.

use std::collections::VecDeque;

use crate::wire::datagram::unwrap_us;

/// The fastest packet is remembered this long; a path whose base delay grew is taken for what it is after it.
const MEMORY_US: u64 = 10_000_000;
/// Minima are kept per slice of time.
const SLICE_US: u64 = 500_000;
/// A difference that can only be a clock that was set, or another sender.
const JUMP_US: u64 = 30_000_000;

/// Tracks the smallest (receive clock - send clock) of the last ten seconds.
#[derive(Debug, Clone, Default)]
pub struct DelayBase {
    last_sent_us: Option<u64>,
    /// (slice, smallest difference in it), oldest first.
    minima: VecDeque<(u64, i64)>,
}

impl DelayBase {
    /// Takes in a packet stamped `sent_us` by its sender's wrapping clock that arrived at `received_us` of ours; returns
    /// its delay over the base in microseconds.
    pub fn on_packet(&mut self, sent_us: u32, received_us: u64) -> u64 {
        let difference = self.difference(sent_us, received_us);
        if self.base().is_some_and(|base| difference.abs_diff(base) > JUMP_US) {
            self.reset();
        }
        let sent = self.unwrap(sent_us);
        self.last_sent_us = Some(self.last_sent_us.map_or(sent, |last| last.max(sent)));
        let difference = received_us as i64 - sent as i64;
        let slice = received_us / SLICE_US;
        match self.minima.back_mut() {
            Some((last, minimum)) if *last == slice => *minimum = difference.min(*minimum),
            _ => self.minima.push_back((slice, difference)),
        }
        while self.minima.front().is_some_and(|(first, _)| *first + MEMORY_US / SLICE_US < slice) {
            self.minima.pop_front();
        }
        let base = self.base().unwrap_or(difference);
        (difference - base).max(0) as u64
    }

    /// Delay over the base of something stamped `sent_us` and here at `received_us`, without learning from it; zero
    /// before the first packet. A stamp from another life of the sender counts as no delay.
    pub fn excess_us(&self, sent_us: u32, received_us: u64) -> u64 {
        let Some(base) = self.base() else { return 0 };
        let excess = (self.difference(sent_us, received_us) - base).max(0) as u64;
        if excess > JUMP_US { 0 } else { excess }
    }

    /// The smallest difference, receive clock less send clock, in microseconds.
    pub fn base(&self) -> Option<i64> {
        self.minima.iter().map(|(_, minimum)| *minimum).min()
    }

    /// Forgets everything: another sender, or another path.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    fn unwrap(&self, sent_us: u32) -> u64 {
        // Clocks begin anywhere; half a wrap up keeps differences positive on both sides.
        unwrap_us(self.last_sent_us.unwrap_or((1 << 40) + u64::from(sent_us)), sent_us)
    }

    fn difference(&self, sent_us: u32, received_us: u64) -> i64 {
        received_us as i64 - self.unwrap(sent_us) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_over_base_survives_the_wrap_and_forgets_after_ten_seconds() {
        let mut base = DelayBase::default();
        let sent = |at: u64| (at + u64::from(u32::MAX) - 2_000_000) as u32;
        assert_eq!(base.on_packet(sent(0), 30_000), 0);
        assert_eq!(base.on_packet(sent(1_000_000), 1_055_000), 25_000);
        assert_eq!(base.on_packet(sent(3_000_000), 3_030_000), 0, "the clock has wrapped");
        assert_eq!(base.excess_us(sent(3_000_000), 3_330_000), 300_000);
        // The path becomes 50 ms longer: noticed once the old minimum has aged out.
        for at in 4..=13 {
            assert_eq!(base.on_packet(sent(at * 1_000_000), at * 1_000_000 + 80_000), 50_000, "{at}");
        }
        assert_eq!(base.on_packet(sent(14_000_000), 14_080_000), 0);
        assert_eq!(base.on_packet(sent(14_100_000), 14_130_000), 0, "shorter again: at once");
    }

    #[test]
    fn another_clock_is_not_a_delay() {
        let mut base = DelayBase::default();
        base.on_packet(5_000_000, 1_000_000);
        assert_eq!(base.excess_us(3_000_000_000, 1_100_000), 0);
        assert_eq!(base.on_packet(3_000_000_000, 1_100_000), 0);
        assert_eq!(base.on_packet(3_000_100_000, 1_207_000), 7_000);
    }
}
