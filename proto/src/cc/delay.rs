//! A first controller: the capacity is read off busy pairs of packets, and the window lets a small queue stand.
//!
//! Two packets are a *busy pair* if the second would have arrived before the first had the link been free: then the link
//! was busy from one arrival to the next, and size over that time is its capacity. No queue has to be built to find it:
//! the packets of one frame, sent a little faster than the link, are probe enough.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Controller, PacketReport};
use crate::{Bitrate, ByteCount};

/// Parameters; the defaults are used unless a test says otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayConfig {
    /// Capacity assumed before anything is known.
    pub initial: Bitrate,
    /// Queue that the window lets stand.
    pub target: Duration,
    /// Time over the round trip that acknowledgements take: the peer's delay and its packets' serialisation.
    pub ack_delay: Duration,
    /// Packets leave at this multiple of the capacity, so that a frame measures the link.
    pub pacing_gain: f64,
    /// Share of the capacity that video gets ([AQUILA eq. 7] γ).
    pub utilisation: f64,
    /// Kept free for commands ([AQUILA eq. 7] R_safe).
    pub reserve: Bitrate,
    /// The window never closes below this.
    pub min_window: ByteCount,
}

impl Default for DelayConfig {
    fn default() -> Self {
        Self {
            initial: Bitrate::kbps(1500),
            target: Duration::from_millis(10),
            ack_delay: Duration::from_millis(5),
            pacing_gain: 1.5,
            utilisation: 0.85,
            reserve: Bitrate::kbps(15),
            min_window: ByteCount(3_000),
        }
    }
}

/// Span of the measurement, and how far it reaches back for [`MIN_PAIRS`].
const SPAN_US: u64 = 120_000;
const LONG_SPAN_US: u64 = 480_000;
const MIN_PAIRS: usize = 8;
/// A packet must be this much earlier than free flow for its pair to count as busy: timestamps are not perfect.
const BUSY_MARGIN_US: i64 = 1_500;
/// The capacity is updated this often, a frame at 30 Hz, or once per round trip if that is less.
const UPDATE: Duration = Duration::from_millis(33);
/// Acknowledgements come in their own time on a short path: the window is at least what the capacity carries in this, within
/// one and two times the least window.
const LEAST_SPAN: Duration = Duration::from_millis(32);
/// A longer base round trip is a mistake.
const MAX_RTT: Duration = Duration::from_secs(10);
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// Growth per update while nothing is seen to wait, on a round trip of [`GROWTH_RTT`]; on a shorter one the effect is seen
/// sooner and growth is faster, up to 1.34. Within [`HOLD`] of the link's having been the limit, at most to [`HOLD_GAIN`]
/// of what it was.
const GROWTH: f64 = 1.06;
/// Before the link has ever been seen to be the limit.
const FIRST_GROWTH: f64 = 1.2;
const GROWTH_RTT: Duration = Duration::from_millis(75);
const MAX_GROWTH_EXPONENT: f64 = 5.0;
/// Time over the round trip until a report shows what a packet met.
const REPORT_DELAY: Duration = Duration::from_millis(15);
const HOLD: Duration = Duration::from_secs(1);
const HOLD_GAIN: f64 = 1.02;
/// Base delay and base round trip are the minima of this long.
const BASE_MEMORY: Duration = Duration::from_secs(10);
/// While the link is the limit, its queue is drained this often, or the base would come to include it. The pause is as long
/// as the queue takes to empty: with the queue at its target about 15 ms, 0.3 % of the capacity.
const DRAIN_EVERY: Duration = Duration::from_secs(5);
/// Delays are taken from packets of at least this share of the largest: a small one serialises faster, which would look
/// like an empty queue. If there was no large one for this long, small ones will do.
const LARGE: f64 = 0.8;
const LARGE_MEMORY: Duration = Duration::from_secs(1);
const DRAIN_MARGIN: Duration = Duration::from_millis(5);
const MAX_DRAIN: Duration = Duration::from_millis(400);
/// Bounds of the estimate.
const MIN_CAPACITY: Bitrate = Bitrate::kbps(50);
const MAX_CAPACITY: Bitrate = Bitrate::mbps(1000);
/// Samples kept: 480 ms at 100 Mbit/s.
const MAX_SAMPLES: usize = 4096;

