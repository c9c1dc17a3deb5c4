//! Which bearer telemetry and video take: the one by which they should be there first.

use std::time::{Duration, Instant};

use super::Session;
use super::bearer::Bearer;
use crate::{BearerId, Bitrate, ByteCount, Class, Usage};

/// A bearer has to be better for this long before it is turned to, unless the one in use has gone bad.
const DWELL: Duration = Duration::from_secs(1);
/// And by this much: a quarter, and 10 ms.
const CLEARLY: f64 = 1.25;
const MARGIN: Duration = Duration::from_millis(10);
/// One that is better by this factor has to be so for this long only.
const MUCH: f64 = 2.0;
const SHORT_DWELL: Duration = Duration::from_millis(250);
/// What was learned of a bearer's capacity is believed for this long after it was last used.
const MEMORY: Duration = Duration::from_secs(60);
/// A packet, of telemetry or of a frame.
const PACKET: ByteCount = ByteCount(1200);
/// A picture that lost a packet stands until the next recovery point: a round trip and this.
const RECOVERY: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);
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
    /// Until all of it is there, what is lost on the way included.
    takes: Duration,
    /// Until the first of it is there.
    reaches: Duration,
    /// A report has been missing for too long.
    failing: bool,
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
        if mine.failing {
            // A frame is made as large as its bearer carries: one that carries less is better than one that carries nothing.
            let sooner = |other: &&Prospect| !other.failing && other.reaches + MARGIN < mine.reaches;
            let sound = prospects.iter().filter(sooner).min_by_key(|prospect| prospect.takes);
            if let Some(best) = sound {
                return Some(Change { to: best.bearer, failed: true });
            }
        }
        let is_better = |by: f64| best.takes.mul_f64(by) + MARGIN < mine.takes;
        if best.bearer == current || !is_better(CLEARLY) {
            self.better = None;
            return None;
        }
        let since = self.better.filter(|(bearer, _)| *bearer == best.bearer).map_or(now, |(_, since)| since);
        self.better = Some((best.bearer, since));
        let dwell = if is_better(MUCH) { SHORT_DWELL } else { DWELL };
        let lasting = now.saturating_duration_since(since) >= dwell;
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
            let change = route.judge(now, &prospects);
            if class == Class::Video {
                self.video_leaves = change.is_some();
            }
            let Some(change) = change else { continue };
            if class == Class::Video && !self.leave_video(now, change.failed) {
                continue;
            }
            let route = if class == Class::Video { &mut self.video_route } else { &mut self.telemetry_route };
            route.turn_to(change.to);
            if class == Class::Video {
                self.video_leaves = false;
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
                self.recovery[flow].want();
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
            let queue = bearer.controller.queue_delay().max(bearer.overdue(now));
            let propagation = bearer.heard.rtt_min.unwrap_or(bearer.rtt()) / 2;
            let reaches = queue + propagation;
            let bytes = match class {
                Class::Video => ByteCount(wanted.0 / 8 / PICTURES),
                _ => PACKET,
            };
            let is_known = bearer.carrier.is_radio()
                || bearer.outbound.carried_video.is_some_and(|at| now.saturating_duration_since(at) < MEMORY);
            let carries = if is_known { bearer.controller.capacity() } else { unknown };
            let lost = if class == Class::Video { self.stands(bearer, carries.min(wanted)) } else { Duration::ZERO };
            let takes = reaches + carries.time_for(bytes).min(LONGEST) + lost;
            Prospect { bearer: bearer.id, takes, reaches, failing: bearer.is_failing(now) }
        };
        let suits = |bearer: &&Bearer| class != Class::Video || self.suits_video(bearer);
        up().filter(|bearer| bearer.usage() == usage).filter(suits).map(prospect).collect()
    }

    /// For how long the picture stands on average, for each frame that arrives, because a bearer loses packets of others; it carries so much.
    fn stands(&self, bearer: &Bearer, carries: Bitrate) -> Duration {
        if bearer.carrier.is_radio() {
            return Duration::ZERO; // It makes good for what it loses.
        }
        let loss = bearer.steady_loss.loss();
        // What is repaired is not lost with its first packet.
        let packets =
            if self.repairs.is_active() { 1.0 } else { carries.0 as f64 / 8.0 / (PICTURES * PACKET.0) as f64 };
        let whole = (1.0 - loss).powf(packets.max(1.0));
        let again = (bearer.rtt() + RECOVERY).as_secs_f64();
        Duration::try_from_secs_f64(again * (1.0 - whole) / whole).unwrap_or(LONGEST).min(LONGEST)
    }

    /// A radio that does not carry the encoder's lowest rate is none for video.
    pub(super) fn suits_video(&self, bearer: &Bearer) -> bool {
        !bearer.carrier.is_radio() || bearer.controller.target_rate() >= self.config.encoder.least
    }

    /// When a bearer in use has gone bad, if nothing is heard of it; `None` while there is no other.
    pub(super) fn route_due(&self, now: Instant) -> Option<Instant> {
        if self.bearers.iter().filter(|bearer| bearer.is_up()).count() < 2 {
            return None;
        }
        let due = |class| {
            let bearer = &self.bearers[self.way_of(class)?];
            bearer.sent.unreported_since()?;
            let step = Duration::from_millis(5);
            Some(now + step.max(bearer.pauses.patience().saturating_sub(bearer.overdue(now))))
        };
        [Class::Telemetry, Class::Video].into_iter().filter_map(due).min()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    fn prospect(bearer: u8, takes_ms: u64, reaches_ms: u64) -> Prospect {
        let ms = Duration::from_millis;
        let bearer = BearerId::new(bearer).unwrap();
        Prospect { bearer, takes: ms(takes_ms), reaches: ms(reaches_ms), failing: false }
    }

    fn failing(bearer: u8, takes_ms: u64, reaches_ms: u64) -> Prospect {
        Prospect { failing: true, ..prospect(bearer, takes_ms, reaches_ms) }
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
        assert_eq!(route.judge(start, &[prospect(0, 30, 10), prospect(1, 60, 10)]), to(0, false));
        route.turn_to(BearerId::FIRST);
        let better = [prospect(0, 90, 10), prospect(1, 60, 10)];
        assert_eq!(route.judge(at(10), &better), None);
        assert_eq!(route.judge(at(900), &better), None);
        // A little better does not count, and what was counted is forgotten.
        assert_eq!(route.judge(at(1_000), &[prospect(0, 80, 10), prospect(1, 60, 10)]), None);
        assert_eq!(route.judge(at(1_100), &better), None);
        assert_eq!(route.judge(at(2_000), &better), None);
        assert_eq!(route.judge(at(2_100), &better), to(1, false));
    }

    #[test]
    fn a_much_better_one_need_not_be_so_for_long() {
        let start = Instant::now();
        let mut route = Route::default();
        route.turn_to(BearerId::FIRST);
        let better = [prospect(0, 140, 10), prospect(1, 60, 10)];
        assert_eq!(route.judge(start, &better), None);
        assert_eq!(route.judge(start + SHORT_DWELL, &better), to(1, false));
    }

    #[test]
    fn one_that_has_gone_bad_is_left_at_once_though_the_other_carries_less() {
        let start = Instant::now();
        let mut route = Route::default();
        route.turn_to(BearerId::FIRST);
        assert_eq!(route.judge(start, &[failing(0, 90, 45), prospect(1, 360, 40)]), None, "it may still be sooner");
        assert_eq!(route.judge(start, &[failing(0, 90, 60), prospect(1, 360, 40)]), to(1, true));
        assert_eq!(route.judge(start, &[failing(0, 90, 60), failing(1, 60, 40)]), None, "the other is no better off");
        let three = [failing(0, 90, 60), prospect(1, 360, 40), prospect(2, 60, 45)];
        assert_eq!(route.judge(start, &three), to(2, true), "of those that are sooner the best");
        assert_eq!(route.judge(start, &[prospect(1, 600, 40)]), to(1, true), "it is not up any more");
    }
}
