//! Order without repetition: what has come is given out in order, and what is missing is waited for until its deadline.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::flow::WINDOW;

/// What becomes of missing bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// The message that they belong to is left out, as far as it has not been given out yet.
    Nothing,
    /// Zeros stand in for them.
    Zeros,
}

#[derive(Debug)]
struct Held {
    bytes: Bytes,
    begins: bool,
    ends: bool,
    at: Instant,
}

/// What has come, and what has been given out.
#[derive(Debug)]
pub(super) struct Reorder {
    deadline: Duration,
    fill: Fill,
    next: u64,
    held: BTreeMap<u64, Held>,
    held_bytes: u64,
    /// Something of the message at `next` was missing: what is left of it is left out.
    broken: bool,
    /// The sender's end, and since when it is known.
    fin: Option<(u64, Instant)>,
    skipped: u64,
}

impl Reorder {
    pub fn new(deadline: Duration, fill: Fill) -> Self {
        let held = BTreeMap::new();
        Self { deadline, fill, next: 0, held, held_bytes: 0, broken: false, fin: None, skipped: 0 }
    }

    /// Bytes have come.
    pub fn push(&mut self, now: Instant, offset: u64, begins: bool, ends: bool, bytes: &[u8]) {
        let until = offset.saturating_add(bytes.len() as u64);
        let beyond_end = self.fin.is_some_and(|(fin, _)| until > fin);
        let is_late = offset < self.next;
        // The sender has at most so much under way: farther ones make no sense.
        let is_full = self.held_bytes >= WINDOW || self.held.len() >= MAX_HELD;
        if bytes.is_empty() || is_late || beyond_end || is_full || self.held.contains_key(&offset) {
            return;
        }
        self.held_bytes += bytes.len() as u64;
        self.held.insert(offset, Held { bytes: Bytes::copy_from_slice(bytes), begins, ends, at: now });
    }

    /// Bytes that have come cannot be given out.
    pub fn refuse(&mut self, len: usize) {
        self.skipped += len as u64;
    }

    /// The sender's stream ends there.
    pub fn on_fin(&mut self, now: Instant, offset: u64) {
        self.fin = self.fin.or(Some((offset.max(self.next), now)));
    }

    /// All has been given out, or given up.
    pub fn is_finished(&self) -> bool {
        self.fin.is_some_and(|(fin, _)| self.next >= fin)
    }

    /// Bytes that were missing when their time had come.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// When what is missing is given up.
    pub fn deadline(&self) -> Option<Instant> {
        let first = self.held.first_key_value().map(|(_, held)| held.at);
        let end = self.fin.filter(|_| !self.is_finished()).map(|(_, at)| at);
        first.into_iter().chain(end).min().map(|at| at + self.deadline)
    }

    /// The next bytes for the application.
    pub fn poll(&mut self, now: Instant) -> Option<Bytes> {
        loop {
            match self.held.first_key_value() {
                Some((offset, _)) if *offset <= self.next => {
                    let (offset, held) = self.held.pop_first()?;
                    self.held_bytes -= held.bytes.len() as u64;
                    if let Some(bytes) = self.give_out(offset, held) {
                        return Some(bytes);
                    }
                }
                _ if self.deadline().is_none_or(|due| due > now) => return None,
                Some((offset, _)) => {
                    let until = *offset;
                    if let Some(zeros) = self.skip_to(until) {
                        return Some(zeros);
                    }
                }
                None => {
                    let (until, _) = self.fin.filter(|(fin, _)| *fin > self.next)?;
                    if let Some(zeros) = self.skip_to(until) {
                        return Some(zeros);
                    }
                }
            }
        }
    }

    fn give_out(&mut self, offset: u64, held: Held) -> Option<Bytes> {
        // Overlaps do not come from our sender.
        let known = (self.next - offset).min(held.bytes.len() as u64);
        let bytes = held.bytes.slice(known as usize..);
        self.next += bytes.len() as u64;
        self.broken &= !held.begins;
        if std::mem::take(&mut self.broken) {
            // The rest of a message of which something is missing.
            self.broken = !held.ends;
            self.skipped += bytes.len() as u64;
            return None;
        }
        Some(bytes).filter(|bytes| !bytes.is_empty())
    }

    /// What is missing before `until` is given up.
    fn skip_to(&mut self, until: u64) -> Option<Bytes> {
        let missing = until.saturating_sub(self.next);
        match self.fill {
            // Nobody can use more zeros than that.
            _ if missing > WINDOW => {
                self.skipped += missing;
                self.next = until;
                None
            }
            Fill::Nothing => {
                self.skipped += missing;
                self.broken |= missing > 0;
                self.next = until;
                None
            }
            Fill::Zeros => {
                // In pieces: who is at the other end may have said anything.
                let piece = missing.min(ZEROS);
                self.next += piece;
                self.skipped += piece;
                Some(Bytes::from(vec![0; piece as usize])).filter(|zeros| !zeros.is_empty())
            }
        }
    }
}

/// Pieces that wait for others.
const MAX_HELD: usize = 4096;
/// Zeros given out at a time.
const ZEROS: u64 = 16 << 10;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_millis(500);

    fn all(reorder: &mut Reorder, now: Instant) -> Vec<u8> {
        std::iter::from_fn(|| reorder.poll(now)).flatten().collect()
    }

    /// Three messages of two pieces each, of which the second one's first piece is lost.
    fn three_messages(fill: Fill) -> (Reorder, Instant) {
        let now = Instant::now();
        let mut reorder = Reorder::new(DEADLINE, fill);
        for (offset, begins, bytes) in
            [(2u64, false, b"bb"), (0, true, b"aa"), (6, false, b"dd"), (10, false, b"ff"), (8, true, b"ee")]
        {
            reorder.push(now, offset, begins, !begins, bytes);
        }
        assert_eq!(all(&mut reorder, now), b"aabb");
        assert_eq!(reorder.deadline(), Some(now + DEADLINE));
        (reorder, now + DEADLINE)
    }

    #[test]
    fn a_message_with_a_hole_is_left_out() {
        let (mut reorder, due) = three_messages(Fill::Nothing);
        assert_eq!(all(&mut reorder, due), b"eeff");
        assert_eq!(reorder.skipped(), 4);
        reorder.on_fin(due, 12);
        assert!(reorder.is_finished() && reorder.deadline().is_none());
    }

    #[test]
    fn or_zeros_stand_in_for_the_hole() {
        let (mut reorder, due) = three_messages(Fill::Zeros);
        assert_eq!(all(&mut reorder, due), b"\0\0ddeeff");
        reorder.on_fin(due, 13);
        assert!(!reorder.is_finished());
        assert_eq!(all(&mut reorder, due + DEADLINE), b"\0");
        assert!(reorder.is_finished());
        assert_eq!(reorder.skipped(), 3);
    }

    #[test]
    fn what_is_late_or_comes_twice_is_not_given_out() {
        let now = Instant::now();
        let mut reorder = Reorder::new(DEADLINE, Fill::Nothing);
        for _ in 0..2 {
            reorder.push(now, 0, true, true, b"aa");
            reorder.push(now, u64::MAX - 1, true, true, b"zz");
        }
        assert_eq!(all(&mut reorder, now), b"aa");
        reorder.push(now, 1, false, true, b"xy");
        assert_eq!(all(&mut reorder, now), b"");
    }
}
