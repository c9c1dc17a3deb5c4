//! SCReAM v2: RFC 8298 as draft-ietf-ccwg-rfc8298bis-screamv2-00 replaces it, for one stream.
//!
//! Written from the draft's text, with its names. Two things that the authors' program does and the draft does not are not
//! done: a back-off divided twice by the round trip over [`ScreamConfig::virtual_rtt`], and a round trip capped at 200 ms in
//! the rate. What the draft leaves to others: frames are discarded by the send queue (0.1 s in the authors' program, `[video]
//! queue_age` here), none is skipped before it is encoded, and competing flows are not compensated for (the draft's MAY).
//! The deviation of frame sizes is not taken into account: a controller here does not hear of frames.

mod delay;

use std::time::{Duration, Instant};

use super::digest::{Digest, SmoothedRtt};
use super::{Controller, EncoderRange, Load, Reports, SentPacket};
use crate::{Bitrate, ByteCount};
use delay::Delay;

/// Parameters, by their names in the draft.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScreamConfig {
    /// QDELAY_TARGET_LO: queue delay at which the window is halved; marking begins at half of it.
    pub qdelay_target_lo: Duration,
    /// MIN_REF_WND.
    pub min_ref_wnd: ByteCount,
    /// BYTES_IN_FLIGHT_HEAD_ROOM: the window stays below this multiple of what was in flight.
    pub bytes_in_flight_head_room: f64,
    /// BETA_LOSS: what a loss leaves of the window.
    pub beta_loss: f64,
    /// BETA_ECN: what a mark leaves of it (RFC 3168).
    pub beta_ecn: f64,
    /// IS_L4S: marks are counted (RFC 9331).
    pub is_l4s: bool,
    /// L4S_AVG_G_UP, L4S_AVG_G_DOWN: weights of the newest share of marked packets.
    pub l4s_avg_g_up: f64,
    pub l4s_avg_g_down: f64,
    /// MSS: bytes of a full packet, headers included.
    pub mss: ByteCount,
    /// POST_CONGESTION_DELAY_RTT: round trips after congestion in which growth is cautious.
    pub post_congestion_delay_rtt: f64,
    /// MUL_INCREASE_FACTOR: growth in a round trip, as a share of the window.
    pub mul_increase_factor: f64,
    /// VIRTUAL_RTT: paths shorter than this react as if they were this long.
    pub virtual_rtt: Duration,
    /// QDELAY_AVG_G: weight of a longer queue delay in its mean; a shorter one replaces it.
    pub qdelay_avg_g: f64,
    /// QDELAY_DEV_NORM, QDELAY_DEV_AVG_G: what a varying queue delay is measured by, and the weight of the newest.
    pub qdelay_dev_norm: Duration,
    pub qdelay_dev_avg_g: f64,
    /// MIN_QUEUE_DELAY_DEV_SCALE: such a delay leaves at least this of growth.
    pub min_queue_delay_dev_scale: f64,
    /// REF_WND_OVERHEAD_MIN, REF_WND_OVERHEAD_MAX: in flight may be this multiple of the window, by how steady the delay is.
    pub ref_wnd_overhead_min: f64,
    pub ref_wnd_overhead_max: f64,
    /// RATE_PACE_MIN.
    pub rate_pace_min: Bitrate,
    /// PACKET_PACING_HEADROOM: packets leave at this multiple of the rate.
    pub packet_pacing_headroom: f64,
    /// MAX_RELAXED_PACING_FACTOR, RELAXED_PACING_LIMIT_LOW: and at up to this one more, above this share of the encoder's most.
    pub max_relaxed_pacing_factor: f64,
    pub relaxed_pacing_limit_low: f64,
    /// RATE_ADJUST_GAIN: how fast the rate follows what waits at the sender.
    pub rate_adjust_gain: f64,
    /// PACKET_OVERHEAD: bytes.
    pub packet_overhead: ByteCount,
}

