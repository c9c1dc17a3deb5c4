//! Two yardsticks that know the link: what could be had of it, whoever flies.
//!
//! [`Oracle::Exact`] knows what the link will carry until the next frame is due, and fills it. [`Oracle::Late`] knows all of
//! the past exactly, but [`LATE`] late: no controller can hear of the link sooner than its feedback comes back, so this one
//! is the bound for those that do not guess. Neither is a product's: they are put in by [`Session::set_controller`], and
//! their encoder makes exactly what it is asked for, if it is a model of one. `docs/congestion.md` has how the rules below were
//! chosen.
//!
//! [`Session::set_controller`]: aquila_proto::Session::set_controller

mod curve;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aquila_proto::cc::{Controller, EncoderRange, Load, Reports};
use aquila_proto::{Bitrate, ByteCount};

use super::RunError;
use crate::plan::{Plan, TrafficPlan};
use curve::Curve;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oracle {
    /// It knows what is to come.
    Exact,
    /// It knows what was, up to [`LATE`] ago.
    Late,
}

impl Oracle {
    /// Names of both, in plans.
    pub const NAMES: [&'static str; 2] = ["oracle", "late-oracle"];

    /// The one of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "oracle" => Some(Self::Exact),
            "late-oracle" => Some(Self::Late),
            _ => None,
        }
    }
}

/// How late the late one hears of the link: there and back on a path of 20 ms.
pub const LATE: Duration = Duration::from_millis(40);
/// Share of what the link will carry that the exact one fills.
const EXACT_SHARE: f64 = 0.95;
/// Share of what the link is expected to carry that the late one fills.
const LATE_SHARE: f64 = 0.9;
/// The late one expects the mean of the shorter span to go on, drawn by this weight towards that of the longer one.
const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_millis(500);
const STEADINESS: f64 = 0.3;
/// It leaves a frame out if the smallest one would take longer than this.
const PATIENCE: Duration = Duration::from_millis(55);
/// Where the link is a trickle no frame takes less: it sends one when nothing else waits, if it takes no longer than this. One that is older than
/// 500 ms is not shown.
const TRICKLE_PATIENCE: Duration = Duration::from_millis(400);
/// Bytes around a frame, as a share of it: RTP's fragments in ours, QUIC's, UDP's and IP's headers.
const OVERHEAD_SHARE: f64 = 0.065;
/// Bytes around a frame whatever its size, and of commands, acknowledgements and feedback until the next one: 40 kbit/s. With both, what is filled
/// of steady links of 0.5 to 10 Mbit/s is what is meant to be.
const BESIDE: f64 = 165.0;
/// Nothing holds back what was asked for.
const OPEN: ByteCount = ByteCount(1 << 40);
const AT_ONCE: Bitrate = Bitrate(100_000_000_000);

/// What the world knows of the first link's way up, shared with the controller that may look at it.
#[derive(Debug, Clone)]
pub struct Truth(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    curve: Curve,
    /// Bytes in the queue and in service at `as_of`.
    queue: f64,
    as_of: Instant,
    /// What was put on the link after that.
    pushed: VecDeque<(Instant, f64)>,
}

impl Truth {
    /// What will be true of a plan's first link in a run with this seed.
    ///
    /// # Errors
    /// If the link cannot be made, or its directions share a channel.
    pub fn of(plan: &Plan, seed: u64, start: Instant) -> Result<Self, RunError> {
        let curve = Curve::of(plan, seed, start)?;
        Ok(Self(Arc::new(Mutex::new(State { curve, queue: 0.0, as_of: start, pushed: VecDeque::new() }))))
    }

