//! Whether anybody waits for what a session carries.

use std::time::{Duration, Instant};

use super::ParcelPort;

/// After so long without anything that is in a hurry, nothing is.
const CALM: Duration = Duration::from_secs(2);

/// When there was something last that somebody waits for: anything but files and bulk.
#[derive(Debug, Default)]
pub(super) struct Haste {
    last: Option<Instant>,
    count: u64,
}

impl Haste {
    /// So many there have been.
    pub fn note(&mut self, now: Instant, count: u64) {
        if std::mem::replace(&mut self.count, count) != count {
            self.last = Some(now);
        }
    }

    /// A parcel has come or goes.
    pub fn note_parcel(&mut self, now: Instant, port: ParcelPort) {
        if port != ParcelPort::FILES {
            self.last = Some(now);
        }
    }

    /// Nothing has been for a while.
    pub fn is_gone(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last) > CALM)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    #[test]
    fn files_are_in_no_hurry_and_all_else_is() {
        let start = Instant::now();
        let mut haste = Haste::default();
        let calm = |haste: &Haste, ms| haste.is_gone(start + Duration::from_millis(ms));
        assert!(calm(&haste, 0));
        haste.note(start, 1);
        assert!(!calm(&haste, 2_000) && calm(&haste, 2_001));
        haste.note(start + CALM, 1);
        haste.note_parcel(start + CALM, ParcelPort::FILES);
        assert!(calm(&haste, 2_001), "nothing was added but a file's parcel");
        haste.note_parcel(start + CALM, ParcelPort::GATEWAY);
        assert!(!calm(&haste, 4_000) && calm(&haste, 4_001));
    }
}
