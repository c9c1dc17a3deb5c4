//! SCReAM-FPV2, the default: the capacity is measured, the queue follows from what was sent, and a frame that would have
//! to wait is not encoded.
//!
//! AQUILA's equations 4 to 6 steer a window by the round-trip time, against a target that includes the smallest round trip
//! of late; a queue that is allowed to stand becomes part of that minimum, and the target grows with it
//! (`docs/deviations.md`). Here nothing is allowed to stand. The rate follows from the capacity ([`capacity`]), less what
//! works off the queue within [`Fpv2Config::horizon`]; how fast packets leave and what is kept back follow from how much the
//! capacity varies ([`variation`]); the queue is what is in flight beyond what the path holds; the path's
//! own delay is told from a queue by whether it drains ([`base`]). Who is not alone on the link takes his share ([`company`]).
//! `docs/congestion.md` has the design, its constants and what each part is worth.

mod base;
mod capacity;
mod company;
mod drain;
mod outlook;
mod policer;
mod reaction;
mod stall;
mod unevenness;
mod variation;

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::minimum::Minimum;
use super::{Controller, EncoderRange, Load, Radio, Reports, SentPacket};
use crate::sched::reserve::R_SAFE;
use crate::{Bitrate, ByteCount};
use base::Base;
use capacity::{Arrival, Trains, Verdict};
use company::Company;
use drain::Drain;
use outlook::Outlook;
use policer::Policer;
use reaction::Reaction;
use stall::Stall;
use unevenness::Unevenness;
use variation::{Variation, ramp};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fpv2Config {
    /// Capacity assumed before anything is known.
    pub initial: Bitrate,
    /// η: share of the capacity that video gets ([AQUILA eq. 7] γ), while the capacity is steady and 3 Mbit/s: of less it gets more,
    /// see [`UTILISATION_PER_HALF`]; [`UTILISATION_VARYING`] of it while it varies, whatever it is, and no more than while it is steady.
    pub utilisation: f64,
    /// τ: a queue is worked off within this time while the capacity is steady, and [`HORIZON_VARYING`] of it while it varies.
    pub horizon: Duration,
    /// Packets leave at this multiple of the capacity, so that a frame measures the link, while the capacity is steady ...
    pub pacing_gain: f64,
    /// ... and at up to this multiple while it varies.
    pub pacing_gain_varying: f64,
    /// Time beyond the round trip that the window covers: what may stand in the network, and commands behind it. [`SLACK_VARYING`] times
    /// as much while the capacity varies.
    pub slack: Duration,
    /// Kept free for commands ([AQUILA eq. 7] R_safe).
    pub reserve: Bitrate,
    /// A queue longer than this, here and in the network, makes frames be left out before they are encoded; [`SKIP_ABOVE_VARYING`] times
    /// this while the capacity varies.
    pub skip_above: Duration,
}

impl Default for Fpv2Config {
    fn default() -> Self {
        Self {
            initial: Bitrate::kbps(700),
            utilisation: 0.895,
            horizon: Duration::from_millis(48),
            pacing_gain: 1.25,
            pacing_gain_varying: 4.5,
            slack: Duration::from_millis(20),
            reserve: R_SAFE,
            skip_above: Duration::from_millis(33),
        }
    }
}

