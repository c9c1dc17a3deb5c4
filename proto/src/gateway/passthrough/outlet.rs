//! What is sent to an application's kernel: kept until it has acknowledged it, repeated when a packet was lost, and no more
//! than its window takes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes kept of one flow, at most.
pub(super) const WINDOW: u64 = 1 << 20;
/// Time-out of a first word (RFC 6298 §2.1), and its bounds: the kernel is a packet away, or a network beyond it.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
const MOST_TIMEOUT: Duration = Duration::from_secs(10);
/// A kernel from which nothing comes for so long is gone (RFC 9293 §3.8.3: at least 100 s).
pub(super) const GONE: Duration = Duration::from_secs(900);
/// It is asked whether it is there after so long without a word.
const IDLE: Duration = Duration::from_secs(60);
/// A closed window is asked about after this, then twice as long each time, up to [`MOST_TIMEOUT`].
const PERSIST: Duration = Duration::from_millis(500);
/// So much more room is news to one who knows of less.
const TELL_ROOM: u64 = 2 << 10;
/// Segments at first (RFC 6928), and acknowledgements that repeat themselves until one counts as lost (RFC 5681).
const FIRST_SEGMENTS: usize = 10;
const DUPLICATES: u32 = 3;

/// A segment for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Send {
    pub seq: u32,
    pub bytes: Vec<u8>,
    pub fin: bool,
}

/// One direction of a connection. Offsets count the bytes of the stream from 0.
#[derive(Debug)]
pub(super) struct Outlet {
    /// Sequence number of offset 0.
    first: u32,
    /// What is acknowledged; the buffer begins there.
    una: u64,
    /// The next to be sent.
    next: u64,
    /// The farthest that was sent.
    sent: u64,
    buffer: VecDeque<u8>,
    fin: bool,
    fin_sent: bool,
    fin_acked: bool,
    /// The kernel's window ends there, and how large it was at most.
    limit: u64,
    largest: u64,
    mss: usize,
    /// Congestion window and slow start's threshold (RFC 5681), in bytes.
    cwnd: usize,
    threshold: usize,
    duplicates: u32,
    /// Until that is acknowledged no loss counts again.
    recover: u64,
    /// Something before `next` is to be sent again.
    again: bool,
    /// The end of a segment whose acknowledgement tells the round trip.
    timed: Option<(u64, Instant)>,
    smoothed: Option<(Duration, Duration)>,
    timer: Option<Instant>,
    tries: u32,
    heard: Instant,
    asked: Instant,
    /// The kernel is to be asked for a word.
    ask: bool,
}

impl Outlet {
    /// The connection began with SYN at this number, and the kernel has acknowledged that; it takes `window` bytes.
    pub fn new(now: Instant, syn: u32, mss: usize, window: u64) -> Self {
        let mss = mss.max(1);
        Self {
            first: syn.wrapping_add(1),
            una: 0,
            next: 0,
            sent: 0,
            buffer: VecDeque::new(),
            fin: false,
            fin_sent: false,
            fin_acked: false,
            limit: window,
            largest: window,
            mss,
            cwnd: FIRST_SEGMENTS * mss,
            threshold: usize::MAX,
            duplicates: 0,
            recover: 0,
            again: false,
            timed: None,
            smoothed: None,
            timer: None,
            tries: 0,
            heard: now,
            asked: now,
            ask: false,
        }
    }

    /// What the kernel has acknowledged.
    pub fn acked(&self) -> u64 {
        self.una
    }

    /// And the end behind it.
    pub fn is_done(&self) -> bool {
        self.fin_acked
    }

    /// All that came for it.
    pub fn end(&self) -> u64 {
        self.una + self.buffer.len() as u64
    }

    /// Nothing more comes for it.
    pub fn has_ended(&self) -> bool {
        self.fin
    }

    /// How many bytes beyond what it has acknowledged the kernel takes, and we keep for it.
    pub fn room(&self) -> u64 {
        self.limit.saturating_sub(self.una).min(WINDOW)
    }

    /// How much more of its window is worth a word: half of a small one (RFC 9293 §3.8.6.2.2).
    pub fn worth_telling(&self) -> u64 {
        TELL_ROOM.min(self.largest / 2).max(1)
    }

    /// The number of the next byte that was never sent: of a segment without bytes.
    pub fn seq(&self) -> u32 {
        self.first.wrapping_add(self.sent as u32).wrapping_add(u32::from(self.fin_sent))
    }

    /// Bytes for the kernel.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// They end there.
    pub fn finish(&mut self) {
        self.fin = true;
    }

    /// Anything has come from the kernel.
    pub fn on_word(&mut self, now: Instant) {
        (self.heard, self.asked) = (now, now);
    }

