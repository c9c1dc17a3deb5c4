//! Finds frames in what a serial line delivers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::radio::{self, Found, MAX_REPORT};
use super::{Candidate, LINE_OVERHEAD, MAX_LINE_SEGMENT, SYNC_LEN, candidate, sync_errors};
use crate::aerotp::segment::check;
use crate::mavlink::RadioStatus;

/// Splits one line's bytes into segments and the radio's own reports.
///
/// A candidate is a sync word with up to three wrong bits and a length. If it is complete and `judge` does not know it for
/// a segment, the search goes on with its second byte. If it is not complete, a frame within it whose sync word has one
/// wrong bit at most is taken once it is complete and known, so a false sync word does not hold back what is behind it;
/// and it is given up after a time without a byte.
///
/// Holds one longest frame and one read. Judges no more than 16 bytes for each that comes, beyond a store of 1 MB for one
/// burst, so what a line full of sync words costs is bounded.
#[derive(Debug)]
pub struct Deframer {
    gap: Duration,
    pending: Vec<u8>,
    /// When a byte came last.
    last: Option<Instant>,
    /// Bytes before this place in `pending` are no part of a report.
    settled: usize,
    reports: VecDeque<RadioStatus>,
    within: Within,
    credit: usize,
    judged: Vec<u8>,
    counters: LineCounters,
}

/// Frames that begin within an incomplete one.
#[derive(Debug, Default)]
struct Within {
    /// Their places in `pending`.
    waiting: Vec<usize>,
    /// Up to here it was searched.
    searched: usize,
}

/// What comes over a serial line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineEvent {
    /// A segment, as `judge` left it.
    Segment(Vec<u8>),
    /// What a SiK radio says about itself.
    Radio(RadioStatus),
}

/// What a [`Deframer`] has seen. All wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineCounters {
    /// Segments given out.
    pub segments: u64,
    /// Reports of the radio.
    pub reports: u64,
    /// Complete candidates that were no segments.
    pub refused: u64,
    /// Candidates whose end did not come.
    pub given_up: u64,
    /// Candidates not judged because there were too many.
    pub limited: u64,
    /// Bytes that were no part of anything.
    pub skipped_bytes: u64,
}

impl Deframer {
    /// Shortest time without a byte after which an incomplete frame is given up, and the default.
    pub const MIN_GAP: Duration = Duration::from_millis(20);

    /// Gives incomplete frames up when no byte has come for `gap`, or [`Deframer::MIN_GAP`] if that is longer. The radio
    /// should not pause for longer within a frame.
    pub fn new(gap: Duration) -> Self {
        Self {
            gap: gap.max(Self::MIN_GAP),
            pending: Vec::new(),
            last: None,
            settled: 0,
            reports: VecDeque::new(),
            within: Within::default(),
            credit: MAX_CREDIT,
            judged: Vec::new(),
            counters: LineCounters::default(),
        }
    }

    /// For a line of `baud` bit/s with ten bits a byte: ten byte times, [`Deframer::MIN_GAP`] at least.
    pub fn at_baud(baud: u32) -> Self {
        Self::new(Duration::from_secs(100) / baud.max(1))
    }

    /// Takes in what was read. Whatever is left of more than a longest frame from before is dropped: call
    /// [`Deframer::poll`] until it returns `None` first.
    pub fn push(&mut self, now: Instant, bytes: &[u8]) {
        let excess = self.pending.len().saturating_sub(LINE_OVERHEAD + MAX_LINE_SEGMENT + MAX_REPORT);
        if excess > 0 {
            self.skip(excess);
        }
        self.pending.extend_from_slice(bytes);
        self.credit = self.credit.saturating_add(bytes.len().saturating_mul(CREDIT)).min(MAX_CREDIT);
        if !bytes.is_empty() {
            self.last = Some(now);
        }
        self.strip_reports();
    }

    /// The next segment or report; `None` until more bytes have come or [`Deframer::next_deadline`] is over.
    ///
    /// `judge` is given what may be a segment, may repair it in place, and says whether it is one. For damaged ones that
    /// can still be told to be segments it should say so. It may act upon the segment at once: what it takes for one is not
    /// looked at again.
    pub fn poll(&mut self, now: Instant, mut judge: impl FnMut(&mut [u8]) -> bool) -> Option<LineEvent> {
        if let Some(status) = self.reports.pop_front() {
            self.counters.reports += 1;
            return Some(LineEvent::Radio(status));
        }
        if self.is_quiet(now) {
            self.settled = self.pending.len();
        }
        loop {
            self.skip_to_sync();
            let settled = &self.pending[..self.settled];
            if sync_errors(settled) > SYNC_ERRORS {
                return None;
            }
            // A report may have come in between before the length, or within the segment.
            let head = candidate(settled);
            let whole = if head == Candidate::Incomplete && self.settled >= LINE_OVERHEAD {
                candidate(&self.pending)
            } else {
                head
            };
            match whole {
                Candidate::None => self.skip(1),
                Candidate::Complete(len) if self.is_settled(0, len) => {
                    if self.judge(0, len, &mut judge) {
                        return Some(self.take(0, len));
                    }
                    self.counters.refused += 1;
                    self.skip(1);
                }
                Candidate::Complete(_) | Candidate::Incomplete => {
                    if let Some(event) = self.poll_within(&mut judge) {
                        return Some(event);
                    }
                    if !self.is_quiet(now) {
                        return None;
                    }
                    self.counters.given_up += 1;
                    self.skip(1);
                }
            }
        }
    }

