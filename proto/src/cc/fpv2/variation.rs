//! How much the capacity varies: the mean distance of its logarithm from its own mean of a second, over two seconds.
//!
//! A line's capacity, read off trains, differs by half a percent from frame to frame; a recorded drive's by 15 to 40 %. On a
//! steady link trains need to be hardly faster than the link, and commands wait less behind them. Where it varies, who sends
//! little faster than what the link carried a moment ago finds out late that it carries more.

use crate::Bitrate;

/// Updates over which the mean is taken, and the distance from it: at 30 Hz.
const MEAN: f64 = 30.0;
const DISTANCE: f64 = 60.0;
/// Up to the first the link counts as steady, from the second on it varies; from the third on it varies more, from the fourth on much. Between the
/// last two it begins to vary wildly: nothing that was measured holds for long.
const STEADY: f64 = 0.03;
const VARYING: f64 = 0.10;
const VARYING_MORE: f64 = 0.18;
const VARYING_MUCH: f64 = 0.30;
const WILD_FROM: f64 = 0.25;
const WILD: f64 = 0.40;
/// The share of the way from the steady to the other end of a parameter that is gone at `VARYING`.
const KNEE: f64 = 0.18;

/// Of the capacity, since the link was found.
#[derive(Debug, Default)]
pub(super) struct Variation {
    mean: Option<f64>,
    distance: f64,
}

impl Variation {
    /// Takes in an update.
    pub fn update(&mut self, capacity: Bitrate) {
        let capacity = (capacity.0.max(1) as f64).ln();
        let mean = self.mean.get_or_insert(capacity);
        let distance = (capacity - *mean).abs();
        *mean += (capacity - *mean) / MEAN;
        self.distance += (distance - self.distance) / DISTANCE;
    }

    /// Takes in a change that is not the link's.
    pub fn follow(&mut self, from: Bitrate, to: Bitrate) {
        if let Some(mean) = &mut self.mean {
            *mean += (to.0.max(1) as f64 / from.0.max(1) as f64).ln();
        }
    }

    /// Forgets everything: it is another link, or has still to be found.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// From 0, steady, to 1, varying.
    pub fn share(&self) -> f64 {
        ramp(self.distance, STEADY, VARYING)
    }

    /// From 0, not varying wildly, to 1.
    pub fn wildness(&self) -> f64 {
        ramp(self.distance, WILD_FROM, WILD)
    }

    /// From 0, steady, by [`KNEE`] to 1, varying much.
    pub fn degree(&self) -> f64 {
        KNEE * self.share() + (1.0 - KNEE) * ramp(self.distance, VARYING_MORE, VARYING_MUCH)
    }
}

/// From 0 at `from`, and before it, to 1 at `to`.
pub(super) fn ramp(value: f64, from: f64, to: f64) -> f64 {
    ((value - from) / (to - from)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After ten seconds of a capacity that is in turn `share` above and below 5 Mbit/s for `updates` each.
    fn varying(share: f64, updates: usize) -> Variation {
        let mut variation = Variation::default();
        for update in 0..300 {
            let factor = if (update / updates).is_multiple_of(2) { 1.0 + share } else { 1.0 - share };
            variation.update(Bitrate::mbps(5) * factor);
        }
        variation
    }

    #[test]
    fn what_is_measured_of_a_steady_link_is_no_variation() {
        assert_eq!((varying(0.01, 1).share(), varying(0.01, 1).degree()), (0.0, 0.0));
        assert_eq!((varying(0.02, 10).share(), varying(0.02, 10).degree()), (0.0, 0.0));
    }

    #[test]
    fn a_link_that_varies_by_a_tenth_lies_between_and_by_half_at_the_end() {
        let (some, more, much) = (varying(0.07, 8), varying(0.15, 8), varying(0.5, 8));
        assert!(some.share() > 0.2 && some.share() < 0.9, "{}", some.share());
        assert_eq!((more.share(), more.degree()), (1.0, KNEE));
        assert_eq!((much.share(), much.degree()), (1.0, 1.0));
    }

    #[test]
    fn one_step_is_forgotten_in_some_seconds() {
        let mut variation = varying(0.0, 1);
        (0..30).for_each(|_| variation.update(Bitrate::mbps(1)));
        assert_eq!(variation.degree(), 1.0);
        (0..300).for_each(|_| variation.update(Bitrate::mbps(1)));
        assert_eq!(variation.degree(), 0.0);
        variation.update(Bitrate(0));
        variation.forget();
        assert_eq!(variation.share(), 0.0);
    }
}
