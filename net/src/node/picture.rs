//! Says in the log when the picture stands still, and when it moves again.

use std::time::Duration;

/// A picture of this age is no picture to fly by.
const FROZEN: Duration = Duration::from_secs(1);

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct PictureLog {
    is_frozen: bool,
    oldest: Duration,
}

impl PictureLog {
    /// Takes the age of the picture on the screen, if there is one, and how many were shown.
    pub fn update(&mut self, age: Option<Duration>, shown: u64) {
        let Some(age) = age else { return };
        if self.is_frozen {
            self.oldest = self.oldest.max(age);
        }
        match (self.is_frozen, age >= FROZEN) {
            (false, true) => {
                tracing::warn!(shown, "the picture stands still: nothing new to show for a second");
                (self.is_frozen, self.oldest) = (true, age);
            }
            (true, false) => {
                tracing::info!(shown, stood_still = ?self.oldest, "the picture is live again");
                self.is_frozen = false;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_freezes_once() {
        let mut log = PictureLog::default();
        log.update(None, 0);
        for (ms, frozen) in [(40, false), (999, false), (1000, true), (5000, true), (30, false)] {
            log.update(Some(Duration::from_millis(ms)), 7);
            assert_eq!(log.is_frozen, frozen, "{ms}");
        }
        assert_eq!(log.oldest, Duration::from_secs(5));
    }
}