impl Default for ScreamConfig {
    fn default() -> Self {
        Self {
            qdelay_target_lo: Duration::from_millis(60),
            min_ref_wnd: ByteCount(3000),
            bytes_in_flight_head_room: 1.5,
            beta_loss: 0.7,
            beta_ecn: 0.8,
            is_l4s: false,
            l4s_avg_g_up: 1.0 / 8.0,
            l4s_avg_g_down: 1.0 / 128.0,
            mss: ByteCount(1240),
            post_congestion_delay_rtt: 100.0,
            mul_increase_factor: 0.02,
            virtual_rtt: Duration::from_millis(25),
            qdelay_avg_g: 0.25,
            qdelay_dev_norm: Duration::from_millis(25),
            qdelay_dev_avg_g: 1.0 / 64.0,
            min_queue_delay_dev_scale: 0.1,
            ref_wnd_overhead_min: 1.5,
            ref_wnd_overhead_max: 3.0,
            rate_pace_min: Bitrate::kbps(50),
            packet_pacing_headroom: 1.5,
            max_relaxed_pacing_factor: 4.0,
            relaxed_pacing_limit_low: 0.8,
            rate_adjust_gain: 1.0 / 16.0,
            packet_overhead: ByteCount(20),
        }
    }
}

/// Until a round trip is known.
const INITIAL_RTT: f64 = 0.1;
/// Weight of a new sample in s_rtt (RFC 6298 §2).
const RTT_GAIN: f64 = 0.125;
/// Bounds that the draft leaves to the integers of its readers.
const MAX_REF_WND: f64 = (1u64 << 26) as f64;
const MAX_RATE: f64 = 1e9;
/// frame_period, seconds.
const FRAME_PERIOD: Duration = Duration::from_micros(33_333);
/// L4S alpha is updated at least this often, seconds.
const ALPHA_INTERVAL: f64 = 0.01;

/// The controller.
#[derive(Debug)]
pub struct Scream {
    config: ScreamConfig,
    range: EncoderRange,
    ref_wnd: f64,
    ref_wnd_i: f64,
    s_rtt: SmoothedRtt,
    delay: Delay,
    l4s_alpha: f64,
    last_update_l4s_alpha: Option<Instant>,
    delivered_this_rtt: u64,
    marked_this_rtt: u64,
    /// Since the last reaction.
    loss_detected: bool,
    data_units_marked: bool,
    last_congestion_detected: Option<Instant>,
    last_reaction_to_congestion: Option<Instant>,
    last_ref_wnd_i_update: Option<Instant>,
    load: Load,
    /// Largest of this round trip and of the one before, and when this one began.
    max_bytes_in_flight: u64,
    max_bytes_in_flight_prev: u64,
    round: Option<Instant>,
    rate_adjust_factor: f64,
    /// The send queue has not been empty since.
    queued_since: Option<Instant>,
    next_frame: Option<Instant>,
    target_bitrate: f64,
}

impl Scream {
    /// A controller that knows nothing yet.
    pub fn new(config: ScreamConfig, range: EncoderRange) -> Self {
        let mut scream = Self {
            ref_wnd: (config.min_ref_wnd.0 as f64).clamp(1.0, MAX_REF_WND),
            ref_wnd_i: 1.0,
            delay: Delay::new(config),
            config,
            range,
            s_rtt: SmoothedRtt::new(RTT_GAIN),
            l4s_alpha: 0.0,
            last_update_l4s_alpha: None,
            delivered_this_rtt: 0,
            marked_this_rtt: 0,
            loss_detected: false,
            data_units_marked: false,
            last_congestion_detected: None,
            last_reaction_to_congestion: None,
            last_ref_wnd_i_update: None,
            load: Load::default(),
            max_bytes_in_flight: 0,
            max_bytes_in_flight_prev: 0,
            round: None,
            rate_adjust_factor: 0.0,
            queued_since: None,
            next_frame: None,
            target_bitrate: 0.0,
        };
        scream.update_target();
        scream
    }

    fn rtt(&self) -> f64 {
        self.s_rtt.seconds().unwrap_or(INITIAL_RTT)
    }

    /// At least min(VIRTUAL_RTT, s_rtt) since.
    fn is_due(&self, now: Instant, last: Option<Instant>) -> bool {
        last.is_none_or(|last| seconds(now, last) >= self.config.virtual_rtt.as_secs_f64().min(self.rtt()))
    }

    fn ref_wnd_ratio(&self) -> f64 {
        (self.config.mss.0 as f64 / self.ref_wnd).min(1.0)
    }

    /// How far the window is from where congestion was last met, from 0.1 to 1.
    fn scl(&self) -> f64 {
        let distance = 8.0 * (self.ref_wnd - self.ref_wnd_i) / self.ref_wnd_i;
        (distance * distance).clamp(0.1, 1.0)
    }

