//! What was done so far.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::Outcome;

/// What was done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions that were up.
    pub sessions: u64,
    /// Connections that were closed at once, since there were enough.
    pub turned_away: u64,
    /// Bundles that came and were stored.
    pub stored: u64,
    /// Bundles that came and were refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Bundles that left and were acknowledged.
    pub delivered: u64,
    /// Bundles that left and were not wanted.
    pub unwanted: u64,
    /// Bundles that were not acknowledged, and are to be given again.
    pub later: u64,
    /// Sessions that ended, by reason.
    pub ended: BTreeMap<String, u64>,
}

/// Most reasons that are told apart: some have numbers of others' in them.
const MAX_REASONS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Stats>);

impl Counters {
    pub fn snapshot(&self) -> Stats {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn count(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn refused(&self, reason: String) {
        self.count(|stats| add(&mut stats.refused, reason));
    }

    pub fn ended(&self, reason: String) {
        self.count(|stats| add(&mut stats.ended, reason));
    }

    pub fn done(&self, outcome: &Outcome) {
        self.count(|stats| match outcome {
            Outcome::Delivered => stats.delivered += 1,
            Outcome::Later(_) => stats.later += 1,
            Outcome::Refused(_) | Outcome::TooLarge(_) | Outcome::Loop => stats.unwanted += 1,
        });
    }
}

fn add(counts: &mut BTreeMap<String, u64>, reason: String) {
    let known = counts.len() < MAX_REASONS || counts.contains_key(&reason);
    *counts.entry(if known { reason } else { "other".into() }).or_default() += 1;
}
