//! How differently the link carries one frame and the next.
//!
//! The capacity is what the frames of a quarter of a second brought over the time they took ([`capacity`](super::capacity)): of
//! frames of one size, the harmonic mean of the rates at which each was carried. The link carries their arithmetic mean, since it
//! spends no more time being slow than being fast; slow frames only take more of it. Where the rate changes from frame to
//! frame the difference is half of the link (docs/congestion.md), and who is held up by one frame is soon through with the next.

/// Updates over which it is averaged: five seconds at 30 Hz.
const SPAN: f64 = 150.0;
/// Up to the first the capacity is taken as it is measured; what is beyond the second changes nothing more.
const EVEN: f64 = 1.25;
const MOST: f64 = 1.75;
/// Of what is beyond, video gets this share more ...
const MORE: f64 = 1.15;
/// ... and what waits is taken to leave by this share sooner, when frames may be left out for it.
const SOONER: f64 = 1.75;

/// The arithmetic over the harmonic mean of the rates of frames, of late.
#[derive(Debug)]
pub(super) struct Unevenness {
    ratio: f64,
}

impl Unevenness {
    /// Of an even link.
    pub fn new() -> Self {
        Self { ratio: 1.0 }
    }

    /// Takes in an update; `None` if there were too few frames.
    pub fn update(&mut self, ratio: Option<f64>) {
        if let Some(ratio) = ratio {
            self.ratio += (ratio - self.ratio) / SPAN;
        }
    }

    fn beyond(&self) -> f64 {
        self.ratio.min(MOST) - self.ratio.min(EVEN)
    }

    /// Of what video would get if the link were even, 1 or more.
    pub fn more(&self) -> f64 {
        1.0 + MORE * self.beyond()
    }

    /// Of the rate at which what waits leaves, 1 or more.
    pub fn sooner(&self) -> f64 {
        1.0 + SOONER * self.beyond()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lasts_for_seconds_and_is_beyond_what_links_have_is_made_something_of() {
        let mut unevenness = Unevenness::new();
        (0..1_000).for_each(|_| unevenness.update(Some(EVEN)));
        (0..1_000).for_each(|_| unevenness.update(None));
        assert_eq!((unevenness.more(), unevenness.sooner()), (1.0, 1.0));
        (0..10).for_each(|_| unevenness.update(Some(3.0)));
        assert!(unevenness.more() < 1.15, "{}: ten frames may be a handover", unevenness.more());
        (0..1_000).for_each(|_| unevenness.update(Some(3.0)));
        let most = MOST - EVEN;
        assert!((unevenness.more() - (1.0 + MORE * most)).abs() < 1e-9, "{}", unevenness.more());
        assert!((unevenness.sooner() - (1.0 + SOONER * most)).abs() < 1e-9, "{}", unevenness.sooner());
        (0..1_000).for_each(|_| unevenness.update(Some(1.0)));
        assert_eq!((unevenness.more(), unevenness.sooner()), (1.0, 1.0));
    }
}
