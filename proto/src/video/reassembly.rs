//! The receiver of one video flow: fragments in, whole frames out, in order, or word of those that were lost.

mod slot;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use self::slot::{Added, Slot};
use super::fragment::{FragmentHeader, MAX_FRAME_BYTES};
use super::frame::VideoFrame;
use crate::units::ByteCount;

/// Limits and times of a [`Reassembler`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReassemblerConfig {
    /// Longest time that fragments of a later frame wait for those of an earlier one, from the first of them.
    pub reorder_time: Duration,
    /// The same if there may be repairs of the earlier frame still.
    pub repair_time: Duration,
    /// Silence after which a frame that nothing came after is given up.
    pub frame_timeout: Duration,
    /// A frame that is this old is not given out nor waited for: whoever flies by an old picture flies
    /// elsewhere.
    pub max_frame_age: Duration,
    /// Most frames in flight; a fragment further ahead gives the oldest up.
    pub max_frames: usize,
    /// Most bytes of frames that are not complete or not given out; beyond, the oldest are given up.
    pub max_bytes: ByteCount,
    /// Time between requests for a recovery point while none has come; about a round trip more than the camera needs.
    pub recovery_interval: Duration,
}

/// What comes out of a [`Reassembler`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VideoEvent {
    /// A whole frame. Numbers of frames and losses increase from event to event.
    Frame(VideoFrame),
    /// Frames that are not going to come, or came too late to be of use.
    FramesLost {
        /// Number of the first of them.
        first: u64,
        /// How many there are in a row.
        count: u64,
        /// Later frames refer to them, as far as is known.
        matters: bool,
    },
    /// The picture is broken until a recovery point comes: ask the other side for one.
    RecoveryNeeded,
}

/// Puts the fragments of one flow together.
///
/// One input, then drain: after [`push`](Self::push) or when [`next_deadline`](Self::next_deadline) has come, call
/// [`poll`](Self::poll) until it gives `None`. Memory is bounded by the configured frames and bytes whatever comes in.
#[derive(Debug)]
pub struct Reassembler {
    config: ReassemblerConfig,
    /// Number of the first slot, once any fragment has come.
    next: Option<u64>,
    slots: VecDeque<Slot>,
    /// Bytes held in slots, with what keeping them costs.
    held: usize,
    events: VecDeque<VideoEvent>,
    /// Bytes of frames in `events`.
    events_bytes: usize,
    /// When a fragment last came that was not late or far off.
    last_expected: Option<Instant>,
    outside: Option<Outside>,
    /// Fragments with numbers before this one are not going to be repaired.
    settled: Option<u16>,
    picture: Picture,
    /// A recovery point is to be asked for as soon as the interval since `asked` allows.
    ask: bool,
    asked: Option<Instant>,
    /// Capacity for the next frame: what the last one took.
    size_hint: usize,
    counters: ReassemblyCounters,
}

/// Totals since the reassembler was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReassemblyCounters {
    /// Fragments pushed, whatever became of them.
    pub fragments_in: u64,
    /// Their bytes, headers included.
    pub bytes_in: ByteCount,
    /// Not a fragment, or in contradiction to another one of its frame.
    pub malformed: u64,
    /// Came before.
    pub duplicate: u64,
    /// Of a frame that was given out or given up.
    pub late: u64,
    /// So far ahead that it is believed only if others agree.
    pub far_ahead: u64,
    /// Frames given out.
    pub frames_out: u64,
    /// Their packets.
    pub packets_out: u64,
    /// Frames lost, the unimportant and the abandoned included.
    pub frames_lost: u64,
    /// Frames that came, whole or in part, and became older than [`ReassemblerConfig::max_frame_age`]; not given out, and
    /// not counted as lost.
    pub frames_stale: u64,
    /// Frames lost to which later ones refer.
    pub frames_lost_matter: u64,
    /// Frames of which the sender said that it had dropped the rest.
    pub frames_abandoned: u64,
    /// Frames given up for want of room.
    pub frames_overflowed: u64,
    /// Times that the sender began to count anew.
    pub restarts: u64,
    /// Recovery points asked for.
    pub recovery_requests: u64,
    /// Events discarded since they were not polled.
    pub events_discarded: u64,
}

/// A run of fragments outside the window, with numbers that do not go back: perhaps a sender that began anew.
#[derive(Debug)]
struct Outside {
    first: u32,
    last: u32,
}

