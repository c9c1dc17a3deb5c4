//! The receiving half: order, SACK blocks, and when to acknowledge.

use std::time::{Duration, Instant};

use super::segment::{MSS, Sacks, Span};
use super::ticks::Ticks;

/// See the module.
#[derive(Debug)]
pub struct Receiver {
    /// All before this has come.
    next: u64,
    /// What the last acknowledgement said.
    acked: u64,
    /// What has come beyond, the newest first.
    beyond: Vec<Span>,
    duplicate: Option<Span>,
    /// Time stamp to be echoed (RFC 7323 §4.3).
    recent: Option<Instant>,
    last_arrival: Option<Instant>,
    /// Acknowledgements that are not to be delayed.
    quick: u32,
    /// The application answers what comes: acknowledgements can go with its data.
    ping_pong: bool,
    /// Largest segment of the peer.
    largest: u64,
    /// Small segments since the last acknowledgement.
    small: u32,
    pending: Pending,
    ticks: Ticks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// At the latest then.
    At(Instant),
    Now,
}

/// Longest delay of an acknowledgement (RFC 5681 §4.2 allows 500 ms; Linux: `TCP_ATO_MIN`, which its estimate of the
/// application's answers mostly stays at).
pub const DELAY: Duration = Duration::from_millis(40);
/// Acknowledgements at once at the start and after what looks like a loss (Linux: `TCP_MAX_QUICKACKS`).
const QUICK: u32 = 16;
/// What the peer's segments are taken for before larger ones come (Linux: `TCP_MSS_DEFAULT`).
const SMALL_MSS: u64 = 536;

impl Receiver {
    /// With these timers.
    pub fn new(ticks: Ticks) -> Self {
        Self {
            next: 0,
            acked: 0,
            beyond: Vec::new(),
            duplicate: None,
            recent: None,
            last_arrival: None,
            quick: QUICK,
            ping_pong: false,
            largest: SMALL_MSS,
            small: 0,
            pending: Pending::Nothing,
            ticks,
        }
    }

    /// A segment came, sent at `sent` by the peer's clock; `timeout` is the own retransmission timeout.
    pub fn on_segment(&mut self, now: Instant, data: Span, sent: Instant, timeout: Duration) {
        if data.from <= self.acked {
            self.recent = Some(self.recent.map_or(sent, |recent| recent.max(sent)));
        }
        if data.is_empty() {
            return;
        }
        if self.last_arrival.is_some_and(|last| now - last > timeout) {
            self.quick = QUICK;
        }
        self.last_arrival = Some(now);
        if data.to <= self.next || self.beyond.iter().any(|span| span.from <= data.from && data.to <= span.to) {
            return self.on_duplicate(data);
        }
        if data.from > self.next {
            self.insert(data);
            self.pending = Pending::Now;
            return;
        }
        if data.from < self.next {
            self.on_duplicate(Span { from: data.from, to: self.next });
        }
        let had_gap = !self.beyond.is_empty();
        self.next = data.to;
        while let Some(at) = self.beyond.iter().position(|span| span.from <= self.next) {
            self.next = self.next.max(self.beyond.swap_remove(at).to);
        }
        if had_gap { self.pending = Pending::Now } else { self.schedule(now, data) }
    }

    /// Whether a segment is from before the last acknowledgement. It is acknowledged again, and nothing else in it counts,
    /// its time stamp and its own acknowledgement neither (`tcp_sequence`).
    pub fn is_old(&self, data: Span) -> bool {
        data.to < self.acked
    }

    /// Such a segment came.
    pub fn on_old(&mut self, data: Span) {
        if !data.is_empty() {
            self.on_duplicate(data);
        }
    }

    /// In order: acknowledge now or later (`__tcp_ack_snd_check`, `tcp_cleanup_rbuf`)?
    fn schedule(&mut self, now: Instant, data: Span) {
        if data.len() >= self.largest {
            self.largest = data.len().min(MSS);
        } else {
            self.small += 1;
        }
        let is_second = self.next - self.acked > self.largest;
        let is_quick = self.quick > 0 && !self.ping_pong;
        // The application reads at once. That acknowledges a small segment, unless an answer can be hoped for.
        let is_read = self.small > u32::from(self.ping_pong);
        match self.pending {
            _ if is_second || is_quick || is_read => self.pending = Pending::Now,
            Pending::Nothing => self.pending = Pending::At(self.ticks.after(now, DELAY)),
            Pending::At(_) | Pending::Now => {}
        }
    }

    fn on_duplicate(&mut self, data: Span) {
        self.duplicate = Some(data);
        self.quick = QUICK;
        self.ping_pong = false;
        self.pending = Pending::Now;
    }

    fn insert(&mut self, mut data: Span) {
        self.beyond.retain(|span| {
            let touches = span.from <= data.to && data.from <= span.to;
            if touches {
                data = Span { from: span.from.min(data.from), to: span.to.max(data.to) };
            }
            !touches
        });
        self.beyond.insert(0, data);
    }

