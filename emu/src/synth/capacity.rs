//! Capacity as a process that wanders and comes back.
//!
//! The logarithm of the rate is the sum of two independent Ornstein-Uhlenbeck processes about the median: a slow one
//! (where the aircraft is, how loaded the cell is) and a fast one (fading). Each forgets with its own time: x(t + d) =
//! a x(t) + √(1 − a²) σ z, a = e^(−d / time), z normal; x(0) is drawn from the spread in the long run. The result is
//! cut off at floor and ceiling.

use std::time::Duration;

use super::fixed::scaled_exp2;
use crate::luck::{Luck, Purpose};

/// How the rate of a link behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityModel {
    /// Median rate in bits per second.
    pub median_bps: u64,
    /// The slow process.
    pub slow: Swing,
    /// The fast one.
    pub fast: Swing,
    /// Never less than this, bits per second.
    pub floor_bps: u64,
    /// Never more than this, bits per second.
    pub ceiling_bps: u64,
    /// Length of a sample, in whole milliseconds and at least one.
    pub step: Duration,
}

/// One process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Swing {
    /// Standard deviation in octaves: at 1, rates are within half and double the median in two thirds of the time. 0 to
    /// 8 (clamped).
    pub octaves: f64,
    /// After this time 1 / e of a deviation is left.
    pub time: Duration,
}

/// The process as it runs.
#[derive(Debug, Clone)]
pub(super) struct Capacity {
    median_bps: u64,
    bounds: (u64, u64),
    step: u64,
    slow: Process,
    fast: Process,
    luck: Luck,
    steps: u64,
}

impl Capacity {
    pub(super) fn new(model: &CapacityModel, seed: u64) -> Self {
        let step = (super::nanos(model.step) / 1_000_000).max(1) * 1_000_000;
        Self {
            median_bps: model.median_bps,
            bounds: (model.floor_bps, model.ceiling_bps.max(model.floor_bps)),
            step,
            slow: Process::new(model.slow, step),
            fast: Process::new(model.fast, step),
            luck: Luck::new(seed, Purpose::Capacity),
            steps: 0,
        }
    }

    pub(super) fn step_nanos(&self) -> u64 {
        self.step
    }

    /// The rate of the next step.
    pub(super) fn next_rate(&mut self) -> u64 {
        let mut words = self.luck.words(self.steps);
        self.steps += 1;
        let octaves = self.slow.next(words.normal_q32()) + self.fast.next(words.normal_q32());
        scaled_exp2(octaves, self.median_bps).clamp(self.bounds.0, self.bounds.1)
    }
}

#[derive(Debug, Clone)]
struct Process {
    deviation_q32: i64,
    /// What is kept in a step, and what comes in.
    keep_q32: i64,
    renew_q32: i64,
    /// `None` before the first step.
    x_q32: Option<i64>,
}

impl Process {
    fn new(swing: Swing, step: u64) -> Self {
        const ONE: u128 = 1 << 32;
        /// 1 / ln 2.
        const OCTAVES_PER_E_Q32: u128 = 6_196_328_019;
        let time = u128::from(super::nanos(swing.time)).max(1);
        let exponent = u128::from(step) * OCTAVES_PER_E_Q32 / time;
        let keep = u128::from(scaled_exp2(-i64::try_from(exponent).unwrap_or(i64::MAX), ONE as u64));
        let octaves = if swing.octaves.is_nan() { 0.0 } else { swing.octaves.clamp(0.0, 8.0) };
        Self {
            deviation_q32: (octaves * ONE as f64) as i64,
            keep_q32: keep as i64,
            renew_q32: (ONE * ONE - keep * keep).isqrt() as i64,
            x_q32: None,
        }
    }

    fn next(&mut self, normal_q32: i64) -> i64 {
        let times = |a: i64, b: i64| ((i128::from(a) * i128::from(b)) >> 32) as i64;
        let news = times(self.deviation_q32, normal_q32);
        let x = match self.x_q32 {
            None => news,
            Some(x) => times(self.keep_q32, x) + times(self.renew_q32, news),
        };
        self.x_q32 = Some(x);
        x
    }
}