/// Bytes of a full packet, headers included.
const MSS: u64 = 1240;
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// The smallest round trip is that of 30 to 60 s; feedback may take this much longer for the window.
const RTT_SPAN: Duration = Duration::from_secs(30);
const MAX_FEEDBACK: Duration = Duration::from_millis(300);
const MAX_RTT: Duration = Duration::from_secs(10);
/// The capacity is updated this often, a frame at 30 Hz; until the link has been found, more often.
const UPDATE: Duration = Duration::from_millis(33);
const FIRST_UPDATE: Duration = Duration::from_millis(10);
/// Time over the round trip that feedback takes.
const FEEDBACK_SLACK: Duration = Duration::from_millis(1);
/// Feedback's own delay is the smallest of this long.
const FEEDBACK_SPAN: Duration = Duration::from_millis(300);
const LONG_FEEDBACK_SPAN: Duration = Duration::from_secs(10);
/// Growth per update while nothing waits, to at most so many times what arrives and this more.
const GROWTH: f64 = 1.06;
const FIRST_GROWTH: f64 = 1.2;
const GROWTH_SHARE: f64 = 3.0;
const GROWTH_ROOM: Bitrate = Bitrate::kbps(200);
/// The same if packets came one by one, which proves nothing: where each takes a tenth of a second, more is a queue.
const UNPROVEN_SHARE: f64 = 1.25;
const UNPROVEN_ROOM: Bitrate = Bitrate::kbps(20);
/// If too few packets come to measure anything, and they have waited for longer than this, the link carries no more than what comes.
const TRICKLE: Duration = Duration::from_millis(300);
/// Who always has something to send proves no more than the window lets him; once he has met no limit for so many updates
/// he grows as at first.
const FREE_UPDATES: u32 = 10;
/// What was measured lately grows by no more than this in an update, or to what [`GROWTH_SHARE`] lets grow.
const MEASURED_GROWTH: f64 = 2.0;
/// Of η, of τ, of what of a standing queue is worked off, and of the slack, while the capacity varies. What a frame met is
/// then soon no longer so, and who keeps frames back because of what the link carried a moment ago is late where it carries more by now.
const UTILISATION_VARYING: f64 = 0.945;
const HORIZON_VARYING: f64 = 0.85;
const STANDING_SHARE_VARYING: f64 = 0.6;
const SLACK_VARYING: f64 = 2.6;
/// Of the queue above which frames are left out: the link may take half of it in as much time. Where it varies wildly it is as likely to
/// take twice as long.
const SKIP_ABOVE_VARYING: f64 = 1.65;
/// Longest that a frame is kept raw, for the queue to become short enough. Of the time that it has been this share counts as if it had waited
/// in the queue: it is as late either way, but raw it is in nobody's way.
const PATIENCE: Duration = Duration::from_millis(25);
const WAITED_SHARE: f64 = 0.7;
/// While it is steady: so much more of each half of this rate, within bounds. What a frame waits behind itself is the share of the
/// link that it takes, whatever the rate; what that share is worth to the picture is the more the lower the rate.
const UTILISATION_PER_HALF: f64 = 0.04;
const UTILISATION_RATE: f64 = 3e6;
const UTILISATION_BOUNDS: (f64, f64) = (-0.04, 0.024);
/// Where the capacity varies much, video gets less of the little there is: from the first of these rates down, to this share less at the
/// second, bits/s. What is left over there is few bits, and a frame that comes out too large keeps the link for several.
const LITTLE: (f64, f64) = (1e6, 4e5);
const LESS_OF_LITTLE: f64 = 0.5;
/// In place of the pacing gain until the link has been found.
const FIRST_PACING_GAIN: f64 = 2.0;
/// Standing queue that a frame may meet, and share of what is beyond that is worked off within the horizon.
const STANDING: Duration = Duration::from_millis(3);
const STANDING_SHARE: f64 = 0.7;
/// The window's slack while a source sends without asking, and keeps it full.
const SLACK_IF_SATURATED: Duration = Duration::from_millis(11);
/// The pacing gain is then no more than this: who always sends need not send fast to learn what the link carries.
const PACING_GAIN_IF_SATURATED: f64 = 3.0;
/// The same while there is nothing but files and bulk: feedback comes each 10 ms, and the link is not to run dry until then though a
/// process stands still.
const SLACK_IF_UNHURRIED: Duration = Duration::from_millis(20);
/// The window has room for a packet more, or for what the link takes in this long.
const PACKET: Duration = Duration::from_millis(20);
/// Bounds of the capacity.
const MIN_CAPACITY: Bitrate = Bitrate::kbps(30);
const MAX_WINDOW: ByteCount = ByteCount(64 << 20);
const MAX_CAPACITY: Bitrate = Bitrate::mbps(1000);
/// No clock shows more microseconds; what seems to is not believed.
const MAX_CLOCK_US: u64 = 1 << 60;
/// The queue above which frames are left out while the encoder makes more than the link carries.
const SKIP_ABOVE_AT_FLOOR: Duration = Duration::from_millis(10);
/// What waits at the sender above which frames are left out while others keep the network's queue long.
const SKIP_ABOVE_IF_CROWDED: Duration = Duration::from_millis(80);

