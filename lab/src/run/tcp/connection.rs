//! One end of a connection: the handshake, and both halves after it.

use std::time::{Duration, Instant};

use super::congestion::Algorithm;
use super::receiver::Receiver;
use super::rtt;
use super::segment::{Kind, MSS, Sacks, Segment, Span};
use super::sender::Sender;
use super::ticks::Ticks;

/// See the module. What is written before the connection is established waits.
#[derive(Debug)]
pub struct Connection {
    state: State,
    sender: Sender,
    receiver: Receiver,
    /// Bytes given to the application.
    read: u64,
    /// When to repeat the SYN or its answer, and how often that was done.
    repeat_at: Option<Instant>,
    wait: Duration,
    repeats: u32,
    syn_is_due: bool,
    /// Time stamp of the peer's SYN.
    peer_syn: Option<Instant>,
    ticks: Ticks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    SynSent,
    SynReceived,
    Established,
}

/// Repetitions of a SYN at equal intervals before they double: `net.ipv4.tcp_syn_linear_timeouts` = 4, Linux 6.5 and
/// later.
const LINEAR_REPEATS: u32 = 4;

impl Connection {
    /// The client's end: sends a SYN.
    pub fn connect(now: Instant, algorithm: Box<dyn Algorithm>, ticks: Ticks) -> Self {
        Self {
            state: State::SynSent,
            sender: Sender::new(algorithm, ticks),
            receiver: Receiver::new(ticks),
            read: 0,
            repeat_at: Some(ticks.after(now, rtt::INITIAL)),
            wait: rtt::INITIAL,
            repeats: 0,
            syn_is_due: true,
            peer_syn: None,
            ticks,
        }
    }

    /// The server's end: answers this SYN.
    pub fn accept(now: Instant, syn: &Segment, algorithm: Box<dyn Algorithm>, ticks: Ticks) -> Self {
        Self { state: State::SynReceived, peer_syn: Some(syn.sent), ..Self::connect(now, algorithm, ticks) }
    }

    /// Whether the handshake is over at this end.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// The application writes so many bytes, without delay (TCP_NODELAY).
    pub fn write(&mut self, now: Instant, bytes: u64) {
        self.sender.write(now, bytes);
    }

    /// Bytes that have come in order since the last call.
    pub fn read(&mut self) -> u64 {
        self.receiver.next() - std::mem::replace(&mut self.read, self.receiver.next())
    }

    /// Bytes written and not acknowledged.
    pub fn buffered(&self) -> u64 {
        self.sender.buffered()
    }

    /// The congestion window, in segments.
    pub fn window(&self) -> u32 {
        self.sender.window()
    }

    /// A segment came.
    pub fn handle_segment(&mut self, now: Instant, segment: &Segment) {
        match (self.state, segment.kind) {
            (State::SynSent, Kind::SynAck) => {
                self.peer_syn = Some(segment.sent);
                self.establish(now, segment);
                self.receiver.repeat();
            }
            (State::SynReceived, Kind::Syn) => self.syn_is_due = true,
            // The client did not get the answer's acknowledgement through.
            (State::Established, Kind::SynAck) => self.receiver.repeat(),
            (State::SynReceived | State::Established, Kind::Established) if !self.receiver.is_old(segment.data) => {
                if self.state == State::SynReceived {
                    self.establish(now, segment);
                }
                self.sender.on_ack(now, segment);
                self.receiver.on_segment(now, segment.data, segment.sent, self.sender.timeout());
            }
            (_, Kind::Established) => self.receiver.on_old(segment.data),
            _ => {}
        }
    }

    fn establish(&mut self, now: Instant, segment: &Segment) {
        self.state = State::Established;
        self.repeat_at = None;
        self.syn_is_due = false;
        let sent = segment.echo.unwrap_or(now);
        self.sender.on_established(now.saturating_duration_since(sent), self.repeats);
        self.receiver.on_segment(now, Span { from: 0, to: 0 }, segment.sent, self.sender.timeout());
    }

    /// A deadline has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.repeat_at.is_some_and(|due| due <= now) {
            self.repeats += 1;
            // The server's answer doubles at once (`reqsk_timer_handler`).
            if self.state == State::SynReceived || self.repeats > LINEAR_REPEATS {
                self.wait = (self.wait * 2).min(rtt::MAX);
            }
            self.repeat_at = Some(self.ticks.after(now, self.wait));
            self.syn_is_due = true;
        }
        self.sender.handle_timeout(now);
        self.receiver.handle_timeout(now);
    }

    /// When that is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let all = [self.repeat_at, self.sender.next_deadline(), self.receiver.deadline()];
        all.into_iter().flatten().min()
    }

    /// The next segment to send; to be asked until `None` after each call.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        let nothing = Span { from: 0, to: 0 };
        if std::mem::take(&mut self.syn_is_due) {
            let kind = if self.state == State::SynSent { Kind::Syn } else { Kind::SynAck };
            let echo = self.peer_syn;
            return Some(Segment { kind, data: nothing, ack: 0, sacks: Sacks::default(), sent: now, echo });
        }
        if self.state != State::Established {
            return None;
        }
        let room = MSS - self.receiver.sacks().bytes() as u64;
        let data = self.sender.poll_transmit(now, room);
        if data.is_none() && !self.receiver.is_due() {
            return None;
        }
        let (ack, sacks, echo) = self.receiver.on_sending(now, data.is_some());
        // An acknowledgement without data is behind what was sent.
        let data = data.unwrap_or(Span { from: self.sender.next(), to: self.sender.next() });
        Some(Segment { kind: Kind::Established, data, ack, sacks, sent: now, echo })
    }
}
