//! When to probe the link after changes of the network: as soon as there may be another way, and not again as long as the
//! answer may be under way, since a new attempt takes the place of the one before.

use std::time::{Duration, Instant};

use crate::netwatch::Change;

/// What is gone waits so long for what may replace it.
const SETTLE: Duration = Duration::from_millis(20);
/// An answer may take so long if the round trip is not known, or is longer: QUIC asks again by then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Changes that are to be acted upon.
#[derive(Debug, Default)]
pub(super) struct Changes {
    due: Option<Instant>,
    newest: Option<Instant>,
    probe: Option<Probe>,
}

#[derive(Debug)]
struct Probe {
    /// Packets that the kernel had refused until then.
    refused: u64,
    /// The answer is there by then.
    answered_by: Instant,
}

impl Changes {
    /// The network changed; the kernel has refused so many packets until now.
    pub fn on_change(&mut self, now: Instant, change: Change, refused: u64) {
        self.newest = Some(now);
        let has_come = matches!(change, Change::Came(_));
        let under_way = self.probe.as_ref().filter(|probe| now < probe.answered_by);
        let due = match under_way {
            // It never left.
            Some(probe) if refused > probe.refused && has_come => now,
            Some(probe) => (now + SETTLE).max(probe.answered_by),
            None if has_come => now,
            None => now + SETTLE,
        };
        // What has come may make a wait for it needless; nothing makes one longer.
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// When to ask [`Changes::is_time`].
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether to probe now. Something authentic was last heard at `word`.
    pub fn is_time(&mut self, now: Instant, word: Option<Instant>) -> bool {
        if self.due.take_if(|due| *due <= now).is_none() {
            return false;
        }
        // Heard since the newest change, on what there is now.
        self.probe.is_none() || word < self.newest || word.is_none()
    }

    /// The link is being probed.
    pub fn on_probe(&mut self, now: Instant, refused: u64, rtt: Option<Duration>) {
        let patience = rtt.map_or(PATIENCE, |rtt| (rtt * 3 / 2 + SETTLE).min(PATIENCE));
        self.probe = Some(Probe { refused, answered_by: now + patience });
        tracing::info!("network changed; probing the link");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netwatch::Means;

    const CAME: Change = Change::Came(Means::Address);
    const GONE: Change = Change::Gone(Means::Address);
    const RTT: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_comes_is_used_at_once_and_what_goes_waits_for_it() {
        let start = Instant::now();
        let mut changes = Changes::default();
        changes.on_change(start, GONE, 0);
        assert_eq!(changes.due(), Some(start + SETTLE));
        changes.on_change(start + ms(1), CAME, 0);
        assert_eq!(changes.due(), Some(start + ms(1)));
        assert!(changes.is_time(start + ms(1), Some(start)) && changes.due().is_none());
    }

    #[test]
    fn more_changes_do_not_disturb_an_attempt_that_may_be_answered() {
        let start = Instant::now();
        let mut changes = Changes::default();
        changes.on_change(start, CAME, 0);
        assert!(changes.is_time(start, None));
        changes.on_probe(start, 0, Some(RTT));
        changes.on_change(start + ms(1), GONE, 0);
        changes.on_change(start + ms(2), CAME, 0);
        let due = start + RTT * 3 / 2 + SETTLE;
        assert_eq!(changes.due(), Some(due));
        assert!(!changes.is_time(due, Some(start + RTT)), "answered");
        changes.on_change(due + ms(1), CAME, 0);
        assert!(changes.is_time(due + ms(1), Some(start + RTT)), "another one");
    }

    #[test]
    fn an_attempt_that_is_not_answered_or_never_left_is_made_again() {
        let start = Instant::now();
        let mut changes = Changes::default();
        changes.on_change(start, CAME, 0);
        assert!(changes.is_time(start, None));
        changes.on_probe(start, 0, Some(RTT));
        changes.on_change(start + ms(2), CAME, 0);
        assert!(!changes.is_time(start + ms(3), None));
        assert!(changes.is_time(start + ms(170), None), "silence");
        changes.on_probe(start + ms(170), 0, None);
        changes.on_change(start + ms(175), CAME, 1);
        assert!(changes.is_time(start + ms(175), None), "a route came behind the address");
    }
}
