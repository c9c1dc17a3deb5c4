//! The receiving half of a connection: elimination, order, and what is told of it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::super::{Seq, extend};
use super::sender::WINDOW;

/// Acknowledgements are repeated in so many MACKs after the one that first has them.
const REPEATS: usize = 2;
/// ACK numbers in a MACK at most, so that it stays short: 40 bytes fail in 3.1 % at 10⁻⁴, 1500 in 70 %.
const MAX_ACKS: usize = 40;
/// Runs of missing segments told of in one SNACK: 6 bytes each.
const MAX_HOLES: usize = 20;
/// Unread bytes that the other side is let to make.
const MAX_UNREAD: usize = 2 << 20;
/// A segment, as a unit of what is free of them.
const SEGMENT: usize = 1500;

/// How gaps are dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Repair {
    /// They are filled by repetition; what is behind them waits.
    Again,
    /// They are not: what is behind them waits this long at most.
    Never(Duration),
}

/// A piece of what the application gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Bytes, in their order if the connection is ordered.
    pub bytes: Bytes,
    /// A message of the sender's ends here.
    pub end: bool,
    /// Segments that are missing in front of it; on connections that repair nothing.
    pub skipped: u64,
}

/// What a segment turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Verdict {
    New,
    Duplicate,
    /// Far from what is expected: dropped.
    Outside,
}

#[derive(Debug)]
struct Held {
    piece: Option<Piece>,
    at: Instant,
}

/// The receiving half.
#[derive(Debug)]
pub(in super::super) struct Receiver {
    repair: Repair,
    ordered: bool,
    /// How long a gap may close by itself before it is told of.
    patience: Duration,
    /// All before it have come, or are given up; extended.
    next: u64,
    /// Above `next`.
    held: BTreeMap<u64, Held>,
    highest: u64,
    inbox: VecDeque<Piece>,
    unread: usize,
    /// Not told of yet.
    fresh: Vec<u64>,
    told: [Vec<u64>; REPEATS],
    damaged: Vec<u64>,
    /// When a missing segment is told of, and whether that is not the first time.
    holes: BTreeMap<u64, (Instant, bool)>,
    /// When the first of them is, or a new one.
    holes_due: Option<Instant>,
    /// The last MACK held the sender back.
    told_limited: bool,
    pub skipped: u64,
    /// In front of the piece that is given out next.
    pending_skip: u64,
}

impl Receiver {
    pub fn new(first: u64, repair: Repair, ordered: bool, patience: Duration) -> Self {
        Self {
            repair,
            ordered,
            patience,
            next: first,
            held: BTreeMap::new(),
            highest: first,
            inbox: VecDeque::new(),
            unread: 0,
            fresh: Vec::new(),
            told: Default::default(),
            damaged: Vec::new(),
            holes: BTreeMap::new(),
            holes_due: None,
            told_limited: false,
            skipped: 0,
            pending_skip: 0,
        }
    }

    /// A segment's payload has come, authentic.
    pub fn on_segment(&mut self, now: Instant, seq: Seq, push: bool, bytes: Bytes) -> Verdict {
        let seq = extend(seq, self.next);
        if seq < self.next || self.held.contains_key(&seq) {
            // Word of it may have been lost.
            if self.repair == Repair::Again && seq + WINDOW >= self.next && self.fresh.len() < MAX_ACKS {
                self.fresh.push(seq);
            }
            return Verdict::Duplicate;
        }
        if seq >= self.next + WINDOW {
            if self.repair == Repair::Again {
                return Verdict::Outside;
            }
            // A long silence: nothing before it will come any more.
            self.skip_to(seq - WINDOW + 1);
        }
        if seq > self.highest {
            let due = now + self.patience;
            self.holes_due = Some(self.holes_due.map_or(due, |first| first.min(due)));
            if !self.patience.is_zero() {
                self.holes.extend((self.highest..seq).map(|missing| (missing, (due, false))));
            }
        }
        self.highest = self.highest.max(seq + 1);
        if self.repair == Repair::Again {
            self.fresh.push(seq);
        }
        let piece = Piece { bytes, end: push, skipped: 0 };
        let piece = match self.ordered {
            true => Some(piece),
            false => {
                self.deliver(piece);
                None
            }
        };
        self.held.insert(seq, Held { piece, at: now });
        self.release();
        Verdict::New
    }

    /// What repairs have brought back. It may come too late for its place; where order is none, it is given out all the same,
    /// since whoever mends has not seen it before.
    pub fn on_recovered(&mut self, now: Instant, seq: Seq, push: bool, bytes: Bytes) {
        let given_up = extend(seq, self.next) < self.next;
        match given_up && !self.ordered {
            true => {
                self.skipped = self.skipped.saturating_sub(1);
                self.deliver(Piece { bytes, end: push, skipped: 0 });
            }
            false => {
                self.on_segment(now, seq, push, bytes);
            }
        }
    }

    /// A segment has come damaged, of which the header is intact. Whether it is worth an explicit loss notification.
    pub fn on_damaged(&mut self, seq: Seq) -> bool {
        let seq = extend(seq, self.next);
        let is_missing = seq >= self.next && seq < self.next + WINDOW && !self.held.contains_key(&seq);
        let news = is_missing && !self.damaged.contains(&seq) && self.damaged.len() < MAX_HOLES;
        if news {
            self.damaged.push(seq);
        }
        news
    }

    /// Whether it is still wanted, for copies that are damaged.
    pub fn wants(&self, seq: Seq) -> bool {
        let seq = extend(seq, self.next);
        seq >= self.next && seq < self.next + WINDOW && !self.held.contains_key(&seq)
    }

