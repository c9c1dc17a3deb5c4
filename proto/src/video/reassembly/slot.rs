//! The place of one frame while its fragments come in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::ReassemblerConfig;
use crate::video::fragment::{FragmentHeader, MAX_FRAME_BYTES};
use crate::video::frame::{Packets, VideoFrame};

/// A frame in flight; by default one of which nothing has come.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The fragments below `next_index`, one after the other.
    bytes: BytesMut,
    next_index: u32,
    /// Fragments that came before their turn.
    early: BTreeMap<u32, Bytes>,
    early_bytes: usize,
    last_index: Option<u32>,
    held: usize,
    recovery_point: bool,
    /// Of the fragments so far: some, and all, say so.
    seen: u32,
    disposable: u32,
    classified: bool,
    /// No more of it is going to come.
    over: bool,
    /// The earliest that any fragment says.
    born: Option<Instant>,
    first_fragment: Option<Instant>,
    last_fragment: Option<Instant>,
    /// When a fragment of a later frame came first.
    overtaken: Option<Instant>,
    /// Its running number, if it had one: those of this frame are before it.
    before: Option<u16>,
}

/// What became of a fragment.
pub(super) enum Added {
    Kept,
    Duplicate,
    Malformed,
    Abandoned,
    TooLarge,
}

/// What keeping a fragment costs: its bytes, and what is kept beside them.
pub(super) fn cost(bytes: usize) -> usize {
    bytes + OVERHEAD
}

impl Slot {
    /// Takes a fragment that left the sender `age` ago, over propagation.
    pub(super) fn add(
        &mut self,
        now: Instant,
        age: Duration,
        header: &FragmentHeader,
        bytes: &[u8],
        size_hint: usize,
    ) -> Added {
        let (index, flags) = (header.index, header.flags);
        if self.over || self.is_complete() {
            return Added::Duplicate;
        }
        let known_end = self.last_index.map_or(u32::MAX, |last| last + 1);
        let seen_end = self.early.last_key_value().map_or(self.next_index, |(index, _)| index + 1);
        if flags.abandoned {
            self.on_seen(now, age, header);
            self.over = true;
            return Added::Abandoned;
        }
        if index >= known_end || flags.last && index + 1 < seen_end {
            return Added::Malformed;
        }
        if index < self.next_index || self.early.contains_key(&index) {
            return Added::Duplicate;
        }
        self.on_seen(now, age, header);
        if self.bytes.len() + self.early_bytes + bytes.len() > MAX_FRAME_BYTES {
            self.over = true;
            return Added::TooLarge;
        }
        self.held += cost(bytes.len());
        if flags.last {
            self.last_index = Some(index);
        }
        if index > self.next_index {
            self.early_bytes += bytes.len();
            self.early.insert(index, Bytes::copy_from_slice(bytes));
            return Added::Kept;
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(if flags.last { bytes.len() } else { size_hint.max(2 * bytes.len()) });
        }
        self.bytes.extend_from_slice(bytes);
        self.next_index += 1;
        while let Some(early) = self.early.remove(&self.next_index) {
            self.early_bytes -= early.len();
            self.bytes.extend_from_slice(&early);
            self.next_index += 1;
        }
        Added::Kept
    }

    /// Tells that a fragment of a later frame came, with its running number if it has one; false if that was known.
    pub(super) fn overtake(&mut self, now: Instant, number: Option<u16>) -> bool {
        let new = self.overtaken.is_none();
        if new {
            (self.overtaken, self.before) = (Some(now), number);
        }
        new
    }

    /// When to give the frame up; what is before `settled` is not going to be repaired.
    pub(super) fn deadline(&self, config: &ReassemblerConfig, settled: Option<u16>) -> Option<Instant> {
        let is_open = |before: u16| settled.is_none_or(|settled| (before.wrapping_sub(settled) as i16) > 0);
        let wait = if self.before.is_some_and(is_open) { config.repair_time } else { config.reorder_time };
        let overtaken = self.overtaken.map(|at| at + wait.max(config.reorder_time));
        let silent = self.last_fragment.map(|at| at + config.frame_timeout);
        overtaken.into_iter().chain(silent).chain(self.expires(config)).min()
    }

    /// When the frame is too old to be of use; `None` before anything of it has come.
    pub(super) fn expires(&self, config: &ReassemblerConfig) -> Option<Instant> {
        self.born?.checked_add(config.max_frame_age)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.last_index.is_some_and(|last| self.next_index > last)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen == 0
    }

    /// What the fragments kept here cost in all.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Lets go of the fragments, and gives what they cost.
    pub(super) fn release(&mut self) -> usize {
        self.bytes = BytesMut::new();
        self.early = BTreeMap::new();
        self.early_bytes = 0;
        std::mem::take(&mut self.held)
    }

    pub(super) fn disposable(&self) -> bool {
        self.seen > 0 && self.disposable == self.seen && !self.recovery_point
    }

    pub(super) fn classified(&self) -> bool {
        self.classified
    }

    /// The frame as `number`, if all of it has come and its packets add up.
    pub(super) fn into_frame(self, number: u64) -> Option<VideoFrame> {
        if !self.is_complete() || self.over {
            return None;
        }
        let (recovery_point, disposable) = (self.recovery_point, self.disposable());
        let (first_fragment, completed, born) = (self.first_fragment?, self.last_fragment?, self.born?);
        let packets = Packets::new(self.bytes.freeze())?;
        Some(VideoFrame { number, packets, recovery_point, disposable, first_fragment, completed, born })
    }

    fn on_seen(&mut self, now: Instant, age: Duration, header: &FragmentHeader) {
        let age = age.saturating_add(Duration::from_millis(header.waited_ms.unwrap_or_default().into()));
        let born = now.checked_sub(age).unwrap_or(now);
        self.born = Some(self.born.map_or(born, |known| known.min(born)));
        self.seen += 1;
        self.disposable += u32::from(header.flags.disposable);
        self.recovery_point |= header.flags.recovery_point;
        self.classified |= header.flags.classified;
        self.first_fragment.get_or_insert(now);
        self.last_fragment = Some(now);
    }
}

/// About what a map entry and a buffer take beside the bytes; makes empty fragments count.
const OVERHEAD: usize = 64;