    /// When to call [`Deframer::poll`] even if no byte has come.
    pub fn next_deadline(&self) -> Option<Instant> {
        let waits = self.pending.len() >= SYNC_LEN || self.settled < self.pending.len();
        self.last.filter(|_| waits).map(|last| last + self.gap)
    }

    /// What it has seen.
    pub fn counters(&self) -> LineCounters {
        self.counters
    }

    /// Bytes held back; after [`Deframer::poll`] returned `None` at most one longest frame and a report.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn is_quiet(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last) >= self.gap)
    }

    /// Looks for a frame within the incomplete one that `pending` begins with.
    fn poll_within(&mut self, judge: &mut impl FnMut(&mut [u8]) -> bool) -> Option<LineEvent> {
        let from = self.within.searched.max(1);
        let to = (self.settled + 1).saturating_sub(SYNC_LEN).max(from);
        let windows = self.pending[from..self.settled.max(from)].windows(SYNC_LEN);
        let found = windows.enumerate().filter(|(_, word)| sync_errors(word) <= SURE_SYNC_ERRORS);
        self.within.waiting.extend(found.map(|(place, _)| from + place));
        self.within.searched = to;
        let mut place = 0;
        while let Some(&start) = self.within.waiting.get(place) {
            match candidate(&self.pending[start..]) {
                Candidate::Incomplete => place += 1,
                Candidate::None => drop(self.within.waiting.remove(place)),
                Candidate::Complete(len) if !self.is_settled(start, len) => place += 1,
                Candidate::Complete(len) if self.judge(start, len, judge) => return Some(self.take(start, len)),
                Candidate::Complete(_) => drop(self.within.waiting.remove(place)),
            }
        }
        None
    }

    /// Whether the frame of `len` bytes at `start` has no beginning of a report in it, which would leave it damaged. What has
    /// a fitting CRC has none.
    fn is_settled(&self, start: usize, len: usize) -> bool {
        let intact = || check(&self.pending[start + LINE_OVERHEAD..start + len]).is_ok_and(|header| header.has_crc);
        start + len <= self.settled || intact()
    }

    /// Whether the frame of `len` bytes at `start` is a segment; if so it is in `judged`.
    fn judge(&mut self, start: usize, len: usize, judge: &mut impl FnMut(&mut [u8]) -> bool) -> bool {
        let Some(credit) = self.credit.checked_sub(len) else {
            self.counters.limited += 1;
            return false;
        };
        self.credit = credit;
        self.judged.clear();
        self.judged.extend_from_slice(&self.pending[start + LINE_OVERHEAD..start + len]);
        judge(&mut self.judged)
    }

    /// The segment in `judged`, and `pending` goes on behind its frame.
    fn take(&mut self, start: usize, len: usize) -> LineEvent {
        self.counters.segments += 1;
        self.counters.skipped_bytes += start as u64;
        self.remove(0, start + len);
        // The end of the frame may have looked like the beginning of a report.
        self.strip_reports();
        LineEvent::Segment(std::mem::take(&mut self.judged))
    }

    /// Drops what is before the first sync word. What may be the beginning of one stays.
    fn skip_to_sync(&mut self) {
        let settled = &self.pending[..self.settled];
        let found = settled.windows(SYNC_LEN).position(|word| sync_errors(word) <= SYNC_ERRORS);
        self.skip(found.unwrap_or((self.settled + 1).saturating_sub(SYNC_LEN)));
    }

    fn skip(&mut self, count: usize) {
        self.counters.skipped_bytes += count as u64;
        self.remove(0, count);
    }

    /// Takes out whole reports, and settles what is before the beginning of one.
    fn strip_reports(&mut self) {
        while self.settled < self.pending.len() {
            match radio::find(&self.pending[self.settled..]) {
                Found::Nothing => self.settled += 1,
                Found::Beginning => return,
                Found::Report(status, len) => {
                    if self.reports.len() == MAX_REPORTS {
                        self.reports.pop_front();
                    }
                    self.reports.push_back(status);
                    self.remove(self.settled, len);
                }
            }
        }
    }

    /// Removes bytes, which changes all places behind them.
    fn remove(&mut self, start: usize, len: usize) {
        if len == 0 {
            return;
        }
        self.pending.drain(start..start + len);
        if start == 0 {
            self.settled = self.settled.saturating_sub(len);
        }
        self.within = Within::default();
    }
}

/// Wrong bits in a sync word that may begin a frame, and in one that may within an incomplete frame.
const SYNC_ERRORS: u32 = 3;
const SURE_SYNC_ERRORS: u32 = 1;

/// Reports that wait to be taken out; the oldest are dropped.
const MAX_REPORTS: usize = 16;

/// Bytes judged for each that comes, in the long run, and the most that can be saved.
const CREDIT: usize = 16;
const MAX_CREDIT: usize = 1 << 20;