/// The controller.
#[derive(Debug)]
pub struct Fpv2 {
    config: Fpv2Config,
    range: EncoderRange,
    capacity: Bitrate,
    /// The link has been the limit.
    found: bool,
    /// When the capacity last grew to what was proven, by the sender's clock, µs.
    proven_us: Option<u64>,
    /// Updates in a row that found no limit.
    free: u32,
    trains: Trains,
    variation: Variation,
    unevenness: Unevenness,
    company: Company,
    /// Somebody else keeps the queue long.
    crowded: bool,
    base: Base,
    /// (sender's clock when it was heard - receiver's clock when it arrived) of the newest packet of each report, µs.
    feedback_us: Minimum<i64>,
    /// The same for longer.
    least_feedback_us: Minimum<i64>,
    rtt: Minimum<Duration>,
    /// Queue that the newest packet met, and the newest first packet of a frame, µs.
    queue_us: i64,
    led_us: i64,
    sent_bytes: u64,
    load: Load,
    stall: Stall,
    drain: Drain,
    reaction: Reaction,
    policer: Policer,
    outlook: Outlook,
    /// What the outlook makes of it, from 0 to 1.
    caution: f64,
    last_update: Option<Instant>,
}

impl Fpv2 {
    /// A controller that knows nothing yet.
    pub fn new(config: Fpv2Config, range: EncoderRange) -> Self {
        Self {
            capacity: config.initial,
            config,
            range,
            found: false,
            proven_us: None,
            free: 0,
            trains: Trains::new(),
            variation: Variation::default(),
            unevenness: Unevenness::new(),
            company: Company::new(),
            crowded: false,
            base: Base::new(),
            feedback_us: Minimum::new(FEEDBACK_SPAN),
            least_feedback_us: Minimum::new(LONG_FEEDBACK_SPAN),
            rtt: Minimum::new(RTT_SPAN),
            queue_us: 0,
            led_us: 0,
            sent_bytes: 0,
            load: Load::default(),
            stall: Stall::default(),
            drain: Drain::new(),
            reaction: Reaction::default(),
            policer: Policer::default(),
            outlook: Outlook::default(),
            caution: 0.0,
            last_update: None,
        }
    }

    /// The round trip without our queue: the base of the way there and what feedback takes of late. The offset of the
    /// clocks cancels.
    fn pipe(&self) -> Duration {
        let sum = self.base.value().zip(self.feedback_us.value()).map(|(there, back)| there + back);
        let plausible =
            sum.and_then(|us| u64::try_from(us).ok()).map(Duration::from_micros).filter(|rtt| *rtt < MAX_RTT);
        plausible.or(self.rtt.value()).unwrap_or(INITIAL_RTT)
    }

    /// What of the link is ours.
    fn ours(&self) -> Bitrate {
        self.company.share().unwrap_or(self.capacity)
    }

    fn look_for_company(&mut self, now: Instant) {
        match self.found {
            true => {
                let floor = Duration::from_micros(self.base.floor_us() as u64);
                let satisfied = self.target_rate() >= self.range.most;
                self.company.update(now, self.capacity, floor, self.pipe() + self.queue_delay(), satisfied);
            }
            false => self.company.forget_trains(),
        }
        self.crowded = self.company.is_crowded(now);
    }

    /// From 1 while the capacity is steady to `varying`.
    fn varied(&self, varying: f64) -> f64 {
        1.0 + (varying - 1.0) * self.variation.share()
    }

    /// Of what is ours of the link, what video gets.
    fn share(&self) -> f64 {
        let halves = (UTILISATION_RATE / self.ours().0.max(1) as f64).log2();
        let (least, most) = UTILISATION_BOUNDS;
        let steady = (self.config.utilisation + (UTILISATION_PER_HALF * halves).clamp(least, most)).min(1.0);
        let varying = (self.config.utilisation * UTILISATION_VARYING).min(steady);
        let varies = self.variation.share().max(self.caution);
        // What others leave varies too, and they take what is not asked for.
        let varies_itself = if self.company.is_unlikely() { self.variation.degree() } else { 0.0 };
        let of_little = 1.0 - LESS_OF_LITTLE * ramp(self.ours().0 as f64, LITTLE.0, LITTLE.1) * varies_itself;
        (steady + (varying - steady) * varies) * of_little * self.unevenness.more() * self.reaction.share()
    }

    /// Bytes that wait in the network: what is in flight beyond what the path holds.
    fn network_queue(&self, load: Load) -> u64 {
        // Some of it will never arrive.
        let in_flight = ByteCount((load.in_flight.0 as f64 * self.reaction.arrives()) as u64);
        in_flight.saturating_sub(self.ours().bytes_in(self.pipe() + FEEDBACK_SLACK)).0
    }

