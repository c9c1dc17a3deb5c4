//! For a path that is ours alone and loses much by itself: a long radio hop that looks like a network.
//!
//! Loss says nothing here: an aircraft that flies by at the edge of a radio's range loses 10 to 80 % of its packets, and who
//! takes that for congestion sends nothing. What is shared with nobody has to be neither yielded nor probed for: what counts is that
//! the radio is never idle, and that little waits in front of it.
//!
//! - **Rate**: two datagrams that were sent one after the other and both arrived were one behind the other in the queue, if there was
//!   one. So their distance is what the second took to serialise, whatever was lost around them, in the air or at the end of the
//!   queue. The sum of sizes over the sum of distances is the rate of the link ([`Adjacent`]); of those that stood in a queue, if most
//!   did: a process that is late to send leaves holes that are not the radio's. Of three measurements the middle one: a program on the way
//!   that did not run for a moment lets go at once what came meanwhile.
//! - **Beginning**: the first window leaves at once. What its datagrams are apart when they arrive is the rate, a round trip later.
//! - **Pace**: above that rate while less waits than [`DedicatedConfig::queue`], below it while more does. All that waits is let through now and
//!   then, or what always waits would be taken for the way.
//! - **Flood**: who sends many times what the radio carries sees no neighbours any more, and nothing would correct the rate. That looks
//!   like no loss in the air, and then little is sent until the queue is seen.
//! - **Window**: what the link carries in a round trip, that queue, and the time that feedback was away of late. It is a bound for when the
//!   link gets slower all at once.
//! - **Silence**: when nothing has been heard for longer than that, a single datagram leaves now and then, to find out. Not the window's
//!   end: after a hole in the reception all that was under way is lost, and no report will say so.
//!
//! Never over a network that others use: it gives way to nobody.

use std::time::{Duration, Instant};

use super::minimum::Minimum;
use super::{Controller, Load, Reports, SentPacket};
use crate::sched::reserve::R_SAFE;
use crate::{Bitrate, ByteCount};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DedicatedConfig {
    /// Rate assumed before anything is known.
    pub initial: Bitrate,
    /// What may wait in front of the radio.
    pub queue: Duration,
    /// The same while there is nothing but files: what waits keeps the radio busy while a machine has other things to do.
    pub unhurried_queue: Duration,
    /// Datagrams leave at this multiple of the rate while less waits.
    pub pacing_gain: f64,
    /// A datagram leaves this often while nothing is heard.
    pub probe_every: Duration,
}

impl Default for DedicatedConfig {
    fn default() -> Self {
        Self {
            initial: Bitrate::kbps(1_000),
            queue: Duration::from_millis(15),
            unhurried_queue: Duration::from_millis(30),
            pacing_gain: 1.25,
            probe_every: Duration::from_millis(20),
        }
    }
}

/// Share of the rate that an encoder is asked for.
const VIDEO: f64 = 0.85;
/// While more waits than may, datagrams leave at this multiple of the rate.
const DRAIN: f64 = 0.8;
/// The same while all that waits is let through, which is done if nothing else has emptied the queue for so long: what always waits looks
/// like a longer way.
const DRAIN_ALL: f64 = 0.5;
const DRAIN_EVERY: Duration = Duration::from_secs(10);
/// Nothing waits.
const EMPTY: Duration = Duration::from_millis(2);
/// So many that arrived tell of a flood, and more than this share of what leaves arrives on a radio that is of any use.
const CROWD: u64 = 256;
const LEAST_SHARE: f64 = 0.1;
/// Bounds of the rate.
const MIN_RATE: Bitrate = Bitrate::kbps(30);
const MAX_RATE: Bitrate = Bitrate::mbps(1_000);
/// Until a round trip is known.
const INITIAL_RTT: Duration = Duration::from_millis(100);
const MAX_RTT: Duration = Duration::from_secs(10);
/// The smallest round trip and way there are those of this long.
const SPAN: Duration = Duration::from_secs(15);
/// A rate is taken from at least so much distance between neighbours, and so many of them.
const LEAST_DISTANCE_US: u64 = 15_000;
const LEAST_NEIGHBOURS: u32 = 6;
/// So many bytes that stood in a queue tell at once what the rate is about, or that it is no lower than if they took this long. What a
/// connection begins with is less, and small: it tells nothing of a rate.
const FIRST_BYTES: u64 = 8_000;
const FIRST_DISTANCE_US: u64 = 2_000;
/// Neighbours further apart were not in one queue, or the radio was silent in between.
const MAX_DISTANCE_US: u64 = 100_000;
/// Datagrams with so many less one missing between them still tell something.
const MAX_PLACES: u64 = 16;
/// Clocks and schedulers are no better than this.
const SLACK_US: i64 = 100;
/// Growth where nothing waits, for each measurement, and the same before anything ever did; to at most so many times what left.
const GROWTH: f64 = 1.25;
const FIRST_GROWTH: f64 = 1.6;
const GROWTH_SHARE: f64 = 2.0;
/// Feedback may be away for so long besides.
const AWAY: Duration = Duration::from_millis(60);
/// Feedback may have been away for so long at most, and at least.
const MIN_GAP: Duration = Duration::from_millis(12);
const MAX_GAP: Duration = Duration::from_millis(200);
/// The window is never smaller.
const TWO_PACKETS: ByteCount = ByteCount(2 * 1_500);
const LEAST_WINDOW: ByteCount = ByteCount(8 * 1_500);
const MAX_WINDOW: ByteCount = ByteCount(64 << 20);

