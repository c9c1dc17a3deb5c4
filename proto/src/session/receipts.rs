//! Receipts for control messages: which have arrived here.
//!
//! QUIC's own acknowledgements are seldom, and with several bearers a message may have arrived by another one than that on which the
//! sender waits for word, or on one that has no way back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::BearerId;
use crate::replay::ReplayGuard;
use crate::wire::receipt::Receipt;

/// After one has left, the next waits so long for company.
const INTERVAL: Duration = Duration::from_millis(5);
/// Messages to be told of; more are told by those of later ones, or asked for by another copy.
const MAX_DUE: usize = 256;

/// What is to be told.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    epoch: u64,
    due: BTreeSet<u64>,
    /// Bearers on whose streams some of them came.
    by: BTreeSet<BearerId>,
    last: Option<Instant>,
}

impl Receipts {
    /// A copy of a message has arrived, the first or another.
    pub fn on_message(&mut self, epoch: u64, seq: u64) {
        if epoch != self.epoch {
            *self = Self { epoch, last: self.last, ..Self::default() };
        }
        if self.due.len() < MAX_DUE {
            self.due.insert(seq);
        }
    }

    /// A message has come on a stream of that bearer.
    pub fn on_stream(&mut self, bearer: BearerId) {
        self.by.insert(bearer);
    }

    /// When the next one leaves, if each waits so long for something to go with.
    pub fn next_due(&self, now: Instant, delay: Duration) -> Option<Instant> {
        let earliest = self.last.map_or(now, |last| last + delay.max(INTERVAL));
        (!self.due.is_empty()).then_some(earliest)
    }

    /// The receipt to send now, and the bearers on which it has to leave. `seen`: where it says what came before.
    pub fn take(&mut self, now: Instant, seen: &ReplayGuard) -> Option<(Receipt, BTreeSet<BearerId>)> {
        let newest = self.due.pop_last()?;
        let receipt = Receipt { epoch: self.epoch, newest, before: seen.seen_before(self.epoch, newest) };
        self.due.retain(|seq| *seq + Receipt::SPAN <= newest);
        if self.due.is_empty() {
            self.last = Some(now);
            return Some((receipt, std::mem::take(&mut self.by)));
        }
        Some((receipt, self.by.clone()))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    #[test]
    fn one_receipt_tells_of_many_and_stragglers_get_their_own() {
        let start = Instant::now();
        let (mut receipts, mut seen) = (Receipts::default(), ReplayGuard::default());
        for seq in [1, 2, 100, 101] {
            seen.check(7, seq, false);
            receipts.on_message(7, seq);
        }
        assert_eq!(receipts.next_due(start, Duration::ZERO), Some(start));
        let told: Vec<_> = std::iter::from_fn(|| receipts.take(start, &seen)).collect();
        assert_eq!(receipts.next_due(start, Duration::ZERO), None);
        let told: Vec<u64> = told.iter().flat_map(|(receipt, _)| receipt.messages()).collect();
        assert_eq!(told, [101, 100, 2, 1]);
        // Another copy: told again, but not at once.
        receipts.on_message(7, 101);
        receipts.on_stream(BearerId::FIRST);
        assert_eq!(receipts.next_due(start, Duration::ZERO), Some(start + INTERVAL));
        assert_eq!(receipts.next_due(start, 7 * INTERVAL), Some(start + 7 * INTERVAL));
        assert_eq!(
            receipts.take(start + INTERVAL, &seen).map(|(receipt, by)| (receipt.newest, by.len())),
            Some((101, 1))
        );
        // Another life of the sender's.
        receipts.on_message(8, 1);
        let (receipt, by) = receipts.take(start + 2 * INTERVAL, &seen).unwrap();
        assert!(by.is_empty(), "it came in a datagram, which is reported on");
        assert_eq!((receipt.epoch, receipt.newest, receipt.before), (8, 1, 0));
        (0..10_000).for_each(|seq| receipts.on_message(8, seq * 100));
        assert_eq!(receipts.due.len(), MAX_DUE);
    }
}
