//! Handovers as they were measured on flights.

use std::time::Duration;

use super::fixed::{log2_q32, scaled_exp2};
use crate::cell::handovers::Handover;
use crate::luck::{Luck, Purpose, Threshold, Words};
use crate::trace::{Source, TraceError};

/// When handovers come and how long they last.
///
/// In a minute there is none with the probability `quiet`, else 1 to `per_minute`, all numbers equally probable, at
/// times that are equally probable too. Each lasts as long as the quantiles of [`HandoverModel::QUANTILES`] have it,
/// between which the logarithm is straight.
#[derive(Debug, Clone, PartialEq)]
pub struct HandoverModel {
    /// Most in a minute; 13 in the study.
    pub per_minute: u32,
    /// The share of minutes without any, 0 to 1.
    pub quiet: f64,
    /// After a handover the delay differs from the base delay by up to so much, either way, all values equally
    /// probable.
    pub delay_shift: Duration,
}

impl HandoverModel {
    /// Share of handovers in 1000 that last no longer than so many microseconds, from 2,457 of them (see [`super`]):
    /// median 1.8 ms, one in twenty above 5 ms, one in a hundred above 205 ms, the longest 4.5 s.
    pub const QUANTILES: [(u32, u64); 13] = [
        (0, 150),
        (50, 235),
        (100, 273),
        (250, 1_250),
        (500, 1_800),
        (750, 2_100),
        (900, 3_600),
        (950, 5_000),
        (970, 32_000),
        (980, 190_000),
        (996, 220_000),
        (998, 1_500_000),
        (1_000, 4_500_000),
    ];
}

impl Default for HandoverModel {
    /// The study's, and ±20 ms.
    fn default() -> Self {
        Self { per_minute: 13, quiet: 0.37, delay_shift: Duration::from_millis(20) }
    }
}

/// Handovers without end, in order of time.
#[derive(Debug, Clone)]
pub struct HandoverTrain {
    model: HandoverModel,
    luck: Luck,
    minute: u64,
    /// Of this minute, the last one first.
    ahead: Vec<Handover>,
}

impl HandoverTrain {
    /// Those that follow from the seed; [`super::Trace`] with the same seed and model has the same.
    pub fn new(model: HandoverModel, seed: u64) -> Self {
        Self { model, luck: Luck::new(seed, Purpose::Handovers), minute: 0, ahead: Vec::new() }
    }

    fn draw_minute(&mut self) {
        /// In microseconds: so that no sample of a trace is shorter.
        const MINUTE: u64 = 60_000_000;
        let mut words = self.luck.words(self.minute);
        let begin = self.minute.saturating_mul(MINUTE);
        self.minute += 1;
        if self.model.per_minute == 0 || Threshold::new(self.model.quiet).hits(words.next()) {
            return;
        }
        let count = 1 + words.up_to(u64::from(self.model.per_minute.min(1_000)) - 1);
        for _ in 0..count {
            let at = Duration::from_micros(begin.saturating_add(words.up_to(MINUTE - 1)));
            let lasts = duration(&mut words);
            let most = super::nanos(self.model.delay_shift);
            // At most 30 years each way.
            let shift = words.up_to(2 * most) as i64 - most as i64;
            let delay_shift = Some(shift).filter(|_| most > 0);
            self.ahead.push(Handover { at, lasts, delay_shift });
        }
        self.ahead.sort_by_key(|handover| std::cmp::Reverse(handover.at));
    }
}

/// One draw of the distribution, to the microsecond.
fn duration(words: &mut Words) -> Duration {
    const PARTS: u64 = 1_000_000_000;
    let share = words.up_to(PARTS - 1);
    let quantiles = &HandoverModel::QUANTILES;
    let next = quantiles.iter().position(|(share_1000, _)| u64::from(*share_1000) * (PARTS / 1_000) > share);
    let next = next.unwrap_or(quantiles.len() - 1).max(1);
    let ((low_share, low_us), (high_share, high_us)) = (quantiles[next - 1], quantiles[next]);
    let low_share = u64::from(low_share) * (PARTS / 1_000);
    let span = u64::from(high_share) * (PARTS / 1_000) - low_share;
    let (low, high) = (log2_q32(low_us), log2_q32(high_us));
    let between = i128::from(high - low) * i128::from(share - low_share) / i128::from(span);
    Duration::from_micros(scaled_exp2(low + between as i64, 1))
}

impl Iterator for HandoverTrain {
    type Item = Handover;

    /// Ends after 500 years, or at once if the model has no handovers.
    fn next(&mut self) -> Option<Handover> {
        const YEARS: u64 = 500 * 365 * 1_440;
        if self.model.per_minute == 0 || self.model.quiet >= 1.0 {
            return None;
        }
        while self.ahead.is_empty() && self.minute < YEARS {
            self.draw_minute();
        }
        self.ahead.pop()
    }
}

impl Source<Handover> for HandoverTrain {
    fn next_item(&mut self) -> Result<Option<Handover>, TraceError> {
        Ok(self.next())
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.minute = 0;
        self.ahead.clear();
        Ok(())
    }
}
