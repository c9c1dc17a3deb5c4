//! What people use today, as a model: commands and parameters on a TCP connection, with TLS 1.3 or without, and video
//! in UDP datagrams beside it.
//!
//! The connection is opened by the first node at the start. Both directions use it; each message is written at once
//! (TCP_NODELAY) and read when all bytes before it have come. A MAVLink frame says its length itself, so nothing is
//! added to it but, with TLS, a record.
//!
//! # TCP
//!
//! Follows Linux 6.x with its defaults, as far as the time of messages depends on it: SYN, its repetition and time
//! stamps; cumulative acknowledgements, SACK (RFC 2018) and D-SACK (RFC 2883); quick, delayed and piggybacked
//! acknowledgements; RTO (RFC 6298) with Linux' floor and back-off; RACK and tail loss probes (RFC 8985); proportional
//! rate reduction (RFC 6937); repetitions that take small neighbours along; F-RTO (RFC 5682), and undoing by time stamps
//! (RFC 3522) and D-SACK (RFC 3708); the kernel's coarse timers ([`ticks`]); slow start (10 segments, RFC 6928), idle
//! restart and validation of the window; [`reno`] and [`cubic`].
//!
//! Where it matters at high loss: of a segment that is older than the last acknowledgement nothing counts, and the time
//! stamp of one behind a gap is not echoed, so that a round trip measured after a loss has the wait for the repetition in
//! it, and the timeout grows. docs/validation.md compares the model with the kernel.
//!
//! Left out, and what it would change:
//! - HyStart: slow start ends by loss only, so the first second of bulk data overshoots the queue more.
//! - Pacing, segmentation offload, small-queue limits, autocorking: a burst enters the link as it is.
//! - Compression of SACKs (up to 1 ms), the adaptive delay of acknowledgements (40 ms, its least, here).
//! - Flow control: the peer's window is fixed at 6 MiB, the largest of `net.ipv4.tcp_rmem`; the application reads at
//!   once.
//! - ECN (off for connections that Linux opens: `net.ipv4.tcp_ecn` = 2), Fast Open, keep-alive, PAWS, closing, reset.
//! - The time window of the least round trip (300 s) and growth of RACK's window for reordering by D-SACK.
//! - Giving up: `net.ipv4.tcp_retries2` = 15 comes after a quarter of an hour. Metrics kept from former connections.
//! - Checksums: a plan's bit errors do not touch it.
//! - More than one link: it uses the first.
//!
//! # The application
//!
//! - Messages written before the connection is ready wait, 65,536 of them at each end; so does what the socket's buffer
//!   (`net.ipv4.tcp_wmem`: 4 MiB) has no room for. More than that is refused and counted.
//! - With a new address the connection is dead: its packets come from an address the peer does not know. `reconnect =
//!   "keep"`: the aircraft notices by 5 s without an acknowledgement ([`GIVE_UP`]) and connects anew; MAVLink sends
//!   something each second, so the 5 s count from the change. `"resume"` and `"fresh"`: it connects anew at once. As
//!   long as the address stays the connection does, however long an outage lasts. The ground station takes the newest
//!   connection; where the plan asks for `reconnect`, it closes the old one at that moment.
//! - What was written into the old connection is not written again, as MAVProxy and mavlink-router have it: a note says
//!   how many messages that lost. Old commands coming late would be worse.

pub mod congestion;
pub mod connection;
pub mod cubic;
pub mod receiver;
pub mod reno;
pub mod rtt;
pub mod segment;
pub mod sender;
pub mod ticks;
mod tls;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use aquila_emu::Ecn;

use self::congestion::Algorithm;
use self::connection::Connection;
use self::segment::{Kind, Segment};
use self::ticks::Ticks;
use self::tls::Tls;
use super::contender::{Contender, Content, Data, Outgoing, Output, Wire};
use super::datagrams::{COMMAND_BYTES, Datagrams, PARAMETER_BYTES};
use crate::plan::{ContenderKind, ContenderPlan, Reconnect};

/// The contender.
#[derive(Debug)]
pub struct Tcp {
    kind: ContenderKind,
    reconnect: Reconnect,
    /// Timers of both machines, which differ by the seed.
    ticks: [Ticks; 2],
    /// Those of the aircraft and of the ground station.
    ends: [End; 2],
    /// Connections that an end still has, by number.
    streams: BTreeMap<u32, Stream>,
    /// Number of the newest connection.
    newest: u32,
    /// The aircraft's address, which changes.
    address: u32,
    /// When the application sees that the connection is dead.
    give_up: Option<Instant>,
    video: Datagrams,
    /// The node that has something to send whenever there is room.
    transfers: Option<usize>,
    output: VecDeque<Output>,
}

#[derive(Debug, Default)]
struct End {
    current: Option<Socket>,
    /// A newer connection that is not established yet.
    embryo: Option<Socket>,
    waiting: VecDeque<Message>,
    refused: u64,
}