    fn update_capacity(&mut self, now: Instant, now_us: u64) {
        let queue = self.queue_delay();
        self.policer.poll(now, self.capacity.min(self.range.most), queue);
        // Until the link has been found, each growth is judged by what left after the one before it.
        let since_us = self.proven_us.filter(|_| !self.found);
        let Some(verdict) = self.trains.verdict(self.base.is_in_doubt(), self.found, since_us) else {
            if self.found && !self.base.is_in_doubt() && self.queue_delay() > TRICKLE {
                let received = self.trains.lately_received();
                self.capacity = self.capacity.min(received * UNPROVEN_SHARE + UNPROVEN_ROOM).max(MIN_CAPACITY);
            }
            return;
        };
        // On a slow link there may be too few packets to tell; a queue that stays tells as much.
        let waits =
            !self.base.is_in_doubt() && self.base.floor_us() > base::suspicious_us(self.capacity.0 as f64 / 8.0);
        let verdict = match verdict {
            Verdict::Free { received, .. } | Verdict::Quick { received, .. } if waits => Verdict::Limited(received),
            verdict => verdict,
        };
        self.unevenness.update(self.trains.unevenness());
        let before = self.capacity;
        match verdict {
            Verdict::Limited(sample) => {
                let most = self.capacity * MEASURED_GROWTH;
                let most = most.max(self.trains.lately_received() * GROWTH_SHARE + GROWTH_ROOM);
                self.capacity = if self.found { sample.min(most) } else { sample };
                self.found = true;
                self.free = 0;
            }
            Verdict::Free { received, at_least } => {
                self.free += 1;
                let held_back = self.is_held_back();
                let growth = if held_back || !self.found { FIRST_GROWTH } else { GROWTH };
                let grown = (self.capacity * growth).max(at_least);
                let proven = at_least * if held_back { FIRST_GROWTH } else { GROWTH };
                // Who sends no faster than the window lets him learns nothing of more.
                let most = if self.found { proven.min(received * GROWTH_SHARE + GROWTH_ROOM) } else { proven };
                let grown = grown.min(most);
                if grown > self.capacity {
                    self.capacity = grown;
                    self.proven_us = Some(now_us);
                }
            }
            Verdict::Quick { received, up_to } => {
                self.free += 1;
                let most = up_to.min(received * GROWTH_SHARE + GROWTH_ROOM);
                let grown = (self.capacity * FIRST_GROWTH).min(most.max(received * UNPROVEN_SHARE + UNPROVEN_ROOM));
                if grown > self.capacity {
                    (self.capacity, self.proven_us) = (grown, None);
                }
            }
        }
        self.capacity = self.capacity.min(self.policer.limit().unwrap_or(MAX_CAPACITY));
        match (self.found, verdict) {
            (true, Verdict::Limited(_)) => self.variation.update(self.capacity),
            // That more was looked for is no change of the link.
            (true, _) => self.variation.follow(before, self.capacity),
            (false, _) => self.variation.forget(),
        }
        self.capacity = self.capacity * self.reaction.poll(now, self.pipe(), queue);
        self.capacity = self.capacity.clamp(MIN_CAPACITY, MAX_CAPACITY);
    }

    fn test_base(&mut self, now: Instant) {
        let floor = Duration::from_micros(self.base.floor_us() as u64);
        self.drain.on_floor(now, floor);
        if !self.found {
            // What should have drained is not known.
            return;
        }
        let capacity = self.capacity.0 as f64 / 8.0;
        let is_told = self.outlook.is_new_cell(now);
        if self.base.test(now, self.sent_bytes, capacity, self.pipe(), is_told, self.caution).is_some() {
            self.drain.on_base(now);
            self.trains.clear();
            self.least_feedback_us = Minimum::new(LONG_FEEDBACK_SPAN);
            self.rtt = Minimum::new(RTT_SPAN);
            self.found = false;
            (self.queue_us, self.led_us) = (0, 0);
        }
    }

    /// Whether what waits is from a source that does not ask: a camera that does is told to wait long before.
    fn is_saturated(&self) -> bool {
        self.load.beside > ByteCount::ZERO || self.ours().time_for(self.load.queued) > self.config.skip_above * 2
    }

    /// Nothing but the window has been the limit for a while: the link has to be found anew.
    fn is_held_back(&self) -> bool {
        self.found && self.free > FREE_UPDATES && self.is_saturated()
    }
}

