//! The sending half of a connection: what waits, what is under way, and what has to be sent again.
//!
//! Selective repeat. A transmission counts as lost when one that left later is known to have arrived (a radio does not
//! reorder; how much later is a matter of configuration), when the other side says so (ELN, SNACK), or when nothing is
//! heard of it for 1.25 round trips. There is no back-off and no rate cut: error control is decoupled from rate control
//! [AeroTP §III-A].

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::super::rtt::Rtt;
use super::super::{Seq, extend};

/// Segments under way at most: what a receiver keeps for reordering.
pub(in super::super) const WINDOW: u64 = 1024;
/// An answer that comes sooner than this share of the shortest round trip was not to the last transmission.
const TOO_SOON: f64 = 0.9;

/// What is kept of a segment until it is acknowledged, as it is sent again: byte-identical, so that damaged copies can be
/// combined, but for the error-correcting code around it.
#[derive(Debug, Clone)]
pub(in super::super) struct Kept {
    pub header: super::super::Header,
    pub extension: Bytes,
    pub sealed: Vec<u8>,
    /// To seal it anew.
    pub plaintext: Vec<u8>,
    /// The association it is sealed for.
    pub association: u64,
    /// Extended timestamp.
    pub number: u64,
}

impl Kept {
    /// Nothing is sealed: it was cancelled.
    pub fn is_void(&self) -> bool {
        self.sealed.is_empty()
    }
}

/// A message that waits to be cut to segments.
#[derive(Debug)]
struct Waiting {
    bytes: Bytes,
    token: Option<u64>,
}

/// One segment's worth.
#[derive(Debug, Default)]
pub(in super::super) struct Cut {
    pub bytes: Vec<u8>,
    /// A message ends with it.
    pub push: bool,
    pub token: Option<u64>,
}

#[derive(Debug)]
struct InFlight {
    kept: Kept,
    token: Option<u64>,
    /// Bytes of messages in it.
    bytes: usize,
    sends: u32,
    /// Last.
    sent: Instant,
    line: usize,
    order: u64,
    /// What is sent again once only, since it is in the set of those.
    lost: bool,
}

/// Transmissions on one line, which does not reorder.
#[derive(Debug, Default)]
struct Line {
    /// In their order, with sequence numbers; some of them void.
    under_way: VecDeque<(u64, u64)>,
    order: u64,
    /// The latest transmission that is known to have arrived.
    heard: u64,
}

/// The sending half.
#[derive(Debug)]
pub(in super::super) struct Sender {
    /// Messages are a stream: they share segments.
    stream: bool,
    /// Transmissions that may overtake another; `None` where the other side names what is lost, and not what has come.
    reordering: Option<u64>,
    /// The next new sequence number; extended, as all here.
    next: u64,
    /// All below are acknowledged.
    acked: u64,
    /// The first that may not be sent yet, if the other side holds us back.
    limit: Option<u64>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// From `acked` on; `None`: acknowledged out of turn.
    flight: VecDeque<Option<InFlight>>,
    lines: Vec<Line>,
    again: BTreeSet<u64>,
    done: VecDeque<u64>,
    last_sent: Option<Instant>,
    pub sent_again: u64,
    /// Transmissions that were lost.
    pub lost: u64,
}

/// What an acknowledgement brought.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Progress {
    /// Segments that are acknowledged for the first time.
    pub segments: u64,
    /// Bytes of messages in them.
    pub bytes: u64,
}

impl Sender {
    pub fn new(first: u64, stream: bool, reordering: Option<u64>, lines: usize) -> Self {
        Self {
            stream,
            reordering,
            next: first,
            acked: first,
            limit: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            flight: VecDeque::new(),
            lines: (0..lines.max(1)).map(|_| Line::default()).collect(),
            again: BTreeSet::new(),
            done: VecDeque::new(),
            last_sent: None,
            sent_again: 0,
            lost: 0,
        }
    }

    pub fn push(&mut self, bytes: Bytes, token: Option<u64>) {
        self.waiting_bytes += bytes.len();
        self.waiting.push_back(Waiting { bytes, token });
    }

