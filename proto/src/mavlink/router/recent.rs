//! Memory of the frames that passed lately, to notice copies of them.

use std::hash::{DefaultHasher, Hasher};
use std::time::{Duration, Instant};

use crate::mavlink::Frame;

/// A direct-mapped table: a new frame takes the place of an old one with the same low hash bits, so memory is fixed and
/// at very high rates a copy may go unnoticed.
#[derive(Debug)]
pub(super) struct Recent {
    slots: Vec<Option<Passed>>,
    window: Duration,
}

/// One frame that passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    hash: u64,
    /// When it came first.
    pub(super) at: Instant,
    /// The endpoint it came from first, by slot.
    pub(super) from: usize,
    /// Slots it was sent to, one bit each.
    pub(super) sent: u128,
}

/// Identity of a frame: all its bytes, sequence number and checksum included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn of(frame: &Frame) -> Self {
        // Its keys are fixed, so runs repeat. To collide with a frame on purpose one has to foresee it, and could as
        // well send it first.
        let mut hasher = DefaultHasher::new();
        hasher.write(frame.bytes());
        Self(hasher.finish())
    }

    fn slot(self) -> usize {
        self.0 as usize % SLOTS
    }
}

impl Recent {
    /// Remembers for `window`.
    pub(super) fn new(window: Duration) -> Self {
        Self { slots: vec![None; SLOTS], window }
    }

    /// The same frame, if it passed within the window.
    pub(super) fn find(&self, now: Instant, print: Fingerprint) -> Option<Passed> {
        self.slots[print.slot()]
            .filter(|passed| passed.hash == print.0 && now.saturating_duration_since(passed.at) <= self.window)
    }

    /// Remembers a frame as it passes.
    pub(super) fn insert(&mut self, now: Instant, print: Fingerprint, from: usize, sent: u128) {
        self.slots[print.slot()] = Some(Passed { hash: print.0, at: now, from, sent });
    }
}

/// 4,096 frames: 3 s at 1,300 per second, ten times what an autopilot sends on all streams.
const SLOTS: usize = 4096;
