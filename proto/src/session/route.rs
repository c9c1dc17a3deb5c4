//! Which bearer telemetry and video take: the one by which they should be there first.

use std::time::{Duration, Instant};

use super::Session;
use super::bearer::{Bearer, OVERDUE};
use crate::{BearerId, Bitrate, ByteCount, Class, Usage};

/// A bearer has to be better for this long before it is turned to, unless the one in use has gone bad.
const DWELL: Duration = Duration::from_secs(1);
/// And by this much: a quarter, and 10 ms.
const CLEARLY: f64 = 1.25;
const MARGIN: Duration = Duration::from_millis(10);
/// What was learned of a bearer's capacity is believed for this long after it was last used.
const MEMORY: Duration = Duration::from_secs(60);
/// A packet of telemetry.
const PACKET: ByteCount = ByteCount(1200);
/// Pictures a second that a bearer's worth is judged by.
const PICTURES: u64 = 30;

/// The way of one class.
#[derive(Debug, Default)]
pub(super) struct Route {
    current: Option<BearerId>,
    /// One that has been better, and since when.
    better: Option<(BearerId, Instant)>,
}

/// How long something would take by a bearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prospect {
    bearer: BearerId,
    takes: Duration,
    /// For how long a report has been missing.
    overdue: Duration,
}

/// A change of the route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    to: BearerId,
    /// The former one has failed: what is under way on it is most likely lost.
    failed: bool,
}

impl Route {
    /// The bearer in use.
    pub fn current(&self) -> Option<BearerId> {
        self.current
    }

    /// Judges the bearers that may be used; gives a change if there is to be one.
    fn judge(&mut self, now: Instant, prospects: &[Prospect]) -> Option<Change> {
        let best = prospects.iter().min_by_key(|prospect| prospect.takes)?;
        let Some(current) = self.current else { return Some(Change { to: best.bearer, failed: false }) };
        let Some(mine) = prospects.iter().find(|prospect| prospect.bearer == current) else {
            return Some(Change { to: best.bearer, failed: true });
        };
        let is_better = |other: &Prospect| other.takes.mul_f64(CLEARLY) + MARGIN < mine.takes;
        if best.bearer == current || !is_better(best) {
            self.better = None;
            return None;
        }
        if mine.overdue > OVERDUE && mine.overdue > best.overdue {
            return Some(Change { to: best.bearer, failed: true });
        }
        let since = self.better.filter(|(bearer, _)| *bearer == best.bearer).map_or(now, |(_, since)| since);
        self.better = Some((best.bearer, since));
        let lasting = now.saturating_duration_since(since) >= DWELL;
        lasting.then_some(Change { to: best.bearer, failed: false })
    }

    fn turn_to(&mut self, bearer: BearerId) {
        *self = Self { current: Some(bearer), better: None };
    }
}

impl Session {
    /// Where telemetry or video goes now: an index into the bearers.
    pub(super) fn way_of(&self, class: Class) -> Option<usize> {
        let route = if class == Class::Video { &self.video_route } else { &self.telemetry_route };
        self.index_of(route.current()?)
    }

    /// Looks whether telemetry and video should take another way.
    pub(super) fn update_routes(&mut self, now: Instant) {
        if let [only] = &self.bearers[..] {
            // Nothing to choose.
            if self.video_route.current() != Some(only.id) {
                let id = only.id;
                self.video_route.turn_to(id);
                self.telemetry_route.turn_to(id);
            }
            return;
        }
        for class in [Class::Telemetry, Class::Video] {
            let prospects = self.prospects(now, class);
            let route = if class == Class::Video { &mut self.video_route } else { &mut self.telemetry_route };
            let first = route.current().is_none();
            let Some(change) = route.judge(now, &prospects) else { continue };
            if class == Class::Video && !self.leave_video(now, change.failed) {
                continue;
            }
            let route = if class == Class::Video { &mut self.video_route } else { &mut self.telemetry_route };
            route.turn_to(change.to);
            if class == Class::Video {
                // The encoder hears what the new bearer carries.
                self.last_target = None;
                self.target_looked_at = None;
            }
            if !first {
                self.counters.reroutes += 1;
                self.events.push_back(super::Event::Rerouted { class, bearer: change.to });
            }
        }
    }

    /// Video is about to go by another bearer. Whether it may: a frame that has begun ends where it began, unless it is lost
    /// anyway.
    fn leave_video(&mut self, now: Instant, failed: bool) -> bool {
        if !failed {
            return !self.video_out.iter().any(|queue| queue.is_within_frame());
        }
        for (flow, queue) in self.video_out.iter_mut().enumerate() {
            // What waits was made for the bearer that has failed; and what refers to what it had under way is of no use.
            if queue.counters().frames_in > 0 {
                queue.clear(now);
                queue.take_recovery_needed();
                self.counters.recovery_points_wanted += 1;
                self.events.push_back(super::Event::RecoveryPointWanted { flow: flow as u8 });
            }
        }
        true
    }

