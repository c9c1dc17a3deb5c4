//! Recovery points that are asked of a camera. Each is as large as several pictures, and who asks without end, since the other side does or
//! the camera's own stream is garbage, would have nothing but those.

use std::time::{Duration, Instant};

/// One is asked for each so often in the long run ...
const INTERVAL: Duration = Duration::from_millis(250);
/// ... and so many at once: losses come in bursts.
const BURST: u32 = 8;

/// Of one camera: a bucket of requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecoveryPoints {
    /// Somebody wants one.
    wanted: bool,
    /// When the bucket is full again.
    full: Option<Instant>,
}

impl RecoveryPoints {
    /// One is wanted. It makes do for all who want one before it is asked for.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// When one is to be asked for.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let due = self.full.map_or(now, |full| full.checked_sub(INTERVAL * (BURST - 1)).unwrap_or(now));
        self.wanted.then_some(due)
    }

    /// Whether one is to be asked for now; it counts as asked for.
    pub fn take(&mut self, now: Instant) -> bool {
        if self.due(now).is_none_or(|due| due > now) {
            return false;
        }
        self.wanted = false;
        self.full = Some(self.full.map_or(now, |full| full.max(now)) + INTERVAL);
        true
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    #[test]
    fn some_are_asked_for_at_once_and_then_four_a_second() {
        let (mut points, start) = (RecoveryPoints::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert!(!points.take(start) && points.due(start).is_none(), "nobody wants one");
        let mut asked = |from: u64, until: u64| {
            let asks = |ms: &u64| {
                points.want();
                points.take(at(*ms))
            };
            (from..until).filter(asks).count()
        };
        assert_eq!([asked(0, 1), asked(1, 8), asked(8, 1_000)], [1, 7, 3]);
        assert_eq!(asked(1_000, 61_000), 240);
        assert_eq!(points.due(at(60_999)), Some(at(61_000)), "who has not been heard is not forgotten");
        assert!(points.take(at(61_000)) && points.due(at(61_000)).is_none());
        let seldom = |second: &u64| {
            points.want();
            points.take(at(62_000 + second * 1_000))
        };
        assert_eq!((1..100).filter(seldom).count(), 99, "who asks once a second always gets it at once");
    }
}
