//! AeroTP as a bearer of a session: over one radio, with a connection for each kind of traffic.
//!
//! The session knows messages (control, each to arrive on its own), datagrams that are kept until they have arrived, and
//! datagrams that are not. How the radio treats each is a matter of its transfer mode ([`Modes`]).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::endpoint::{EndpointCounters, EndpointEvent, Protection};
use super::line::{Deframer, LINE_OVERHEAD, LineCounters};
use super::quality::Quality;
use super::transceiver::Transceiver;
use super::{Closed, ConnectionConfig, ConnectionId, Port, SecurityConfig, SecurityError, TransferMode};
use crate::mavlink::RadioStatus;
use crate::sched::parcels::LEAST_ROOM;
use crate::seeded::SeededBytes;
use crate::{Bitrate, ByteCount, Class};

/// A segment that has to be sealed anew while a handshake is under way may be so much longer, see [`super::EndpointConfig::max_segment`].
const SEALED_ANEW: usize = 60;

/// How segments are told apart on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// By a sync word and a length, on a serial line. A frame of which nothing more has come for this long is given up.
    Serial(Duration),
    /// By the packets that carry them, with so many bytes around.
    Packets(ByteCount),
}

/// How each class travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// Commands and setpoints.
    pub control: TransferMode,
    /// Transactions of telemetry.
    pub transactions: TransferMode,
    /// States: the newest counts.
    pub states: TransferMode,
    /// Pictures.
    pub video: TransferMode,
    /// Files.
    pub bulk: TransferMode,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            control: TransferMode::Reliable,
            transactions: TransferMode::Reliable,
            states: TransferMode::UnreliableDatagram,
            video: TransferMode::QuasiReliable,
            bulk: TransferMode::NearReliable,
        }
    }
}

/// A radio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RadioConfig {
    /// What its air carries, framing included; in both directions together if they share it.
    pub rate: Bitrate,
    /// Both sides send on one channel, which takes this long to turn around. `None`: each has one of its own.
    pub turn_around: Option<Duration>,
    /// How segments are told apart.
    pub framing: Framing,
    /// Longest segment in bytes.
    pub max_segment: usize,
    /// Segments that may overtake another before it counts as lost.
    pub reordering: u64,
    /// How long a gap may close by itself before the other side is asked to fill it, or nothing more is expected there.
    pub patience: Duration,
    /// Round trip until it has been measured.
    pub assumed_rtt: Duration,
    /// Strength of the code.
    pub protection: Protection,
    /// Whether damaged copies are put together.
    pub combine: bool,
    /// How each class travels. Both sides have to have the same.
    pub modes: Modes,
    /// Grows with each start of the process; below 2^44.
    pub life: u64,
}

impl RadioConfig {
    /// A serial radio whose air carries `rate`, of both sides together.
    pub fn serial(rate: Bitrate) -> Self {
        let bytes = rate.bytes_in(LONGEST).as_usize();
        Self {
            rate,
            turn_around: Some(Duration::from_millis(5)),
            framing: Framing::Serial(rate.time_for(INTERRUPTED).clamp(Deframer::MIN_GAP, Duration::from_secs(2))),
            max_segment: bytes.clamp(LEAST_SEGMENT, 1400),
            reordering: 1,
            patience: Duration::ZERO,
            assumed_rtt: Duration::from_millis(20) + rate.time_for(ByteCount(400)).min(Duration::from_secs(2)),
            protection: Protection::default(),
            combine: true,
            modes: Modes::default(),
            life: 0,
        }
    }

    /// A radio that carries UDP packets, and is ours alone.
    pub fn packets(rate: Bitrate) -> Self {
        let framing = Framing::Packets(ByteCount(28));
        Self { framing, turn_around: None, reordering: 3, max_segment: 1400, ..Self::serial(rate) }
    }

    /// No radio but a session's parcels ([`crate::sched::parcels`]): the session says when one may leave, on any of its bearers, and
    /// what arrives is whole. Where bearers differ by more than 60 ms, what was only overtaken is sent twice.
    pub fn parcels() -> Self {
        Self {
            framing: Framing::Packets(ByteCount(0)),
            reordering: 64,
            patience: Duration::from_millis(60),
            assumed_rtt: Duration::from_millis(500),
            max_segment: LEAST_ROOM - SEALED_ANEW,
            protection: Protection::Off,
            combine: false,
            ..Self::packets(Bitrate(1_000_000_000))
        }
    }
}

