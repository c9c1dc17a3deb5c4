//! Two endpoints of AeroTP over the emulator, an application that writes at one of them, and one that reads at the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_emu::Path;
use aquila_proto::ByteCount;
use aquila_proto::aerotp::{
    ConnectionConfig, ConnectionId, Endpoint, EndpointConfig, EndpointCounters, EndpointEvent, LineConfig, Port,
    Protection, SecurityConfig, TransferMode,
};
use aquila_proto::identity::Identity;
use aquila_proto::seeded::SeededBytes;
use bytes::Bytes;

use super::ledger::{Ledger, Outcome};
use super::{Channel, PACKET, Task, interval};

/// AeroTP in one of its modes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ours {
    /// How what is lost is dealt with.
    pub mode: TransferMode,
    /// The code in each segment.
    pub protection: Protection,
    /// Damaged copies are put together.
    pub combine: bool,
    /// Segments are made as short as bit errors ask for.
    pub fit_length: bool,
    /// A stream, delivered in order; else messages of as much as fits a segment, delivered as they come.
    pub stream: bool,
    /// Links beside each other, each with the rate of the channel.
    pub lines: usize,
}

impl Ours {
    /// Selective repeat and nothing else, segments of full length.
    pub const PLAIN: Self = Self {
        mode: TransferMode::Reliable,
        protection: Protection::Off,
        combine: false,
        fit_length: false,
        stream: true,
        lines: 1,
    };
    /// The same, with damaged copies put together.
    pub const COMBINING: Self = Self { combine: true, ..Self::PLAIN };
    /// The same, with lengths that fit.
    pub const FITTED: Self = Self { fit_length: true, ..Self::COMBINING };
    /// As it is by default: with as much parity as bit errors ask for.
    pub const ADAPTIVE: Self = Self { protection: Protection::Adaptive { most: 64, residual: 1e-6 }, ..Self::FITTED };
    /// The same in near-reliable mode.
    pub const NEAR: Self = Self { mode: TransferMode::NearReliable, ..Self::ADAPTIVE };
    /// Quasi-reliable, with parity as bit errors ask for.
    pub const QUASI: Self = Self { mode: TransferMode::QuasiReliable, ..Self::ADAPTIVE };
    /// An unreliable connection without parity.
    pub const UNRELIABLE: Self = Self { mode: TransferMode::UnreliableConnection, ..Self::COMBINING };

    /// Quasi-reliable with so many words of parity in segments of full length.
    pub const fn quasi(words: u16) -> Self {
        Self { protection: Protection::Fixed(words), fit_length: false, ..Self::QUASI }
    }

    pub(super) fn connection(&self) -> ConnectionConfig {
        let config = ConnectionConfig::stream(self.mode);
        match (self.stream, self.mode, self.protection) {
            (false, mode, _) => ConnectionConfig::messages(mode),
            // With repairs, what is lost may still come.
            (true, TransferMode::QuasiReliable, Protection::Adaptive { .. }) => config,
            (true, ..) => ConnectionConfig { hold: Duration::ZERO, ..config },
        }
    }

    pub(super) fn endpoint(&self, channel: &Channel, end: usize, seed: u64) -> Endpoint {
        let identity = |n: u8| Arc::new(Identity::from_seed([n; 32]));
        let (own, peer) = if end == 0 { (1, 2) } else { (2, 1) };
        let security = SecurityConfig {
            identity: identity(own),
            peer: identity(peer).public(),
            initiates: end == 0,
            life: 1,
            accepted: None,
        };
        let framing = ByteCount::from(channel.framing.bytes());
        let line = LineConfig { rate: channel.rate, framing, shared: None };
        let config = EndpointConfig {
            lines: vec![line; self.lines],
            assumed_rtt: channel.delay * 4,
            protection: self.protection,
            combine: self.combine,
            fit_length: self.fit_length,
            ..EndpointConfig::new(security, line, PACKET - channel.framing.bytes())
        };
        let mut random = [0; 32];
        random[..8].copy_from_slice(&seed.to_be_bytes());
        let random = SeededBytes::new(&random, if end == 0 { "sender" } else { "receiver" });
        Endpoint::new(config, random).expect("both keys are good")
    }
}

/// Runs it once.
pub fn run(ours: Ours, task: &Task, seed: u64) -> Outcome {
    run_counted(ours, task, seed).0
}

/// The same, with the counters of both endpoints.
pub fn run_counted(ours: Ours, task: &Task, seed: u64) -> (Outcome, [EndpointCounters; 2]) {
    let mut world = World::new(ours, task, seed);
    world.run();
    let counters = [world.ends[0].counters(), world.ends[1].counters()];
    let given_up = world.expects_all && world.read < world.task.bytes;
    let mut outcome = world.ledger.close(given_up.then_some(task.limit));
    outcome.wire = counters.map(|counters| counters.bytes_out);
    outcome.packets = counters.map(|counters| counters.segments_out);
    (outcome, counters)
}

struct World<'a> {
    task: &'a Task,
    now: Instant,
    start: Instant,
    ends: [Endpoint; 2],
    /// What each end sends, by line.
    paths: [Vec<Path<Vec<u8>>>; 2],
    id: ConnectionId,
    peer: Option<ConnectionId>,
    is_stream: bool,
    /// What is lost is repeated.
    expects_all: bool,
    next_write: Instant,
    /// Places of messages among all bytes.
    messages: Vec<u64>,
    read: u64,
    /// Of a stream: the next segment that comes out.
    segment: usize,
    ledger: Ledger,
}

