//! The sending half: what to send and when, by window, losses and timers.
//!
//! Names of Linux' functions (net/ipv4/tcp_{input,output,timer,recovery}.c) stand where its choices are followed.

mod loss;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::congestion::{self, Algorithm, Window};
use super::rtt::{self, Rtt};
use super::segment::{MSS, Segment, Span};
use super::ticks::{TICK, Ticks};

/// See the module.
#[derive(Debug)]
pub struct Sender {
    /// First byte not acknowledged, next to be sent, end of what was written.
    una: u64,
    next: u64,
    written: u64,
    /// What is under way, in order.
    segments: VecDeque<Sent>,
    window: Window,
    algorithm: Box<dyn Algorithm>,
    rtt: Rtt,
    ticks: Ticks,
    phase: Phase,
    /// The phase ends when all before this is acknowledged.
    high: u64,
    reduction: Reduction,
    undo: Option<Undo>,
    /// When the first repetition left since all was well (`retrans_stamp`).
    first_repeat: Option<Instant>,
    /// Something was SACKed, lost or repeated when the last acknowledgement came (Linux: the state Disorder).
    is_disordered: bool,
    /// Whether the timeout was needless is not known yet (F-RTO, RFC 5682).
    is_in_doubt: bool,
    first: First,
    rack: Option<Rack>,
    /// Segments were seen to overtake each other.
    reordering: bool,
    /// One beyond the highest byte that a SACK block named.
    highest: u64,
    timer: Option<(Instant, Timer)>,
    /// Timeouts since the last progress.
    timeouts: u32,
    probe: Option<Probe>,
    probe_is_due: bool,
    use_of_window: UseOfWindow,
    last_sent: Option<Instant>,
}

/// A segment under way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    span: Span,
    at: Instant,
    sacked: bool,
    lost: bool,
    /// A repetition is under way, other than by a probe.
    again: bool,
    /// It was repeated.
    ever: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Fast recovery.
    Recovery,
    /// After a timeout.
    Loss,
}

/// What goes first when the window has room. Linux repeats what is lost when an acknowledgement comes or a timer
/// expires; what the application writes meanwhile is new data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// What is lost (`REXMIT_LOST`).
    Lost,
    /// New data if there is any, to see whether the timeout was needless (`REXMIT_NEW`; RFC 5682 §3.1, step 2b).
    New,
    /// Nothing is repeated until the next acknowledgement (`REXMIT_NONE`).
    NewOnly,
}

/// What to go back to if the window shrank without need.
#[derive(Debug, Clone, Copy)]
struct Undo {
    size: u32,
    threshold: u32,
    /// First byte not acknowledged when it shrank.
    una: u64,
    /// Repetitions that no D-SACK has named; `None` before there was one.
    repeats: Option<u32>,
}

/// Proportional rate reduction (RFC 6937).
#[derive(Debug, Default)]
struct Reduction {
    delivered: u32,
    out: u32,
    /// The window before.
    from: u32,
}

/// The segment sent last among those that arrived (RFC 8985 §5.2).
#[derive(Debug, Clone, Copy)]
struct Rack {
    at: Instant,
    end: u64,
    rtt: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// When to take all that is under way for lost.
    Retransmission,
    /// When to probe for the loss of the last segment (RFC 8985 §7).
    Probe,
    /// When a segment has had time enough to be overtaken (RFC 8985 §6.2).
    Reordering,
}

/// A tail loss probe under way.
#[derive(Debug, Clone, Copy)]
struct Probe {
    end: u64,
    is_repeat: bool,
}

/// Whether the window was the limit (RFC 7661, in Linux' way: `tcp_cwnd_validate`).
#[derive(Debug, Default)]
struct UseOfWindow {
    is_limit: bool,
    most: u32,
    until: u64,
}

/// What an acknowledgement brought.
#[derive(Debug, Default)]
struct News {
    delivered: u32,
    /// When the oldest segment left that it acknowledges and that was not repeated; the same for SACK.
    first_acked: Option<Instant>,
    first_sacked: Option<Instant>,
    last: Option<Instant>,
    repeat_acked: bool,
    advanced: bool,
    reordered: bool,
    /// Something new was SACKed.
    sacked: bool,
    /// What was sent once, before the timeout, came (`FLAG_ORIG_SACK_ACKED`).
    original: bool,
    echo: Option<Instant>,
}