/// A datagram of the session's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handling {
    /// Its class.
    pub class: Class,
    /// It is kept until it has arrived; this comes back then.
    pub token: Option<u64>,
}

/// What a radio tells the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RadioEvent {
    /// The other side is heard, and can be sent to. `number`: which association with one life of the other side, the later one
    /// is larger.
    Connected {
        /// Which.
        number: u64,
    },
    /// The other side has restarted: what was under way is lost.
    Disconnected,
    /// A whole message.
    Message(Bytes),
    /// A datagram.
    Datagram(Bytes),
    /// The other side has a message.
    Acknowledged {
        /// What [`RadioBearer::send_message`] was told.
        token: u64,
    },
    /// The other side has a datagram that was kept.
    Arrived {
        /// See [`Handling::token`].
        token: u64,
    },
}

/// How a radio fares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RadioStats {
    /// Rate at which it is sent to now.
    pub rate: Bitrate,
    /// How the other side's segments arrive here.
    pub quality: Quality,
    /// How ours arrive there, as it says.
    pub told: Option<Quality>,
    /// Parity in a long segment, words of 4 bytes.
    pub parity_words: u16,
    /// Counters.
    pub counters: EndpointCounters,
    /// Counters of the serial line.
    pub line: LineCounters,
    /// What the radio said of itself last.
    pub status: Option<RadioStatus>,
}

/// Kinds of traffic that have a connection each; the port is one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Control,
    Transactions,
    States,
    Video,
    Bulk,
}

/// Shortest longest segment: a MAVLink frame of 280 bytes with all around it.
pub const LEAST_SEGMENT: usize = 480;
/// A command that has to wait for a segment of telemetry should not wait longer than this.
const LONGEST: Duration = Duration::from_millis(50);
/// A radio may send part of a frame, let the other side send, and go on: its bytes pause for as long as this many take.
const INTERRUPTED: ByteCount = ByteCount(1024);
/// Datagrams that are filled up are not shorter than this.
const LEAST_DATAGRAM: usize = 128;
/// What goes in datagrams without connection.
const LOOSE: Port = Port(64);
/// A connection that the other side does not take is tried again after this.
const REOPEN: Duration = Duration::from_secs(1);

impl Kind {
    const ALL: [Self; 5] = [Self::Control, Self::Transactions, Self::States, Self::Video, Self::Bulk];

    fn port(self) -> Port {
        Port(self as u16 + 1)
    }

    fn mode(self, modes: &Modes) -> TransferMode {
        match self {
            Self::Control => modes.control,
            Self::Transactions => modes.transactions,
            Self::States => modes.states,
            Self::Video => modes.video,
            Self::Bulk => modes.bulk,
        }
    }

    fn priority(self) -> u8 {
        match self {
            Self::Control => 0,
            Self::Transactions | Self::States => 2,
            Self::Video => 3,
            Self::Bulk => 4,
        }
    }
}

/// A session's bearer over one radio.
#[derive(Debug)]
pub struct RadioBearer {
    config: RadioConfig,
    initiates: bool,
    radio: Transceiver,
    /// By kind.
    connections: [Option<ConnectionId>; 5],
    reopen: Option<Instant>,
    /// Something of the other side's life has come, and control can be sent.
    connected: Option<u64>,
    lives: u64,
    /// The other side was found not to take a connection, and it was said.
    refused: bool,
    events: VecDeque<RadioEvent>,
}

impl RadioBearer {
    /// A bearer that has said nothing yet.
    ///
    /// # Errors
    /// If no secret can be agreed with the other side's key.
    pub fn new(config: RadioConfig, security: SecurityConfig, random: SeededBytes) -> Result<Self, SecurityError> {
        let initiates = security.initiates;
        // Heartbeats are answered: who hears nothing has nothing to wait for.
        let limits = (config.max_segment.max(LEAST_SEGMENT), Kind::ALL.len() * 2, Duration::ZERO);
        let mut radio = Transceiver::new(&config, limits, security, random)?;
        for kind in Kind::ALL.into_iter().filter(|_| !initiates) {
            let config = connection(kind, &config.modes);
            radio.endpoint.listen(kind.port().0..=kind.port().0, config);
        }
        Ok(Self {
            config,
            initiates,
            radio,
            connections: [None; 5],
            reopen: None,
            connected: None,
            lives: 0,
            refused: false,
            events: VecDeque::new(),
        })
    }