/// What the decoder at the end of this flow can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Picture {
    /// Nothing given out yet.
    Unseen,
    Whole,
    /// A recovery point is missing.
    Broken,
}

impl Default for ReassemblerConfig {
    fn default() -> Self {
        Self {
            reorder_time: DEFAULT_REORDER_TIME,
            repair_time: DEFAULT_REPAIR_TIME,
            frame_timeout: DEFAULT_FRAME_TIMEOUT,
            max_frame_age: DEFAULT_MAX_FRAME_AGE,
            max_frames: DEFAULT_MAX_FRAMES,
            max_bytes: DEFAULT_MAX_BYTES,
            recovery_interval: DEFAULT_RECOVERY_INTERVAL,
        }
    }
}

impl Reassembler {
    /// A reassembler that begins at the first fragment it gets.
    pub fn new(config: ReassemblerConfig) -> Self {
        Self {
            config,
            next: None,
            slots: VecDeque::new(),
            held: 0,
            events: VecDeque::new(),
            events_bytes: 0,
            last_expected: None,
            outside: None,
            settled: None,
            picture: Picture::Unseen,
            ask: false,
            asked: None,
            size_hint: 0,
            counters: ReassemblyCounters::default(),
        }
    }

    /// Takes one fragment, header and bytes, that left the sender `age` ago, as far as is known. What is
    /// not a fragment is counted and dropped.
    pub fn push(&mut self, now: Instant, age: Duration, fragment: &[u8]) {
        self.counters.fragments_in += 1;
        self.counters.bytes_in += ByteCount::from(fragment.len());
        let Ok((header, bytes)) = FragmentHeader::parse(fragment) else {
            self.counters.malformed += 1;
            return;
        };
        if let Some(number) = self.expect(now, header.frame) {
            self.add(now, age, number, &header, bytes);
            // Still broken and the flow still alive: the last request may have been lost. Of a flow that is not looked into,
            // it is not known that it is still broken.
            self.ask |= self.picture == Picture::Broken && header.flags.classified;
        }
        self.advance(now);
    }

    /// Gives out the next event.
    pub fn poll(&mut self, now: Instant) -> Option<VideoEvent> {
        self.advance(now);
        if let Some(event) = self.events.pop_front() {
            self.events_bytes -= event_bytes(&event);
            return Some(event);
        }
        if self.recovery_due().is_some_and(|due| due <= now) {
            (self.asked, self.ask) = (Some(now), false);
            self.counters.recovery_requests += 1;
            return Some(VideoEvent::RecoveryNeeded);
        }
        None
    }

    /// When to call [`poll`](Self::poll) next. After a drain it is later than its `now`, or none.
    pub fn next_deadline(&self) -> Option<Instant> {
        let front = self.slots.front().and_then(|slot| slot.deadline(&self.config, self.settled));
        front.into_iter().chain(self.recovery_due()).min()
    }

    /// Whoever is shown what is given out has not seen all of it: asks for a recovery point, until one comes, as after a loss.
    pub fn want_recovery(&mut self) {
        (self.picture, self.ask) = (Picture::Broken, true);
    }

    /// Changes the time between requests for a recovery point, for instance when the round-trip time is known.
    pub fn set_recovery_interval(&mut self, interval: Duration) {
        self.config.recovery_interval = interval;
    }

    /// The sender says that fragments before this number are not going to be repaired any more.
    pub fn set_settled(&mut self, number: u16) {
        // By several bearers this may come in any order; far back means that the sender counts anew.
        let step = self.settled.map_or(0, |settled| number.wrapping_sub(settled) as i16);
        if !(-FAR_BACK..0).contains(&step) {
            self.settled = Some(number);
        }
    }

    /// Totals since the reassembler was made.
    pub fn counters(&self) -> &ReassemblyCounters {
        &self.counters
    }

    /// Bytes held in frames that are not complete, or complete and not polled yet, with what keeping them costs.
    pub fn held_bytes(&self) -> ByteCount {
        ByteCount::from(self.held + self.events_bytes)
    }

    /// Frames in flight: from the oldest one that is awaited to the newest one seen.
    pub fn frames_in_flight(&self) -> usize {
        self.slots.len()
    }

