//! Repairs of video: what makes them from the fragments that left, and what gets lost fragments back from them.
//!
//! A *repair* is a random combination of fragments ([`aquila_fec::rlc`]), worth as much as any one of them that is lost.
//! Parity leaves behind each frame and covers the last few; a repetition leaves when fragments are reported lost, and covers
//! these. What is combined is the fragment with the send time of its datagram before it, so that a frame is as old by what was
//! restored as by what came.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aquila_fec::rlc::{Decoder, Encoder, Limits, MAX_WINDOW, RepairHeader};

use super::fragment::FragmentHeader;
use super::queue::FragmentInfo;
use super::reassembly::FAR_BACK;

/// How video is repaired. By default it is not, and nothing of it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VideoParity {
    /// Repairs that leave behind each frame, as a share of its fragments; 0 for none, at most [`VideoParity::MOST`].
    pub share: f64,
    /// How many frames a repair covers. More survive longer bursts, and wait longer for what they lost.
    pub frames: u32,
    /// Fragments that are reported lost are repaired at once, if three round trips fit into what a frame may wait.
    pub repeat: bool,
}

impl Default for VideoParity {
    fn default() -> Self {
        Self { share: 0.0, frames: 4, repeat: false }
    }
}

impl VideoParity {
    /// Highest share: each fragment three times.
    pub const MOST: f64 = 2.0;
    /// Most frames that a repair covers.
    pub const MOST_FRAMES: u32 = 16;

    /// Whether anything is repaired.
    pub fn is_on(&self) -> bool {
        self.share > 0.0 || self.repeat
    }

    /// The same within bounds.
    fn clamped(self) -> Self {
        let share = if self.share.is_finite() { self.share.clamp(0.0, Self::MOST) } else { 0.0 };
        Self { share, frames: self.frames.clamp(1, Self::MOST_FRAMES), ..self }
    }
}

/// The sender of one flow's repairs. It decides what is repaired; when and where a repair leaves is the scheduler's to say.
#[derive(Debug)]
pub struct Protector {
    parity: VideoParity,
    /// What a frame may wait; later it is not repaired.
    max_age: Duration,
    encoder: Encoder,
    /// Frames that may be repaired, the newest last.
    frames: VecDeque<Sent>,
    /// Repairs that the share owes, less what left because they are whole.
    credit: f64,
    groups: VecDeque<Group>,
    rounds: VecDeque<Round>,
    next_round: u32,
    counters: ProtectorCounters,
}

/// Totals of a [`Protector`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProtectorCounters {
    /// Repairs that found no room in time.
    pub dropped: u64,
    /// Fragments reported lost that were repaired again, and rounds of that.
    pub repeated: u64,
    /// Rounds of repetition.
    pub rounds: u64,
}

/// A repair that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// What it combines.
    pub header: RepairHeader,
    /// Fragments before this number are not going to be repaired any more.
    pub settled: u16,
    /// The round of repetition that it belongs to, which wants to hear what became of it.
    pub round: Option<u32>,
}

/// A frame that has left, in part or whole.
#[derive(Debug, Clone, Copy)]
struct Sent {
    first: u32,
    arrived: Instant,
    ended: bool,
}

/// Repairs of one part of the window that are to leave.
#[derive(Debug)]
struct Group {
    first: u32,
    end: u32,
    left: u32,
    /// Fragments before this number are settled, by all but the last of them, and by that.
    settled: [u32; 2],
    expires: Instant,
    round: Option<u32>,
}

/// A round of repetition.
#[derive(Debug)]
struct Round {
    id: u32,
    /// From 1.
    turn: u32,
    first: u32,
    end: u32,
    /// Repairs that have to arrive, that leave, and that are lost.
    needed: u32,
    sent: u32,
    lost: u32,
    arrived: u32,
    /// Of those needed, what a later round sees to.
    handed_on: u32,
    expires: Instant,
}

