//! Parcels: datagrams of class Bulk, in any order, each on its own.
//!
//! For what brings an order and a repetition of its own: files, a gateway's segments. They leave after all else, on any bearer that
//! has room, and their sender hears what became of each. Few wait here, so that what leaves next is decided late.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::BearerId;
use crate::feedback::DatagramId;

/// Who a parcel belongs to, the same on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParcelPort(u8);

impl ParcelPort {
    /// How many ports there are.
    pub const COUNT: usize = 8;
    /// Segments of a gateway.
    pub const GATEWAY: Self = Self(0);
    /// Files.
    pub const FILES: Self = Self(1);

    /// Parcels of one port that wait at most; more are refused.
    pub const MAX_WAITING: usize = 64;

    /// The port of this number; `None` from [`ParcelPort::COUNT`] on.
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// Bearers with less room in a packet, slow radios, carry no parcels; so one that is no longer than this fits any that does.
pub const LEAST_ROOM: usize = 1_050;
/// The owner hears that there is room again when so few wait.
const LOW: usize = 32;

#[derive(Debug, Default)]
struct Waiting {
    parcels: VecDeque<(Option<u64>, Bytes)>,
    bytes: usize,
    /// Its owner has been refused.
    hungry: bool,
}

/// What became of a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParcelFate {
    /// Whose.
    pub port: ParcelPort,
    /// Which, as its sender calls it.
    pub token: u64,
    /// It has arrived; otherwise it is taken for lost, which may be wrong.
    pub received: bool,
}

/// Parcels that wait and those that are under way.
#[derive(Debug, Default)]
pub struct Parcels {
    ports: [Waiting; ParcelPort::COUNT],
    next: usize,
    under_way: BTreeMap<(BearerId, u64), (ParcelPort, u64)>,
    fates: VecDeque<ParcelFate>,
}

impl Parcels {
    /// Takes a parcel to send; `false` if as many wait as may. `token`: its fate is wanted, by this name.
    pub fn push(&mut self, port: ParcelPort, token: Option<u64>, bytes: Bytes) -> bool {
        let waiting = &mut self.ports[usize::from(port.0)];
        if waiting.parcels.len() >= ParcelPort::MAX_WAITING {
            waiting.hungry = true;
            return false;
        }
        waiting.bytes += bytes.len();
        waiting.parcels.push_back((token, bytes));
        true
    }

    /// How many more are taken now.
    pub fn room(&self, port: ParcelPort) -> usize {
        ParcelPort::MAX_WAITING - self.ports[usize::from(port.0)].parcels.len()
    }

    /// Whether any waits.
    pub fn is_waiting(&self) -> bool {
        self.ports.iter().any(|waiting| !waiting.parcels.is_empty())
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.ports.iter().map(|waiting| waiting.bytes).sum()
    }

    /// The next to send on a bearer that takes at most `max` bytes, of all ports in turn. One that is longer is told to be lost: when
    /// it was made there was a bearer that took more.
    pub fn pop(&mut self, max: usize) -> Option<(ParcelPort, Option<u64>, Bytes)> {
        for turn in 0..ParcelPort::COUNT {
            let index = (self.next + turn) % ParcelPort::COUNT;
            let (port, waiting) = (ParcelPort(index as u8), &mut self.ports[index]);
            while let Some((token, bytes)) = waiting.parcels.pop_front() {
                waiting.bytes -= bytes.len();
                if bytes.len() <= max {
                    self.next = index + 1;
                    return Some((port, token, bytes));
                }
                self.fates.extend(token.map(|token| ParcelFate { port, token, received: false }));
            }
        }
        None
    }

    /// Ports that were refused and have room again.
    pub fn take_room(&mut self) -> Option<ParcelPort> {
        let index = self.ports.iter().position(|waiting| waiting.hungry && waiting.parcels.len() <= LOW)?;
        self.ports[index].hungry = false;
        Some(ParcelPort(index as u8))
    }

    /// Notes that a parcel whose fate is wanted has left.
    pub fn on_sent(&mut self, port: ParcelPort, token: u64, datagram: DatagramId) {
        self.under_way.insert((datagram.bearer, datagram.number), (port, token));
    }

    /// What became of a datagram that carried one.
    pub fn on_fate(&mut self, datagram: DatagramId, received: bool) {
        if let Some((port, token)) = self.under_way.remove(&(datagram.bearer, datagram.number)) {
            self.fates.push_back(ParcelFate { port, token, received });
        }
    }

    /// A bearer is gone: nothing more will be heard of what left on it.
    pub fn on_bearer_gone(&mut self, bearer: BearerId) {
        let gone: Vec<_> = self.under_way.range((bearer, 0)..=(bearer, u64::MAX)).map(|(key, _)| *key).collect();
        for (bearer, number) in gone {
            self.on_fate(DatagramId { bearer, number }, false);
        }
    }

    /// The next fate to tell.
    pub fn take_fate(&mut self) -> Option<ParcelFate> {
        self.fates.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(bearer: u8, number: u64) -> DatagramId {
        DatagramId { bearer: BearerId::new(bearer).unwrap(), number }
    }

    #[test]
    fn ports_take_turns_and_who_was_refused_hears_of_room() {
        let mut parcels = Parcels::default();
        for n in 0..ParcelPort::MAX_WAITING as u64 {
            assert!(parcels.push(ParcelPort::FILES, Some(n), Bytes::from_static(&[1; 100])));
        }
        assert!(!parcels.push(ParcelPort::FILES, Some(99), Bytes::new()) && parcels.room(ParcelPort::FILES) == 0);
        assert!(parcels.push(ParcelPort::GATEWAY, None, Bytes::from_static(b"g")));
        let order: Vec<u8> = (0..4).map(|_| parcels.pop(1_000).unwrap().0.number()).collect();
        assert_eq!(order, [0, 1, 1, 1]);
        while parcels.room(ParcelPort::FILES) < ParcelPort::MAX_WAITING - LOW - 1 {
            parcels.pop(1_000).unwrap();
        }
        assert_eq!(parcels.take_room(), None);
        parcels.pop(1_000).unwrap();
        assert_eq!((parcels.take_room(), parcels.take_room()), (Some(ParcelPort::FILES), None));
        assert_eq!(parcels.bytes(), LOW * 100);
    }

    #[test]
    fn what_is_too_long_for_the_bearers_that_are_left_and_what_left_on_one_that_is_gone_is_lost() {
        let mut parcels = Parcels::default();
        let lost = |token| Some(ParcelFate { port: ParcelPort::FILES, token, received: false });
        parcels.push(ParcelPort::FILES, Some(1), Bytes::from_static(&[1; 100]));
        parcels.push(ParcelPort::FILES, Some(2), Bytes::from_static(&[1; 50]));
        assert_eq!(parcels.pop(99).unwrap().1, Some(2));
        assert_eq!(parcels.take_fate(), lost(1));
        parcels.on_sent(ParcelPort::FILES, 2, id(0, 7));
        parcels.on_sent(ParcelPort::FILES, 3, id(1, 7));
        parcels.on_bearer_gone(BearerId::FIRST);
        assert_eq!((parcels.take_fate(), parcels.take_fate()), (lost(2), None));
        parcels.on_fate(id(0, 7), true);
        parcels.on_fate(id(1, 7), true);
        assert_eq!(parcels.take_fate(), Some(ParcelFate { port: ParcelPort::FILES, token: 3, received: true }));
        assert_eq!(parcels.take_fate(), None);
    }
}