    /// The delay of an acknowledgement is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deadline().is_some_and(|due| due <= now) {
            self.ping_pong = false;
            self.pending = Pending::Now;
        }
    }

    /// When it is.
    pub fn deadline(&self) -> Option<Instant> {
        match self.pending {
            Pending::At(due) => Some(due),
            _ => None,
        }
    }

    /// Whether an acknowledgement has to go without data.
    pub fn is_due(&self) -> bool {
        self.pending == Pending::Now
    }

    /// An acknowledgement of nothing new is wanted.
    pub fn repeat(&mut self) {
        self.pending = Pending::Now;
    }

    /// A segment is about to go, with data or without: what it says.
    pub fn on_sending(&mut self, now: Instant, with_data: bool) -> (u64, Sacks, Option<Instant>) {
        if with_data && self.last_arrival.is_some_and(|last| now - last < DELAY) {
            self.ping_pong = true; // `net.ipv4.tcp_pingpong_thresh` = 1
        }
        let sacks = self.sacks();
        self.duplicate = None;
        if self.pending != Pending::Nothing {
            self.quick = self.quick.saturating_sub(1);
        }
        self.pending = Pending::Nothing;
        self.small = 0;
        self.acked = self.next;
        (self.next, sacks, self.recent)
    }

    /// What the next segment says beyond the cumulative acknowledgement.
    pub fn sacks(&self) -> Sacks {
        let mut spans = self.duplicate.into_iter().chain(self.beyond.iter().copied());
        Sacks { blocks: std::array::from_fn(|_| spans.next()), duplicate: self.duplicate.is_some() }
    }

    /// All bytes before this have come.
    pub fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(260);

    fn at(ms: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let start = *START.get_or_init(Instant::now);
        start + Duration::from_millis(ms)
    }

    fn span(from: u64, to: u64) -> Span {
        Span { from, to }
    }

    #[test]
    fn gaps_are_reported_newest_first_and_then_filled() {
        let mut receiver = Receiver::new(Ticks::since(at(0)));
        receiver.on_segment(at(0), span(100, 200), at(0), TIMEOUT);
        receiver.on_segment(at(1), span(300, 400), at(1), TIMEOUT);
        let (ack, sacks, echo) = receiver.on_sending(at(1), false);
        assert_eq!((ack, sacks.blocks), (0, [Some(span(300, 400)), Some(span(100, 200)), None]));
        assert_eq!(echo, None, "only what begins before the last acknowledgement is echoed");
        receiver.on_segment(at(2), span(200, 300), at(2), TIMEOUT);
        assert_eq!(receiver.sacks().blocks[0], Some(span(100, 400)));
        receiver.on_segment(at(3), span(0, 100), at(3), TIMEOUT);
        assert!(receiver.is_due() && receiver.next() == 400);
        assert_eq!(receiver.on_sending(at(3), false).1, Sacks::default());
        receiver.on_segment(at(4), span(50, 100), at(4), TIMEOUT);
        let sacks = receiver.sacks();
        assert!(sacks.duplicate && sacks.blocks == [Some(span(50, 100)), None, None]);
    }

    #[test]
    fn time_stamps_of_what_is_old_or_beyond_a_gap_are_not_echoed() {
        let mut receiver = Receiver::new(Ticks::since(at(0)));
        receiver.on_segment(at(30), span(0, 100), at(0), TIMEOUT);
        assert_eq!(receiver.on_sending(at(30), false).2, Some(at(0)));
        // A bare acknowledgement stands behind what its end has sent.
        receiver.on_segment(at(80), span(200, 200), at(50), TIMEOUT);
        assert_eq!(receiver.on_sending(at(80), false).2, Some(at(0)));
        assert!(receiver.is_old(span(0, 99)) && !receiver.is_old(span(0, 100)));
        receiver.on_old(span(0, 99));
        let (ack, sacks, echo) = receiver.on_sending(at(90), false);
        assert_eq!((ack, sacks.duplicate, echo), (100, true, Some(at(0))));
        receiver.on_segment(at(130), span(100, 200), at(100), TIMEOUT);
        assert_eq!(receiver.on_sending(at(130), false).2, Some(at(100)));
    }

    #[test]
    fn after_quick_ones_every_second_full_segment_is_acknowledged() {
        let mut receiver = Receiver::new(Ticks::since(at(0)));
        let mut acks = 0;
        for n in 0..40 {
            receiver.on_segment(at(n), span(n * MSS, (n + 1) * MSS), at(n), TIMEOUT);
            if receiver.is_due() {
                receiver.on_sending(at(n), false);
                acks += 1;
            }
        }
        assert_eq!(acks, 16 + 12);
    }

    #[test]
    fn an_application_that_answers_has_acknowledgements_wait_for_its_data() {
        let mut receiver = Receiver::new(Ticks::since(at(0)));
        receiver.on_segment(at(0), span(0, 45), at(0), TIMEOUT);
        receiver.on_sending(at(10), true);
        receiver.on_segment(at(100), span(45, 90), at(100), TIMEOUT);
        assert_eq!((receiver.is_due(), receiver.deadline()), (false, Some(at(144))));
        receiver.handle_timeout(at(144));
        assert!(receiver.is_due());
    }
}
