//! When the next frame of a camera will come, as far as it is not known from its asking.

use std::time::{Duration, Instant};

/// A camera of which nothing has come for so long has no rhythm.
const SILENT: Duration = Duration::from_secs(1);
/// No camera is quicker or slower, as far as is counted on here.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(200);
/// Less than this is now.
const NOW: Duration = Duration::from_millis(1);

/// Of all cameras together.
#[derive(Debug, Default)]
pub(super) struct Rhythm {
    cameras: Vec<Camera>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Camera {
    last: Option<Instant>,
    /// From one frame to the next, smoothed.
    interval: Option<Duration>,
    /// A frame may have been left out since.
    broken: bool,
}

impl Rhythm {
    /// A frame of this flow begins to come. Whether it is the first of those in which all cameras have made one.
    pub fn on_frame(&mut self, now: Instant, flow: usize) -> bool {
        if self.cameras.len() <= flow {
            self.cameras.resize(flow + 1, Camera::default());
        }
        self.cameras[flow].on_frame(now);
        self.cameras[..flow].iter().all(|camera| camera.is_silent(now))
    }

    /// Cameras are told to leave frames out: what passes until their next ones is no interval.
    pub fn on_hold(&mut self) {
        self.cameras.iter_mut().for_each(|camera| camera.broken = true);
    }

    /// From one frame to the next, of the quickest camera that films: `asks` does, whatever was left out of what it filmed.
    pub fn interval(&self, now: Instant, asks: usize) -> Option<Duration> {
        let cameras = self.cameras.iter().enumerate();
        let films = cameras.filter(|(flow, camera)| *flow == asks || !camera.is_silent(now));
        films.filter_map(|(_, camera)| camera.interval).min()
    }

    /// Until the next frame comes: at once if it is due, or if nothing is known of any.
    pub fn next(&self, now: Instant) -> Duration {
        let next = self.cameras.iter().filter_map(|camera| camera.next(now)).min().unwrap_or_default();
        if next < NOW { Duration::ZERO } else { next }
    }
}

impl Camera {
    fn on_frame(&mut self, now: Instant) {
        let gap = self.last.replace(now).map(|last| now.saturating_duration_since(last));
        let broken = std::mem::take(&mut self.broken);
        let Some(gap) = gap.filter(|gap| !broken && INTERVALS.contains(gap)) else { return };
        self.interval = Some(self.interval.map_or(gap, |interval| (interval * 7 + gap) / 8));
    }

    fn is_silent(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last) > SILENT)
    }

    fn next(&self, now: Instant) -> Option<Duration> {
        let interval = self.interval.filter(|_| !self.is_silent(now))?;
        let passed = now.saturating_duration_since(self.last?);
        // One that is late by less than half is still to come; then it was left out.
        if passed < interval * 3 / 2 {
            return Some(interval.saturating_sub(passed));
        }
        let frames = (passed.as_secs_f64() / interval.as_secs_f64()).round();
        Some(interval.mul_f64(frames).saturating_sub(passed))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_next_frame_comes_an_interval_after_the_last_one() {
        let start = Instant::now();
        let mut rhythm = Rhythm::default();
        assert_eq!(rhythm.next(start), ms(0), "nothing is known");
        for frame in 0..10 {
            assert!(rhythm.on_frame(start + ms(40 * frame), 0));
        }
        let last = start + ms(360);
        let next = |rhythm: &Rhythm, after| rhythm.next(last + ms(after));
        assert_eq!([0, 10, 39, 40, 45, 59].map(|after| next(&rhythm, after)), [40, 30, 1, 0, 0, 0].map(ms));
        assert_eq!([61, 80, 95, 1000].map(|after| next(&rhythm, after)), [19, 0, 0, 0].map(ms), "left out");
        assert_eq!(next(&rhythm, 1001), ms(0), "there is no camera any more");
        let interval = |after, asks| rhythm.interval(last + ms(after), asks);
        assert_eq!(
            [(1000, 1), (1001, 1), (1001, 0)].map(|(after, asks)| interval(after, asks)),
            [Some(ms(40)), None, Some(ms(40))]
        );
        // It may leave out what it was told to.
        rhythm.on_hold();
        rhythm.on_frame(last + ms(160), 0);
        assert_eq!(next(&rhythm, 160), ms(40));
    }

    #[test]
    fn of_two_cameras_the_next_frame_is_of_either_and_the_first_leads() {
        let start = Instant::now();
        let mut rhythm = Rhythm::default();
        for frame in 0..10 {
            assert!(rhythm.on_frame(start + ms(40 * frame), 0));
            assert!(!rhythm.on_frame(start + ms(40 * frame + 15), 1));
        }
        assert_eq!(rhythm.next(start + ms(377)), ms(23));
        assert!(rhythm.on_frame(start + ms(400), 0));
        assert_eq!(rhythm.next(start + ms(402)), ms(13));
        assert!(rhythm.on_frame(start + ms(1401), 1), "the other one is silent");
    }

    #[test]
    fn times_that_cannot_be_are_no_rhythm() {
        let start = Instant::now();
        let mut rhythm = Rhythm::default();
        for at in [0, 0, 1, 2, 900, 5000, 4000] {
            rhythm.on_frame(start + ms(at), 3);
            assert_eq!(rhythm.next(start + ms(at)), ms(0));
        }
    }
}