impl Protector {
    /// Nothing has left yet. `max_age`: how long a frame may wait.
    pub fn new(parity: VideoParity, max_age: Duration) -> Self {
        Self {
            parity: parity.clamped(),
            max_age,
            encoder: Encoder::new(LIMITS, 0),
            frames: VecDeque::new(),
            credit: 0.0,
            groups: VecDeque::new(),
            rounds: VecDeque::new(),
            next_round: 0,
            counters: ProtectorCounters::default(),
        }
    }

    /// Running number of the next fragment.
    pub fn next(&self) -> u16 {
        self.encoder.next() as u16
    }

    /// Totals since it was made.
    pub fn counters(&self) -> ProtectorCounters {
        self.counters
    }

    /// A fragment leaves, in a datagram with this send time. Gives its number.
    pub fn on_fragment(&mut self, now: Instant, info: &FragmentInfo, sent_us: u32, fragment: &[u8]) -> u32 {
        let number = self.encoder.next();
        let symbol = [&sent_us.to_be_bytes(), fragment].concat();
        let pushed = self.encoder.push(&symbol);
        debug_assert!(pushed.is_ok(), "a fragment fits a datagram");
        let flags = info.header.flags;
        if self.frames.back().is_none_or(|frame| frame.ended) {
            self.frames.push_back(Sent { first: number, arrived: info.arrived, ended: false });
        }
        if let Some(frame) = self.frames.back_mut().filter(|_| flags.last || flags.abandoned) {
            frame.ended = true;
            let fragments = number.wrapping_sub(frame.first) + 1;
            self.forget(now);
            // The rest of what was abandoned is not going to come, so there is nothing to be saved.
            if self.parity.share > 0.0 && flags.last {
                self.owe(number.wrapping_add(1), fragments, info.arrived);
            }
        }
        number
    }

    /// The datagram was lost that carried the fragment with this number, says feedback; `rtt`: of the bearer.
    pub fn on_lost(&mut self, now: Instant, rtt: Duration, number: u32) {
        if !self.parity.repeat || rtt * ROUNDS > self.max_age {
            return;
        }
        let age_of = |sent: &Sent| now.saturating_duration_since(sent.arrived);
        // Of the newest frame that begins at or before it.
        let frame = self.frames.iter().rev().find(|frame| number.wrapping_sub(frame.first) < 1 << 31);
        let Some(frame) = frame.filter(|frame| age_of(frame) + rtt / 2 < self.max_age) else { return };
        let expires = frame.arrived + self.max_age - rtt / 2;
        self.counters.repeated += 1;
        let end = number.wrapping_add(1);
        // Those that one report tells of are repaired together.
        if let Some(round) = self.rounds.back_mut()
            && (round.turn, round.lost, round.arrived) == (1, 0, 0)
            && end.wrapping_sub(round.end) <= MAX_COVERED
            && end.wrapping_sub(round.first) <= MAX_COVERED
            && let Some(group) = self.groups.iter_mut().find(|group| group.round == Some(round.id))
            && group.left == round.sent
        {
            (round.end, group.end) = (end, end);
            (round.needed, round.sent, group.left) = (round.needed + 1, round.sent + 1, group.left + 1);
            return;
        }
        let (needed, sent) = (1, 1);
        self.repeat(Round {
            id: 0,
            turn: 1,
            first: number,
            end,
            needed,
            sent,
            lost: 0,
            arrived: 0,
            handed_on: 0,
            expires,
        });
    }