/// The controller.
#[derive(Debug)]
pub struct DelayController {
    config: DelayConfig,
    capacity: Bitrate,
    /// When the link was last seen to be the limit, and the capacity then.
    last_limit: Option<(Instant, Bitrate)>,
    samples: VecDeque<Sample>,
    last_arrival_us: Option<u64>,
    base_us: Minimum<i64>,
    largest: u64,
    last_large: Option<Instant>,
    rtt: Minimum<Duration>,
    reverse_base_us: Option<i64>,
    /// Queue delay of the newest packet.
    queue_us: i64,
    last_drain: Option<Instant>,
    drain_until: Option<Instant>,
    last_update: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    arrived_us: u64,
    bytes: u64,
    /// Since the arrival before it, if the link was busy in between.
    busy_us: Option<u64>,
}

impl DelayController {
    /// A controller that knows nothing yet.
    pub fn new(config: DelayConfig) -> Self {
        Self {
            config,
            capacity: config.initial,
            last_limit: None,
            samples: VecDeque::new(),
            last_arrival_us: None,
            base_us: Minimum::default(),
            largest: 0,
            last_large: None,
            rtt: Minimum::default(),
            reverse_base_us: None,
            queue_us: 0,
            last_drain: None,
            drain_until: None,
            last_update: None,
        }
    }

    fn on_arrival(&mut self, now: Instant, sent_us: u64, arrived_us: u64, bytes: u64) {
        let delay = arrived_us as i64 - sent_us as i64;
        if bytes as f64 >= LARGE * self.largest as f64 {
            self.largest = self.largest.max(bytes);
            self.last_large = Some(now);
        } else if self.last_large.is_some_and(|at| now.saturating_duration_since(at) > LARGE_MEMORY) {
            self.largest = bytes;
        }
        let base = if bytes as f64 >= LARGE * self.largest as f64 {
            let base = self.base_us.update(now, delay);
            self.queue_us = delay - base;
            base
        } else {
            self.base_us.value().unwrap_or(delay)
        };
        let before = self.last_arrival_us.replace(self.last_arrival_us.map_or(arrived_us, |last| last.max(arrived_us)));
        let busy_us = before.and_then(|before| {
            let free_flow = sent_us as i64 + base + BUSY_MARGIN_US;
            (free_flow < before as i64).then(|| arrived_us.checked_sub(before)).flatten()
        });
        if self.samples.len() == MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { arrived_us, bytes, busy_us });
    }

    /// The round trip without queues. The two one-way bases give it better than any round trip measured, since they need
    /// not be small at the same moment; the offset of the clocks cancels, their 32-bit wrap-around too.
    fn base_rtt(&self) -> Duration {
        let sum = self.base_us.value().zip(self.reverse_base_us).map(|(a, b)| (a as u32).wrapping_add(b as u32));
        let plausible = sum.map(|us| Duration::from_micros(u64::from(us))).filter(|rtt| *rtt < MAX_RTT);
        plausible.or(self.rtt.value()).unwrap_or(INITIAL_RTT)
    }

    fn growth(&self) -> f64 {
        let loop_time = self.base_rtt() + REPORT_DELAY;
        let growth = if self.last_limit.is_none() { FIRST_GROWTH } else { GROWTH };
        growth.powf((GROWTH_RTT.as_secs_f64() / loop_time.as_secs_f64()).min(MAX_GROWTH_EXPONENT))
    }

    fn update_capacity(&mut self, now: Instant) {
        let Some(newest) = self.last_arrival_us else { return };
        while self.samples.front().is_some_and(|sample| sample.arrived_us + LONG_SPAN_US < newest) {
            self.samples.pop_front();
        }
        let (mut all, mut busy, mut busy_us, mut pairs) = (0, 0, 0, 0);
        for sample in self.samples.iter().rev() {
            if sample.arrived_us + SPAN_US < newest && pairs >= MIN_PAIRS {
                break;
            }
            all += sample.bytes;
            if let Some(us) = sample.busy_us {
                busy += sample.bytes;
                busy_us += us;
                pairs += 1;
            }
        }
        let limited = pairs >= MIN_PAIRS / 2 && busy as f64 > 0.4 * all as f64 && busy_us > 0;
        if limited {
            let sample = Bitrate::from_transfer(ByteCount(busy), Duration::from_micros(busy_us));
            let gain = match (self.last_limit.is_some(), sample < self.capacity) {
                (false, _) => 1.0,
                (true, true) => 0.7,
                (true, false) => 0.3,
            };
            let capacity = self.capacity.0 as f64;
            self.capacity = Bitrate((capacity + (sample.0 as f64 - capacity) * gain) as u64);
            self.last_limit = Some((now, self.capacity));
        } else {
            // Nothing waited: there is room for more, as far as we can tell from what we sent.
            let span = self.samples.front().map_or(0, |first| newest.saturating_sub(first.arrived_us));
            let received = Bitrate::from_transfer(
                ByteCount(self.samples.iter().map(|sample| sample.bytes).sum()),
                Duration::from_micros(span.max(SPAN_US)),
            );
            let ceiling = received * 2.0 + Bitrate::kbps(200);
            let ceiling = match self.last_limit {
                Some((at, limit)) if now.saturating_duration_since(at) < HOLD => ceiling.min(limit * HOLD_GAIN),
                _ => ceiling,
            };
            if self.capacity < ceiling {
                self.capacity = (self.capacity * self.growth()).min(ceiling);
            }
        }
        self.capacity = self.capacity.clamp(MIN_CAPACITY, MAX_CAPACITY);
    }

    /// A link that is always the limit never shows its base delay, and the oldest sample that did is forgotten: let the
    /// queue run empty now and then.
    fn drain_now_and_then(&mut self, now: Instant) {
        let limited = self.last_limit.is_some_and(|(at, _)| now.saturating_duration_since(at) < HOLD);
        let last = *self.last_drain.get_or_insert(now);
        if limited && now.saturating_duration_since(last) >= DRAIN_EVERY {
            self.last_drain = Some(now);
            self.drain_until = Some(now + (self.queue_delay().mul_f64(1.2) + DRAIN_MARGIN).min(MAX_DRAIN));
        }
    }
}