    /// The bearers that a class may take, and how long they would.
    fn prospects(&self, now: Instant, class: Class) -> Vec<Prospect> {
        let up = || self.bearers.iter().filter(|bearer| bearer.is_up());
        let usage = up().map(Bearer::usage).min().unwrap_or(Usage::Normal);
        let wanted = self.config.encoder.most;
        let in_use = self.way_of(class).map_or(Bitrate::ZERO, |index| self.bearers[index].controller.capacity());
        let unknown = Bitrate(in_use.0.max(wanted.0 / 2));
        let prospect = |bearer: &Bearer| {
            let overdue = bearer.overdue(now);
            let queue = bearer.controller.queue_delay().max(overdue);
            let propagation = bearer.heard.rtt_min.unwrap_or(bearer.rtt()) / 2;
            let bytes = match class {
                Class::Video => ByteCount(wanted.0 / 8 / PICTURES),
                _ => PACKET,
            };
            let is_known = bearer.carrier.is_radio()
                || bearer.outbound.carried_video.is_some_and(|at| now.saturating_duration_since(at) < MEMORY);
            let carries = if is_known { bearer.controller.capacity() } else { unknown };
            let takes = queue + propagation + carries.time_for(bytes).min(Duration::from_secs(10));
            Prospect { bearer: bearer.id, takes, overdue }
        };
        let suits = |bearer: &&Bearer| class != Class::Video || self.suits_video(bearer);
        up().filter(|bearer| bearer.usage() == usage).filter(suits).map(prospect).collect()
    }

    /// A radio that does not carry the encoder's lowest rate is none for video.
    pub(super) fn suits_video(&self, bearer: &Bearer) -> bool {
        !bearer.carrier.is_radio() || bearer.controller.target_rate() >= self.config.encoder.least
    }

    /// When the bearer in use has gone bad, if nothing is heard of it; `None` while there is no other.
    pub(super) fn route_due(&self, now: Instant) -> Option<Instant> {
        let others = self.bearers.iter().filter(|bearer| bearer.is_up()).count() > 1;
        let index = self.way_of(Class::Video).filter(|_| others)?;
        let bearer = &self.bearers[index];
        bearer.sent.unreported_since()?;
        let step = Duration::from_millis(5);
        Some(now + step.max(OVERDUE.saturating_sub(bearer.overdue(now))))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    fn prospect(bearer: u8, takes_ms: u64, overdue_ms: u64) -> Prospect {
        let ms = Duration::from_millis;
        Prospect { bearer: BearerId::new(bearer).unwrap(), takes: ms(takes_ms), overdue: ms(overdue_ms) }
    }

    fn to(bearer: u8, failed: bool) -> Option<Change> {
        Some(Change { to: BearerId::new(bearer).unwrap(), failed })
    }

    #[test]
    fn a_better_bearer_is_turned_to_when_it_has_been_so_for_a_while() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut route = Route::default();
        assert_eq!(route.judge(start, &[]), None);
        assert_eq!(route.judge(start, &[prospect(0, 30, 0), prospect(1, 60, 0)]), to(0, false));
        route.turn_to(BearerId::FIRST);
        let better = [prospect(0, 90, 0), prospect(1, 60, 0)];
        assert_eq!(route.judge(at(10), &better), None);
        assert_eq!(route.judge(at(900), &better), None);
        // A little better does not count, and what was counted is forgotten.
        assert_eq!(route.judge(at(1_000), &[prospect(0, 80, 0), prospect(1, 60, 0)]), None);
        assert_eq!(route.judge(at(1_100), &better), None);
        assert_eq!(route.judge(at(2_000), &better), None);
        assert_eq!(route.judge(at(2_100), &better), to(1, false));
    }

    #[test]
    fn one_that_has_gone_bad_is_left_at_once() {
        let start = Instant::now();
        let mut route = Route::default();
        route.turn_to(BearerId::FIRST);
        assert_eq!(
            route.judge(start, &[prospect(0, 60, 40), prospect(1, 60, 0)]),
            None,
            "not worse than the other yet"
        );
        assert_eq!(route.judge(start, &[prospect(0, 90, 70), prospect(1, 60, 0)]), to(1, true));
        assert_eq!(route.judge(start, &[prospect(0, 90, 70), prospect(1, 70, 75)]), None, "the other is no better off");
        assert_eq!(route.judge(start, &[prospect(1, 600, 0)]), to(1, true), "it is not up any more");
    }
}
