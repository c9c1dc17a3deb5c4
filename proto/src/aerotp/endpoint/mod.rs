//! One end of AeroTP: an association, the connections over it, and the lines they share.
//!
//! Sans-IO: segments and time go in, segments, events and a deadline come out. Rate and error control are apart
//! [AeroTP §III-A]: a line is sent to at its rate ([`Pacer`]), and what is lost is sent again, or was sent with enough
//! parity, without any change of rate.

mod config;
mod receive;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;
mod transmit;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use bytes::Bytes;

pub use config::{EndpointConfig, EndpointCounters, EndpointEvent, LineConfig, Protection, SendError};

use super::belief::Belief;
use super::connection::{
    AROUND_REPAIR, Closed, Connection, ConnectionConfig, ConnectionId, Disorder, Piece, Timer, Times,
};
use super::copies::Copies;
use super::extension::HELLO_EXTENSION;
use super::guard::Guard;
use super::pacer::Pacer;
use super::quality::{Meter, Quality};
use super::rtt::Rtt;
use super::strength::Strength;
use super::{Ecn, Flags, HEADER_LEN, Port, Security, SecurityError, SegmentCodec, Seq, TransferMode};
use crate::Bitrate;
use crate::seeded::SeededBytes;

/// A MACK without framing.
const MACK_BYTES: u64 = 60;
/// Datagrams that wait; the oldest of the lowest priority goes first.
const MAX_DATAGRAMS: usize = 256;
/// Copies that wait for a further line.
const MAX_REPLICAS: usize = 64;
/// Resets that wait to be sent.
const MAX_RESETS: usize = 16;
/// Without data to carry it the greeting leaves again after this, then twice as long each time.
const GREETING: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(1);
/// Without an answer for this long, and three time-outs, the other side is out of reach: one segment in so long is enough to
/// find out when it is not.
const OUT_OF_REACH: Duration = Duration::from_secs(1);
const TRY_EVERY: Duration = Duration::from_millis(200);
/// Averages the share of transmissions that are lost.
const LOSS_WEIGHT: f64 = 1.0 / 64.0;

/// A line and what waits for it.
#[derive(Debug)]
struct Line {
    config: LineConfig,
    pacer: Pacer,
    /// Segments that have left on another line.
    replicas: VecDeque<Vec<u8>>,
}

#[derive(Debug)]
struct WaitingDatagram {
    source: Port,
    destination: Port,
    priority: u8,
    bytes: Bytes,
}

/// When the greeting leaves without data to carry it.
#[derive(Debug, Clone, Copy)]
struct Greeting {
    due: Instant,
    wait: Duration,
}

/// One end.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    security: Security,
    random: SeededBytes,
    codec: SegmentCodec,
    lines: Vec<Line>,
    connections: Vec<Connection>,
    listeners: Vec<(RangeInclusive<u16>, ConnectionConfig)>,
    next_id: u64,
    /// The connection that was served last; none if it was a datagram.
    served: Option<ConnectionId>,
    datagrams: VecDeque<WaitingDatagram>,
    datagram_seq: u32,
    resets: VecDeque<(Port, Port, Seq, TransferMode)>,
    greeting: Option<Greeting>,
    guard: Guard,
    copies: Copies,
    belief: Belief,
    meter: Meter,
    /// What the other side says of how our segments arrive.
    told: Option<Quality>,
    strength: Strength,
    rtt: Rtt,
    /// Share of transmissions that are lost.
    loss: f64,
    /// The worst that a hop said since the last MACK; goes back with it.
    ecn: Ecn,
    heard: Option<Instant>,
    /// Since when something is under way that should have been answered, and when it was tried last.
    unanswered: Option<Instant>,
    tried: Option<Instant>,
    counters: EndpointCounters,
    events: VecDeque<EndpointEvent>,
    plaintext: Vec<u8>,
}