    /// Takes in bytes of the line, or one packet.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        self.radio.handle_bytes(now, bytes);
        self.pump(now);
    }

    /// The side that initiates begins; the other one waits to be spoken to.
    pub fn begin(&mut self, now: Instant) {
        self.radio.begin(now);
        if self.initiates {
            self.open(now);
        }
    }

    /// To be called when the time that [`RadioBearer::poll_timeout`] gave has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.reopen.is_some_and(|at| at <= now) {
            self.open(now);
        }
        self.radio.handle_timeout(now);
        self.pump(now);
    }

    /// When to call [`RadioBearer::handle_timeout`] and [`RadioBearer::poll_transmit`] next.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        self.radio.poll_timeout(now).into_iter().chain(self.reopen).min()
    }

    /// The next bytes for the line, or packet, put into `out`; whether there are any.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.radio.poll_transmit(now, out)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<RadioEvent> {
        self.events.pop_front()
    }

    /// Whether messages can be sent: by the side that initiates at once.
    pub fn is_ready(&self) -> bool {
        self.radio.endpoint.can_send() && self.connections[Kind::Control as usize].is_some()
    }

    /// Number of the life of the other side that is connected to, if one is.
    pub fn connected(&self) -> Option<u64> {
        self.connected
    }

    /// Number of the life of the other side that is talked to: the one connected to, or the next one.
    pub fn life(&self) -> u64 {
        self.connected.unwrap_or(self.lives + 1)
    }

    /// Sends a message that the other side acknowledges, in modes that do; `false` if it cannot be taken.
    pub fn send_message(&mut self, bytes: Bytes, token: u64) -> bool {
        self.send_on(Kind::Control, bytes, Some(token))
    }

    /// A message need not arrive any more.
    pub fn cancel(&mut self, token: u64) {
        if let Some(id) = self.connections[Kind::Control as usize] {
            self.radio.endpoint.cancel(id, token);
        }
    }

    /// Sends a datagram; `false` if it cannot be taken.
    pub fn send_datagram(&mut self, bytes: Bytes, handling: Handling) -> bool {
        let kind = match (handling.class, handling.token) {
            (Class::Control, _) => return self.send_loose(0, bytes),
            (Class::Telemetry, Some(_)) => Kind::Transactions,
            (Class::Telemetry, None) => Kind::States,
            (Class::Video, _) => Kind::Video,
            (Class::Bulk, _) => Kind::Bulk,
        };
        match kind.mode(&self.config.modes) {
            TransferMode::UnreliableDatagram => self.send_loose(kind.priority(), bytes),
            _ => self.send_on(kind, bytes, handling.token),
        }
    }

    /// Whether a class's kept datagrams are repeated until they arrive.
    pub fn repeats(&self, class: Class) -> bool {
        let mode = match class {
            Class::Control => self.config.modes.control,
            Class::Telemetry => self.config.modes.transactions,
            Class::Video => self.config.modes.video,
            Class::Bulk => self.config.modes.bulk,
        };
        matches!(mode, TransferMode::Reliable | TransferMode::NearReliable)
    }

    fn send_loose(&mut self, priority: u8, bytes: Bytes) -> bool {
        self.radio.endpoint.send_datagram(LOOSE, LOOSE, priority, bytes).is_ok()
    }

    fn send_on(&mut self, kind: Kind, bytes: Bytes, token: Option<u64>) -> bool {
        let Some(id) = self.connections[kind as usize] else { return false };
        self.radio.endpoint.send(id, bytes, token).is_ok()
    }

    /// How long a datagram is to be at most that is filled up with what waits. A single message or frame may be longer.
    pub fn max_datagram(&self) -> usize {
        let bytes = self.config.rate.bytes_in(LONGEST).as_usize().saturating_sub(AROUND);
        bytes.clamp(LEAST_DATAGRAM, self.config.max_segment.max(LEAST_SEGMENT) - RESERVED)
    }

    /// Whether what is handed over now leaves now.
    pub fn is_free(&self, now: Instant) -> bool {
        self.radio.endpoint.is_free(now)
    }

    /// When the line is free.
    pub fn free_at(&self, now: Instant) -> Instant {
        self.radio.endpoint.free_at(now)
    }

    /// Round trip, smoothed.
    pub fn rtt(&self) -> Option<Duration> {
        self.radio.endpoint.rtt()
    }

    /// Share of segments that are lost.
    pub fn loss(&self) -> f64 {
        self.radio.endpoint.loss().max(self.radio.endpoint.told_quality().map_or(0.0, |quality| quality.lost))
    }

    /// Rate at which the line is sent to.
    pub fn rate(&self) -> Bitrate {
        self.radio.endpoint.rate(0)
    }

    /// How it fares.
    pub fn stats(&self) -> RadioStats {
        RadioStats {
            rate: self.rate(),
            quality: self.radio.endpoint.quality(),
            told: self.radio.endpoint.told_quality(),
            parity_words: self.radio.endpoint.parity_words(),
            counters: self.radio.endpoint.counters(),
            line: self.radio.line(),
            status: self.radio.status,
        }
    }

    /// What must be kept over a restart, if it changed: the greatest handshake that was accepted.
    pub fn snapshot(&mut self) -> Option<u64> {
        self.radio.endpoint.snapshot()
    }

    /// Says goodbye: connections are reset.
    pub fn close(&mut self) {
        for id in std::mem::take(&mut self.connections).into_iter().flatten() {
            self.radio.endpoint.reset(id);
        }
        self.reopen = None;
        self.radio.end();
    }

    fn open(&mut self, now: Instant) {
        self.reopen = None;
        for kind in Kind::ALL {
            let config = connection(kind, &self.config.modes);
            if self.connections[kind as usize].is_none() && config.mode != TransferMode::UnreliableDatagram {
                self.connections[kind as usize] = self.radio.endpoint.connect(now, config, kind.port(), kind.port());
            }
        }
    }

    fn pump(&mut self, now: Instant) {
        while let Some(event) = self.radio.endpoint.poll_event() {
            match event {
                EndpointEvent::Associated { restarted } => {
                    if restarted && self.connected.take().is_some() {
                        self.events.push_back(RadioEvent::Disconnected);
                    }
                }
                EndpointEvent::Opened { connection, local, .. } => {
                    if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.port() == local) {
                        self.connections[kind as usize] = Some(connection);
                    }
                }
                EndpointEvent::Readable(id) => {
                    while let Some(piece) = self.radio.endpoint.read(now, id) {
                        let is_control = self.connections[Kind::Control as usize] == Some(id);
                        match is_control {
                            // A message that was cancelled comes empty.
                            _ if piece.bytes.is_empty() => {}
                            true => self.events.push_back(RadioEvent::Message(piece.bytes)),
                            false => self.events.push_back(RadioEvent::Datagram(piece.bytes)),
                        }
                    }
                }
                EndpointEvent::Acknowledged { connection, token } => {
                    let is_control = self.connections[Kind::Control as usize] == Some(connection);
                    self.events.push_back(match is_control {
                        true => RadioEvent::Acknowledged { token },
                        false => RadioEvent::Arrived { token },
                    });
                }
                EndpointEvent::Closed { connection, reason } => self.on_closed(now, connection, reason),
                EndpointEvent::PeerClosed(_) => {}
                EndpointEvent::Datagram { bytes, .. } => self.events.push_back(RadioEvent::Datagram(bytes)),
            }
        }
        if self.connected.is_none() && self.is_ready() && self.radio.endpoint.is_established() {
            self.lives += 1;
            self.connected = Some(self.lives);
            // Before what came with it.
            self.events.push_front(RadioEvent::Connected { number: self.lives });
        }
    }

    fn on_closed(&mut self, now: Instant, connection: ConnectionId, reason: Closed) {
        let Some(at) = self.connections.iter().position(|own| *own == Some(connection)) else { return };
        self.connections[at] = None;
        if at == Kind::Control as usize && self.connected.take().is_some() {
            self.events.push_back(RadioEvent::Disconnected);
        }
        if reason == Closed::Reset && self.initiates && !std::mem::replace(&mut self.refused, true) {
            let (port, mode) = (at + 1, Kind::ALL[at].mode(&self.config.modes));
            tracing::warn!(
                port,
                ?mode,
                "the other side does not take a connection of the radio: are its modes the same there?"
            );
        }
        if self.initiates && self.radio.has_begun() {
            let wait = if reason == Closed::PeerRestarted { Duration::ZERO } else { REOPEN };
            self.reopen = Some(self.reopen.map_or(now + wait, |at| at.min(now + wait)));
        }
    }
}

/// Header, tag and CRC, a code of 8 words, and the line's sync word and length.
const AROUND: usize = 20 + 16 + 4 + 32 + LINE_OVERHEAD;
/// What is kept free in the longest segment: the same, and a greeting.
const RESERVED: usize = AROUND + 60;

fn connection(kind: Kind, modes: &Modes) -> ConnectionConfig {
    ConnectionConfig::messages(kind.mode(modes)).with_priority(kind.priority())
}