    /// The link has accepted a packet.
    pub fn on_pushed(&self, now: Instant, bytes: usize) {
        self.state().pushed.push_back((now, bytes as f64));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The queue of `at`, exactly (Lindley 1952).
    fn settle(&mut self, at: Instant) {
        while let Some((pushed, bytes)) = self.pushed.pop_front_if(|(pushed, _)| *pushed <= at) {
            self.drain(pushed);
            self.queue += bytes;
        }
        self.drain(at);
    }

    fn drain(&mut self, at: Instant) {
        self.queue = (self.queue - self.curve.worked(self.as_of, at)).max(0.0);
        self.as_of = self.as_of.max(at);
    }

    /// What the queue has become since, if the link has carried so many bytes a second.
    fn predict(&self, now: Instant, rate: f64) -> f64 {
        let (mut queue, mut as_of) = (self.queue, self.as_of);
        for (pushed, bytes) in self.pushed.iter().copied().chain([(now, 0.0)]) {
            queue = (queue - rate * pushed.saturating_duration_since(as_of).as_secs_f64()).max(0.0) + bytes;
            as_of = pushed;
        }
        queue
    }
}

/// A yardstick as a controller.
#[derive(Debug, Clone)]
pub struct Knowing {
    kind: Oracle,
    truth: Truth,
    range: EncoderRange,
    /// From a frame to the next.
    interval: Duration,
    /// Bytes a second that the link carries, bytes in its queue, and bytes that the next frame may have on the wire.
    rate: f64,
    queue: f64,
    budget: f64,
    /// The next frame had better be left out.
    skip: bool,
}

impl Knowing {
    /// A yardstick for a camera that makes rates of this range.
    pub fn new(kind: Oracle, truth: Truth, traffic: &[&TrafficPlan], range: EncoderRange) -> Self {
        let frames = traffic.iter().find_map(|traffic| Some(traffic.video?.frames_per_second));
        let interval = Duration::from_nanos(1_000_000_000 / u64::from(frames.unwrap_or(30)));
        Self { kind, truth, range, interval, rate: 0.0, queue: 0.0, budget: 0.0, skip: false }
    }

    fn look(&mut self, now: Instant) {
        let mut state = self.truth.state();
        let interval = self.interval.as_secs_f64();
        let smallest = self.range.least.0 as f64 / 8.0 * interval * (1.0 + OVERHEAD_SHARE) + BESIDE;
        match self.kind {
            Oracle::Exact => {
                state.settle(now);
                let ahead = state.curve.carried(now, now + self.interval);
                (self.rate, self.queue) = (ahead / interval, state.queue);
                self.budget = EXACT_SHARE * ahead - self.queue;
                let through = |within| smallest + self.queue <= state.curve.carried(now, now + within);
                // Not into an outage, though it will end.
                let trickles = ahead > 0.0 && self.queue <= BESIDE;
                self.skip = !(through(2 * self.interval) || trickles && through(TRICKLE_PATIENCE));
            }
            Oracle::Late => {
                let known = now.checked_sub(LATE).unwrap_or(now);
                state.settle(known);
                let [short, long] = [SHORT, LONG].map(|span| {
                    let since = known.checked_sub(span).unwrap_or(known);
                    state.curve.carried(since, known) / span.as_secs_f64()
                });
                // A link that carries nothing at all is out.
                self.rate = if short > 0.0 { short + (long - short) * STEADINESS } else { 0.0 };
                self.queue = state.predict(now, self.rate);
                self.budget = LATE_SHARE * self.rate * interval - self.queue;
                let through = |within: Duration| smallest + self.queue <= self.rate * within.as_secs_f64();
                // One that has just fallen may be going out.
                let trickles = smallest > long * PATIENCE.as_secs_f64() && self.queue <= BESIDE;
                self.skip = !(through(PATIENCE) || trickles && through(TRICKLE_PATIENCE));
            }
        }
    }
}

impl Controller for Knowing {
    fn name(&self) -> &'static str {
        match self.kind {
            Oracle::Exact => Oracle::NAMES[0],
            Oracle::Late => Oracle::NAMES[1],
        }
    }

    fn on_reports(&mut self, _: Instant, _: Reports<'_>) {}

    fn on_path_change(&mut self, _: Instant) {}

    fn poll(&mut self, now: Instant, _: Load) {
        self.look(now);
    }

    fn window(&self, _: Instant) -> ByteCount {
        OPEN
    }

    fn pacing_rate(&self, _: Instant) -> Bitrate {
        AT_ONCE
    }

    fn target_rate(&self) -> Bitrate {
        let payload = (self.budget - BESIDE).max(0.0) / (1.0 + OVERHEAD_SHARE);
        Bitrate((payload * 8.0 / self.interval.as_secs_f64()) as u64)
    }

    fn may_encode(&self, _: Instant, _: Load) -> bool {
        !self.skip
    }

    fn capacity(&self) -> Bitrate {
        Bitrate((self.rate * 8.0) as u64)
    }

    fn queue_delay(&self) -> Duration {
        Duration::try_from_secs_f64(self.queue / self.rate).unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests;
