//! The wall clock that TLS asks for, set by the session instead of read from the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use noq_proto::TimeSource;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// Milliseconds since 1970, advanced by the session. Ticket ages are measured on it, so a machine clock that jumps while
/// we run does not matter; one that jumped between two runs costs the 0-RTT of one connection (RFC 8446 §8.3).
#[derive(Debug, Clone, Default)]
pub struct SharedClock(Arc<AtomicU64>);

impl SharedClock {
    pub fn set(&self, since_1970: Duration) {
        self.0.store(since_1970.as_millis() as u64, Ordering::Relaxed);
    }

    pub fn since_1970(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl TimeProvider for SharedClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(self.since_1970()))
    }
}

impl TimeSource for SharedClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + self.since_1970()
    }
}