/// Distances of neighbours since the last measurement.
#[derive(Debug, Clone, Copy, Default)]
struct Adjacent {
    all: Pairs,
    /// Of them, those that stood behind the one before. Only they tell what the radio takes: between others it was idle, because a process
    /// came late to send.
    busy: Pairs,
}

#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    bytes: u64,
    distance_us: u64,
    count: u32,
}

impl Pairs {
    fn add(&mut self, bytes: u64, distance_us: u64, count: u32) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.distance_us = self.distance_us.saturating_add(distance_us);
        self.count = self.count.saturating_add(count);
    }

    fn rate(&self) -> Bitrate {
        Bitrate::from_transfer(ByteCount(self.bytes), Duration::from_micros(self.distance_us))
    }
}

/// What arrived of late, of how many that left, and how many of them left one after the other.
#[derive(Debug, Clone, Copy, Default)]
struct Crowd {
    arrived: u64,
    bytes: u64,
    left: u64,
    neighbours: u64,
    /// Receiver's clock at the first.
    since_us: u64,
}

impl Crowd {
    fn add(&mut self, arrived_us: u64, bytes: ByteCount, places: u64) {
        if self.arrived == 0 {
            self.since_us = arrived_us;
        }
        self.arrived += 1;
        self.bytes = self.bytes.saturating_add(bytes.0);
        self.left = self.left.saturating_add(places);
        self.neighbours += u64::from(places == 1);
    }

    /// Where far more is sent than the radio carries, hardly two that left one after the other both get a place in the queue. Loss in the
    /// air leaves as large a share of them as of all that left, or more if it comes in bursts.
    fn is_of_a_flood(&self) -> bool {
        let arrived = self.arrived as f64;
        let share = (arrived / self.left.max(1) as f64).max(LEAST_SHARE);
        (self.neighbours as f64) < 0.5 * share * arrived
    }
}

/// A datagram that arrived: number, when it left, when it arrived.
type Arrived = (u64, u64, u64);

/// The controller.
#[derive(Debug)]
pub struct Dedicated {
    config: DedicatedConfig,
    rate: Bitrate,
    /// A queue has been seen in front of the radio.
    found: bool,
    last: Option<Arrived>,
    adjacent: Adjacent,
    crowd: Crowd,
    /// The last measurements: one may be of a program on the way that did not run for a moment, and let go what had come meanwhile.
    measured: [Bitrate; 3],
    /// Arrival less departure, µs: the clocks' offset and the way there.
    base_us: Minimum<i64>,
    queue_us: i64,
    /// When nothing waited last, as far as we know.
    empty: Option<Instant>,
    /// What waits is let through, until then if nothing gets shorter.
    draining: Option<Instant>,
    rtt: Minimum<Duration>,
    /// When a report came last, and how long it is between two, while something is under way.
    heard: Option<Instant>,
    gap: Duration,
    /// When a datagram left last.
    sent: Option<Instant>,
    load: Load,
}

impl Dedicated {
    /// A controller that knows nothing yet.
    pub fn new(config: DedicatedConfig) -> Self {
        Self {
            rate: config.initial,
            config,
            found: false,
            last: None,
            adjacent: Adjacent::default(),
            crowd: Crowd::default(),
            measured: [config.initial; 3],
            base_us: Minimum::new(SPAN),
            queue_us: 0,
            empty: None,
            draining: None,
            rtt: Minimum::new(SPAN),
            heard: None,
            gap: MIN_GAP,
            sent: None,
            load: Load::default(),
        }
    }

