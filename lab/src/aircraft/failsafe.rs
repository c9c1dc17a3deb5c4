//! The vehicle's own answer to a lost ground station.

use std::time::{Duration, Instant};

/// Watches for the ground station and tells when it has been silent for too long.
///
/// As in ArduPilot it is armed by the first heartbeat only: a vehicle that has never seen a ground station does not miss one. HEARTBEAT,
/// RC_CHANNELS_OVERRIDE and MANUAL_CONTROL from the ground station count as a sign of life, nothing else does.
#[derive(Debug, Default)]
pub(super) struct GcsFailsafe {
    last_seen: Option<Instant>,
    active: bool,
    /// Times that it has fired since power-on.
    pub(super) count: u32,
}

/// What has just changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The ground station has been silent for too long.
    Lost,
    /// It is back.
    Cleared,
}

impl GcsFailsafe {
    /// A sign of life; only a heartbeat starts the watch.
    pub(super) fn on_sign_of_life(&mut self, now: Instant, heartbeat: bool) -> Option<Verdict> {
        if heartbeat || self.last_seen.is_some() {
            self.last_seen = Some(now);
        }
        std::mem::take(&mut self.active).then_some(Verdict::Cleared)
    }

    /// To be asked at [`GcsFailsafe::deadline`]. `timeout`: `None` when the failsafe is switched off or there is nothing to save.
    pub(super) fn check(&mut self, now: Instant, timeout: Option<Duration>) -> Option<Verdict> {
        let silent = now >= self.deadline(timeout)?;
        if !silent {
            return None;
        }
        self.active = true;
        self.count += 1;
        Some(Verdict::Lost)
    }

    /// When it will fire if nothing is heard.
    pub(super) fn deadline(&self, timeout: Option<Duration>) -> Option<Instant> {
        if self.active {
            return None;
        }
        Some(self.last_seen? + timeout?)
    }

    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    /// When the ground station was last heard.
    pub(super) fn last_seen(&self) -> Option<Instant> {
        self.last_seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Option<Duration> = Some(Duration::from_secs(5));

    #[test]
    fn it_fires_exactly_at_the_timeout_and_once() {
        let start = Instant::now();
        let mut failsafe = GcsFailsafe::default();
        failsafe.on_sign_of_life(start, true);
        let due = start + Duration::from_secs(5);
        assert_eq!(failsafe.deadline(TIMEOUT), Some(due));
        assert_eq!(failsafe.check(due - Duration::from_nanos(1), TIMEOUT), None);
        assert_eq!(failsafe.check(due, TIMEOUT), Some(Verdict::Lost));
        assert_eq!(failsafe.check(due + Duration::from_secs(9), TIMEOUT), None);
        assert_eq!(failsafe.on_sign_of_life(due + Duration::from_secs(10), false), Some(Verdict::Cleared));
        assert_eq!(failsafe.count, 1);
    }

    #[test]
    fn without_a_first_heartbeat_it_never_fires() {
        let start = Instant::now();
        let mut failsafe = GcsFailsafe::default();
        failsafe.on_sign_of_life(start, false);
        assert_eq!(failsafe.check(start + Duration::from_secs(3600), TIMEOUT), None);
    }

    #[test]
    fn switched_off_it_never_fires() {
        let start = Instant::now();
        let mut failsafe = GcsFailsafe::default();
        failsafe.on_sign_of_life(start, true);
        assert_eq!(failsafe.check(start + Duration::from_secs(3600), None), None);
    }
}
