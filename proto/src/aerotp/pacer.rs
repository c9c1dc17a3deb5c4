//! Open-loop rate control [AeroTP §III-A]: a radio that is ours alone is sent to at its rate, whatever is lost.
//!
//! What slows it down is the radio's own word: ECN "slow down" and "stop", or the free share of its transmit buffer. Error
//! control never does.

use std::time::{Duration, Instant};

use super::Ecn;
use crate::{Bitrate, ByteCount};

/// What "slow down" leaves of the rate, at most once a round trip.
const SLOWER: f64 = 0.85;
/// What is added to it a round trip, of the configured rate.
const FASTER: f64 = 0.02;
/// Never below this share of the configured rate.
const LEAST: f64 = 0.05;
/// After "stop" one segment leaves in this time, to hear whether it is over.
const PROBE: Duration = Duration::from_millis(200);
/// Waiting for as many bytes as this is no sign of too much being sent: a segment of each side's, and one that waits.
const QUEUED: ByteCount = ByteCount(1200);
/// What is to be made up for at most.
const MOST_OWED: Duration = Duration::from_secs(1);
/// A radio with less free in its buffer, in percent, is to be sent less; with more it may be sent more.
const BUFFER_SCARCE: u8 = 33;
const BUFFER_FREE: u8 = 66;

/// When the next segment may leave.
#[derive(Debug)]
pub(super) struct Pacer {
    configured: Bitrate,
    /// What the radio itself said, if it did.
    hinted: Option<Bitrate>,
    factor: f64,
    /// The line is taken until then.
    taken: Option<Instant>,
    changed: Option<Instant>,
    stopped: bool,
    /// What the other side had of the line that has not been made up for.
    owed: Duration,
    /// From us to the other side and back; zero if each has a channel of its own.
    turns: Duration,
    shared: bool,
    /// A pause of the process is caught up by at most this.
    slack: Duration,
}

impl Pacer {
    /// `turn_around`: the other side sends on the same channel, which takes this long to turn around.
    pub fn new(configured: Bitrate, turn_around: Option<Duration>) -> Self {
        Self {
            configured,
            hinted: None,
            factor: 1.0,
            taken: None,
            changed: None,
            stopped: false,
            owed: Duration::ZERO,
            turns: turn_around.unwrap_or_default() * 2,
            shared: turn_around.is_some(),
            slack: Duration::from_millis(2),
        }
    }

    /// Rate at which segments leave now.
    pub fn rate(&self) -> Bitrate {
        self.rate_of_line() * self.factor
    }

    pub fn is_free(&self, now: Instant) -> bool {
        self.taken.is_none_or(|until| until <= now)
    }

    /// When the line is free.
    pub fn free_at(&self, now: Instant) -> Instant {
        self.taken.map_or(now, |until| until.max(now))
    }

    pub fn on_sent(&mut self, now: Instant, bytes: usize) {
        if self.taken.is_none_or(|until| until + self.slack < now) {
            self.owed = Duration::ZERO; // The line has been idle.
        }
        let earliest = now.checked_sub(self.slack).unwrap_or(now);
        let from = self.taken.map_or(now, |until| until.max(earliest));
        let takes = if self.stopped { PROBE } else { self.rate().time_for(ByteCount::from(bytes)).min(PROBE * 50) };
        let makes_up = self.owed.min(takes + self.turns);
        self.owed -= makes_up;
        self.taken = Some(from + takes + makes_up);
    }

    /// The other side has had the line for this long: what we gave it meanwhile has waited, and what follows has to make up for
    /// it. Half of the line is ours in any case: a segment makes up for no more than it takes itself.
    pub fn on_heard(&mut self, now: Instant, bytes: usize) {
        if self.shared && self.taken.is_some_and(|until| until > now) {
            let takes = self.rate_of_line().time_for(ByteCount::from(bytes)).min(MOST_OWED);
            self.owed = (self.owed + takes + self.turns).min(MOST_OWED);
        }
    }

