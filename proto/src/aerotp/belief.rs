//! How much damage is believed in. A header is in clear and its check has no key, so that whoever hears the channel can make
//! segments that look damaged and name what comes next. What tells them apart comes later: a segment that was damaged is sent
//! again as it was, with the same timestamp, and a forgery's is not that of the segment that arrives.
//!
//! So each damaged segment that is acted on costs one of a budget, and gives it back when the segment arrives with that
//! timestamp. When the budget is used up, what looks damaged costs nothing but its check, and losses are found as if it had
//! never come.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Header, Port, Seq};

/// Damage that is believed in before any of it has proved true: more than is under way on most radios, six tenths of a
/// second of 5 Mbit/s.
pub(super) const BUDGET: usize = 256;
/// So often one that has not proved true is forgotten: a segment may be given up, or sealed anew.
const FORGET: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Claim {
    ports: (Port, Port),
    seq: Seq,
    timestamp: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Belief {
    /// What was believed and has not proved true, the oldest first.
    claims: VecDeque<Claim>,
    forget_at: Option<Instant>,
}

impl Belief {
    /// Whether a segment that looks damaged is to be acted on.
    pub fn claim(&mut self, now: Instant, header: &Header) -> bool {
        while let Some(at) = self.forget_at.filter(|at| *at <= now) {
            self.claims.pop_front();
            self.forget_at = (!self.claims.is_empty()).then_some(at + FORGET);
        }
        if self.claims.len() == BUDGET {
            return false;
        }
        let ports = (header.source, header.destination);
        self.claims.push_back(Claim { ports, seq: header.seq, timestamp: header.timestamp });
        self.forget_at = self.forget_at.or(Some(now + FORGET));
        true
    }

    /// A segment has come whole: what was said of it is true if it was said of the same one.
    pub fn on_whole(&mut self, header: &Header) {
        let Header { source, destination, seq, timestamp, .. } = *header;
        let is_it =
            |claim: &Claim| claim.ports == (source, destination) && claim.seq == seq && claim.timestamp == timestamp;
        self.claims.retain(|claim| !is_it(claim));
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;
    use crate::aerotp::{Flags, TransferMode};

    #[test]
    fn what_proves_true_is_believed_without_end_and_what_does_not_once_a_second() {
        let mut now = Instant::now();
        let mut belief = Belief::default();
        let header = |seq: u32, timestamp: u32| Header {
            timestamp,
            ..Header::new(Port(5), Port(6), TransferMode::Reliable, Seq(seq), Flags::PUSH)
        };
        for seq in 0..10_000 {
            assert!(belief.claim(now, &header(seq, seq)) && belief.claim(now, &header(seq, seq)));
            belief.on_whole(&header(seq, seq));
        }
        let mut believed = 0;
        for seq in 0..10_000 {
            believed += usize::from(belief.claim(now, &header(seq, seq)));
            belief.on_whole(&header(seq, seq + 1));
            now += Duration::from_millis(1);
        }
        assert!((BUDGET..BUDGET + 12).contains(&believed), "{believed}");
        now += FORGET * 2 * BUDGET as u32;
        assert!((0..BUDGET as u32).all(|seq| belief.claim(now, &header(seq, 0))), "all is forgotten in time");
    }
}