    fn update_alpha(&mut self, now: Instant, digest: &Digest) {
        self.delivered_this_rtt += digest.packets;
        self.marked_this_rtt += digest.marked;
        let due = self.last_update_l4s_alpha.is_none_or(|last| seconds(now, last) >= ALPHA_INTERVAL.min(self.rtt()));
        if !due || self.delivered_this_rtt == 0 {
            return;
        }
        let fraction = self.marked_this_rtt as f64 / self.delivered_this_rtt as f64;
        self.l4s_alpha = if fraction >= self.l4s_alpha {
            self.l4s_alpha + (fraction - self.l4s_alpha) * self.config.l4s_avg_g_up
        } else {
            self.l4s_alpha * (1.0 - self.config.l4s_avg_g_down)
        };
        self.last_update_l4s_alpha = Some(now);
        (self.delivered_this_rtt, self.marked_this_rtt) = (0, 0);
    }

    /// Reference Window Reduction.
    fn reduce(&mut self, now: Instant, scl: f64) {
        if self.loss_detected || self.data_units_marked {
            self.last_congestion_detected = Some(now);
        }
        let virtual_alpha = self.delay.virtual_alpha();
        let congested = self.loss_detected || self.data_units_marked || virtual_alpha > 0.0;
        if !congested || !self.is_due(now, self.last_reaction_to_congestion) {
            return;
        }
        let rtt = self.rtt();
        if self.last_ref_wnd_i_update.is_none_or(|last| seconds(now, last) > 10.0 * rtt) {
            self.last_ref_wnd_i_update = Some(now);
            self.ref_wnd_i = self.ref_wnd;
        }
        let virtual_rtt = self.config.virtual_rtt.as_secs_f64().max(1e-3);
        // Once, and not once more in what follows.
        let by_rtt = (rtt / virtual_rtt).max(1.0);
        if self.loss_detected {
            self.ref_wnd *= self.config.beta_loss;
        } else if self.data_units_marked && self.config.is_l4s {
            let mut backoff = self.l4s_alpha / 2.0 / by_rtt;
            if self.delay.qdelay() < self.config.qdelay_target_lo.as_secs_f64() / 4.0 {
                backoff *= scl.max(0.25) * self.delay.steadiness(self.ref_wnd_ratio());
            }
            let long = 100.0 * rtt.max(virtual_rtt);
            if self.last_reaction_to_congestion.is_some_and(|last| seconds(now, last) > long) {
                self.ref_wnd = self.ref_wnd.min(self.max_bytes_in_flight_prev as f64);
            }
            self.ref_wnd *= 1.0 - backoff;
        } else if self.data_units_marked {
            self.ref_wnd *= self.config.beta_ecn;
        } else {
            self.ref_wnd *= 1.0 - virtual_alpha / 2.0 / by_rtt;
        }
        (self.loss_detected, self.data_units_marked) = (false, false);
        self.last_reaction_to_congestion = Some(now);
    }

    /// Reference Window Increase.
    fn increase(&mut self, now: Instant, digest: &Digest, scl: f64) {
        let ScreamConfig { virtual_rtt, mul_increase_factor, mss, .. } = self.config;
        let (rtt, virtual_rtt, mss) = (self.rtt(), virtual_rtt.as_secs_f64().max(1e-3), mss.0 as f64);
        let calm = self.last_congestion_detected.map_or(1.0, |last| {
            let caution = self.config.post_congestion_delay_rtt.max(1.0) * rtt.max(virtual_rtt);
            (seconds(now, last) / caution).clamp(0.0, 1.0)
        });
        let acked = digest.bytes.saturating_sub(digest.marked_bytes) as f64;
        let mut increment = acked * self.ref_wnd_ratio() * (rtt / virtual_rtt).min(1.0) * scl.max(0.25);
        increment *= self.delay.steadiness(self.ref_wnd_ratio());
        increment *= 1.0 + mul_increase_factor * self.ref_wnd / mss.max(1.0) * calm * scl;
        let in_flight = self.max_bytes_in_flight.max(self.max_bytes_in_flight_prev) as f64;
        let allowed = mss + in_flight * self.config.bytes_in_flight_head_room;
        if self.ref_wnd + increment <= allowed && self.target_bitrate < self.range.most.0 as f64 {
            self.ref_wnd += increment;
        }
    }

    /// Media Rate Control.
    fn update_target(&mut self) {
        let ScreamConfig { mss, packet_overhead, .. } = self.config;
        let mss = mss.0 as f64;
        let mut share = 1.0 - (self.ref_wnd_ratio() - 0.1).clamp(0.0, 0.2);
        share *= mss / (mss + packet_overhead.0 as f64).max(1.0);
        share /= 1.2 + self.rate_adjust_factor;
        share *= self.delay.caution();
        self.target_bitrate = (share * 8.0 * self.ref_wnd / self.rtt()).clamp(0.0, MAX_RATE);
    }