    /// What became of a repair of a round.
    pub fn on_fate(&mut self, now: Instant, id: u32, received: bool) {
        let Some(at) = self.rounds.iter().position(|round| round.id == id) else { return };
        let round = &mut self.rounds[at];
        if received {
            round.arrived += 1;
        } else {
            round.lost += 1;
        }
        // What cannot come of this round any more is for the next one.
        let missing = (round.needed + round.lost).saturating_sub(round.sent + round.handed_on);
        round.handed_on += missing;
        let Round { turn, first, end, expires, .. } = *round;
        if round.lost + round.arrived == round.sent {
            self.rounds.remove(at);
        }
        if missing > 0 && turn < ROUNDS && now < expires {
            let (turn, sent) = (turn + 1, missing * (turn + 1));
            let needed = missing;
            self.repeat(Round { id: 0, turn, first, end, needed, sent, lost: 0, arrived: 0, handed_on: 0, expires });
        }
    }

    /// Whether repairs are to leave. Those that are too late are dropped.
    pub fn is_due(&mut self, now: Instant) -> bool {
        while let Some(group) = self.groups.front().filter(|group| group.expires <= now) {
            self.counters.dropped += u64::from(group.left);
            self.groups.pop_front();
        }
        !self.groups.is_empty()
    }

    /// The same as of the last call that took the time.
    pub fn has_repairs(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The next repair; its bytes are written to `coded`, in place of what was there.
    pub fn pop_repair(&mut self, now: Instant, coded: &mut Vec<u8>) -> Option<Repair> {
        while self.is_due(now) {
            let group = self.groups.front_mut()?;
            let (first, end, round) = (group.first, group.end, group.round);
            group.left -= 1;
            let settled = group.settled[usize::from(group.left == 0)] as u16;
            if group.left == 0 {
                self.groups.pop_front();
            }
            // It may have left the window meanwhile.
            let Some(header) = self.encoder.repair_between(first, end, coded) else { continue };
            return Some(Repair { header, settled, round });
        }
        None
    }

    /// A frame has ended before `end`: what it is owed.
    fn owe(&mut self, end: u32, fragments: u32, arrived: Instant) {
        // Whole repairs, the fraction ahead: the next frame owes the less.
        self.credit += self.parity.share * f64::from(fragments);
        let left = self.credit.ceil().max(0.0) as u32;
        self.credit -= f64::from(left);
        if left == 0 {
            return;
        }
        if self.groups.len() >= MAX_GROUPS {
            self.counters.dropped += self.groups.pop_front().map_or(0, |group| u64::from(group.left));
        }
        let frames = self.parity.frames as usize;
        let covered = self.frames.len().saturating_sub(frames);
        let first = self.frames.get(covered).map_or(end, |frame| frame.first);
        let first = if end.wrapping_sub(first) > MAX_COVERED { end.wrapping_sub(MAX_COVERED) } else { first };
        let settled = match self.frames.len() >= frames && !self.parity.repeat {
            // The next frame's repairs begin with the second of these frames.
            true => [first, self.frames.get(covered + 1).map_or(end, |frame| frame.first)],
            false => [self.window_start(); 2],
        };
        let expires = arrived + self.max_age;
        self.groups.push_back(Group { first, end, left, settled, expires, round: None });
    }

    fn repeat(&mut self, round: Round) {
        let id = self.next_round;
        self.next_round = id.wrapping_add(1);
        let Round { first, end, sent: left, expires, .. } = round;
        if self.groups.len() >= MAX_GROUPS {
            self.counters.dropped += u64::from(left);
            return;
        }
        if self.rounds.len() >= MAX_ROUNDS {
            self.rounds.pop_front();
        }
        self.counters.rounds += 1;
        let settled = [self.window_start(); 2];
        // What was asked for goes before what nobody may need.
        self.groups.push_front(Group { first, end, left, settled, expires, round: Some(id) });
        self.rounds.push_back(Round { id, ..round });
    }

    /// Number of the oldest fragment that may be repaired.
    fn window_start(&self) -> u32 {
        self.frames.front().map_or(self.encoder.next(), |frame| frame.first)
    }

    /// Lets go of frames that no repair will cover.
    fn forget(&mut self, now: Instant) {
        let most = self.parity.frames as usize;
        let next = self.encoder.next();
        let is_past = |sent: &Sent| match self.parity.repeat {
            true => now.saturating_duration_since(sent.arrived) >= self.max_age,
            false => true,
        };
        while self.frames.len() > most && self.frames.front().is_some_and(is_past)
            || self.frames.front().is_some_and(|frame| next.wrapping_sub(frame.first) > MAX_WINDOW as u32)
                && self.frames.len() > 1
        {
            self.frames.pop_front();
        }
        while self.rounds.front().is_some_and(|round| round.expires <= now) {
            self.rounds.pop_front();
        }
    }
}

/// The receiver of one flow's repairs. Whatever comes in, it keeps no more than [`MAX_WINDOW`] fragments, in half a megabyte.
#[derive(Debug)]
pub struct Restorer {
    decoder: Decoder,
    newest: Option<u32>,
    /// Before the decoder began.
    restored: u64,
}

impl Default for Restorer {
    fn default() -> Self {
        Self { decoder: Decoder::new(LIMITS), newest: None, restored: 0 }
    }
}

impl Restorer {
    /// A fragment came, in a datagram with this send time.
    pub fn handle_fragment(&mut self, number: u16, sent_us: u32, fragment: &[u8]) {
        let step = self.newest.map_or(0, |newest| number.wrapping_sub(newest as u16) as i16);
        if step < -FAR_BACK {
            self.restart();
        }
        let number = self.unwrap(number);
        if step > 0 || self.newest.is_none() {
            self.newest = Some(number);
        }
        self.decoder.handle_packet(number, &[&sent_us.to_be_bytes(), fragment].concat());
    }