#[derive(Debug)]
struct Socket {
    number: u32,
    tcp: Connection,
    tls: Option<Tls>,
    written: u64,
    read: u64,
}

/// What both ends of a connection have in common.
#[derive(Debug)]
struct Stream {
    /// The aircraft's address.
    address: u32,
    opened: Instant,
    is_resumed: bool,
    /// Messages from each node, with their ends in the stream.
    messages: [VecDeque<(u64, Message)>; 2],
}

#[derive(Debug, Clone, Copy)]
struct Message {
    flow: usize,
    number: u32,
    bytes: u64,
}

/// Time without an acknowledgement after which the application connects anew.
pub const GIVE_UP: Duration = Duration::from_secs(5);
/// Messages that wait at an end.
const MAX_WAITING: usize = 1 << 16;
/// Bytes that a socket takes: the largest of `net.ipv4.tcp_wmem`.
const MAX_BUFFERED: u64 = 4 << 20;

impl Tcp {
    /// As the plan says.
    pub fn new(plan: &ContenderPlan, seed: u64, start: Instant) -> Self {
        // Machines that have been up for some hours.
        let uptime = |node: u64| Duration::from_micros((seed ^ node).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 31);
        Self {
            ticks: [0, 1].map(|node| Ticks::since(start.checked_sub(uptime(node)).unwrap_or(start))),
            kind: plan.kind,
            reconnect: plan.reconnect,
            ends: Default::default(),
            streams: BTreeMap::new(),
            newest: 0,
            address: 0,
            give_up: None,
            video: Datagrams::default(),
            transfers: None,
            output: VecDeque::new(),
        }
    }

    /// The same with a transfer without end from a node, which no message waits behind.
    pub fn transferring(self, node: usize) -> Self {
        Self { transfers: Some(node), ..self }
    }

    fn algorithm(&self) -> Box<dyn Algorithm> {
        match self.kind {
            ContenderKind::TcpReno => Box::new(reno::Reno),
            _ => Box::<cubic::Cubic>::default(),
        }
    }

    fn open(&mut self, now: Instant, is_resumed: bool) {
        let is_same = |stream: &Stream| stream.opened == now && stream.address == self.address;
        if self.streams.get(&self.newest).is_some_and(is_same) {
            return; // The new address was reason enough.
        }
        self.give_up = None;
        self.newest += 1;
        let (address, messages) = (self.address, Default::default());
        self.streams.insert(self.newest, Stream { address, opened: now, is_resumed, messages });
        let tcp = Connection::connect(now, self.algorithm(), self.ticks[0]);
        self.ends[0].current = Some(self.socket(0, self.newest, tcp));
        self.drain(now, 0);
    }

    fn socket(&self, node: usize, number: u32, tcp: Connection) -> Socket {
        let is_resumed = self.streams.get(&number).is_some_and(|stream| stream.is_resumed);
        let tls = (self.kind == ContenderKind::Tls).then(|| Tls::new(node == 0, is_resumed));
        Socket { number, tcp, tls, written: 0, read: 0 }
    }

    /// The ground station is asked for a connection.
    fn accept(&mut self, now: Instant, number: u32, syn: &Segment) {
        let known = self.ends[1].sockets().map(|socket| socket.number).max().unwrap_or_default();
        if number > known {
            let tcp = Connection::accept(now, syn, self.algorithm(), self.ticks[1]);
            self.ends[1].embryo = Some(self.socket(1, number, tcp));
        }
    }

    /// All that a node has to do.
    fn drain(&mut self, now: Instant, node: usize) {
        self.promote(node);
        self.deliver(now, node);
        self.flush(now, node);
        for socket in self.ends[node].sockets_mut() {
            while let Some(segment) = socket.tcp.poll_transmit(now) {
                let wire = Wire::Segment { connection: socket.number, address: self.address, segment };
                let bytes = segment.bytes();
                self.output.push_back(Output::Transmit { node, link: 0, bytes, ecn: Ecn::NotEct, wire });
            }
        }
    }

    /// A newer connection that is established takes the place of the older one.
    fn promote(&mut self, node: usize) {
        let end = &mut self.ends[node];
        if let Some(embryo) = end.embryo.take_if(|embryo| embryo.tcp.is_established()) {
            end.current = Some(embryo);
        }
        let ends = &self.ends;
        let is_held = |number: &u32| ends.iter().any(|end| end.sockets().any(|socket| socket.number == *number));
        let gone = self.streams.extract_if(.., |number, _| !is_held(number));
        for (number, stream) in gone {
            let [up, down] = stream.messages.map(|messages| messages.len());
            if up + down > 0 {
                let text = format!("lost with connection {number}: {up} messages up, {down} down");
                self.output.push_back(Output::Note { node, text });
            }
        }
    }