impl Controller for DelayController {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn on_reports(&mut self, now: Instant, reports: &[PacketReport]) {
        for report in reports {
            if let Some(arrived_us) = report.arrived_us {
                self.on_arrival(now, report.sent_us, arrived_us, report.bytes.0);
            }
        }
        let update = UPDATE.min(self.base_rtt() + REPORT_DELAY);
        if self.last_update.is_none_or(|last| now.saturating_duration_since(last) >= update) {
            self.last_update = Some(now);
            self.update_capacity(now);
            self.drain_now_and_then(now);
        }
    }

    fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        self.rtt.update(now, rtt);
    }

    fn on_reverse_base(&mut self, base_us: i64) {
        self.reverse_base_us = Some(base_us);
    }

    fn on_path_change(&mut self, _now: Instant) {
        self.base_us = Minimum::default();
        self.largest = 0;
        self.rtt = Minimum::default();
        self.reverse_base_us = None;
        self.samples.clear();
        self.last_limit = None;
        self.last_arrival_us = None;
    }

    fn window(&self, now: Instant) -> ByteCount {
        if self.drain_until.is_some_and(|until| now < until) {
            return ByteCount::ZERO;
        }
        let span = self.base_rtt() + self.config.ack_delay + self.config.target;
        let least =
            self.capacity.bytes_in(LEAST_SPAN).clamp(self.config.min_window, ByteCount(2 * self.config.min_window.0));
        self.capacity.bytes_in(span).max(least)
    }

    fn pacing_rate(&self, now: Instant) -> Bitrate {
        // The pause of a drain comes back as a gap in the acknowledgements; filling the window against it would put the
        // whole gap's worth into the queue.
        let refilling = self.drain_until.is_some_and(|until| now < until + self.base_rtt() * 3 / 2);
        self.capacity * if refilling { 1.0 } else { self.config.pacing_gain }
    }

    fn target_rate(&self) -> Bitrate {
        // A queue beyond the target is worked off within 100 ms.
        let excess = (self.queue_delay().as_secs_f64() - self.config.target.as_secs_f64()).max(0.0);
        let share = (self.config.utilisation - excess / 0.1).max(0.2);
        self.capacity * share - self.config.reserve
    }

    fn capacity(&self) -> Bitrate {
        self.capacity
    }

    fn queue_delay(&self) -> Duration {
        Duration::from_micros(self.queue_us.max(0) as u64)
    }
}

