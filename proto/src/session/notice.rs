//! What is told at once, and while it goes on once a minute.

use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(60);

/// Something that may happen often, and is told seldom.
#[derive(Debug)]
pub(super) struct Notice<T> {
    /// The last, and how many there were since they were told.
    latest: Option<(T, u64)>,
    told: Option<Instant>,
}

impl<T> Default for Notice<T> {
    fn default() -> Self {
        Self { latest: None, told: None }
    }
}

impl<T> Notice<T> {
    /// It has happened.
    pub fn note(&mut self, what: T) {
        let count = self.latest.as_ref().map_or(0, |(_, count)| *count);
        self.latest = Some((what, count + 1));
    }

    /// What is to be told now: the last, and how many there were since.
    pub fn take(&mut self, now: Instant) -> Option<(T, u64)> {
        if self.told.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            return None;
        }
        let latest = self.latest.take()?;
        self.told = Some(now);
        Some(latest)
    }
}
