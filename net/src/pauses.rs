//! How long a program, or a pipeline, that has ended rests before it is started again.

use std::time::Duration;

/// The pauses between one start and the next: as long as none works, each is twice the one before.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(crate) fn new() -> Self {
        Self { next: FIRST }
    }

    /// The pause behind one that ran for so long; for no time if it did not start.
    pub(crate) fn after(&mut self, ran: Duration) -> Duration {
        let pause = if ran >= WORKED { FIRST } else { self.next };
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// What has run for so long has worked. That it was started means little: a camera that cannot be reached, or a size that an element does
/// not take, ends a pipeline a moment later.
const WORKED: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_the_end_comes_soon_after_the_start() {
        let mut pauses = Pauses::new();
        let mut after = |ran_ms| pauses.after(Duration::from_millis(ran_ms)).as_secs();
        let soon = [300, 0, 20_000, 59_999, 1, 300, 300].map(&mut after);
        assert_eq!(soon, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!([60_000, 300, 300, 3_600_000].map(&mut after), [1, 2, 4, 1], "one that has worked begins anew");
    }
}