    /// Extends a frame number from the wire; `None`, counted, if its fragment is not to be looked at.
    fn expect(&mut self, now: Instant, frame: u32) -> Option<u64> {
        let next = *self.next.get_or_insert(u64::from(frame));
        // RFC 1982: the nearest number with these low bits.
        let distance = frame.wrapping_sub(next as u32) as i32;
        if (0..MAX_JUMP).contains(&distance) {
            self.last_expected = Some(now);
            self.outside = None;
            return Some(next + distance as u64);
        }
        if self.is_new_start(now, frame) {
            return Some(self.restart(now, next, frame));
        }
        match distance {
            ..0 => self.counters.late += 1,
            _ => self.counters.far_ahead += 1,
        }
        None
    }

    /// Takes the number of a fragment outside the window; true if, with those before, it shows a sender that began anew.
    fn is_new_start(&mut self, now: Instant, frame: u32) -> bool {
        let run = self.outside.get_or_insert(Outside { first: frame, last: frame });
        if (0..MAX_JUMP).contains(&(frame.wrapping_sub(run.last) as i32)) {
            run.last = frame;
        } else {
            *run = Outside { first: frame, last: frame };
        }
        let advanced = run.last.wrapping_sub(run.first) >= RESTART_FRAMES;
        let silent = self.last_expected.is_none_or(|last| now.saturating_duration_since(last) >= RESTART_SILENCE);
        advanced && silent
    }

    /// Begins anew at `frame`, in the next epoch, so that numbers given out still increase.
    fn restart(&mut self, now: Instant, next: u64, frame: u32) -> u64 {
        while !self.slots.is_empty() {
            self.resolve_front(now);
        }
        let number = (((next >> 32) + 1) << 32) | u64::from(frame);
        self.next = Some(number);
        self.outside = None;
        self.last_expected = Some(now);
        self.picture = Picture::Unseen;
        self.counters.restarts += 1;
        number
    }

    fn add(&mut self, now: Instant, age: Duration, number: u64, header: &FragmentHeader, bytes: &[u8]) {
        let Some(mut position) = self.make_slot(now, number, header.number) else { return };
        let cost = slot::cost(bytes.len());
        while self.held + self.events_bytes + cost > self.config.max_bytes.as_usize() {
            // The oldest frames go first; if that is this one, it does not fit at all.
            self.counters.frames_overflowed += u64::from(!self.slots[0].is_empty());
            self.resolve_front(now);
            if position == 0 {
                return;
            }
            position -= 1;
        }
        let slot = &mut self.slots[position];
        match slot.add(now, age, header, bytes, self.size_hint) {
            Added::Kept => self.held += cost,
            Added::Duplicate => self.counters.duplicate += 1,
            Added::Malformed => self.counters.malformed += 1,
            Added::Abandoned => {
                self.counters.frames_abandoned += 1;
                self.held -= slot.release();
            }
            Added::TooLarge => {
                self.counters.frames_overflowed += 1;
                self.held -= slot.release();
            }
        }
    }

    /// Makes sure that there is a slot for frame `number`, not below `next`, and gives its position. `fragment`: the running
    /// number of the fragment that belongs there.
    fn make_slot(&mut self, now: Instant, number: u64, fragment: Option<u16>) -> Option<usize> {
        let max_frames = self.config.max_frames.max(1) as u64;
        while number - self.next? >= max_frames && !self.slots.is_empty() {
            self.counters.frames_overflowed += u64::from(!self.slots[0].is_empty());
            self.resolve_front(now);
        }
        let next = self.next?;
        if number - next >= max_frames {
            let first_kept = number + 1 - max_frames;
            self.lose(next, first_kept - next, true);
            self.next = Some(first_kept);
        }
        let position = (number - self.next?) as usize;
        if position >= self.slots.len() {
            self.slots.resize_with(position + 1, Slot::default);
        }
        // Earlier frames have been overtaken; those before one that has been, have been as well.
        for slot in self.slots.range_mut(..position).rev() {
            if !slot.overtake(now, fragment) {
                break;
            }
        }
        Some(position)
    }

    /// Takes from the front what is complete, and what is not going to be.
    fn advance(&mut self, now: Instant) {
        while let Some(front) = self.slots.front() {
            let due = front.deadline(&self.config, self.settled).is_some_and(|deadline| deadline <= now);
            if !(front.is_complete() || front.is_over() || due) {
                break;
            }
            self.resolve_front(now);
        }
    }

