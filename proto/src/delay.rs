//! Relative one-way delay: how much longer a packet took than the fastest of late, without synchronised clocks.
//!
//! Two bases. The *fastest* packet of late says what queueing a packet met, for statistics. A *trusted* one says how old a
//! message is, for deciding whether it may still be used: only a heartbeat counts that echoes a recent stamp of ours, since
//! such a heartbeat cannot itself have been held up for long. What the network held through an outage is thus never taken
//! for fresh, however long nothing was heard.

use std::collections::VecDeque;

use crate::wire::datagram::unwrap_us;

/// The fastest packet is remembered for this much time in which packets came.
const MEMORY_US: u64 = 10_000_000;
/// Minima are kept per slice of it.
const SLICE_US: u64 = 500_000;
/// A pause counts as this much time at most: silence does not make us forget.
const PAUSE_US: u64 = 200_000;
/// A heartbeat is trusted if what it echoes left us at most this long ago: a satellite's round trip and a full queue.
const TRUSTED_RTT_US: u64 = 1_500_000;
/// Trusted heartbeats count for this much time in which packets came: a path that became longer is believed after that.
/// Not sooner, or what was held for a second would be.
const TRUST_US: u64 = 2_000_000;

/// Differences (receive clock - send clock) of what came in.
#[derive(Debug, Clone, Default)]
pub struct DelayBase {
    last_sent_us: Option<u64>,
    last_received_us: Option<u64>,
    active_us: u64,
    /// (slice, smallest difference in it), oldest first.
    minima: VecDeque<(u64, i64)>,
    /// (arrival in active time, difference) of trusted heartbeats, oldest first.
    trusted: VecDeque<(u64, i64)>,
}

impl DelayBase {
    /// Takes in a packet stamped `sent_us` by its sender's wrapping clock that arrived at `received_us` of ours; returns
    /// its delay over the fastest in microseconds.
    pub fn on_packet(&mut self, sent_us: u32, received_us: u64) -> u64 {
        let sent = self.unwrap(sent_us);
        self.last_sent_us = Some(self.last_sent_us.map_or(sent, |last| last.max(sent)));
        let pause = self.last_received_us.map_or(0, |last| received_us.saturating_sub(last));
        self.last_received_us = Some(self.last_received_us.map_or(received_us, |last| last.max(received_us)));
        self.active_us += pause.min(PAUSE_US);
        let difference = received_us as i64 - sent as i64;
        let slice = self.active_us / SLICE_US;
        match self.minima.back_mut() {
            Some((last, minimum)) if *last == slice => *minimum = difference.min(*minimum),
            _ => self.minima.push_back((slice, difference)),
        }
        while self.minima.front().is_some_and(|(first, _)| *first + MEMORY_US / SLICE_US < slice) {
            self.minima.pop_front();
        }
        (difference - self.base().unwrap_or(difference)).max(0) as u64
    }

    /// Takes in a heartbeat, after [`DelayBase::on_packet`], whose echo of ours is `rtt_us` old.
    pub fn on_heartbeat(&mut self, sent_us: u32, received_us: u64, rtt_us: u64) {
        if rtt_us > TRUSTED_RTT_US {
            return;
        }
        self.trusted.push_back((self.active_us, self.difference(sent_us, received_us)));
        while self.trusted.front().is_some_and(|(at, _)| *at + TRUST_US < self.active_us) {
            self.trusted.pop_front();
        }
    }

    /// Age over propagation of something stamped `sent_us` that is here at `received_us`, in microseconds; `None` before
    /// the first trusted heartbeat.
    pub fn age_us(&self, sent_us: u32, received_us: u64) -> Option<u64> {
        let base = self.trusted.iter().map(|(_, difference)| *difference).min()?;
        Some((self.difference(sent_us, received_us) - base).max(0) as u64)
    }

    /// Delay over the fastest of something stamped `sent_us` and here at `received_us`, without learning from it; zero
    /// before the first packet.
    pub fn excess_us(&self, sent_us: u32, received_us: u64) -> u64 {
        self.base().map_or(0, |base| (self.difference(sent_us, received_us) - base).max(0) as u64)
    }

    /// The smallest difference of late, in microseconds.
    pub fn base(&self) -> Option<i64> {
        self.minima.iter().map(|(_, minimum)| *minimum).min()
    }

    /// Forgets everything: another connection.
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
    fn delay_over_base_survives_the_wrap_and_forgets_after_ten_active_seconds() {
        let mut base = DelayBase::default();
        let sent = |at: u64| (at + u64::from(u32::MAX) - 2_000_000) as u32;
        assert_eq!(base.on_packet(sent(0), 30_000), 0);
        assert_eq!(base.on_packet(sent(1_000_000), 1_055_000), 25_000);
        assert_eq!(base.on_packet(sent(3_000_000), 3_030_000), 0, "the clock has wrapped");
        assert_eq!(base.excess_us(sent(3_000_000), 3_330_000), 300_000);
        // The path becomes 50 ms longer: noticed once the old minimum has aged out, in time with packets.
        let mut at = 3_030_000;
        let mut forgotten = None;
        for n in 0..200u64 {
            at += 100_000;
            if base.on_packet(sent(at - 80_000), at) == 0 {
                forgotten.get_or_insert(n);
            }
        }
        assert!((98..120).contains(&forgotten.unwrap()), "{forgotten:?}");
        assert_eq!(base.on_packet(sent(at - 30_000), at), 0, "shorter again: at once");
    }

    #[test]
    fn what_was_held_through_an_outage_is_as_old_as_it_is() {
        let mut base = DelayBase::default();
        assert_eq!(base.age_us(0, 30_000), None);
        base.on_packet(0, 30_000);
        base.on_heartbeat(0, 30_000, 60_000);
        assert_eq!(base.age_us(100_000, 135_000), Some(5_000));
        // Twenty seconds later the network gives out what it held: heartbeats too, but they echo old stamps.
        for sent in [200_000u32, 300_000, 400_000] {
            base.on_packet(sent, 20_000_000);
            base.on_heartbeat(sent, 20_000_000, 19_800_000);
            assert_eq!(base.age_us(sent, 20_000_000), Some(20_000_000 - u64::from(sent) - 30_000));
        }
        base.on_packet(20_010_000, 20_040_000);
        base.on_heartbeat(20_010_000, 20_040_000, 60_000);
        assert_eq!(base.age_us(20_020_000, 20_050_000), Some(0));
    }

    #[test]
    fn a_longer_path_is_believed_after_two_seconds() {
        let mut base = DelayBase::default();
        base.on_packet(0, 30_000);
        base.on_heartbeat(0, 30_000, 60_000);
        for at in (100_000..3_000_000u64).step_by(100_000) {
            base.on_packet(at as u32, at + 380_000);
            base.on_heartbeat(at as u32, at + 380_000, 760_000);
            let age = base.age_us(at as u32, at + 380_000).unwrap();
            // The gap before the first of them counts as 0.2 s.
            assert_eq!(age, if at > 1_900_000 { 0 } else { 350_000 }, "{at}");
        }
    }
}