    /// To be told at once whether the kernel is there.
    pub fn ask(&mut self) {
        self.ask = true;
    }

    /// An acknowledgement with a window; `bare`: the segment had nothing else. Whether it can be (RFC 9293 §3.10.7.4).
    pub fn on_ack(&mut self, now: Instant, ack: u32, window: u64, bare: bool) -> bool {
        let ahead = ack.wrapping_sub(self.first.wrapping_add(self.una as u32)) as i32;
        let Some(at) = self.una.checked_add_signed(i64::from(ahead)).filter(|_| ahead >= 0 || self.una > 0) else {
            return ahead > -(WINDOW as i32);
        };
        let fin_acked = self.fin_sent && at == self.end() + 1;
        if at > self.sent && !fin_acked {
            return false;
        }
        let at = at.min(self.end());
        let (una, limit) = (self.una, self.limit);
        self.limit = self.limit.max(at + window);
        self.largest = self.largest.max(window);
        self.fin_acked |= fin_acked;
        if at > una || fin_acked {
            self.on_progress(now, at);
        } else if at == una && bare && limit == self.limit && self.sent > una {
            self.duplicates += 1;
            if self.duplicates == DUPLICATES && una >= self.recover {
                self.on_loss();
            }
        }
        true
    }

    fn on_progress(&mut self, now: Instant, at: u64) {
        let bytes = (at - self.una) as usize;
        self.buffer.drain(..bytes);
        self.una = at;
        self.next = self.next.max(at);
        (self.duplicates, self.tries) = (0, 0);
        if let Some((end, since)) = self.timed
            && at >= end
        {
            self.timed = None;
            self.on_round_trip(now.saturating_duration_since(since));
        }
        if at < self.recover {
            // One segment each time, until all is there that had been sent (RFC 6582 §3.2).
            self.again = true;
        }
        let more = if self.cwnd < self.threshold { bytes } else { (self.mss * self.mss / self.cwnd).max(1) };
        self.cwnd = (self.cwnd + more).min(4 * WINDOW as usize);
        self.timer = (self.sent > at || (self.fin_sent && !self.fin_acked)).then(|| now + self.timeout());
    }