    /// How much longer than the shortest an answer took. What both sides send adds up to more than the line carries if that is
    /// more than a few segments take, whatever has been reckoned.
    pub fn on_delay(&mut self, now: Instant, delay: Duration, rtt: Duration) {
        let segments = self.rate_of_line().time_for(QUEUED).min(MOST_OWED);
        let due = self.changed.is_none_or(|at| now.saturating_duration_since(at) >= rtt.max(Duration::from_millis(10)));
        if self.shared && due {
            match delay > segments + self.turns * 4 {
                true => self.scale(now, SLOWER),
                false => self.rise(now),
            }
        }
    }

    fn rate_of_line(&self) -> Bitrate {
        self.hinted.map_or(self.configured, |hinted| hinted.min(self.configured))
    }

    /// A segment of the other side's says how what we send fares.
    pub fn on_ecn(&mut self, now: Instant, ecn: Ecn, rtt: Duration) {
        let due = self.changed.is_none_or(|at| now.saturating_duration_since(at) >= rtt.max(Duration::from_millis(10)));
        match ecn {
            Ecn::Stop => self.stopped = true,
            Ecn::None | Ecn::Capable | Ecn::SlowDown => self.stopped = false,
        }
        if due {
            match ecn {
                Ecn::SlowDown | Ecn::Stop => self.scale(now, SLOWER),
                Ecn::None | Ecn::Capable => self.rise(now),
            }
        }
    }

    /// The radio says how much of its transmit buffer is free, in percent.
    pub fn on_buffer(&mut self, now: Instant, free: u8) {
        match free {
            _ if free < BUFFER_SCARCE => self.scale(now, SLOWER),
            _ if free > BUFFER_FREE => self.rise(now),
            _ => {}
        }
    }

    /// The radio says at what rate it sends.
    pub fn on_hint(&mut self, rate: Bitrate) {
        self.hinted = Some(rate).filter(|rate| *rate > Bitrate::ZERO);
    }

    fn scale(&mut self, now: Instant, by: f64) {
        self.factor = (self.factor * by).max(LEAST);
        self.changed = Some(now);
    }

    fn rise(&mut self, now: Instant) {
        self.factor = (self.factor + FASTER).min(1.0);
        self.changed = Some(now);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    #[test]
    fn segments_leave_at_the_rate_and_a_pause_is_not_caught_up() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut pacer = Pacer::new(Bitrate::kbps(80), None);
        assert!(pacer.is_free(start));
        pacer.on_sent(start, 100);
        assert_eq!(pacer.free_at(start), start + ms(10));
        pacer.on_sent(start + ms(10), 100);
        assert_eq!(pacer.free_at(start), start + ms(20));
        pacer.on_sent(start + ms(1000), 100);
        assert_eq!(pacer.free_at(start), start + ms(1008), "2 ms of the pause are caught up");
    }

    #[test]
    fn the_radio_slows_it_and_stops_it() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut pacer = Pacer::new(Bitrate::kbps(100), None);
        pacer.on_ecn(start, Ecn::SlowDown, ms(100));
        pacer.on_ecn(start + ms(50), Ecn::SlowDown, ms(100));
        assert_eq!(pacer.rate(), Bitrate(85_000), "once a round trip");
        pacer.on_ecn(start + ms(100), Ecn::None, ms(100));
        assert_eq!(pacer.rate(), Bitrate(87_000));
        pacer.on_ecn(start + ms(110), Ecn::Stop, ms(100));
        pacer.on_sent(start + ms(110), 10);
        assert_eq!(pacer.free_at(start), start + ms(310), "a probe each 200 ms");
        pacer.on_hint(Bitrate::kbps(50));
        assert_eq!(pacer.rate(), Bitrate::kbps(50) * 0.87);
        for n in 0..100 {
            pacer.on_buffer(start + ms(n), 10);
        }
        assert_eq!(pacer.rate(), Bitrate::kbps(50) * LEAST);
        for n in 0..100 {
            pacer.on_buffer(start + ms(n), 90);
        }
        assert_eq!(pacer.rate(), Bitrate::kbps(50));
    }
}
