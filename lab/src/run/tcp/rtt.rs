//! Round-trip time and the retransmission timeout, as Linux has them (`tcp_rtt_estimator`): RFC 6298 with a floor under
//! the variation instead of one under the sum, and a variation that grows at once but shrinks once a round trip.

use std::time::Duration;

/// The estimate.
#[derive(Debug, Clone)]
pub struct Rtt {
    smoothed: Option<Duration>,
    /// Mean deviation, times four: K * RTTVAR.
    deviation: Duration,
    /// Largest of this round trip.
    deviation_max: Duration,
    variation: Duration,
    min: Option<Duration>,
    timeout: Duration,
    /// The round trip ends when this byte is acknowledged.
    round: u64,
}

/// Before the first sample (RFC 6298 §2.1; Linux: `TCP_TIMEOUT_INIT`).
pub const INITIAL: Duration = Duration::from_secs(1);
/// Least variation that the timeout allows for: `net.ipv4.tcp_rto_min_us`.
pub const MIN: Duration = Duration::from_millis(200);
/// Longest timeout: `net.ipv4.tcp_rto_max_ms`.
pub const MAX: Duration = Duration::from_secs(120);

impl Default for Rtt {
    fn default() -> Self {
        let zero = Duration::ZERO;
        Self {
            smoothed: None,
            deviation: zero,
            deviation_max: MIN,
            variation: zero,
            min: None,
            timeout: INITIAL,
            round: 0,
        }
    }
}

impl Rtt {
    /// A round trip was measured, with `una` the first byte not acknowledged and `next` the next to be sent.
    pub fn on_sample(&mut self, sample: Duration, una: u64, next: u64) {
        self.min = Some(self.min.map_or(sample, |min| min.min(sample)));
        let smoothed = match self.smoothed {
            None => {
                self.deviation = sample * 2;
                self.variation = self.deviation.max(MIN);
                self.deviation_max = self.variation;
                self.round = next;
                sample
            }
            Some(before) => {
                let error = sample.abs_diff(before);
                let grows = error.saturating_sub(self.deviation / 4);
                let shrinks = (self.deviation / 4).saturating_sub(error);
                // A shorter round trip hardly raises the deviation, so that it does not raise the timeout.
                self.deviation = self.deviation + if sample < before { grows / 8 } else { grows } - shrinks;
                self.deviation_max = self.deviation_max.max(self.deviation);
                self.variation = self.variation.max(self.deviation_max);
                if una > self.round {
                    self.variation -= self.variation.saturating_sub(self.deviation_max) / 4;
                    self.round = next;
                    self.deviation_max = MIN;
                }
                (before * 7 + sample) / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.timeout = (smoothed + self.variation).min(MAX);
    }

    /// Takes part in the least round trip only.
    pub fn on_minimum(&mut self, sample: Duration) {
        self.min = Some(self.min.map_or(sample, |min| min.min(sample)));
    }

    /// The timer expired (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.timeout = (self.timeout * 2).min(MAX);
    }

    /// The retransmission timeout, backed off.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Mean, if there is a sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Least round trip of the connection; Linux forgets it after `net.ipv4.tcp_min_rtt_wlen` = 300 s.
    pub fn min(&self) -> Option<Duration> {
        self.min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_steady_path_has_its_round_trip_and_200_ms() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(), ms(1000));
        for n in 0..50 {
            rtt.on_sample(ms(60), n * 10 + 1, n * 10 + 10);
        }
        assert_eq!(rtt.timeout(), ms(260));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(), ms(1040));
        (0..20).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(), MAX);
        rtt.on_sample(ms(60), 600, 610);
        assert_eq!(rtt.timeout(), ms(260), "a sample ends the back-off");
    }

    #[test]
    fn a_longer_round_trip_raises_the_timeout_at_once() {
        let mut rtt = Rtt::default();
        for n in 0..50 {
            rtt.on_sample(ms(60), n * 10 + 1, n * 10 + 10);
        }
        rtt.on_sample(ms(1260), 501, 510);
        // Mean 60 * 7/8 + 1260 / 8 = 210 ms, and four times a deviation of 1200 / 4.
        assert!(rtt.timeout() >= ms(1410) && rtt.timeout() < ms(1411), "{:?}", rtt.timeout());
        assert_eq!(rtt.min(), Some(ms(60)));
    }
}