    /// What waits at the sender, once for each frame.
    fn watch_queue(&mut self, now: Instant, load: Load) {
        self.queued_since = if load.queued == ByteCount::ZERO { None } else { self.queued_since.or(Some(now)) };
        if self.next_frame.is_some_and(|next| now < next) {
            return;
        }
        self.next_frame = Some(now + FRAME_PERIOD);
        let media_qdelay = self.queued_since.map_or(0.0, |since| seconds(now, since));
        let error = media_qdelay / FRAME_PERIOD.as_secs_f64() - 0.25;
        self.rate_adjust_factor = (self.rate_adjust_factor + error * self.config.rate_adjust_gain).clamp(0.0, 0.5);
        self.update_target();
    }

    fn watch_flight(&mut self, now: Instant, in_flight: ByteCount) {
        if self.round.is_none_or(|round| seconds(now, round) >= self.rtt()) {
            self.round = Some(now);
            self.max_bytes_in_flight_prev = std::mem::take(&mut self.max_bytes_in_flight);
        }
        self.max_bytes_in_flight = self.max_bytes_in_flight.max(in_flight.0);
    }
}

impl Controller for Scream {
    fn name(&self) -> &'static str {
        "scream"
    }

    fn on_sent(&mut self, now: Instant, packet: SentPacket) {
        self.load.in_flight = ByteCount(self.load.in_flight.0.saturating_add(packet.bytes.0));
        self.watch_flight(now, self.load.in_flight);
    }

    fn on_reports(&mut self, now: Instant, reports: Reports<'_>) {
        self.load = reports.load;
        let digest = Digest::of(&reports);
        if let Some(rtt) = digest.rtt {
            self.s_rtt.update(rtt);
        }
        self.loss_detected |= digest.lost > 0;
        self.data_units_marked |= digest.marked > 0;
        let rtt = self.rtt();
        if let Some(delay_us) = digest.delay_us {
            self.delay.on_delay(now, delay_us, rtt, self.ref_wnd_ratio());
        }
        self.update_alpha(now, &digest);
        let scl = self.scl();
        self.reduce(now, scl);
        self.increase(now, &digest, scl);
        let least = (self.config.min_ref_wnd.0 as f64).clamp(1.0, MAX_REF_WND);
        self.ref_wnd = self.ref_wnd.clamp(least, MAX_REF_WND);
        self.update_target();
    }

    /// The draft resets its history of delays when they jump.
    fn on_path_change(&mut self, _: Instant) {
        self.delay = Delay::new(self.config);
        self.s_rtt = SmoothedRtt::new(RTT_GAIN);
    }

    fn poll(&mut self, now: Instant, load: Load) {
        self.load = load;
        self.watch_queue(now, load);
    }

    fn window(&self, _: Instant) -> ByteCount {
        let ScreamConfig { ref_wnd_overhead_min: least, ref_wnd_overhead_max: most, .. } = self.config;
        let overhead = least + (most - least) * self.delay.raw_steadiness(self.ref_wnd_ratio());
        ByteCount((self.ref_wnd * overhead) as u64)
    }

    fn pacing_rate(&self, _: Instant) -> Bitrate {
        let ScreamConfig { max_relaxed_pacing_factor: most, relaxed_pacing_limit_low: low, .. } = self.config;
        let rate = self.target_bitrate.max(self.config.rate_pace_min.0 as f64) * self.config.packet_pacing_headroom;
        let nominal = self.target_bitrate / (self.range.most.0 as f64).max(1.0);
        let relaxed = ((nominal - low) / (1.0 - low).max(1e-3)).min(1.0);
        let scale = (1.0 - relaxed).clamp(1.0 / most.max(1.0), 1.0);
        Bitrate((rate / scale).min(10.0 * MAX_RATE) as u64)
    }

    fn target_rate(&self) -> Bitrate {
        Bitrate(self.target_bitrate as u64)
    }

    fn capacity(&self) -> Bitrate {
        Bitrate((8.0 * self.ref_wnd / self.rtt()).min(MAX_RATE) as u64)
    }

    fn queue_delay(&self) -> Duration {
        Duration::try_from_secs_f64(self.delay.qdelay()).unwrap_or_default()
    }
}

fn seconds(now: Instant, since: Instant) -> f64 {
    now.saturating_duration_since(since).as_secs_f64()
}

#[cfg(test)]
mod tests;