    /// A repair came. Then [`poll`](Self::poll) may have something.
    pub fn handle_repair(&mut self, header: RepairHeader, coded: &[u8]) {
        // Before the first fragment it is not known what its number means.
        if self.newest.is_some() {
            let first = self.unwrap(header.first as u16);
            self.decoder.handle_repair(RepairHeader { first, ..header }, coded);
        }
    }

    /// A fragment that repairs brought back, and the send time that its datagram had.
    pub fn poll(&mut self) -> Option<(u32, &[u8])> {
        loop {
            let (number, symbol) = self.decoder.poll_recovered()?;
            let parsed = symbol.get(4..).and_then(|fragment| FragmentHeader::parse(fragment).ok());
            // What a forged repair makes is seldom a fragment, and that one.
            if parsed.is_some_and(|(header, _)| header.number == Some(number as u16)) {
                let (sent_us, fragment) = self.decoder.packet(number)?.split_first_chunk()?;
                return Some((u32::from_be_bytes(*sent_us), fragment));
            }
        }
    }

    /// Fragments that came from repairs.
    pub fn restored(&self) -> u64 {
        self.restored + self.decoder.statistics().recovered
    }

    /// The sender counts anew.
    pub fn restart(&mut self) {
        *self = Self { restored: self.restored(), ..Self::default() };
    }

    /// The nearest number with these low bits.
    fn unwrap(&self, number: u16) -> u32 {
        let newest = self.newest.unwrap_or(1 << 16);
        newest.wrapping_add(i32::from(number.wrapping_sub(newest as u16) as i16) as u32)
    }
}

/// Of a window, at both ends: of full packets, 256 are 300 kB.
const LIMITS: Limits = Limits { packets: MAX_WINDOW, bytes: 512 << 10 };
/// Most fragments that a repair covers; the rest of a window is for those that come meanwhile, and out of order.
const MAX_COVERED: u32 = 192;
/// Rounds of repetition, each with more repairs for what is still missing: 1, 2 and 3, as Hairpin does (NSDI 2024).
const ROUNDS: u32 = 3;
/// Parts of the window that wait for repairs at once, and rounds whose outcome is awaited.
const MAX_GROUPS: usize = 32;
const MAX_ROUNDS: usize = 64;

#[cfg(test)]
mod tests;
