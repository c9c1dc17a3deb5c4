//! What old segments must not do: open a connection again that has ended.
//!
//! Within a connection sequence numbers tell what has been there. Of one that has ended its newest number in the association
//! is remembered, which only grows.

use std::collections::BTreeMap;

use super::Port;

/// Connections remembered after they ended.
const REMEMBERED: usize = 1024;
/// A segment opens a connection only if it is at most this much older than the newest of the association, microseconds.
const MAX_AGE_US: u64 = 30_000_000;

/// Place of a segment in all that the other side sent: association, number.
pub(super) type Place = (u64, u64);

/// Guards an endpoint.
#[derive(Debug, Default)]
pub(super) struct Guard {
    newest: Place,
    /// The newest place of connections that have ended.
    ended: BTreeMap<(Port, Port), Place>,
    /// What is not above this opens nothing.
    floor: Place,
}

impl Guard {
    /// An authentic segment has come.
    pub fn on_segment(&mut self, place: Place) {
        self.newest = self.newest.max(place);
    }

    /// Whether a segment may open a connection between these ports.
    pub fn may_open(&self, ports: (Port, Port), place: Place) -> bool {
        let is_old = place.0 < self.newest.0 || place.1 + MAX_AGE_US < self.newest.1;
        !is_old && place > self.floor && self.ended.get(&ports).is_none_or(|ended| place > *ended)
    }

    /// A connection has ended, of which this was the newest segment.
    pub fn on_ended(&mut self, ports: (Port, Port), newest: Place) {
        if self.ended.len() == REMEMBERED
            && let Some((oldest, place)) =
                self.ended.iter().map(|(ports, place)| (*ports, *place)).min_by_key(|(_, place)| *place)
        {
            self.ended.remove(&oldest);
            self.floor = self.floor.max(place);
        }
        let entry = self.ended.entry(ports).or_default();
        *entry = newest.max(*entry);
    }

    /// The other side has restarted: it counts anew.
    pub fn on_restart(&mut self) {
        *self = Self { newest: self.newest, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_opens_nothing() {
        let mut guard = Guard::default();
        let ports = (Port(1), Port(2));
        guard.on_segment((1, 50_000_000));
        assert!(guard.may_open(ports, (1, 49_000_000)));
        assert!(!guard.may_open(ports, (1, 19_000_000)), "31 s older than the newest");
        guard.on_ended(ports, (1, 49_500_000));
        assert!(!guard.may_open(ports, (1, 49_500_000)));
        assert!(guard.may_open(ports, (1, 49_500_001)));
        assert!(guard.may_open((Port(1), Port(3)), (1, 49_000_000)));
        guard.on_segment((2, 10));
        assert!(!guard.may_open(ports, (1, 60_000_000)), "of an association before");
        assert!(guard.may_open(ports, (2, 5)));
        for port in 0..2000_u16 {
            guard.on_ended((Port(port), Port(9)), (2, 1000 + u64::from(port)));
        }
        assert!(guard.ended.len() <= REMEMBERED);
        assert!(!guard.may_open((Port(0), Port(9)), (2, 1000)), "forgotten, but below the floor");
        assert!(guard.may_open((Port(0), Port(9)), (2, 5000)));
    }
}
