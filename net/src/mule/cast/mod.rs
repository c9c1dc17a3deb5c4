//! Casts: files to whoever listens, without an answer. See docs/mule.md, One way.
//!
//! Each is a thread with the store open once more: making and solving blocks takes milliseconds, for which no link has to wait.

mod hearing;
mod sending;
mod socket;
mod spec;
mod state;

use std::time::{SystemTime, UNIX_EPOCH};

use aquila_proto::transfer::cast::CastKey;
use serde::{Deserialize, Serialize};

pub(super) use hearing::hear;
pub(super) use sending::send;
pub use spec::{Air, CastSpec, HearSpec, ParseCastError};

/// A cast that is to be sent or heard, with its key.
#[derive(Debug, Clone)]
pub struct CastSetup<T> {
    /// Which.
    pub spec: T,
    /// What all members share.
    pub key: CastKey,
}

/// A cast, sent or heard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CastSnapshot {
    /// What it is called.
    pub name: String,
    /// It is sent, else heard.
    pub sends: bool,
    /// Fingerprint of the shared key.
    pub key: String,
    /// Datagrams sent, or heard and opened.
    pub datagrams: u64,
    /// Of those that came, those that were refused: of another key, changed, replayed, or nothing of a cast.
    pub refused: u64,
    /// Of them, those that are not sealed with our key.
    pub wrong_key: u64,
    /// Symbols sent, or heard that brought something.
    pub symbols: u64,
    /// Symbols heard of what was there, or is not wanted.
    pub unneeded: u64,
    /// Blocks that were made whole.
    pub blocks: u64,
    /// Blocks that were wrong, or given up.
    pub dropped: u64,
    /// Symbols that there was no room for.
    pub no_room: u64,
    /// Objects that were taken; or rounds of objects that were sent.
    pub objects: u64,
    /// Objects that are being heard, or have rounds before them.
    pub under_way: u64,
    /// Bytes of memory for what is not whole.
    pub held_bytes: u64,
}

/// Microseconds since 1970.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