    fn on_round_trip(&mut self, sample: Duration) {
        // RFC 6298 §2.3.
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, variation)) => ((mean * 7 + sample) / 8, (variation * 3 + mean.abs_diff(sample)) / 4),
        });
    }

    fn on_loss(&mut self) {
        let under_way = (self.sent - self.una) as usize;
        self.threshold = (under_way / 2).max(2 * self.mss);
        self.cwnd = self.threshold;
        self.recover = self.sent;
        (self.again, self.timed) = (true, None);
    }

    fn timeout(&self) -> Duration {
        let once = self.smoothed.map_or(FIRST_TIMEOUT, |(mean, variation)| mean + 4 * variation);
        (once.max(LEAST_TIMEOUT) * 2u32.pow(self.tries.min(6))).min(MOST_TIMEOUT)
    }

    /// Something to send could be lost, or a window stays closed without a word, or nothing was heard for long; `waits`: for
    /// anything from the kernel.
    pub fn deadline(&self, waits: bool) -> Option<Instant> {
        if self.fin_acked && !waits {
            return None;
        }
        let idle = self.timer.unwrap_or_else(|| match self.room() < self.mss as u64 {
            true if !self.fin_acked => self.asked + (PERSIST * 2u32.pow(self.tries.min(6))).min(MOST_TIMEOUT),
            _ => self.asked.max(self.heard) + IDLE,
        });
        Some(idle.min(self.heard + GONE))
    }

    /// That time has come. Whether the kernel is there still, as far as can be told.
    pub fn handle_timeout(&mut self, now: Instant, waits: bool) -> bool {
        if self.deadline(waits).is_none_or(|at| at > now) {
            return true;
        }
        if now.saturating_duration_since(self.heard) >= GONE {
            return false;
        }
        self.tries += 1;
        self.asked = now;
        if self.timer.take().is_some() && (self.sent > self.una || self.fin_sent) {
            self.on_loss();
            self.cwnd = self.mss;
            self.timer = Some(now + self.timeout());
        } else {
            self.ask = true;
        }
        true
    }

    /// The next segment for the kernel.
    pub fn poll(&mut self, now: Instant) -> Option<Send> {
        if std::mem::take(&mut self.again) && (self.sent > self.una || (self.fin_sent && !self.fin_acked)) {
            let end = self.sent.min(self.una + self.mss as u64);
            return Some(self.make(now, self.una, end));
        }
        let under_way = self.next - self.una;
        let end = self.end().min(self.limit).min(self.una + self.cwnd as u64).min(self.next + self.mss as u64);
        if end > self.next {
            // A small piece while others are under way waits for more, unless that is all there is.
            let whole = end - self.next >= self.mss as u64 || end == self.end();
            if whole || under_way == 0 {
                let (at, first) = (self.next, self.next == self.sent);
                self.next = end;
                self.sent = self.sent.max(end);
                if first && self.timed.is_none() {
                    self.timed = Some((end, now));
                }
                return Some(self.make(now, at, end));
            }
        }
        if self.fin && !self.fin_sent && self.next == self.end() {
            return Some(self.make(now, self.next, self.next));
        }
        if std::mem::take(&mut self.ask) {
            // A number that the kernel has: it answers where it stands (RFC 9293 §3.8.4).
            let seq = self.first.wrapping_add(self.una as u32).wrapping_sub(1);
            return Some(Send { seq, bytes: Vec::new(), fin: false });
        }
        None
    }

    fn make(&mut self, now: Instant, at: u64, end: u64) -> Send {
        let from = (at - self.una) as usize;
        let bytes = self.buffer.range(from..from + (end - at) as usize).copied().collect();
        let fin = self.fin && end == self.end();
        self.fin_sent |= fin;
        self.timer = self.timer.or_else(|| Some(now + self.timeout()));
        Send { seq: self.first.wrapping_add(at as u32), bytes, fin }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn all(outlet: &mut Outlet, now: Instant) -> Vec<(u32, usize, bool)> {
        std::iter::from_fn(|| outlet.poll(now)).map(|send| (send.seq, send.bytes.len(), send.fin)).collect()
    }

    #[test]
    fn no_more_is_sent_than_the_window_takes() {
        let now = Instant::now();
        let mut outlet = Outlet::new(now, u32::MAX, 1000, 2500);
        outlet.push(&[1; 6000]);
        outlet.finish();
        assert_eq!(all(&mut outlet, now), [(0, 1000, false), (1000, 1000, false)]);
        assert!(outlet.on_ack(now + MS, 1000, 1500, true));
        assert_eq!((outlet.acked(), outlet.room()), (1000, 1500));
        assert!(outlet.on_ack(now + MS, 2000, 10_000, true));
        let rest = [(2000, 1000, false), (3000, 1000, false), (4000, 1000, false), (5000, 1000, true)];
        assert_eq!(all(&mut outlet, now + MS), rest);
        assert!(!outlet.on_ack(now, 6002, 1, true), "more than was sent");
        assert!(outlet.on_ack(now, 6001, 1, true) && outlet.is_done());
        assert_eq!(outlet.deadline(false), None);
    }

    #[test]
    fn three_acknowledgements_of_the_same_repeat_what_is_first() {
        let now = Instant::now();
        let mut outlet = Outlet::new(now, 0, 100, 10_000);
        outlet.push(&[1; 800]);
        assert_eq!(all(&mut outlet, now).len(), 8);
        for _ in 0..2 {
            outlet.on_ack(now, 1, 10_000, true);
        }
        assert_eq!(all(&mut outlet, now), []);
        outlet.on_ack(now, 1, 10_000, true);
        assert_eq!(all(&mut outlet, now), [(1, 100, false)]);
        // The second of them is missing as well.
        outlet.on_ack(now, 101, 10_000, true);
        assert_eq!(all(&mut outlet, now), [(101, 100, false)]);
        outlet.on_ack(now, 801, 10_000, true);
        assert!(outlet.acked() == 800 && all(&mut outlet, now).is_empty());
    }

    #[test]
    fn what_gets_no_answer_is_repeated_for_a_quarter_of_an_hour() {
        let start = Instant::now();
        let mut now = start;
        let mut outlet = Outlet::new(now, 0, 100, 10_000);
        outlet.push(b"?");
        assert_eq!(all(&mut outlet, now).len(), 1);
        let mut repeated = 0;
        loop {
            now = outlet.deadline(true).unwrap();
            if !outlet.handle_timeout(now, true) {
                break;
            }
            repeated += all(&mut outlet, now).len();
        }
        assert_eq!(now - start, GONE);
        assert!((80..110).contains(&repeated), "{repeated} times");
    }

    #[test]
    fn a_closed_window_is_asked_about() {
        let mut now = Instant::now();
        let mut outlet = Outlet::new(now, 9, 100, 0);
        outlet.push(b"?");
        assert_eq!(all(&mut outlet, now), []);
        let mut asked = 0;
        for _ in 0..5 {
            now = outlet.deadline(true).unwrap();
            assert!(outlet.handle_timeout(now, true));
            asked += all(&mut outlet, now).iter().filter(|send| **send == (9, 0, false)).count();
            outlet.on_word(now);
        }
        assert_eq!(asked, 5);
        outlet.on_ack(now, 10, 5, true);
        assert_eq!(all(&mut outlet, now), [(10, 1, false)]);
    }
}
