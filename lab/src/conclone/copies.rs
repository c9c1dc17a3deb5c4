//! How many copies does Aquila send for a target within a deadline?
//!
//! A command goes over all links at once, so many copies over each, and again after a round trip and a quarter and 10 ms until
//! it is acknowledged, each time as many: a round. It fails if every copy of every round that can still be in time is lost.

use std::time::Duration;

use serde::Serialize;

use super::Probability;

/// Copies over each link in a round, at most. More would be lost together anyway: losses come in bursts.
pub const MAX_COPIES: u32 = 4;
/// Default target: one command of a million fails.
pub const DEFAULT_TARGET: f64 = 1e-6;
/// Default deadline.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);
/// After so much more than 1.25 round trips what is not acknowledged is sent again.
const REPEAT_SLACK: Duration = Duration::from_millis(10);

/// What is sent, and how often it fails.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Choice {
    /// Copies over each link in each round, 1 to [`MAX_COPIES`].
    pub copies: u32,
    /// Rounds that can be in time.
    pub rounds: u32,
    /// That none of them arrives in time.
    pub failure: Probability,
    /// Whether that is no more than the target.
    pub is_enough: bool,
}

/// The fewest copies over links of these losses that meet the target, or [`MAX_COPIES`] if none do.
pub fn choose(losses: &[Probability], rounds: u32, target: Probability) -> Choice {
    let choices = (1..=MAX_COPIES).map(|copies| {
        let failure = failure(losses, copies, rounds);
        // A hair of slack: 0.1^6 is to count as 1e-6.
        Choice { copies, rounds, failure, is_enough: failure.get() <= target.get() * (1.0 + 1e-9) }
    });
    let mut last = Choice { copies: MAX_COPIES, rounds, failure: Probability::ALWAYS, is_enough: false };
    for choice in choices {
        last = choice;
        if choice.is_enough {
            break;
        }
    }
    last
}

/// That all `copies` over each link in all `rounds` are lost: the product of the losses to the power of copies times rounds.
pub fn failure(losses: &[Probability], copies: u32, rounds: u32) -> Probability {
    let all = super::reliability::all_lost(losses.iter().copied());
    Probability::clamped(all.get().powf(f64::from(copies) * f64::from(rounds)))
}

/// Rounds whose packets can be there before the deadline: ⌊(deadline − rtt/2) / (1.25 rtt + 10 ms)⌋ + 1; none if the deadline
/// is shorter than the way.
pub fn rounds(rtt: Duration, deadline: Duration) -> u32 {
    let repeat = rtt.saturating_add(rtt / 4).saturating_add(REPEAT_SLACK);
    match deadline.checked_sub(rtt / 2) {
        Some(left) => u32::try_from(left.as_nanos() / repeat.as_nanos()).unwrap_or(u32::MAX).saturating_add(1),
        None => 0,
    }
}