impl Endpoint {
    /// An end that has said nothing yet.
    ///
    /// # Errors
    /// If the other side's key is none that a secret can be agreed with.
    ///
    /// # Panics
    /// If there is no line, or segments are shorter than [`EndpointConfig::MIN_SEGMENT`].
    pub fn new(config: EndpointConfig, mut random: SeededBytes) -> Result<Self, SecurityError> {
        assert!(!config.lines.is_empty() && config.max_segment >= EndpointConfig::MIN_SEGMENT);
        let keys = SeededBytes::new(&random.next_seed(), "aerotp handshakes");
        let line = |config: &LineConfig| Line {
            config: *config,
            pacer: Pacer::new(config.rate, config.shared),
            replicas: VecDeque::new(),
        };
        Ok(Self {
            security: Security::new(config.security.clone(), keys)?,
            random,
            codec: SegmentCodec::default(),
            lines: config.lines.iter().map(line).collect(),
            connections: Vec::new(),
            listeners: Vec::new(),
            next_id: 0,
            served: None,
            datagrams: VecDeque::new(),
            datagram_seq: 0,
            resets: VecDeque::new(),
            greeting: None,
            guard: Guard::default(),
            copies: Copies::default(),
            belief: Belief::default(),
            meter: Meter::default(),
            told: None,
            strength: Strength::new(config.protection),
            rtt: Rtt::new(config.assumed_rtt),
            loss: 0.0,
            ecn: Ecn::None,
            heard: None,
            unanswered: None,
            tried: None,
            counters: EndpointCounters::default(),
            events: VecDeque::new(),
            plaintext: Vec::new(),
            config,
        })
    }

    /// Begins to talk to the other side, or to agree on new keys with it: at the start, and when nothing was heard of it for
    /// long. Only the side that initiates does.
    pub fn begin(&mut self, now: Instant) {
        if self.config.security.initiates {
            self.security.begin(now);
            self.greeting = Some(Greeting { due: now, wait: self.rtt.smoothed().max(*GREETING.start()) });
        }
    }

    /// Accepts connections to these ports. A segment opens one only if its mode is that of `config`.
    pub fn listen(&mut self, ports: RangeInclusive<u16>, config: ConnectionConfig) {
        self.listeners.push((ports, config));
    }

    /// Opens a connection. What is sent on it leaves with the first segment. `None` if there are too many, or if there is one
    /// with these ports.
    pub fn connect(
        &mut self,
        now: Instant,
        config: ConnectionConfig,
        local: Port,
        remote: Port,
    ) -> Option<ConnectionId> {
        let is_taken = self.find(local, remote).is_some();
        if is_taken
            || self.connections.len() >= self.config.max_connections
            || config.mode == TransferMode::UnreliableDatagram
        {
            return None;
        }
        if !self.security.can_seal() {
            self.begin(now);
        }
        let mut upper = [0; 2];
        self.random.fill(&mut upper);
        let first = Seq(u32::from(u16::from_be_bytes(upper)) << 16);
        Some(self.add(now, config, (local, remote), first, true))
    }

    /// Sends bytes on a connection. On one of messages they are one; on a stream they are cut as it suits. `token` comes back
    /// when the other side has all of them, in modes that acknowledge.
    ///
    /// # Errors
    /// If it cannot be taken.
    pub fn send(&mut self, id: ConnectionId, bytes: Bytes, token: Option<u64>) -> Result<(), SendError> {
        let room = self.room(id);
        let max_waiting = self.config.max_waiting.as_usize();
        let connection = self.connection_mut(id).filter(|connection| connection.is_open()).ok_or(SendError::Closed)?;
        if !connection.config.stream && bytes.len() > room {
            return Err(SendError::TooLong(bytes.len()));
        }
        if connection.sender.waiting_bytes() + bytes.len() > max_waiting && connection.sender.waiting_bytes() > 0 {
            return Err(SendError::Full);
        }
        if !(bytes.is_empty() && connection.config.stream) {
            connection.sender.push(bytes, token);
        }
        Ok(())
    }