    /// Gives out the front frame if it is complete and in time, and counts it as lost or stale otherwise.
    fn resolve_front(&mut self, now: Instant) {
        let (Some(slot), Some(number)) = (self.slots.pop_front(), self.next) else { return };
        self.next = Some(number + 1);
        self.held -= slot.held();
        let (disposable, classified) = (slot.disposable(), slot.classified());
        let expired = slot.expires(&self.config).is_some_and(|at| at <= now);
        if expired && !slot.is_over() {
            self.counters.frames_stale += 1;
            return self.miss(number, 1, !disposable);
        }
        let Some(frame) = slot.into_frame(number) else { return self.lose(number, 1, !disposable) };
        self.size_hint = frame.packets.byte_len();
        self.counters.frames_out += 1;
        self.counters.packets_out += frame.packets.len() as u64;
        if frame.recovery_point {
            (self.picture, self.ask) = (Picture::Whole, false);
        } else if !classified {
            // Whether it is a recovery point cannot be known: one request for each loss has to do.
            self.picture = Picture::Whole;
        } else if self.picture == Picture::Unseen {
            (self.picture, self.ask) = (Picture::Broken, true);
        }
        self.emit(VideoEvent::Frame(frame));
    }

    fn lose(&mut self, first: u64, count: u64, matters: bool) {
        self.counters.frames_lost += count;
        self.counters.frames_lost_matter += if matters { count } else { 0 };
        self.miss(first, count, matters);
    }

    /// Frames that the decoder will not see.
    fn miss(&mut self, first: u64, count: u64, matters: bool) {
        if matters {
            (self.picture, self.ask) = (Picture::Broken, true);
        }
        if let Some(VideoEvent::FramesLost { first: run, count: len, matters: same }) = self.events.back_mut()
            && (*run + *len, *same) == (first, matters)
        {
            *len += count;
            return;
        }
        self.emit(VideoEvent::FramesLost { first, count, matters });
    }

    fn emit(&mut self, event: VideoEvent) {
        self.events_bytes += event_bytes(&event);
        self.events.push_back(event);
        let limit = self.config.max_frames.saturating_mul(2).saturating_add(UNPOLLED_EVENTS);
        debug_assert!(self.events.len() <= limit, "poll until None after each push");
        if self.events.len() > limit
            && let Some(event) = self.events.pop_front()
        {
            self.events_bytes -= event_bytes(&event);
            self.counters.events_discarded += 1;
        }
    }

    fn recovery_due(&self) -> Option<Instant> {
        let due = self.asked.map(|at| at + self.config.recovery_interval).or(self.last_expected);
        due.filter(|_| self.ask)
    }
}

fn event_bytes(event: &VideoEvent) -> usize {
    match event {
        VideoEvent::Frame(frame) => frame.packets.byte_len(),
        _ => 0,
    }
}

/// More than the spread of a cellular link's own reordering (a few milliseconds, one HARQ retry is 8 ms), less than a
/// frame interval at 30 frames/s.
const DEFAULT_REORDER_TIME: Duration = Duration::from_millis(20);
/// A frame is repaired until its sender would drop it, had it not begun to leave.
const DEFAULT_REPAIR_TIME: Duration = Duration::from_millis(300);
/// The sender gives a frame up that is as old; so does who gives frames out.
const DEFAULT_FRAME_TIMEOUT: Duration = Duration::from_millis(500);
/// At 20 m/s the aircraft is ten metres further.
pub(super) const DEFAULT_MAX_FRAME_AGE: Duration = Duration::from_millis(500);
/// 4 s at 60 frames/s; 340 ms at 8 Mbit/s if each datagram is a frame of its own (MPEG-TS: 760 a second).
const DEFAULT_MAX_FRAMES: usize = 256;
/// The largest frame and as much again.
const DEFAULT_MAX_BYTES: ByteCount = ByteCount(2 * MAX_FRAME_BYTES as u64);
/// A round trip of 100 ms, and 100 ms for the camera to make the frame and the link to carry it.
const DEFAULT_RECOVERY_INTERVAL: Duration = Duration::from_millis(200);

/// A running number this far back is of a new count: ten seconds of fragments at 4 Mbit/s.
pub(super) const FAR_BACK: i16 = 4096;
/// Farthest that a fragment is believed to be ahead, in frames: more than a minute at 60 frames/s.
const MAX_JUMP: i32 = 4096;
/// A sender is believed to count anew when nothing of the old count has come for this long ...
const RESTART_SILENCE: Duration = Duration::from_secs(1);
/// ... and the new count has advanced by this many frames.
const RESTART_FRAMES: u32 = 2;
/// Events beyond two windows' worth that wait at most for being polled.
const UNPOLLED_EVENTS: usize = 64;

#[cfg(test)]
mod tests;
