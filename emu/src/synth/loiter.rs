//! An aircraft that circles near a ship or a node, on a 5 GHz link such as the data-mule paper measured: rate and CCQ
//! swing with the circle, the one against the other's losses.
//!
//! A sample a second: the rate is mean + swing · cos(2π t / period) + noise, cut off at 0 and at mean + swing; the share
//! of good airtime (CCQ) follows the rate from its worst to its best, with a noise of its own. A trace begins where the
//! rate is best, with every seed, so that both directions of a link swing together.

use std::time::Duration;

use super::fixed::cos_q32;
use crate::luck::{Luck, Purpose};

/// How rate and CCQ swing. CCQ is in units of 1/10,000.
#[derive(Debug, Clone, PartialEq)]
pub struct LoiterModel {
    /// Time for a circle.
    pub period: Duration,
    /// Mean of the rate, but for what is cut off, bits per second.
    pub mean_bps: u64,
    /// How far it swings to both sides, bits per second.
    pub swing_bps: u64,
    /// Standard deviation of its noise, bits per second.
    pub noise_bps: u64,
    /// Never more than this, bits per second.
    pub ceiling_bps: u64,
    /// CCQ at a rate of 0, and at the ceiling; never beyond.
    pub ccq: (u16, u16),
    /// Standard deviation of its noise.
    pub ccq_noise: u16,
}

/// Length of a sample: nanoseconds.
pub(super) const STEP: u64 = 1_000_000_000;

/// The model as it runs.
#[derive(Debug, Clone)]
pub(super) struct Loiter {
    model: LoiterModel,
    luck: Luck,
    steps: u64,
}

impl Loiter {
    pub(super) fn new(model: &LoiterModel, seed: u64) -> Self {
        Self { model: model.clone(), luck: Luck::new(seed, Purpose::Capacity), steps: 0 }
    }

    /// Rate and CCQ of the next second.
    pub(super) fn next(&mut self) -> (u64, u16) {
        let model = &self.model;
        let mut words = self.luck.words(self.steps);
        let period = super::nanos(model.period).max(1);
        let into = u128::from(self.steps) * u128::from(STEP) % u128::from(period);
        let turn = (into << 32) / u128::from(period);
        self.steps += 1;
        let part = |whole: u64, share_q32: i64| (i128::from(whole) * i128::from(share_q32)) >> 32;
        let rate = i128::from(model.mean_bps)
            + part(model.swing_bps, cos_q32(turn as u32))
            + part(model.noise_bps, words.normal_q32());
        let ceiling = i128::from(model.ceiling_bps).max(1);
        let rate = rate.clamp(0, ceiling);
        let (worst, best) = (i128::from(model.ccq.0), i128::from(model.ccq.1));
        let ccq = worst + (best - worst) * rate / ceiling + part(u64::from(model.ccq_noise), words.normal_q32());
        (rate as u64, ccq.clamp(worst.min(best), worst.max(best)) as u16)
    }
}