/// What short timers are longer: `TCP_TIMEOUT_MIN`.
const MIN_TIMER: Duration = Duration::from_millis(8);
/// What the peer takes beyond what it has acknowledged: the largest `net.ipv4.tcp_rmem` of Linux, fixed.
const PEER_WINDOW: u64 = 6 << 20;

impl Sender {
    /// With this algorithm and these timers.
    pub fn new(algorithm: Box<dyn Algorithm>, ticks: Ticks) -> Self {
        Self {
            una: 0,
            next: 0,
            written: 0,
            segments: VecDeque::new(),
            window: Window::default(),
            algorithm,
            rtt: Rtt::default(),
            ticks,
            phase: Phase::Open,
            high: 0,
            reduction: Reduction::default(),
            undo: None,
            first_repeat: None,
            is_disordered: false,
            is_in_doubt: false,
            first: First::Lost,
            rack: None,
            reordering: false,
            highest: 0,
            timer: None,
            timeouts: 0,
            probe: None,
            probe_is_due: false,
            use_of_window: UseOfWindow::default(),
            last_sent: None,
        }
    }

    /// The handshake is over and took this round trip; it needed so many repetitions.
    pub fn on_established(&mut self, round_trip: Duration, repeats: u32) {
        self.rtt.on_sample(round_trip, 0, 0);
        if repeats > 1 {
            self.window.size = 1; // RFC 6298 §5.7; `tcp_init_transfer`
        }
    }

    /// The application wrote so many bytes.
    pub fn write(&mut self, now: Instant, bytes: u64) {
        self.written += bytes;
        let idle = self.last_sent.map_or(Duration::ZERO, |last| now - last);
        if self.segments.is_empty() {
            self.algorithm.on_idle(idle);
            if idle > self.rtt.timeout() {
                self.restart(idle);
            }
        }
    }

    /// `net.ipv4.tcp_slow_start_after_idle` = 1 (RFC 5681 §4.1; `tcp_cwnd_restart`): half for each timeout, down to the
    /// initial window.
    fn restart(&mut self, mut idle: Duration) {
        let least = congestion::INITIAL.min(self.window.size);
        self.window.threshold = self.threshold_now();
        while idle > self.rtt.timeout() && self.window.size > least {
            idle -= self.rtt.timeout();
            self.window.size /= 2;
        }
        self.window.size = self.window.size.max(least);
        self.window.count = 0;
    }

    fn threshold_now(&self) -> u32 {
        match self.phase {
            Phase::Open => self.window.threshold.max(self.window.size - self.window.size / 4),
            _ => self.window.threshold,
        }
    }

    /// An acknowledgement came, maybe with data (`tcp_ack`).
    pub fn on_ack(&mut self, now: Instant, segment: &Segment) {
        if segment.ack > self.next {
            return;
        }
        let mut news = News { advanced: segment.ack > self.una, echo: segment.echo, ..News::default() };
        self.note_duplicate(segment);
        self.mark_sacked(now, segment, &mut news);
        self.remove_acked(now, segment.ack, &mut news);
        self.reordering |= news.reordered;
        let is_measured = self.sample(now, segment, &news);
        self.on_probe_acked(segment, news.advanced);
        if news.advanced {
            self.timeouts = 0;
        }
        let found = self.on_news(now, segment, &news);
        let is_behind = |sacked: Instant| self.segments.front().is_some_and(|head| sacked < head.at);
        let progress = news.advanced || (is_measured && news.first_sacked.is_some_and(is_behind));
        self.arm_after_ack(now, progress, found.wait);
        if self.phase == Phase::Recovery {
            self.reduce(news.delivered, found.lost, news.advanced);
        } else if news.advanced && self.is_window_the_limit() {
            let min_rtt = self.rtt.min().unwrap_or_default();
            self.algorithm.on_ack(now, &mut self.window, news.delivered, min_rtt);
        }
    }

