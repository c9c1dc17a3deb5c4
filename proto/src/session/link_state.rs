//! How long ago the other side was last heard, and what that makes of the link.

use std::time::{Duration, Instant};

use super::LinkState;

/// While nothing is heard, the driver is asked to look up the address again this often.
const ADDRESS_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Silence {
    state: LinkState,
    last_word: Option<Instant>,
    /// The first thing sent since then that a word has to come for.
    asked: Option<Instant>,
    address_asked: Option<Instant>,
    recovered: Option<Instant>,
}

impl Default for Silence {
    fn default() -> Self {
        Self { state: LinkState::Down, last_word: None, asked: None, address_asked: None, recovered: None }
    }
}

impl Silence {
    pub fn state(&self) -> LinkState {
        self.state
    }

    /// Age of the last word.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.last_word.map(|at| now.saturating_duration_since(at))
    }

    /// Something authentic came in.
    pub fn on_word(&mut self, now: Instant) {
        if self.state != LinkState::Up {
            self.recovered = Some(now);
        }
        self.last_word = Some(now);
        self.asked = None;
    }

    /// Something leaves that the other side acknowledges at once.
    pub fn on_asked(&mut self, now: Instant) {
        self.asked.get_or_insert(now);
    }

    /// For how long nothing has been heard since such a thing left.
    pub fn unanswered(&self, now: Instant) -> Duration {
        self.asked.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// Whether a word has just ended a silence.
    pub fn just_recovered(&self, now: Instant) -> bool {
        self.recovered == Some(now)
    }

    /// A connection attempt begins.
    pub fn on_connect(&mut self, now: Instant) {
        self.address_asked = Some(now);
    }

    pub fn on_disconnected(&mut self) {
        self.address_asked = None;
    }

    /// Gives a change of state, with the age of the last word before it.
    pub fn update(
        &mut self,
        now: Instant,
        connected: bool,
        (stalled_after, lost_after): (Duration, Duration),
    ) -> Option<(LinkState, Duration)> {
        let age = self.age(now);
        let state = match age {
            None => LinkState::Down,
            Some(_) if !connected => LinkState::Down,
            Some(age) if age >= lost_after => LinkState::Lost,
            Some(age) if age >= stalled_after => LinkState::Stalled,
            Some(_) => LinkState::Up,
        };
        let before = std::mem::replace(&mut self.state, state);
        (before != state).then(|| (state, age.unwrap_or_default()))
    }

    /// Whether to ask for the address now; says yes once per [`ADDRESS_INTERVAL`].
    pub fn address_wanted(&mut self, now: Instant, connected: bool) -> bool {
        let silent = !connected || self.age(now).is_none_or(|age| age >= ADDRESS_INTERVAL);
        let due = self.address_asked.is_none_or(|at| now.saturating_duration_since(at) >= ADDRESS_INTERVAL);
        if silent && due {
            self.address_asked = Some(now);
        }
        silent && due
    }

    /// When the state, or the wish for an address, will next change if nothing is heard.
    pub fn next_deadline(&self, (stalled_after, lost_after): (Duration, Duration)) -> Option<Instant> {
        let state = match (self.state, self.last_word) {
            (LinkState::Up, Some(last)) => Some(last + stalled_after),
            (LinkState::Stalled, Some(last)) => Some(last + lost_after),
            _ => None,
        };
        let address = self.address_asked.max(self.last_word).map(|at| at + ADDRESS_INTERVAL);
        let address = address.filter(|_| self.state != LinkState::Up);
        state.into_iter().chain(address).min()
    }
}