    /// A message that was sent with this token need not arrive any more. If it is under way, nothing of it is repeated.
    pub fn cancel(&mut self, id: ConnectionId, token: u64) {
        if let Some(connection) = self.connection_mut(id) {
            connection.sender.cancel(token);
        }
    }

    /// Words of parity that a longest segment has, in modes with repetition.
    pub fn parity_words(&self) -> u16 {
        self.strength.words(TransferMode::Reliable, self.config.max_segment)
    }

    /// Bytes that a connection has yet to send; `None` if it is no more.
    pub fn waiting_bytes(&self, id: ConnectionId) -> Option<usize> {
        self.connection(id).map(|connection| connection.sender.waiting_bytes())
    }

    /// What the other side sent on a connection; `None` if nothing (more) has come. What is not read makes the other side wait.
    pub fn read(&mut self, now: Instant, id: ConnectionId) -> Option<Piece> {
        self.connection_mut(id)?.read(now)
    }

    /// Whether all that waits has gone.
    pub fn is_idle(&self) -> bool {
        self.datagrams.is_empty() && self.connections.iter().all(|connection| connection.sender.is_done())
    }

    /// Nothing more will be sent on a connection; what waits still leaves.
    pub fn close(&mut self, now: Instant, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.close(now);
        }
    }

    /// Gives a connection up at once.
    pub fn reset(&mut self, id: ConnectionId) {
        if let Some(at) = self.connections.iter().position(|connection| connection.id == id) {
            let connection = self.remove(at);
            self.queue_reset(
                connection.local,
                connection.remote,
                Seq(connection.sender.next() as u32),
                connection.config.mode,
            );
        }
    }

    /// Sends a datagram without connection. What does not fit a queue of 256 is dropped, the oldest first.
    ///
    /// # Errors
    /// If it does not fit a segment.
    pub fn send_datagram(
        &mut self,
        source: Port,
        destination: Port,
        priority: u8,
        bytes: Bytes,
    ) -> Result<(), SendError> {
        if bytes.len() > self.max_datagram() {
            return Err(SendError::TooLong(bytes.len()));
        }
        if self.datagrams.len() == MAX_DATAGRAMS {
            self.datagrams.pop_front();
        }
        let at = self.datagrams.partition_point(|waiting| waiting.priority <= priority);
        self.datagrams.insert(at, WaitingDatagram { source, destination, priority, bytes });
        Ok(())
    }

    /// Longest datagram in bytes.
    pub fn max_datagram(&self) -> usize {
        self.max_whole(TransferMode::UnreliableDatagram)
    }

    /// Longest message of a connection of messages.
    pub fn max_message(&self, id: ConnectionId) -> usize {
        self.room(id)
    }

    fn room(&self, id: ConnectionId) -> usize {
        self.max_whole(self.mode(id))
    }

    /// Whether nothing waits that is as urgent as this: what is handed over now leaves next.
    pub fn is_free(&self, now: Instant) -> bool {
        let waits = |connection: &Connection| connection.sender.has_again() || connection.sender.has_new();
        self.lines.iter().any(|line| line.pacer.is_free(now) && line.replicas.is_empty())
            && self.datagrams.is_empty()
            && !self.connections.iter().any(waits)
    }

    /// When a line is free.
    pub fn free_at(&self, now: Instant) -> Instant {
        self.lines.iter().map(|line| line.pacer.free_at(now)).min().unwrap_or(now)
    }

    /// Something can be sealed: what is sent now leaves.
    pub fn can_send(&self) -> bool {
        self.security.can_seal()
    }

    /// The other side has been heard under keys that only it has.
    pub fn is_established(&self) -> bool {
        self.security.is_established()
    }

    /// The radio of a line says how much of its transmit buffer is free, in percent (RADIO_STATUS).
    pub fn on_radio_buffer(&mut self, now: Instant, line: usize, free_percent: u8) {
        if let Some(line) = self.lines.get_mut(line) {
            line.pacer.on_buffer(now, free_percent);
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    /// Round trip, smoothed; `None` before it was measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.is_known().then(|| self.rtt.smoothed())
    }

    /// Share of transmissions that are lost, as far as acknowledgements tell.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// When a segment of the other side's last came.
    pub fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// How the other side's segments arrive here.
    pub fn quality(&self) -> Quality {
        self.meter.quality()
    }

    /// How ours arrive there, as it says.
    pub fn told_quality(&self) -> Option<Quality> {
        self.told
    }

    /// Rate at which a line is sent to now.
    pub fn rate(&self, line: usize) -> Bitrate {
        self.lines.get(line).map_or(Bitrate::ZERO, |line| line.pacer.rate())
    }

    /// Counters.
    pub fn counters(&self) -> EndpointCounters {
        let again = self.connections.iter().map(|connection| connection.sender.sent_again).sum::<u64>();
        EndpointCounters { sent_again: self.counters.sent_again + again, ..self.counters }
    }

    /// What must be kept over a restart, if it changed: the greatest handshake that was accepted. See
    /// [`SecurityConfig::accepted`](super::SecurityConfig).
    pub fn snapshot(&mut self) -> Option<u64> {
        self.security.snapshot()
    }

    /// To be called when the time that [`Endpoint::poll_timeout`] gave has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.security.handle_timeout(now);
        let times = self.times();
        for at in (0..self.connections.len()).rev() {
            for timer in Timer::ALL {
                let connection = &mut self.connections[at];
                if connection.deadline(now, timer, &times).is_none_or(|due| due > now) {
                    continue;
                }
                let before = connection.receiver.is_readable();
                let ended = connection.on_timer(now, timer, &times);
                if !before && connection.receiver.is_readable() {
                    self.events.push_back(EndpointEvent::Readable(connection.id));
                }
                if let Some(reason) = ended {
                    self.end(at, reason);
                    break;
                }
            }
        }
    }

    /// When to call [`Endpoint::handle_timeout`] and [`Endpoint::poll_transmit`] next, if nothing comes in.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let times = self.times();
        let times = &times;
        let try_again = self.next_try().filter(|_| self.holds_back(now));
        let timers = self.connections.iter_mut().flat_map(|connection| {
            let held = try_again.filter(|_| connection.config.repeats());
            Timer::ALL.into_iter().filter_map(move |timer| {
                let due = connection.deadline(now, timer, times)?;
                // What only a transmission can answer waits as long as there may be none.
                Some(held.filter(|_| matches!(timer, Timer::Asyn | Timer::Afin)).map_or(due, |held| due.max(held)))
            })
        });
        let mut due = timers.min();
        due = [self.security.next_deadline(), self.greeting.map(|greeting| greeting.due), self.report_due(), try_again]
            .into_iter()
            .flatten()
            .chain(due)
            .min();
        if !self.security.can_seal() {
            return due;
        }
        let replicas =
            self.lines.iter().filter(|line| !line.replicas.is_empty()).map(|line| line.pacer.free_at(now)).min();
        let waits = self.next_task(now).is_some();
        let free = self.free_at(now);
        // What is due while the line is taken waits for it.
        let due = due.map(|due| if due <= now { due.max(free) } else { due });
        due.into_iter().chain(replicas).chain(waits.then_some(free)).min()
    }

    /// Nothing has been answered for long: when the next segment may leave that asks for an answer.
    fn next_try(&self) -> Option<Instant> {
        let limit = OUT_OF_REACH.max(self.rtt.timeout(Duration::ZERO) * 3);
        let since = self.unanswered? + limit;
        Some(self.tried.map_or(since, |tried| since.max(tried + TRY_EVERY)))
    }

    /// Whether what asks for an answer has to wait, since the other side is out of reach.
    fn holds_back(&self, now: Instant) -> bool {
        let limit = OUT_OF_REACH.max(self.rtt.timeout(Duration::ZERO) * 3);
        let out_of_reach = self.unanswered.is_some_and(|since| now.saturating_duration_since(since) >= limit);
        out_of_reach && self.next_try().is_some_and(|at| at > now)
    }

    fn on_asked(&mut self, now: Instant) {
        self.unanswered = self.unanswered.or(Some(now));
        self.tried = Some(now);
    }

    fn times(&self) -> Times {
        let mack = crate::ByteCount(MACK_BYTES);
        let takes = self.lines.iter().map(|line| line.config.rate.time_for(mack + line.config.framing)).max();
        Times { rtt: self.rtt, mack: takes.unwrap_or_default().min(Duration::from_millis(250)) }
    }

    fn add(
        &mut self,
        now: Instant,
        config: ConnectionConfig,
        ports: (Port, Port),
        first: Seq,
        initiated: bool,
    ) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        let EndpointConfig { reordering: segments, patience, .. } = self.config;
        let disorder = Disorder { segments, patience, lines: self.lines.len() };
        self.connections.push(Connection::new(now, id, config, ports, first, initiated, disorder));
        id
    }

    /// A handshake is under way: segments carry its messages.
    fn greets(&self) -> bool {
        self.security.overhead() > super::TAG_LEN
    }

    fn find(&self, local: Port, remote: Port) -> Option<usize> {
        self.connections.iter().position(|connection| (connection.local, connection.remote) == (local, remote))
    }

    fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.iter().find(|connection| connection.id == id)
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }

    fn remove(&mut self, at: usize) -> Connection {
        let connection = self.connections.remove(at);
        self.guard.on_ended((connection.local, connection.remote), connection.newest);
        self.counters.sent_again += connection.sender.sent_again;
        connection
    }

    fn end(&mut self, at: usize, reason: Closed) {
        let connection = self.remove(at);
        self.events.push_back(EndpointEvent::Closed { connection: connection.id, reason });
    }

    fn queue_reset(&mut self, local: Port, remote: Port, seq: Seq, mode: TransferMode) {
        if self.resets.len() < MAX_RESETS {
            self.resets.push_back((local, remote, seq, mode));
        }
    }

    /// Bytes of a stream that fill a segment that leaves now.
    pub fn segment_payload(&self, id: ConnectionId) -> usize {
        self.max_plaintext(self.mode(id))
    }

    fn mode(&self, id: ConnectionId) -> TransferMode {
        self.connection(id).map_or(TransferMode::Reliable, |connection| connection.config.mode)
    }

    /// Bytes of plaintext that fit a segment with its parity that leaves now.
    fn max_plaintext(&self, mode: TransferMode) -> usize {
        self.plaintext_within(mode, self.security.overhead())
    }

    /// Bytes of plaintext that fit a segment whenever it leaves, with a greeting too.
    fn max_whole(&self, mode: TransferMode) -> usize {
        self.plaintext_within(mode, super::TAG_LEN + HELLO_EXTENSION)
    }

    fn plaintext_within(&self, mode: TransferMode, overhead: usize) -> usize {
        let parity = usize::from(self.strength.words(mode, self.config.max_segment)) * 4;
        let room = self.without_parity(mode, overhead);
        // What repairs have around them takes the place of parity, if there is enough.
        let taken = if mode == TransferMode::QuasiReliable { parity.saturating_sub(AROUND_REPAIR) } else { parity };
        // At least something fits, whatever the code would like.
        room.saturating_sub(taken).max(room / 4).max(1)
    }

    /// The same without parity.
    fn most_plaintext(&self, mode: TransferMode) -> usize {
        self.without_parity(mode, self.security.overhead())
    }

    fn without_parity(&self, mode: TransferMode, overhead: usize) -> usize {
        let crc = if self.config.checksum { 4 } else { 0 };
        let repair = if mode == TransferMode::QuasiReliable { AROUND_REPAIR } else { 0 };
        self.config.max_segment - (HEADER_LEN + overhead + crc + repair)
    }
}

/// Flags of a segment with data.
fn data_flags(push: bool, asyn: bool) -> Flags {
    let mut flags = Flags::NONE;
    if push {
        flags = flags | Flags::PUSH;
    }
    if asyn {
        flags = flags | Flags::SYN;
    }
    flags
}
