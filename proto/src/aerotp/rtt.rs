//! How long an answer takes.

use std::time::Duration;

/// Estimate of the round trip (RFC 6298 §2, without its lower bound and back-off: a raw radio has neither queue nor rival).
#[derive(Debug, Clone, Copy)]
pub(super) struct Rtt {
    smoothed: Duration,
    variation: Duration,
    least: Option<Duration>,
}

impl Rtt {
    /// `assumed` holds until the first sample.
    pub fn new(assumed: Duration) -> Self {
        Self { smoothed: assumed, variation: assumed / 4, least: None }
    }

    pub fn on_sample(&mut self, sample: Duration) {
        let Some(least) = self.least else {
            *self = Self { smoothed: sample, variation: sample / 2, least: Some(sample) };
            return;
        };
        self.least = Some(least.min(sample));
        let off = self.smoothed.abs_diff(sample);
        self.variation = (self.variation * 3 + off) / 4;
        self.smoothed = (self.smoothed * 7 + sample) / 8;
    }

    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// Whether it has been measured.
    pub fn is_known(&self) -> bool {
        self.least.is_some()
    }

    /// The shortest seen; what is assumed before any was.
    pub fn least(&self) -> Duration {
        self.least.unwrap_or(self.smoothed)
    }

    /// No answer after this long: it is lost. `held` is how long the other side may keep its answer back.
    pub fn timeout(&self, held: Duration) -> Duration {
        self.smoothed.mul_f64(1.25).max(self.smoothed + self.variation * 4) + held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_samples() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::new(ms(100));
        assert_eq!((rtt.smoothed(), rtt.is_known()), (ms(100), false));
        rtt.on_sample(ms(20));
        assert_eq!((rtt.smoothed(), rtt.least(), rtt.timeout(ms(5))), (ms(20), ms(20), ms(20) + ms(40) + ms(5)));
        for _ in 0..100 {
            rtt.on_sample(ms(30));
        }
        assert!(rtt.smoothed() > ms(29) && rtt.least() == ms(20));
        assert!(rtt.timeout(Duration::ZERO) < ms(40), "{:?}", rtt.timeout(Duration::ZERO));
    }
}