/// A minimum over [`BASE_MEMORY`], in two alternating halves: it forgets after one to two of them.
#[derive(Debug, Clone, Copy)]
struct Minimum<T> {
    current: Option<T>,
    previous: Option<T>,
    began: Option<Instant>,
}

impl<T> Default for Minimum<T> {
    fn default() -> Self {
        Self { current: None, previous: None, began: None }
    }
}

impl<T: Ord + Copy> Minimum<T> {
    fn update(&mut self, now: Instant, value: T) -> T {
        let began = *self.began.get_or_insert(now);
        if now.saturating_duration_since(began) >= BASE_MEMORY {
            self.began = Some(now);
            self.previous = self.current.take();
        }
        let current = self.current.map_or(value, |current| current.min(value));
        self.current = Some(current);
        self.previous.map_or(current, |previous| previous.min(current))
    }

    fn value(&self) -> Option<T> {
        self.current.into_iter().chain(self.previous).min()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    /// A link of `rate` with `owd`: packets of 1200 bytes arrive in order, each after its serialisation.
    struct FakeLink {
        rate: Bitrate,
        free_us: u64,
    }

    impl FakeLink {
        fn send(&mut self, sent_us: u64) -> PacketReport {
            let bytes = ByteCount(1200);
            self.free_us = self.free_us.max(sent_us) + self.rate.time_for(bytes).as_micros() as u64;
            PacketReport { sent_us, bytes, arrived_us: Some(self.free_us + 30_000), ce: false }
        }
    }

    /// Frames of ten packets every 33 ms, sent as fast as the controller paces them.
    fn run(
        controller: &mut DelayController,
        link: &mut FakeLink,
        start: Instant,
        from_ms: u64,
        to_ms: u64,
        packets: u64,
    ) {
        for at_ms in (from_ms..to_ms).step_by(33) {
            let gap = controller.pacing_rate(start + Duration::from_millis(at_ms)).time_for(ByteCount(1200)).as_micros()
                as u64;
            let reports: Vec<_> = (0..packets).map(|n| link.send(at_ms * 1000 + n * gap)).collect();
            controller.on_reports(start + Duration::from_millis(at_ms + 33), &reports);
        }
    }

    #[test]
    fn capacity_is_found_from_frames_alone_and_followed_down_within_a_third_of_a_second() {
        let start = Instant::now();
        let mut controller = DelayController::new(DelayConfig::default());
        controller.on_rtt(start, Duration::from_millis(60));
        let mut link = FakeLink { rate: Bitrate::mbps(4), free_us: 0 };
        run(&mut controller, &mut link, start, 0, 2_000, 10);
        let at = |mbps: f64, controller: &DelayController| (controller.capacity().as_mbps() - mbps).abs() < 0.05 * mbps;
        assert!(at(4.0, &controller), "{controller:?}");
        link.rate = Bitrate::mbps(1);
        run(&mut controller, &mut link, start, 2_000, 2_330, 5);
        assert!(at(1.0, &controller), "{:?}", controller.capacity());
        assert!(controller.target_rate() < Bitrate::mbps(1));
    }

    #[test]
    fn a_link_that_is_always_the_limit_is_drained_every_five_seconds() {
        let start = Instant::now();
        let mut controller = DelayController::new(DelayConfig::default());
        let mut link = FakeLink { rate: Bitrate::mbps(4), free_us: 0 };
        let mut drains = Vec::new();
        for at_ms in (0..17_000).step_by(33) {
            run(&mut controller, &mut link, start, at_ms, at_ms + 33, 14);
            if controller.window(start + Duration::from_millis(at_ms + 33)) == ByteCount::ZERO {
                drains.push(at_ms / 1000);
                drains.dedup();
            }
        }
        assert_eq!(drains, [5, 10, 15]);
    }
}
