//! Queue delay: what the way there takes beyond its least of late, its mean, how much it varies, and clocks that drift.

use std::time::{Duration, Instant};

use super::super::digest::History;
use super::{ScreamConfig, seconds};

/// The base delay is the least of so many buckets, as in the authors' program.
const BUCKET: Duration = Duration::from_secs(10);
const BUCKETS: usize = 50;
/// A delay that is larger is no queue, but a clock that jumped, seconds.
const MAX_QDELAY: f64 = 60.0;
/// QDELAY_MIN_AVG_ALPHA.
const QDELAY_MIN_AVG_ALPHA: f64 = 1.0 / 256.0;
/// After a reset of the base the rate is halved for this many round trips, and at least so long, seconds.
const RESET_RTTS: f64 = 5.0;
const RESET_LEAST: f64 = 0.2;

#[derive(Debug)]
pub(super) struct Delay {
    config: ScreamConfig,
    base: History<i64>,
    qdelay: f64,
    qdelay_avg: f64,
    qdelay_dev_norm: f64,
    last_update_avg: Option<Instant>,
    /// Least of this round trip, and its long mean.
    qdelay_min: f64,
    qdelay_min_avg: f64,
    round: Option<Instant>,
    cautious_until: Option<Instant>,
    now: Option<Instant>,
}

impl Delay {
    pub fn new(config: ScreamConfig) -> Self {
        Self {
            config,
            base: History::new(BUCKET, BUCKETS),
            qdelay: 0.0,
            qdelay_avg: 0.0,
            qdelay_dev_norm: 0.0,
            last_update_avg: None,
            qdelay_min: f64::MAX,
            qdelay_min_avg: 0.0,
            round: None,
            cautious_until: None,
            now: None,
        }
    }

    /// A delay on the way there, with the offset of the clocks.
    pub fn on_delay(&mut self, now: Instant, delay_us: i64, rtt: f64, ref_wnd_ratio: f64) {
        self.now = Some(now);
        self.base.update(now, delay_us);
        let base = self.base.least().unwrap_or(delay_us);
        self.qdelay = (delay_us.saturating_sub(base) as f64 / 1e6).clamp(0.0, MAX_QDELAY);
        let interval = self.config.virtual_rtt.as_secs_f64().min(rtt);
        if self.last_update_avg.is_none_or(|last| seconds(now, last) >= interval) {
            self.last_update_avg = Some(now);
            self.qdelay_avg = if self.qdelay < self.qdelay_avg {
                self.qdelay
            } else {
                self.qdelay_avg + (self.qdelay - self.qdelay_avg) * self.config.qdelay_avg_g
            };
            let norm = self.config.qdelay_dev_norm.as_secs_f64().max(1e-4);
            let deviation = ((self.qdelay - norm / 4.0) / norm).clamp(0.0, 1.5 * threshold(ref_wnd_ratio));
            self.qdelay_dev_norm += (deviation - self.qdelay_dev_norm) * self.config.qdelay_dev_avg_g;
        }
        self.watch_drift(now, rtt);
    }

    /// Clock drift issues and remedies.
    fn watch_drift(&mut self, now: Instant, rtt: f64) {
        self.qdelay_min = self.qdelay_min.min(self.qdelay);
        if self.round.is_some_and(|round| seconds(now, round) < rtt) {
            return;
        }
        self.round = Some(now);
        let least = std::mem::replace(&mut self.qdelay_min, f64::MAX);
        self.qdelay_min_avg += (least - self.qdelay_min_avg) * QDELAY_MIN_AVG_ALPHA;
        if self.qdelay_min_avg > self.config.qdelay_target_lo.as_secs_f64() / 4.0 {
            self.qdelay_min_avg = 0.0;
            self.base.clear();
            (self.qdelay, self.qdelay_avg) = (0.0, 0.0);
            self.cautious_until = Some(now + Duration::from_secs_f64((RESET_RTTS * rtt).clamp(RESET_LEAST, 60.0)));
        }
    }

    pub fn qdelay(&self) -> f64 {
        self.qdelay
    }

    /// Share of packets that a network with marks would have marked, from 0 to 1.
    pub fn virtual_alpha(&self) -> f64 {
        let half = self.config.qdelay_target_lo.as_secs_f64().max(1e-4) / 2.0;
        ((self.qdelay_avg - half) / half).clamp(0.0, 1.0)
    }

    /// From 0, where the queue delay varies much, to 1.
    pub fn raw_steadiness(&self, ref_wnd_ratio: f64) -> f64 {
        let threshold = threshold(ref_wnd_ratio);
        ((threshold - self.qdelay_dev_norm) / threshold).clamp(0.0, 1.0)
    }

    /// What a varying queue delay leaves of growth.
    pub fn steadiness(&self, ref_wnd_ratio: f64) -> f64 {
        self.raw_steadiness(ref_wnd_ratio).max(self.config.min_queue_delay_dev_scale)
    }

    /// What is left of the rate after the base was reset.
    pub fn caution(&self) -> f64 {
        let cautious = self.cautious_until.zip(self.now).is_some_and(|(until, now)| now < until);
        if cautious { 0.5 } else { 1.0 }
    }
}

/// qdelay_dev_norm_th: less for a window of few packets.
fn threshold(ref_wnd_ratio: f64) -> f64 {
    (0.1 * (1.0 - ref_wnd_ratio / 0.1)).max(0.05)
}