    fn rtt(&self) -> Duration {
        self.rtt.value().unwrap_or(INITIAL_RTT)
    }

    /// What may wait: two packets at least.
    fn queue(&self) -> Duration {
        let queue = if self.load.unhurried { self.config.unhurried_queue } else { self.config.queue };
        queue.max(self.rate.time_for(TWO_PACKETS))
    }

    fn waits(&self) -> Duration {
        Duration::from_micros(self.queue_us.max(0) as u64)
    }

    /// Without a report for this long, something is wrong.
    fn patience(&self) -> Duration {
        self.rtt() + self.queue() + 3 * self.gap + AWAY
    }

    fn on_arrival(&mut self, now: Instant, arrived: Arrived, bytes: ByteCount) {
        let (number, sent_us, arrived_us) = arrived;
        let delay = arrived_us.wrapping_sub(sent_us) as i64;
        let former_base_us = self.base_us.value();
        self.base_us.update(now, delay);
        if self.draining.is_some() && former_base_us.is_some_and(|former| delay < former.saturating_sub(SLACK_US)) {
            self.draining = Some(now + self.settling());
        }
        let former_queue_us = self.queue_us;
        self.queue_us = delay.saturating_sub(self.base_us.value().unwrap_or(delay));
        if self.waits() <= EMPTY.max(self.rate.time_for(TWO_PACKETS)) {
            self.empty = Some(now);
        }
        let former = self.last.replace(arrived);
        let Some((before, before_sent, before_arrived)) = former else { return };
        let places = number.wrapping_sub(before);
        self.crowd.add(arrived_us, bytes, places);
        let distance = arrived_us.checked_sub(before_arrived).filter(|distance| *distance <= MAX_DISTANCE_US);
        let apart = sent_us.checked_sub(before_sent).filter(|apart| *apart <= MAX_DISTANCE_US);
        let (Some(distance), Some(apart)) = (distance, apart) else { return };
        // It left before the one before it was through.
        let busy = (apart as i64) < former_queue_us.saturating_add(SLACK_US);
        // Where nothing waits, nothing is dropped in front of the radio either: what is missing in between took its time too.
        if places == 1 || (!busy && (2..=MAX_PLACES).contains(&places)) {
            let bytes = bytes.0.saturating_mul(places);
            self.adjacent.all.add(bytes, distance, places as u32);
            if busy {
                self.adjacent.busy.add(bytes, distance, 1);
            }
        }
    }

    /// How long it takes until what is done now is seen.
    fn settling(&self) -> Duration {
        self.rtt() + 2 * self.gap
    }

    /// Takes a rate from the neighbours if there are enough.
    fn measure(&mut self) {
        let Adjacent { all, busy } = self.adjacent;
        if !self.found && busy.bytes >= FIRST_BYTES {
            self.found = true;
            self.adjacent = Adjacent::default();
            let first = Pairs { distance_us: busy.distance_us.max(FIRST_DISTANCE_US), ..busy };
            self.rate = first.rate().clamp(MIN_RATE, MAX_RATE);
            self.measured = [self.rate; 3];
            return;
        }
        if all.distance_us < LEAST_DISTANCE_US || all.count < LEAST_NEIGHBOURS {
            return;
        }
        self.adjacent = Adjacent::default();
        let is_busy = 2 * busy.count >= all.count && busy.distance_us > 0;
        self.measured.rotate_left(1);
        self.measured[2] = if is_busy { busy.rate() } else { all.rate() };
        let [a, b, c] = self.measured;
        let measured = a.max(b).min(a.min(b).max(c));
        if is_busy {
            self.rate = measured;
        } else if self.draining.is_none() {
            // Nothing waits: they came as they left, and the link may carry more.
            // Who sends little learns nothing, neither of more nor of less.
            let most = (measured * GROWTH_SHARE).max(self.config.initial);
            let growth = if self.found { GROWTH } else { FIRST_GROWTH };
            self.rate = self.rate.max(measured).max((self.rate * growth).min(most));
        }
        self.rate = self.rate.clamp(MIN_RATE, MAX_RATE);
    }

    /// Sends much less, until the queue is seen again, where it must be overflowing.
    fn stop_a_flood(&mut self, now: Instant) {
        if self.crowd.arrived < CROWD {
            return;
        }
        let crowd = std::mem::take(&mut self.crowd);
        let Some((.., arrived_us)) = self.last.filter(|_| crowd.is_of_a_flood()) else { return };
        let time = Duration::from_micros(arrived_us.saturating_sub(crowd.since_us));
        let arrived = Bitrate::from_transfer(ByteCount(crowd.bytes), time);
        self.rate = self.rate.min(arrived * 0.5).clamp(MIN_RATE, MAX_RATE);
        self.measured = [self.rate; 3];
        self.adjacent = Adjacent::default();
        self.draining = Some(now + self.settling());
    }

