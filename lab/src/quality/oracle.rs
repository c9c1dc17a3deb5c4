//! The codec oracle: what the same encoder makes of the same pictures if it is told the link's true capacity, with nothing in between.

use std::time::Duration;

use aquila_proto::Bitrate;

use super::codec::{Encoder, Order, Unit};
use super::content::Content;
use super::judge::{JudgeError, Quality, Setting, judge};

/// Share of the capacity that it is told to use.
pub const SHARE: f64 = 0.95;
/// How long each of its targets holds.
pub const STEP: Duration = Duration::from_millis(500);
/// What a link without a limit carries; the encoder's own is left.
pub const UNLIMITED: Bitrate = Bitrate(u64::MAX);

/// What a link carries, as the oracle knows it.
#[derive(Debug, Clone)]
pub struct Capacity {
    /// Means over consecutive steps of [`STEP`], from the start of the run; the last holds on.
    pub steps: Vec<Bitrate>,
    /// The encoder's limits.
    pub least: Bitrate,
    /// The encoder's limits.
    pub most: Bitrate,
}

/// How good it can be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Oracle {
    /// Of the pictures in the range.
    pub quality: Quality,
    /// What the encoder made of them.
    pub rate: Bitrate,
}

impl Capacity {
    /// The target at a time: 95 % of that half second's true capacity, within the encoder's limits.
    pub fn target(&self, at: Duration) -> Bitrate {
        let step = (at.as_nanos() / STEP.as_nanos()) as usize;
        let capacity = self.steps.get(step).or(self.steps.last()).copied().unwrap_or(self.most);
        Bitrate((capacity.0 as f64 * SHARE) as u64).min(self.most).max(self.least)
    }
}

/// Encodes the pictures at the size given, and judges those of the setting's range. `first`: when picture 0 is filmed.
///
/// # Errors
/// [`JudgeError`].
pub fn oracle(
    setting: &Setting<'_>,
    size: (usize, usize),
    capacity: &Capacity,
    first: Duration,
) -> Result<Oracle, JudgeError> {
    oracle_in_steps(setting, &|_| size, capacity, first)
}

/// The same at the size that `size` gives for each target.
///
/// # Errors
/// [`JudgeError`].
pub fn oracle_in_steps(
    setting: &Setting<'_>,
    size: &dyn Fn(Bitrate) -> (usize, usize),
    capacity: &Capacity,
    first: Duration,
) -> Result<Oracle, JudgeError> {
    let Setting { store, engine, range, progress, .. } = setting.clone();
    let mut encoder = Encoder::new(engine, Content::RATE);
    let mut units: Vec<Option<Unit>> = Vec::new();
    for number in 0..range.end {
        let at = first + Duration::from_secs(1) * number / Content::RATE;
        let target = capacity.target(at);
        let order = Order { target, size: size(target), recovery: false };
        units.push(encoder.encode(&store.picture(number)?, &order)?);
        progress(number);
    }
    let made: Vec<(u32, &Unit)> =
        (0..).zip(&units).filter_map(|(number, unit)| Some((number, unit.as_ref()?))).collect();
    let mut newest = None;
    let seen = (0..).zip(&units).map(|(number, unit)| {
        newest = unit.as_ref().map(|_| number).or(newest);
        newest
    });
    let view: Vec<Option<u32>> = seen.collect();
    let bytes: usize = units[range.start as usize..].iter().flatten().map(|unit| unit.annex_b.len()).sum();
    let seconds = range.len() as f64 / f64::from(Content::RATE);
    let quality = judge(&Setting { progress: &|_| {}, ..setting.clone() }, &made, &[view])?;
    Ok(Oracle { quality: quality[0], rate: Bitrate((bytes as f64 * 8.0 / seconds) as u64) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::codec::Engine;
    use crate::quality::content::Store;

    #[test]
    fn it_is_told_what_each_half_second_carries() {
        let steps = [4_000, 1_000, 0].map(Bitrate::kbps).to_vec();
        let capacity = Capacity { steps, least: Bitrate::kbps(150), most: Bitrate::mbps(3) };
        let at = |ms| capacity.target(Duration::from_millis(ms));
        assert_eq!([0, 499, 500, 999].map(at), [3_000, 3_000, 950, 950].map(Bitrate::kbps));
        assert_eq!([1_000, 60_000].map(at), [150, 150].map(Bitrate::kbps), "never below what the encoder can");
    }

    #[test]
    fn more_capacity_gives_better_pictures() {
        let store = Store::fill(&Content::Flight, 1, (320, 180), 45, &std::env::temp_dir(), &|_| {}).unwrap();
        let at = |kbps| {
            let capacity =
                Capacity { steps: vec![Bitrate::kbps(kbps)], least: Bitrate::kbps(50), most: Bitrate::mbps(9) };
            let setting =
                Setting { store: &store, engine: Engine::OpenH264, range: 15..45, vmaf: None, progress: &|_| {} };
            oracle(&setting, (320, 180), &capacity, Duration::ZERO).unwrap()
        };
        let [low, high] = [200, 2_000].map(at);
        assert!(high.quality.psnr_db > low.quality.psnr_db + 3.0, "{low:?} {high:?}");
        assert!(high.quality.ssim > low.quality.ssim + 0.02, "{low:?} {high:?}");
        assert!(high.rate > low.rate);
    }
}