/// Behind the number of a message.
pub(super) const FILLING: u8 = 0x5a;
pub(super) const PORTS: (Port, Port) = (Port(5000), Port(80));
/// Without delivery for so long after the last write, nothing more is to be expected where nothing is repeated.
const QUIET: Duration = Duration::from_secs(2);

impl<'a> World<'a> {
    fn new(ours: Ours, task: &'a Task, seed: u64) -> Self {
        let start = crate::run::origin();
        let mut ends = [0, 1].map(|end| ours.endpoint(&task.channel, end, seed));
        let config = ours.connection();
        ends[1].listen(PORTS.1.0..=PORTS.1.0, config);
        let id = ends[0].connect(start, config, PORTS.0, PORTS.1).expect("the first connection");
        let of_line =
            |line: usize, flip: u64| Path::new(task.channel.path(), seed.wrapping_add(line as u64 * 7919) ^ flip);
        let paths = [0, u64::MAX].map(|flip| (0..ours.lines).map(|line| of_line(line, flip)).collect());
        Self {
            task,
            now: start,
            start,
            ends,
            paths,
            id,
            peer: None,
            is_stream: ours.stream,
            expects_all: matches!(ours.mode, TransferMode::Reliable | TransferMode::NearReliable),
            next_write: start,
            messages: vec![0],
            read: 0,
            segment: 0,
            ledger: Ledger::new(start),
        }
    }

    fn run(&mut self) {
        loop {
            self.write();
            for end in 0..2 {
                self.step(end);
            }
            let is_event = self.take_events();
            self.read();
            if self.is_over() {
                return;
            }
            if !is_event {
                let Some(next) = self.next() else { return };
                self.now = next.max(self.now + Duration::from_nanos(1));
            }
        }
    }

    fn is_over(&self) -> bool {
        let all_written = self.ledger.written() >= self.task.bytes;
        let quiet_since = self.ledger.latest().unwrap_or(self.start).max(self.next_write);
        let is_quiet = all_written && self.ends[0].is_idle() && self.now > quiet_since + QUIET;
        self.read >= self.task.bytes
            || (!self.expects_all && is_quiet)
            || self.now.saturating_duration_since(self.start) > self.task.limit
    }

    fn write(&mut self) {
        while self.next_write <= self.now && self.ledger.written() < self.task.bytes {
            let left = self.task.bytes - self.ledger.written();
            let fits = match self.is_stream {
                true => self.ends[0].segment_payload(self.id),
                false => self.ends[0].max_message(self.id),
            };
            let mut bytes = vec![FILLING; fits.min(left as usize).max(4)];
            if !self.is_stream {
                bytes[..4].copy_from_slice(&(self.messages.len() as u32 - 1).to_be_bytes());
            }
            let len = bytes.len();
            let sent = self.ends[0].send(self.id, Bytes::from(bytes), None);
            self.next_write += interval(self.task.source, len);
            if sent.is_ok() {
                self.ledger.on_written(self.now, len as u64);
                self.messages.push(self.ledger.written());
            }
        }
    }

    fn step(&mut self, end: usize) {
        let now = self.now;
        self.ends[end].handle_timeout(now);
        let mut out = Vec::new();
        loop {
            let before = self.ends[0].waiting_bytes(self.id);
            let Some(line) = self.ends[end].poll_transmit(now, &mut out) else { break };
            if end == 0 {
                let left = before.unwrap_or(0) - self.ends[0].waiting_bytes(self.id).unwrap_or(0);
                self.ledger.on_sent(now, left as u64);
            }
            let bytes = out.len() + self.task.channel.framing.bytes();
            let _ = self.paths[end][line].push(now, bytes, out.clone());
        }
        for (line, path) in self.paths[end].iter_mut().enumerate() {
            while let Some(mut delivered) = path.pop_packet(now) {
                if self.task.channel.framing.survives(delivered.flipped_header_bits) {
                    self.ends[1 - end].handle_segment(now, line, &mut delivered.packet.payload);
                }
            }
        }
    }

    fn take_events(&mut self) -> bool {
        let mut is_event = false;
        for end in 0..2 {
            while let Some(event) = self.ends[end].poll_event() {
                is_event = true;
                if let EndpointEvent::Opened { connection, .. } = event {
                    self.peer = Some(connection);
                }
            }
        }
        is_event
    }

    fn read(&mut self) {
        let Some(peer) = self.peer else { return };
        while let Some(piece) = self.ends[1].read(self.now, peer) {
            let is_whole = piece.bytes.iter().skip(if self.is_stream { 0 } else { 4 }).all(|byte| *byte == FILLING);
            assert!(is_whole, "what is delivered is what was written");
            let (from, to) = match self.is_stream {
                true => {
                    self.segment += piece.skipped as usize + 1;
                    self.ledger.span(self.segment - 1).expect("it has been sent")
                }
                false => {
                    let number = u32::from_be_bytes(piece.bytes[..4].try_into().expect("four bytes")) as usize;
                    (self.messages[number], self.messages[number + 1])
                }
            };
            self.read += to - from;
            self.ledger.on_delivered(self.now, from, to);
        }
    }

    fn next(&mut self) -> Option<Instant> {
        let now = self.now;
        let write = (self.ledger.written() < self.task.bytes).then_some(self.next_write);
        let paths = self.paths.iter().flatten().filter_map(Path::next_delivery).min();
        let ends = self.ends.iter_mut().filter_map(|end| end.poll_timeout(now)).min();
        [write, paths, ends].into_iter().flatten().min()
    }
}