    /// When a probe may leave: nothing was heard for too long although something is under way.
    fn probe_at(&self) -> Option<Instant> {
        let sent = self.sent?;
        let since = self.heard.unwrap_or(sent);
        Some((since + self.patience()).max(sent + self.config.probe_every))
    }
}

impl Controller for Dedicated {
    fn name(&self) -> &'static str {
        "dedicated"
    }

    fn on_sent(&mut self, now: Instant, _packet: SentPacket) {
        if self.load.in_flight == ByteCount(0) && self.heard.is_some() {
            // After a rest, silence begins to count now.
            self.heard = Some(now);
        }
        self.sent = Some(now);
    }

    fn on_reports(&mut self, now: Instant, reports: Reports<'_>) {
        self.load = reports.load;
        let since = self.heard.replace(now).map_or(MIN_GAP, |heard| now.saturating_duration_since(heard));
        self.gap = ((self.gap * 7 + since) / 8).clamp(MIN_GAP, MAX_GAP);
        for packet in reports.packets {
            if let Some(arrived_us) = packet.arrived_us {
                self.on_arrival(now, (packet.number, packet.sent_us, arrived_us), packet.bytes);
            }
        }
        self.measure();
        self.stop_a_flood(now);
        let empty = *self.empty.get_or_insert(now);
        match self.draining {
            Some(until) if until <= now => (self.draining, self.empty) = (None, Some(now)),
            None if now.saturating_duration_since(empty) > DRAIN_EVERY => self.draining = Some(now + self.settling()),
            _ => {}
        }
    }

    fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        self.rtt.update(now, rtt.min(MAX_RTT));
    }

    fn on_path_change(&mut self, now: Instant) {
        self.base_us = Minimum::new(SPAN);
        self.rtt = Minimum::new(SPAN);
        self.queue_us = 0;
        self.last = None;
        (self.adjacent, self.crowd) = Default::default();
        self.draining = Some(now + self.settling());
    }

    fn poll(&mut self, _now: Instant, load: Load) {
        self.load = load;
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.probe_at()
    }

    fn window(&self, now: Instant) -> ByteCount {
        let silent = self.heard.is_some_and(|heard| now.saturating_duration_since(heard) > self.patience());
        if silent && self.load.in_flight > ByteCount(0) {
            let may_probe = self.probe_at().is_some_and(|at| at <= now);
            let probe = ByteCount(self.load.in_flight.0.saturating_add(TWO_PACKETS.0)).min(MAX_WINDOW);
            return if may_probe { probe } else { ByteCount(0) };
        }
        let time = self.rtt() + self.queue() + 2 * self.gap + AWAY;
        self.rate.bytes_in(time).clamp(LEAST_WINDOW, MAX_WINDOW)
    }

    fn pacing_rate(&self, _now: Instant) -> Bitrate {
        let gain = match self.waits() {
            waits if self.draining.is_some() && waits > EMPTY => DRAIN_ALL,
            _ if self.draining.is_some() => DRAIN,
            waits if waits > 2 * self.queue() => DRAIN * DRAIN,
            waits if waits > self.queue() => DRAIN,
            waits if 2 * waits > self.queue() => 1.0,
            _ => self.config.pacing_gain,
        };
        // Until a queue has been seen, what the window allows leaves at once, so that there is one.
        if self.found { self.rate * gain } else { MAX_RATE }
    }

    /// What was not sent in a pause would have waited in front of the radio, which is ours alone: it is made up for, so that the radio is
    /// not idle where a machine has other things to do. What waits is bounded by the pace as before.
    fn pacing_slack(&self) -> Duration {
        self.queue()
    }

    fn target_rate(&self) -> Bitrate {
        (self.rate * VIDEO).max(R_SAFE) - R_SAFE
    }

    fn may_encode(&self, now: Instant, load: Load) -> bool {
        let silent = self.heard.is_some_and(|heard| now.saturating_duration_since(heard) > self.patience());
        !(silent && load.in_flight > ByteCount(0)) && self.waits() < 3 * self.queue()
    }

    fn capacity(&self) -> Bitrate {
        self.rate
    }

    fn queue_delay(&self) -> Duration {
        self.waits()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;