    /// The sender says that there is nothing from this number on.
    pub fn has_all_before(&self, end: Seq) -> bool {
        extend(end, self.next) <= self.next
    }

    /// A gap is open.
    pub fn has_gap(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn fresh(&self) -> usize {
        self.fresh.len()
    }

    /// ACK number 0 and the others, the newest first, for a MACK that leaves now with room for `max` of them.
    pub fn take_acks(&mut self, max: usize) -> (Seq, Vec<Seq>) {
        let max = max.min(MAX_ACKS);
        let mut fresh = std::mem::take(&mut self.fresh);
        // A duplicate is told of although it is not above ACK number 0: that one says it.
        fresh.retain(|seq| *seq >= self.next);
        let all = fresh.iter().rev().chain(self.told.iter().flatten()).copied();
        let mut acks: Vec<u64> = Vec::with_capacity(max);
        for seq in all.filter(|seq| *seq >= self.next) {
            if acks.len() == max {
                break;
            }
            if !acks.contains(&seq) {
                acks.push(seq);
            }
        }
        self.told.rotate_right(1);
        fresh.reverse();
        self.told[0] = fresh;
        (Seq(self.next as u32), acks.into_iter().map(|seq| Seq(seq as u32)).collect())
    }

    /// Damaged ones to tell of at once (ELN), each once.
    pub fn take_damaged(&mut self) -> Vec<Seq> {
        let (next, held) = (self.next, &self.held);
        self.damaged.retain(|seq| *seq >= next && !held.contains_key(seq));
        std::mem::take(&mut self.damaged).into_iter().map(|seq| Seq(seq as u32)).collect()
    }

    /// Runs of missing segments to tell of now (SNACK), each once and again after `again`.
    pub fn take_holes(&mut self, now: Instant, again: Duration) -> Vec<(Seq, u16)> {
        let mut runs: Vec<(u64, u16)> = Vec::new();
        self.holes = self.holes.split_off(&self.next);
        self.holes_due = None;
        let mut expected = self.next;
        'all: for seq in self.held.keys().copied() {
            for missing in expected..seq {
                let (due, is_told) = self.holes.get(&missing).copied().unwrap_or((now, false));
                // What is due again soon goes along.
                if due > if is_told { now + again / 6 } else { now } {
                    self.holes_due = Some(self.holes_due.map_or(due, |first| first.min(due)));
                    continue;
                }
                let full = runs.len() == MAX_HOLES;
                match runs.last_mut() {
                    Some((start, count)) if *start + u64::from(*count) == missing => *count += 1,
                    _ if !full => runs.push((missing, 1)),
                    _ => {
                        self.holes_due = Some(now);
                        break 'all;
                    }
                }
                self.holes.insert(missing, (now + again, true));
            }
            self.holes.remove(&seq);
            expected = seq + 1;
        }
        let told = runs.first().map(|_| now + again);
        self.holes_due = self.holes_due.into_iter().chain(told).min();
        runs.into_iter().map(|(start, count)| (Seq(start as u32), count)).collect()
    }

    /// When a hole has to be told of, if nothing comes.
    pub fn holes_due(&self) -> Option<Instant> {
        self.holes_due.filter(|_| self.has_gap())
    }

    /// The first number that the sender may not use yet, if that is less far than it thinks by itself: what is not read holds it
    /// back.
    pub fn window(&mut self) -> Option<Seq> {
        let free = (MAX_UNREAD.saturating_sub(self.unread) / SEGMENT) as u64;
        self.told_limited = free < WINDOW;
        self.told_limited.then(|| Seq((self.next + free) as u32))
    }

    /// The sender was told to wait, and need not any more.
    pub fn has_reopened(&self) -> bool {
        self.told_limited && self.unread < MAX_UNREAD / 4
    }

    /// What has come for the application.
    pub fn read(&mut self) -> Option<Piece> {
        let piece = self.inbox.pop_front()?;
        self.unread -= piece.bytes.len();
        Some(piece)
    }

    pub fn is_readable(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// When what waits behind a gap is given out all the same.
    pub fn next_deadline(&self) -> Option<Instant> {
        let Repair::Never(hold) = self.repair else { return None };
        self.held.first_key_value().map(|(_, held)| held.at + hold)
    }

    pub fn on_timeout(&mut self, now: Instant) {
        while self.next_deadline().is_some_and(|due| due <= now) {
            let Some((first, _)) = self.held.first_key_value() else { return };
            self.skip_to(*first);
        }
    }

    /// What is before `seq` is given up.
    fn skip_to(&mut self, seq: u64) {
        while let Some((at, held)) = self.held.pop_first() {
            if at >= seq {
                self.held.insert(at, held);
                break;
            }
            self.count_skipped(at - self.next);
            self.next = at + 1;
            self.give_out(held);
        }
        if seq > self.next {
            self.count_skipped(seq - self.next);
            self.next = seq;
        }
        self.highest = self.highest.max(self.next);
        self.release();
    }

    fn count_skipped(&mut self, count: u64) {
        self.skipped += count;
        self.pending_skip += count;
    }

    fn release(&mut self) {
        while let Some(held) = self.held.remove(&self.next) {
            self.next += 1;
            self.give_out(held);
        }
    }

    fn give_out(&mut self, held: Held) {
        if let Some(mut piece) = held.piece {
            piece.skipped = std::mem::take(&mut self.pending_skip);
            self.deliver(piece);
        }
    }

    fn deliver(&mut self, piece: Piece) {
        self.unread += piece.bytes.len();
        self.inbox.push_back(piece);
    }
}
