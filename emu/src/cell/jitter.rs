//! Jitter: a delay of its own for each packet, on top of the propagation delay.
//!
//! Packet *n*'s jitter is a function of the seed and of *n* (word *n* of a keystream), in whole nanoseconds, by integer
//! arithmetic. Jitter is never negative: the propagation delay stays the least delay there is.

use std::time::Duration;

use crate::luck::{Luck, Purpose, scale};

/// Jitter of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Jitter {
    /// How it is distributed.
    pub shape: JitterShape,
    /// Whether a packet may overtake those ahead of it. If not, one that would is delivered together with the one
    /// ahead.
    pub reorder: bool,
}

/// The distribution of jitter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JitterShape {
    /// None.
    #[default]
    None,
    /// Between 0 and `max`, both included, all values equally probable.
    Uniform {
        /// The largest.
        max: Duration,
    },
    /// Normal, truncated on both sides at the smaller of `mean` and three standard deviations from the mean: what is
    /// outside is drawn again, so `mean` is the mean.
    Normal {
        /// Mean.
        mean: Duration,
        /// Standard deviation before the truncation.
        deviation: Duration,
    },
}

/// The cell.
#[derive(Debug)]
pub(crate) struct JitterCell {
    jitter: Jitter,
    luck: Luck,
}

impl JitterCell {
    pub(crate) fn new(jitter: Jitter, seed: u64) -> Self {
        Self { jitter, luck: Luck::new(seed, Purpose::Jitter) }
    }

    pub(crate) fn set(&mut self, jitter: Jitter) {
        self.jitter = jitter;
    }

    pub(crate) fn reorders(&self) -> bool {
        self.jitter.reorder && self.jitter.shape != JitterShape::None
    }

    /// The jitter of packet `n`.
    pub(crate) fn of(&mut self, n: u64) -> Duration {
        match self.jitter.shape {
            JitterShape::None => Duration::ZERO,
            JitterShape::Uniform { max } => Duration::from_nanos(scale(self.luck.word(n), nanos(max))),
            JitterShape::Normal { mean, deviation } => self.normal(n, nanos(mean), nanos(deviation)),
        }
    }

    fn normal(&mut self, n: u64, mean: u64, deviation: u64) -> Duration {
        /// If 32 draws fall outside, the distribution is almost flat between the ends, and its middle will do: below
        /// one in 10,000 as long as the mean is at least a third of the deviation.
        const DRAWS: usize = 32;
        let width = i128::from(mean.min(deviation.saturating_mul(3)));
        let mut words = self.luck.words(n);
        let offset = (0..DRAWS)
            .map(|_| (i128::from(words.normal_q32()) * i128::from(deviation)) >> 32)
            .find(|offset| offset.abs() <= width);
        let nanos = i128::from(mean) + offset.unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn nanos(duration: Duration) -> u64 {
    // An hour is more than any path has, and leaves room for the arithmetic.
    duration.as_nanos().min(3_600_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::ms;

    fn draws(shape: JitterShape) -> Vec<Duration> {
        let mut cell = JitterCell::new(Jitter { shape, reorder: true }, 5);
        (0..10_000).map(|n| cell.of(n)).collect()
    }

    #[test]
    fn uniform_fills_its_range() {
        let draws = draws(JitterShape::Uniform { max: ms(10) });
        assert!(draws.iter().all(|jitter| *jitter <= ms(10)));
        let mean = draws.iter().sum::<Duration>() / 10_000;
        assert!(mean.abs_diff(ms(5)) < Duration::from_micros(100), "{mean:?}");
        assert!(*draws.iter().max().unwrap() > Duration::from_micros(9_990));
    }

    #[test]
    fn a_uniform_jitter_of_zero_or_one_nanosecond() {
        assert!(draws(JitterShape::Uniform { max: Duration::ZERO }).iter().all(Duration::is_zero));
        let ones = draws(JitterShape::Uniform { max: Duration::from_nanos(1) }).iter().filter(|j| !j.is_zero()).count();
        assert!((4_800..5_200).contains(&ones), "{ones}");
    }

    #[test]
    fn normal_keeps_its_mean_and_its_truncation() {
        for (mean, deviation, most) in [(10, 2, 16), (4, 2, 8), (1, 3, 2)] {
            let draws = draws(JitterShape::Normal { mean: ms(mean), deviation: ms(deviation) });
            assert!(draws.iter().all(|jitter| *jitter <= ms(most)), "{mean} ± {deviation}");
            let average = draws.iter().sum::<Duration>() / 10_000;
            assert!(average.abs_diff(ms(mean)) < Duration::from_micros(100), "{average:?} for {mean} ms");
        }
    }

    #[test]
    fn a_packets_jitter_is_its_own() {
        let mut cell = JitterCell::new(Jitter { shape: JitterShape::Uniform { max: ms(10) }, reorder: false }, 5);
        let (third, first) = (cell.of(3), cell.of(1));
        let all = draws(JitterShape::Uniform { max: ms(10) });
        assert_eq!((first, third), (all[1], all[3]));
    }
}