    fn deliver(&mut self, now: Instant, node: usize) {
        for socket in self.ends[node].sockets_mut() {
            socket.read += socket.tcp.read();
            if socket.tcp.is_established()
                && let Some(tls) = &mut socket.tls
            {
                let bytes = tls.on_progress(socket.read);
                socket.written += bytes;
                socket.tcp.write(now, bytes);
            }
            let Some(stream) = self.streams.get_mut(&socket.number) else { continue };
            let messages = &mut stream.messages[1 - node];
            while let Some((_, message)) = messages.pop_front_if(|(end, _)| *end <= socket.read) {
                self.output.push_back(Output::Delivered { flow: message.flow, number: message.number });
            }
        }
    }

    /// An application leaves a message.
    fn leave(&mut self, now: Instant, node: usize, message: Message) {
        let end = &mut self.ends[node];
        if end.waiting.len() < MAX_WAITING {
            end.waiting.push_back(message);
            self.drain(now, node);
        } else {
            end.refused += 1;
            if end.refused.is_power_of_two() {
                let text = format!("no room for messages: {} refused until now", end.refused);
                self.output.push_back(Output::Note { node, text });
            }
        }
    }

    /// Writes what waits.
    fn flush(&mut self, now: Instant, node: usize) {
        let end = &mut self.ends[node];
        let Some(socket) = end.current.as_mut().filter(|socket| socket.is_ready()) else { return };
        let Some(stream) = self.streams.get_mut(&socket.number) else { return };
        let record = if socket.tls.is_some() { tls::RECORD } else { 0 };
        while let Some(message) = end.waiting.front().copied() {
            let bytes = message.bytes + record;
            if socket.tcp.buffered() + bytes > MAX_BUFFERED {
                break;
            }
            end.waiting.pop_front();
            socket.tcp.write(now, bytes);
            socket.written += bytes;
            stream.messages[node].push_back((socket.written, message));
        }
        if self.transfers == Some(node) {
            let bytes = MAX_BUFFERED.saturating_sub(socket.tcp.buffered());
            socket.tcp.write(now, bytes);
            socket.written += bytes;
        }
    }
}

impl End {
    fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.current.iter().chain(&self.embryo)
    }

    fn sockets_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.current.iter_mut().chain(&mut self.embryo)
    }
}

impl Socket {
    fn is_ready(&self) -> bool {
        self.tcp.is_established() && self.tls.as_ref().is_none_or(Tls::is_ready)
    }
}

impl Contender for Tcp {
    fn start(&mut self, now: Instant) {
        self.open(now, false);
    }

    fn send(&mut self, now: Instant, message: Outgoing) {
        let Outgoing { flow, number, node, content } = message;
        let bytes = match content {
            Content::Command => COMMAND_BYTES,
            Content::Parameter => PARAMETER_BYTES,
            Content::Frame { .. } => return self.video.send(now, message),
        };
        self.leave(now, node, Message { flow, number, bytes: bytes as u64 });
    }

    fn send_data(&mut self, now: Instant, data: Data) {
        let Data { flow, number, node, bytes } = data;
        self.leave(now, node, Message { flow, number, bytes: bytes as u64 });
    }

    fn receive(&mut self, now: Instant, node: usize, ecn: Ecn, wire: Wire) {
        let Wire::Segment { connection, address, segment } = wire else {
            return self.video.receive(now, node, ecn, wire);
        };
        if self.streams.get(&connection).is_none_or(|stream| stream.address != address) {
            return; // From nowhere that the peer knows, or of a connection that is gone.
        }
        if node == 1 && segment.kind == Kind::Syn {
            self.accept(now, connection, &segment);
        }
        if let Some(socket) = self.ends[node].sockets_mut().find(|socket| socket.number == connection) {
            socket.tcp.handle_segment(now, &segment);
        }
        self.drain(now, node);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.give_up.take_if(|due| *due <= now).is_some() {
            self.output.push_back(Output::Note { node: 0, text: "connects anew after 5 s of silence".to_owned() });
            self.open(now, false);
        }
        for node in 0..2 {
            self.ends[node].sockets_mut().for_each(|socket| socket.tcp.handle_timeout(now));
            self.drain(now, node);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let of_sockets = self.ends.iter().flat_map(End::sockets).filter_map(|socket| socket.tcp.next_deadline());
        of_sockets.chain(self.give_up).min()
    }

    fn poll(&mut self, now: Instant) -> Option<Output> {
        self.output.pop_front().or_else(|| self.video.poll(now))
    }

    fn on_new_address(&mut self, now: Instant) {
        self.address += 1;
        match self.reconnect {
            Reconnect::Keep => _ = self.give_up.get_or_insert(now + GIVE_UP),
            Reconnect::Resume | Reconnect::Fresh => self.open(now, self.reconnect == Reconnect::Resume),
        }
    }

    fn on_link_up(&mut self, _: Instant, _: &[usize]) {
        // A socket is not told.
    }

    fn reconnect(&mut self, now: Instant) {
        if self.reconnect != Reconnect::Keep {
            self.ends[1].current = None; // Both applications are told.
            self.open(now, self.reconnect == Reconnect::Resume);
        }
    }
}