impl Controller for Fpv2 {
    fn name(&self) -> &'static str {
        "fpv2"
    }

    fn on_sent(&mut self, now: Instant, packet: SentPacket) {
        self.sent_bytes += packet.bytes.0;
        self.stall.on_sent(now, packet.sent_us, packet.urgent);
        self.load.in_flight += packet.bytes;
    }

    fn on_reports(&mut self, now: Instant, reports: Reports<'_>) {
        self.load = reports.load;
        let doubtful_us = base::suspicious_us(self.capacity.0 as f64 / 8.0);
        let (mut newest, mut newest_sent_us) = (None, 0);
        for packet in reports.packets {
            self.reaction.on_packet(packet.arrived_us.is_some(), packet.ce);
            self.policer.on_packet(packet.arrived_us.is_some(), packet.bytes);
            let Some(arrived_us) = packet.arrived_us else {
                self.company.on_loss();
                continue;
            };
            if packet.sent_us.max(arrived_us) >= MAX_CLOCK_US {
                continue;
            }
            newest = newest.max(Some(arrived_us));
            newest_sent_us = packet.sent_us.max(newest_sent_us);
            let delay_us = arrived_us as i64 - packet.sent_us as i64;
            if let Some(queue_us) = self.base.on_delay(now, delay_us, packet.bytes.0) {
                self.queue_us = queue_us;
                if packet.leads {
                    self.led_us = self.base.met_us(queue_us, packet.bytes.0, self.capacity.0 as f64 / 8.0);
                }
            }
            self.company.on_arrival(now, packet.sent_us, arrived_us, packet.bytes.0, packet.leads);
            if let Some(base) = self.base.value() {
                let arrival = Arrival { sent_us: packet.sent_us, arrived_us, bytes: packet.bytes.0 };
                self.trains.on_arrival(now, arrival, base, doubtful_us);
            }
        }
        let Some(newest) = newest.filter(|_| reports.now_us < MAX_CLOCK_US) else { return };
        let back_us = reports.now_us as i64 - newest as i64;
        self.feedback_us.update(now, back_us);
        self.least_feedback_us.update(now, back_us);
        if self.stall.on_word(now, newest_sent_us, self.queue_delay(), reports.held) {
            self.trains.clear();
            self.company.forget_trains();
        }
        let update = if self.found { UPDATE } else { FIRST_UPDATE };
        if self.last_update.is_none_or(|last| now.saturating_duration_since(last) >= update) {
            self.last_update = Some(now);
            let both = self.rtt.value().zip(self.least_feedback_us.value());
            if let Some((rtt, back_us)) = both.filter(|_| !self.company.is_sure()) {
                self.base.on_round_trip(now, rtt, back_us);
            }
            self.update_capacity(now, reports.now_us);
            self.look_for_company(now);
            match self.company.is_sure() {
                false => self.test_base(now),
                true => self.base.hold(now),
            }
        }
    }

    fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        self.rtt.update(now, rtt);
    }

    fn on_radio(&mut self, now: Instant, radio: &Radio) {
        self.outlook.on_radio(now, radio);
        self.caution = self.outlook.caution(now);
    }

    fn on_path_change(&mut self, _: Instant) {
        self.base.reset();
        self.trains.clear();
        self.unevenness = Unevenness::new();
        self.company = Company::new();
        self.crowded = false;
        self.feedback_us = Minimum::new(FEEDBACK_SPAN);
        self.least_feedback_us = Minimum::new(LONG_FEEDBACK_SPAN);
        self.rtt = Minimum::new(RTT_SPAN);
        (self.found, self.proven_us, self.free) = (false, None, 0);
        self.stall = Stall::default();
        self.policer = Policer::default();
        (self.queue_us, self.led_us) = (0, 0);
    }

    fn poll(&mut self, now: Instant, load: Load) {
        self.load = load;
        self.caution = self.outlook.caution(now);
        self.stall.poll(now, self.pipe(), self.caution);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.drain.ends()
    }

    fn window(&self, now: Instant) -> ByteCount {
        if self.stall.is_stalled() || self.drain.is_draining(now) {
            return ByteCount::ZERO;
        }
        // If the other side has a queue too, each would make room for the other's, without end.
        let late = if self.found { MAX_FEEDBACK } else { Duration::ZERO };
        let most = self.rtt.value().map_or(MAX_RTT, |rtt| rtt + late);
        let slack = match self.is_saturated() {
            true if self.load.unhurried => SLACK_IF_UNHURRIED,
            true => SLACK_IF_SATURATED,
            false => self.config.slack.mul_f64(1.0 + (SLACK_VARYING - 1.0) * self.variation.degree()),
        };
        // A packet more lets none wait for a whole round trip; on a slow link it would be a queue.
        let packet = ByteCount(MSS).min(self.ours().bytes_in(PACKET));
        let others = if self.crowded { self.queue_delay() } else { Duration::ZERO };
        let window = self.ours().bytes_in(self.pipe().min(most) + others + slack) + packet;
        window.max(ByteCount(2 * MSS)).min(MAX_WINDOW)
    }

    fn pacing_rate(&self, now: Instant) -> Bitrate {
        // The pause of a drain comes back as a gap in what is heard; the whole window would leave at once.
        let refilling = self.drain.ends().is_some_and(|end| now < end + self.pipe() * 3 / 2);
        let Fpv2Config { pacing_gain: steady, pacing_gain_varying: varying, .. } = self.config;
        let varying = if self.is_saturated() { varying.min(PACING_GAIN_IF_SATURATED) } else { varying };
        let gain = match self.found && !self.is_held_back() {
            true => steady + (varying - steady) * self.variation.degree(),
            false => FIRST_PACING_GAIN,
        };
        self.ours() * if refilling { 1.0 } else { gain }
    }

    fn target_rate(&self) -> Bitrate {
        let horizon = self.config.horizon.as_secs_f64() * self.varied(HORIZON_VARYING);
        let capacity = self.ours().0 as f64;
        // A queue that others keep is not ours to work off.
        let in_network = if self.crowded { 0 } else { self.network_queue(self.load) };
        let drained = capacity * self.load.until_frame.as_secs_f64();
        let queued = (8.0 * (in_network + self.load.queued.0) as f64 - drained).max(0.0) / horizon;
        // What a frame meets of others' is a matter of when it comes.
        let met_us = if self.company.share().is_some() { 0 } else { self.led_us };
        let standing = (met_us as f64 / 1e6 - STANDING.as_secs_f64()).max(0.0);
        // The capacity is that of what arrives.
        let standing = STANDING_SHARE * self.varied(STANDING_SHARE_VARYING) * standing / horizon;
        let rate = (capacity * (self.share() - standing) - queued) / self.reaction.arrives();
        Bitrate(rate.max(0.0) as u64) - self.config.reserve
    }

    fn lasting_rate(&self) -> Bitrate {
        let rate = self.ours().0 as f64 * self.share() / self.reaction.arrives();
        Bitrate(rate as u64) - self.config.reserve
    }

    fn may_encode(&self, now: Instant, load: Load) -> bool {
        if self.crowded {
            let waits = self.ours().time_for(load.queued).saturating_sub(load.until_frame) + load.waited;
            return !self.stall.holds_frames() && waits <= SKIP_ABOVE_IF_CROWDED;
        }
        let in_network = ByteCount(self.network_queue(load));
        let expected = self.pipe() + self.ours().time_for(in_network);
        if self.stall.is_paused(now, expected, self.ours().time_for(ByteCount(MSS))) {
            return false;
        }
        // An encoder that cannot make as little as the link carries makes fewer frames instead: each when the one before it is
        // nearly through.
        let at_floor = self.ours() * self.config.utilisation < self.range.least;
        let varied = self.varied(SKIP_ABOVE_VARYING);
        let varied = varied + (1.0 - varied) * self.variation.wildness();
        let skip_above = if at_floor { SKIP_ABOVE_AT_FLOOR } else { self.config.skip_above.mul_f64(varied) };
        // Feedback and the like, of a packet, wait there all the time.
        let waits = in_network + (load.queued - ByteCount(MSS));
        let waits = (self.ours() * self.unevenness.sooner()).time_for(waits).saturating_sub(load.until_frame);
        let waits = waits + load.waited.mul_f64(WAITED_SHARE);
        !self.stall.holds_frames() && !self.drain.is_draining(now) && waits <= skip_above
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn capacity(&self) -> Bitrate {
        self.capacity
    }

    fn pair_every(&self) -> Option<NonZeroU32> {
        Some(self.company.pair_every())
    }

    fn queue_delay(&self) -> Duration {
        Duration::from_micros(self.queue_us.max(0) as u64)
    }
}

#[cfg(test)]
mod tests;
