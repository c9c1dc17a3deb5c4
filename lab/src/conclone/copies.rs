//! How many copies does Aquila send for a target within a deadline?
//!
//! The link's own choice ([`aquila_proto::replication`]), for links of one round trip: a command goes over the best links, so many
//! copies over each, and again after a round trip and a quarter and 10 ms until it is acknowledged, each time as many: a round.
//! It fails if every copy of every round that can still be in time is lost. In time is over propagation.

use std::time::Duration;

use aquila_proto::replication::{Candidate, Reliability, again_after};
use serde::Serialize;

use super::Probability;

/// Copies over each link in a round, at most. More would be lost together anyway: losses come in bursts.
pub const MAX_COPIES: u32 = aquila_proto::replication::MOST_EACH;
/// Default target: one command of a million fails.
pub const DEFAULT_TARGET: f64 = 1e-6;
/// Default deadline.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

/// What is sent, and how often it fails.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Choice {
    /// Links that it is sent over, the best first.
    pub links: usize,
    /// Copies over each of them in each round, 1 to [`MAX_COPIES`].
    pub copies: u32,
    /// Rounds that can be in time.
    pub rounds: u32,
    /// That none of them arrives in time.
    pub failure: Probability,
    /// Whether that is no more than the target.
    pub is_enough: bool,
}

/// The fewest copies over links of these losses that meet the target, or as many as are ever sent if none do.
pub fn choose(losses: &[Probability], rtt: Duration, deadline: Duration, target: Probability) -> Choice {
    let losses = best_first(losses);
    let candidates: Vec<_> = losses.iter().map(|loss| Candidate { loss: loss.get(), rtt }).collect();
    let reliability = Reliability { failure: target.get(), deadline, ..Reliability::default() };
    let chosen = reliability.copies(&candidates);
    let rounds = rounds(rtt, deadline);
    let failure = failure(&losses[..chosen.bearers], chosen.each, rounds);
    let is_enough = failure.get() <= target.get() * (1.0 + 1e-9);
    Choice { links: chosen.bearers, copies: chosen.each, rounds, failure, is_enough }
}

/// The links in the order in which they are turned to.
pub fn best_first(losses: &[Probability]) -> Vec<Probability> {
    let mut losses = losses.to_vec();
    losses.sort_by(|a, b| a.get().total_cmp(&b.get()));
    losses
}

/// That all `copies` over each link in all `rounds` are lost: the product of the losses to the power of copies times rounds.
pub fn failure(losses: &[Probability], copies: u32, rounds: u32) -> Probability {
    let all = super::reliability::all_lost(losses.iter().copied());
    Probability::clamped(all.get().powf(f64::from(copies) * f64::from(rounds)))
}

/// Rounds whose packets can be there before the deadline: ⌊deadline / (1.25 rtt + 10 ms)⌋ + 1.
pub fn rounds(rtt: Duration, deadline: Duration) -> u32 {
    let repeat = again_after(rtt.min(LONGEST)).as_nanos();
    u32::try_from(deadline.as_nanos() / repeat).unwrap_or(u32::MAX).saturating_add(1)
}

/// No round trip is longer.
const LONGEST: Duration = Duration::from_secs(3600);
