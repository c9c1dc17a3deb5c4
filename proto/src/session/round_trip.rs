//! The round trip of a bearer, by answers that say how long they were held back: echoed heartbeats and reports.

use std::time::Duration;

/// What is taken for a lie, or for a clock that jumped.
const LONGEST: Duration = Duration::from_secs(60);
/// Weight of a new sample (RFC 6298 §2).
const GAIN: u32 = 8;

/// Of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundTrip(Option<Duration>);

impl RoundTrip {
    /// An answer has come.
    pub fn update(&mut self, sample: Duration) {
        if sample < LONGEST {
            self.0 = Some(self.0.map_or(sample, |smoothed| smoothed - smoothed / GAIN + sample / GAIN));
        }
    }

    /// Smoothed; `None` before the first answer.
    pub fn smoothed(&self) -> Option<Duration> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_smoothed_and_nonsense_is_not_believed() {
        let ms = Duration::from_millis;
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.smoothed(), None);
        round_trip.update(ms(40));
        assert_eq!(round_trip.smoothed(), Some(ms(40)));
        round_trip.update(ms(80));
        assert_eq!(round_trip.smoothed(), Some(ms(45)));
        round_trip.update(Duration::MAX);
        assert_eq!(round_trip.smoothed(), Some(ms(45)));
        (0..100).for_each(|_| round_trip.update(ms(80)));
        assert!(round_trip.smoothed().is_some_and(|rtt| rtt > ms(79)));
    }
}