    /// Whether a round trip could be measured.
    fn sample(&mut self, now: Instant, segment: &Segment, news: &News) -> bool {
        let of_acked = news.first_acked.filter(|_| !news.repeat_acked);
        if let Some(last) = news.last {
            self.rtt.on_minimum(now - last);
        }
        // Time stamps make repeated segments measurable, too (RFC 7323 §4).
        let of_stamp = segment.echo.filter(|_| news.advanced);
        let sent = of_acked.or(news.first_sacked).or(of_stamp);
        if let Some(sent) = sent {
            self.rtt.on_sample(now.saturating_duration_since(sent), self.una, self.next);
        }
        sent.is_some()
    }

    /// A timer expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some((_, timer)) = self.timer.take_if(|(due, _)| *due <= now) else { return };
        match timer {
            Timer::Retransmission => self.on_timeout(now),
            Timer::Probe if self.probe.is_some() => self.arm_from_head(now),
            Timer::Probe => self.probe_is_due = true,
            Timer::Reordering => {
                let found = self.detect(now);
                if found.lost > 0 {
                    if self.phase != Phase::Recovery {
                        self.enter_recovery();
                        self.reduce(1, found.lost, false);
                    }
                    self.first = First::Lost;
                }
                self.arm_from_head(now);
            }
        }
    }

    /// When the next does.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timer.map(|(due, _)| due)
    }

    /// What to send now, at most `room` bytes of it; to be asked until `None`.
    pub fn poll_transmit(&mut self, now: Instant, room: u64) -> Option<Span> {
        if std::mem::take(&mut self.probe_is_due) {
            return self.transmit_probe(now, room);
        }
        let is_full = self.in_flight() >= self.window.size;
        if self.first == First::New && self.next == self.high && (is_full || self.unsent(room).is_none()) {
            (self.first, self.is_in_doubt) = (First::Lost, false); // `tcp_xmit_recovery`
        }
        let is_next = |sent: &Sent| sent.lost && !sent.again;
        if self.first == First::Lost
            && !is_full
            && let Some(lost) = self.segments.iter().position(is_next)
        {
            let span = self.repeat(now, lost, room);
            self.segments[lost].again = true;
            self.first_repeat.get_or_insert(now);
            if let Some(undo) = &mut self.undo {
                undo.repeats = Some(undo.repeats.unwrap_or(0) + 1);
            }
            if lost == 0 && !matches!(self.timer, Some((_, Timer::Reordering))) {
                self.arm(now);
            }
            return Some(span);
        }
        let span = self.unsent(room)?;
        if is_full {
            self.note_use(true);
            return None;
        }
        self.transmit_new(now, span);
        self.note_use(self.in_flight() >= self.window.size);
        Some(span)
    }

    fn unsent(&self, room: u64) -> Option<Span> {
        let to = self.written.min(self.next + room).min(self.una + PEER_WINDOW);
        (to > self.next).then_some(Span { from: self.next, to })
    }

    fn transmit_new(&mut self, now: Instant, span: Span) {
        let is_first = self.segments.is_empty();
        self.segments.push_back(Sent { span, at: now, sacked: false, lost: false, again: false, ever: false });
        self.next = span.to;
        self.last_sent = Some(now);
        self.reduction.out += 1;
        if is_first {
            self.arm(now);
        } else if matches!(self.timer, Some((_, Timer::Probe))) {
            self.arm_from_head(now);
        }
        self.arm_probe(now, false);
    }

    /// Sends a segment again, together with what stands behind it and fits (`tcp_retrans_try_collapse`): after a
    /// timeout many small messages go as one segment.
    fn repeat(&mut self, now: Instant, index: usize, room: u64) -> Span {
        let fits = |span: Span, next: &Sent| !next.sacked && next.span.to - span.from <= room.min(MSS);
        let whole = self.segments[index].span;
        if whole.len() > room {
            // SACK blocks leave less room than when it was sent first.
            let cut = whole.from + room;
            let rest = Sent { span: Span { from: cut, to: whole.to }, ..self.segments[index] };
            self.segments[index].span.to = cut;
            self.segments.insert(index + 1, rest);
        }
        while let Some(next) = self.segments.get(index + 1).copied()
            && fits(self.segments[index].span, &next)
        {
            self.segments[index].span.to = next.span.to;
            self.segments.remove(index + 1);
        }
        let sent = &mut self.segments[index];
        (sent.at, sent.ever) = (now, true);
        self.last_sent = Some(now);
        self.reduction.out += 1;
        sent.span
    }

    /// A segment more than the window allows: new data, else the last segment again (RFC 8985 §7.3).
    fn transmit_probe(&mut self, now: Instant, room: u64) -> Option<Span> {
        let (span, is_repeat) = match self.unsent(room) {
            Some(span) => {
                self.transmit_new(now, span);
                (span, false)
            }
            None => (self.repeat(now, self.segments.len().checked_sub(1)?, room), true),
        };
        self.probe = Some(Probe { end: self.next, is_repeat });
        self.arm(now);
        Some(span)
    }

    fn arm(&mut self, now: Instant) {
        self.timer = Some((self.ticks.after(now, self.rtt.timeout()), Timer::Retransmission));
    }

    /// The timeout counts from when the oldest segment was last sent (`tcp_rearm_rto`).
    fn arm_from_head(&mut self, now: Instant) {
        let Some(head) = self.segments.front() else { return };
        let left = (head.at + self.rtt.timeout()).saturating_duration_since(now).max(TICK);
        self.timer = Some((self.ticks.after(now, left), Timer::Retransmission));
    }

    fn arm_after_ack(&mut self, now: Instant, progress: bool, wait: Option<Duration>) {
        if self.segments.is_empty() {
            self.timer = None;
        } else if let Some(wait) = wait {
            self.timer = Some((self.ticks.after(now, wait + MIN_TIMER), Timer::Reordering));
        } else if progress && !self.arm_probe(now, true) {
            match self.timer {
                Some((_, Timer::Probe | Timer::Reordering)) => self.arm_from_head(now),
                _ => self.arm(now),
            }
        }
    }

    /// `tcp_schedule_loss_probe`, with `net.ipv4.tcp_early_retrans` = 3.
    fn arm_probe(&mut self, now: Instant, advanced: bool) -> bool {
        let is_calm = self.phase == Phase::Open && !self.is_disordered;
        let (Some(head), true) = (self.segments.front(), is_calm) else { return false };
        // A single segment may meet the longest delay of an acknowledgement.
        let more = if self.segments.len() == 1 { rtt::MIN } else { MIN_TIMER };
        let probe = self.rtt.smoothed().map_or(rtt::INITIAL, |smoothed| smoothed * 2 + more);
        let timeout = if advanced { now } else { head.at } + self.rtt.timeout();
        // A timeout that is overdue does not bind: while the window lets new segments out, each puts it off.
        let wait = if timeout > now { probe.min(timeout - now) } else { probe };
        self.timer = Some((self.ticks.after(now, wait), Timer::Probe));
        true
    }

    fn note_use(&mut self, is_limit: bool) {
        let (out, known) = (self.segments.len() as u32, &self.use_of_window);
        if self.una >= known.until || is_limit || (!known.is_limit && out > known.most) {
            self.use_of_window = UseOfWindow { is_limit, most: out, until: self.next };
        }
    }

    fn is_window_the_limit(&self) -> bool {
        let known = &self.use_of_window;
        known.is_limit || (self.window.is_in_slow_start() && self.window.size < 2 * known.most)
    }

    fn in_flight(&self) -> u32 {
        let copies = |sent: &Sent| u32::from(!sent.sacked && !sent.lost) + u32::from(sent.again);
        self.segments.iter().map(copies).sum()
    }

    /// The byte that is sent next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes written and not acknowledged.
    pub fn buffered(&self) -> u64 {
        self.written - self.una
    }

    /// The retransmission timeout.
    pub fn timeout(&self) -> Duration {
        self.rtt.timeout()
    }

    /// The window, in segments.
    pub fn window(&self) -> u32 {
        self.window.size
    }
}

#[cfg(test)]
mod tests;
