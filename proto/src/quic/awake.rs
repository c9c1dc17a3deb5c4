//! A connection that is not asked for packets again until something has happened to it.

use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::time::Instant;

use noq_proto::{Connection, Transmit};

/// A QUIC connection and whether it has something to send. A connection that had nothing to send has nothing until it is given
/// something, or its next timer is due: asking one of sixteen bearers is cheap, asking the fifteen others after each of its packets is not.
pub(super) struct Awake {
    connection: Connection,
    asleep: bool,
}

impl Awake {
    pub fn new(connection: Connection) -> Self {
        Self { connection, asleep: false }
    }

    /// The next packet to leave now.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.asleep {
            return None;
        }
        let transmit = self.connection.poll_transmit(now, NonZeroUsize::MIN, out);
        self.asleep = transmit.is_none();
        transmit
    }

    /// To be called at any time; does something when a timer is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.connection.poll_timeout().is_some_and(|due| due <= now) {
            self.asleep = false;
            self.connection.handle_timeout(now);
        }
    }

    /// For calls that change nothing, though they ask for `&mut`.
    pub fn unchanged(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Deref for Awake {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// Whatever may change it wakes it.
impl DerefMut for Awake {
    fn deref_mut(&mut self) -> &mut Connection {
        self.asleep = false;
        &mut self.connection
    }
}
