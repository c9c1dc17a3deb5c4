//! Resumption tickets on the server's side: single use, and kept by whoever drives us.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::server::StoresServerSessions;

/// Where sessions that may be resumed are kept. Keys and values are opaque; values hold secrets.
///
/// A session must be given out at most once, also across restarts and crashes: an implementation that cannot forget a
/// session durably must not return it, since a ticket used twice is how 0-RTT data is replayed (RFC 8446 §8.1).
pub trait TicketStore: fmt::Debug + Send + Sync {
    /// Keeps `value`; `false` if it could not (a full disk), which costs a later connection its 0-RTT and nothing else.
    fn put(&self, key: &[u8], value: &[u8]) -> bool;

    /// Gives the value out and forgets it.
    fn take(&self, key: &[u8]) -> Option<Vec<u8>>;
}

/// Tickets in memory, the newest [`MemoryTickets::CAPACITY`]; they are gone after a restart.
#[derive(Debug, Default)]
pub struct MemoryTickets {
    tickets: Mutex<VecDeque<(Vec<u8>, Vec<u8>)>>,
}

impl MemoryTickets {
    /// Tickets kept; the oldest goes first.
    pub const CAPACITY: usize = 192;
}

impl TicketStore for MemoryTickets {
    fn put(&self, key: &[u8], value: &[u8]) -> bool {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() == Self::CAPACITY {
            tickets.pop_front();
        }
        tickets.push_back((key.to_vec(), value.to_vec()));
        true
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let index = tickets.iter().position(|(have, _)| have == key)?;
        tickets.remove(index).map(|(_, value)| value)
    }
}

/// What rustls asks for, in terms of a [`TicketStore`].
#[derive(Debug)]
pub(super) struct ServerSessions(pub Arc<dyn TicketStore>);

impl StoresServerSessions for ServerSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.0.put(&key, &value)
    }

    /// Only TLS 1.2 asks without taking; we never give the same session twice.
    fn get(&self, _key: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_given_out_once_and_the_oldest_goes_first() {
        let store = MemoryTickets::default();
        for n in 0..=MemoryTickets::CAPACITY as u8 {
            assert!(store.put(&[n], &[n]));
        }
        assert_eq!(store.take(&[0]), None);
        assert_eq!(store.take(&[1]), Some(vec![1]));
        assert_eq!(store.take(&[1]), None);
    }
}