    /// A message of a segment of its own need not arrive: if it waits it is gone, and if it has left it is repeated empty, since
    /// its number has to come.
    pub fn cancel(&mut self, token: u64) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.token == Some(token)) {
            let gone = self.waiting.remove(at);
            self.waiting_bytes -= gone.map_or(0, |gone| gone.bytes.len());
            return;
        }
        let segment = self.flight.iter_mut().flatten().find(|segment| segment.token == Some(token));
        if let Some(segment) = segment {
            segment.token = None;
            segment.bytes = 0;
            segment.kept.plaintext.clear();
            segment.kept.sealed.clear();
        }
    }

    /// Bytes that have not left yet.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Nothing waits and nothing is under way.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.acked == self.next
    }

    pub fn has_new(&self) -> bool {
        !self.waiting.is_empty() && !self.is_limited() && self.next < self.acked + WINDOW
    }

    pub fn has_again(&self) -> bool {
        !self.again.is_empty()
    }

    /// Sequence number of the next new segment.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The next segment's worth of at most `max` bytes. It must be given to [`Sender::on_sent`], or to
    /// [`Sender::on_sent_for_good`] if nothing is ever sent again.
    pub fn cut(&mut self, max: usize) -> Cut {
        let mut cut = Cut::default();
        while let Some(front) = self.waiting.front_mut() {
            let room = max - cut.bytes.len();
            let take = front.bytes.len().min(room);
            cut.bytes.extend_from_slice(&front.bytes.split_to(take));
            self.waiting_bytes -= take;
            if !front.bytes.is_empty() {
                break;
            }
            cut.token = front.token.or(cut.token);
            cut.push = true;
            self.waiting.pop_front();
            let fits = |next: &Waiting| next.token.is_none() || cut.token.is_none();
            if !self.stream || cut.bytes.len() == max || !self.waiting.front().is_some_and(fits) {
                break;
            }
            cut.push = false;
        }
        cut
    }

    pub fn on_sent(&mut self, now: Instant, line: usize, kept: Kept, cut: &Cut) {
        let order = self.lines[line].leave(self.next);
        self.last_sent = Some(now);
        let (token, bytes) = (cut.token, cut.bytes.len());
        self.flight.push_back(Some(InFlight { kept, token, bytes, sends: 1, sent: now, line, order, lost: false }));
        self.next += 1;
    }

    /// As [`Sender::on_sent`], of what is not acknowledged.
    pub fn on_sent_for_good(&mut self) {
        self.next += 1;
        self.acked = self.next;
    }

    /// The first that has to be sent again.
    pub fn again(&self) -> Option<(u64, &Kept)> {
        let seq = *self.again.first()?;
        Some((seq, &self.get(seq)?.kept))
    }

    /// It leaves again, under another seal if there is one.
    pub fn on_sent_again(&mut self, now: Instant, line: usize, seq: u64, kept: Option<Kept>) {
        self.again.remove(&seq);
        self.sent_again += 1;
        let order = self.lines[line].leave(seq);
        self.last_sent = Some(now);
        let Some(segment) = self.get_mut(seq) else { return };
        segment.sends += 1;
        (segment.sent, segment.line, segment.order, segment.lost) = (now, line, order, false);
        if let Some(kept) = kept {
            segment.kept = kept;
        }
    }

    /// ACK number 0 (all before it) and the others of a MACK [AeroTP figure 4]; gives what is new.
    pub fn on_acks(&mut self, now: Instant, rtt: &Rtt, before: Seq, others: impl Iterator<Item = Seq>) -> Progress {
        let mut progress = Progress::default();
        let before = self.extend(before);
        if before <= self.next {
            while self.acked < before {
                self.acknowledge(now, rtt, self.acked, &mut progress);
                self.flight.pop_front();
                self.acked += 1;
            }
        }
        for seq in others {
            let seq = self.extend(seq);
            self.acknowledge(now, rtt, seq, &mut progress);
        }
        while matches!(self.flight.front(), Some(None)) {
            self.flight.pop_front();
            self.acked += 1;
        }
        self.find_overtaken();
        progress
    }

    fn acknowledge(&mut self, now: Instant, rtt: &Rtt, seq: u64, progress: &mut Progress) {
        let Some(slot) = seq.checked_sub(self.acked).and_then(|at| self.flight.get_mut(at as usize)) else { return };
        let Some(segment) = slot.take() else { return };
        self.again.remove(&seq);
        progress.segments += 1;
        progress.bytes += segment.bytes as u64;
        self.done.extend(segment.token);
        // Of several transmissions, which one is it that has arrived? The last, if there was time for it.
        let ago = now.saturating_duration_since(segment.sent);
        if segment.sends == 1 || ago >= rtt.least().mul_f64(TOO_SOON) {
            let line = &mut self.lines[segment.line];
            line.heard = line.heard.max(segment.order);
        }
    }

    /// The other side has received it damaged, or not at all: what has had the time to get there is lost.
    pub fn on_missing(&mut self, now: Instant, rtt: &Rtt, seq: Seq) {
        let seq = self.extend(seq);
        let least = rtt.least().mul_f64(TOO_SOON);
        if self.get(seq).is_some_and(|segment| now.saturating_duration_since(segment.sent) >= least) {
            self.lose(seq);
        }
    }

    /// How far may be sent, if that is less far than by itself.
    pub fn on_window(&mut self, limit: Option<Seq>) {
        self.limit = limit.map(|limit| self.extend(limit));
    }

    fn is_limited(&self) -> bool {
        self.limit.is_some_and(|limit| self.next >= limit)
    }

    /// What waits is held back by the other side, and nothing is under way that it would answer: when to ask whether it still is.
    pub fn next_probe(&self, timeout: Duration) -> Option<Instant> {
        let held_back = !self.waiting.is_empty() && self.is_limited() && self.flight.is_empty();
        self.last_sent.filter(|_| held_back).map(|at| at + timeout)
    }

    pub fn on_probe_sent(&mut self, now: Instant) {
        self.last_sent = Some(now);
    }

    /// When the oldest transmission counts as lost.
    pub fn next_deadline(&mut self, timeout: Duration) -> Option<Instant> {
        self.drop_void();
        let oldest = self.lines.iter().filter_map(|line| line.under_way.front());
        oldest.filter_map(|(_, seq)| self.get(*seq)).map(|segment| segment.sent + timeout).min()
    }

    /// Transmissions of which nothing was heard for `timeout` are lost.
    pub fn on_timeout(&mut self, now: Instant, timeout: Duration) {
        for index in 0..self.lines.len() {
            while let Some((order, seq)) = self.lines[index].under_way.front().copied() {
                let own = self.get(seq).filter(|segment| (segment.line, segment.order) == (index, order));
                if own.is_some_and(|segment| now.saturating_duration_since(segment.sent) < timeout) {
                    break;
                }
                let is_own = own.is_some();
                self.lines[index].under_way.pop_front();
                if is_own {
                    self.lose(seq);
                }
            }
        }
    }

    /// Where the other side asks for what it misses: when it is to be reminded of the last segment, of which it may know
    /// nothing.
    pub fn next_reminder(&self, timeout: Duration) -> Option<Instant> {
        let quiet = !self.flight.is_empty() && self.again.is_empty() && !self.has_new();
        self.last_sent.filter(|_| quiet).map(|at| at + timeout)
    }

    /// The last segment that is not acknowledged is sent again.
    pub fn remind(&mut self) {
        if let Some(at) = self.flight.iter().rposition(Option::is_some) {
            self.lose(self.acked + at as u64);
        }
    }

    /// The next message that the other side has to the end.
    pub fn poll_done(&mut self) -> Option<u64> {
        self.done.pop_front()
    }

    /// When a segment left, if it left once only and is still kept: an answer to it is a sample of the round trip.
    pub fn sent_once(&self, timestamp: u32) -> Option<Instant> {
        let once = self.flight.iter().flatten().filter(|segment| segment.sends == 1);
        let mut found = once.filter(|segment| segment.kept.number as u32 == timestamp);
        found.next().map(|segment| segment.sent)
    }

    fn find_overtaken(&mut self) {
        let Some(reordering) = self.reordering else { return };
        for index in 0..self.lines.len() {
            let heard = self.lines[index].heard;
            while let Some((order, seq)) = self.lines[index].under_way.front().copied()
                && order + reordering <= heard
            {
                self.lines[index].under_way.pop_front();
                if self.is_last(seq, index, order) {
                    self.lose(seq);
                }
            }
        }
    }

    /// Forgets transmissions that something became of.
    fn drop_void(&mut self) {
        for index in 0..self.lines.len() {
            while let Some((order, seq)) = self.lines[index].under_way.front().copied()
                && !self.is_last(seq, index, order)
            {
                self.lines[index].under_way.pop_front();
            }
        }
    }

    /// It is the last transmission of a segment that is still under way.
    fn is_last(&self, seq: u64, line: usize, order: u64) -> bool {
        self.get(seq).is_some_and(|segment| (segment.line, segment.order, segment.lost) == (line, order, false))
    }

    fn lose(&mut self, seq: u64) {
        if let Some(segment) = self.get_mut(seq)
            && !std::mem::replace(&mut segment.lost, true)
        {
            self.lost += 1;
            self.again.insert(seq);
        }
    }

    fn get(&self, seq: u64) -> Option<&InFlight> {
        self.flight.get(usize::try_from(seq.checked_sub(self.acked)?).ok()?)?.as_ref()
    }

    fn get_mut(&mut self, seq: u64) -> Option<&mut InFlight> {
        self.flight.get_mut(usize::try_from(seq.checked_sub(self.acked)?).ok()?)?.as_mut()
    }

    /// The sequence number nearest to what is under way.
    fn extend(&self, seq: Seq) -> u64 {
        extend(seq, self.acked)
    }
}

impl Line {
    fn leave(&mut self, seq: u64) -> u64 {
        self.order += 1;
        self.under_way.push_back((self.order, seq));
        self.order
    }
}
