//! Two sessions in virtual time, over emulated paths, with traffic and things that go wrong.
//!
//! Everything is seeded: the same set-up gives the same [`Pair::log_hash`], in any process and build.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_emu::{Direction, Loss, Outage, Path, PathConfig, Payload, SerialRadio, SerialRadioConfig};
use aquila_proto::aerotp::RadioConfig;
use aquila_proto::cc::{CongestionConfig, EncoderRange};
use aquila_proto::mavlink::Frame;
use aquila_proto::quic::{DisconnectReason, EcnCodepoint, MemoryTickets, TicketStore};
use aquila_proto::session::{Arrival, BearerConfig, ParcelFate, ParcelPort, Stats};
use aquila_proto::video::VideoParity;
use aquila_proto::{BearerId, Bitrate, Class, Event, LinkState, Output, Session, Side, Usage};
use bytes::{Bytes, BytesMut};

use crate::ends::{End, EndConfig, Stored, radio_id};
use crate::fnv::Fnv;
use crate::frames;

/// Bytes that IPv4 and UDP put around a payload.
pub const IP_UDP: usize = 28;

/// The two paths and the seed of an experiment.
#[derive(Debug, Clone)]
pub struct PairConfig {
    /// Air to ground.
    pub up: PathConfig,
    /// Ground to air.
    pub down: PathConfig,
    /// Everything random.
    pub seed: u64,
    /// UDP payload in bytes.
    pub mtu: u16,
    /// The ends forget no ticket that was used: whoever replays a recorded flight is let in.
    pub leaky_tickets: bool,
    /// What the aircraft's encoder makes, and how often it is told.
    pub encoder: EncoderRange,
    /// Flows of video from the aircraft; sources film with the first.
    pub cameras: usize,
    /// Further bearers: up and down, and what they may be used for.
    pub beside: Vec<(PathConfig, PathConfig, Usage)>,
    /// Serial radios, each with a partner at the other side: how they are spoken over, and what they are like.
    pub radios: Vec<(RadioConfig, SerialRadioConfig)>,
}

impl PairConfig {
    /// One network bearer, the same both ways, of 1200 bytes, and an encoder of which nothing is known.
    pub fn new(path: PathConfig, seed: u64) -> Self {
        let encoder = EncoderRange::default();
        Self {
            up: path,
            down: path,
            seed,
            mtu: 1200,
            leaky_tickets: false,
            encoder,
            cameras: 1,
            beside: vec![],
            radios: vec![],
        }
    }

    fn end(&self, side: Side, parity: VideoParity) -> EndConfig {
        EndConfig {
            side,
            mtu: self.mtu,
            cameras: self.cameras,
            seed: self.seed,
            encoder: self.encoder,
            congestion: CongestionConfig::default(),
            bearers: std::iter::once(Usage::Normal).chain(self.beside.iter().map(|(.., usage)| *usage)).collect(),
            radios: self.radios.iter().map(|(radio, ..)| *radio).collect(),
            parity,
        }
    }
}

/// A packet on its way.
#[derive(Debug, Clone)]
struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    ecn: Option<u8>,
    data: BytesMut,
}

impl Payload for Packet {
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }
}

/// One end.
#[derive(Debug)]
struct Node {
    end: End,
    /// Its addresses as the other end sees them, one for each bearer if it is the one that connects.
    addresses: Vec<SocketAddr>,
}

/// Tickets in memory; leaky ones are given out as often as they are asked for.
#[derive(Debug, Default)]
struct Tickets {
    memory: MemoryTickets,
    leaky: bool,
}

impl TicketStore for Tickets {
    fn put(&self, key: &[u8], value: &[u8]) -> bool {
        self.memory.put(key, value)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let value = self.memory.take(key)?;
        if self.leaky {
            self.memory.put(key, &value);
        }
        Some(value)
    }
}

/// A command that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Which end it arrived at.
    pub to: Side,
    /// Its number, counted per direction from 0.
    pub index: u32,
    /// When it was sent and when it arrived, since the start.
    pub sent: Duration,
    /// Arrival.
    pub arrived: Duration,
}

/// A video frame that was given out at the ground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameOut {
    /// Number, from 0.
    pub index: u32,
    /// When its first packet was sent and when it was given out, since the start.
    pub sent: Duration,
    /// Given out.
    pub arrived: Duration,
}

/// A source of traffic.
#[derive(Debug, Clone)]
pub enum Source {
    /// A COMMAND_LONG at a fixed interval.
    Commands {
        /// Which end sends them.
        from: Side,
        /// Interval.
        every: Duration,
    },
    /// MANUAL_CONTROL at a fixed interval, ground to air.
    Setpoints {
        /// Interval.
        every: Duration,
    },
    /// PARAM_VALUE at a fixed interval, both ways: transactions of class Telemetry.
    Parameters {
        /// Interval.
        every: Duration,
    },
    /// Video frames at 30 Hz, air to ground, all of one size: an encoder that does not listen.
    Video {
        /// Bit rate of the RTP packets.
        rate: Bitrate,
        /// Bytes of one RTP packet.
        packet: usize,
    },
}

#[derive(Debug)]
struct Running {
    source: Source,
    next: Instant,
    until: Instant,
    count: u32,
}

/// A recorded packet, for replays.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// When it was sent, since the start.
    pub at: Duration,
    /// Which end sent it.
    pub from: Side,
    /// To whom.
    pub to: SocketAddr,
    /// On which bearer.
    pub bearer: usize,
    data: BytesMut,
}

impl Recorded {
    /// The packet.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }
}

/// The experiment.
#[derive(Debug)]
pub struct Pair {
    config: PairConfig,
    parity: VideoParity,
    start: Instant,
    now: Instant,
    air: Node,
    ground: Node,
    /// Up and down, for each bearer.
    paths: Vec<[Path<Packet>; 2]>,
    /// Bearers that there have been.
    made: u16,
    radios: Vec<SerialRadio>,
    /// When they were looked at last.
    radios_read: Instant,
    sources: Vec<Running>,
    sent_commands: [Vec<Duration>; 2],
    sent_frames: Vec<Duration>,
    rtp_seq: u16,
    /// Commands that arrived, in order of arrival.
    pub deliveries: Vec<Delivery>,
    /// Setpoints that arrived at the aircraft.
    pub setpoints: Vec<Delivery>,
    sent_setpoints: Vec<Duration>,
    /// Video frames given out at the ground.
    pub frames: Vec<FrameOut>,
    /// State changes of both ends.
    pub states: Vec<(Duration, Side, LinkState, Duration)>,
    /// State changes of bearers, if there are several.
    pub bearer_states: Vec<(Duration, Side, BearerId, LinkState)>,
    /// Classes that took another bearer.
    pub reroutes: Vec<(Duration, Side, Class, BearerId)>,
    /// Connections that ended.
    pub disconnects: Vec<(Duration, Side, DisconnectReason)>,
    /// Connections completed: when, where, by 0-RTT.
    pub connects: Vec<(Duration, Side, bool)>,
    /// Other MAVLink frames that arrived, if [`Pair::keep_frames`].
    pub mavlink: Vec<(Side, Class, Bytes)>,
    /// Whether to keep them.
    pub keep_frames: bool,
    /// Packets sent by the aircraft, if [`Pair::record`], and by the ground, if [`Pair::record_ground`].
    pub recorded: Vec<Recorded>,
    /// Whether to record.
    pub record: bool,
    /// Whether to record the ground's too.
    pub record_ground: bool,
    /// One of so many packets is put on the wire twice, by whatever lies in between; 0: none is.
    pub twice_each: u64,
    packets: u64,
    /// Reports of unknown peers: when, where, how many.
    pub unknown: Vec<(Duration, Side, u64)>,
    /// Parcels that arrived, and where.
    pub parcels: VecDeque<(Side, ParcelPort, Bytes)>,
    /// What became of parcels, and whose.
    pub fates: VecDeque<(Side, ParcelFate)>,
    /// What is added to the clock of an end when it is restarted.
    pub clock_jump: Duration,
    /// How often a deadline came.
    pub timeouts: u64,
    recovery_wanted: u64,
    targets: Vec<(Duration, Bitrate)>,
    hash: Fnv,
}

/// Serial lines are read at most this often.
const READ: Duration = Duration::from_millis(1);
const GROUND: &str = "203.0.113.1:14540";
const AIR: &str = "198.51.100.7:40001";
const AIR_PORT: u16 = 40001;

impl Pair {
    /// Both ends made, not connected yet; see [`Pair::connect`].
    pub fn new(config: PairConfig) -> Self {
        Self::with_parity(config, VideoParity::default())
    }

    /// The same, with video repaired like this.
    pub fn with_parity(config: PairConfig, parity: VideoParity) -> Self {
        // Any instant will do: only differences to it count.
        let start = Instant::now();
        let tickets = || Arc::new(Tickets { leaky: config.leaky_tickets, ..Tickets::default() });
        let node = |side, address: &str| {
            let stored = Stored::with_tickets(tickets());
            let end =
                End::new(config.end(side, parity), 1, stored, start, Duration::ZERO).expect("a valid configuration");
            let first: SocketAddr = address.parse().expect("a valid address");
            let addresses = (0..=config.beside.len() as u16).map(|n| SocketAddr::new(first.ip(), first.port() + n));
            Node { end, addresses: addresses.collect() }
        };
        let beside = config.beside.iter().map(|(up, down, _)| (*up, *down));
        let seeds = (0..).map(|n| config.seed ^ n << 32);
        let path = |((up, down), seed)| [Path::new(up, seed), Path::new(down, !seed)];
        let paths: Vec<_> = std::iter::once((config.up, config.down)).chain(beside).zip(seeds).map(path).collect();
        let seeds = (1..).map(|n: u64| config.seed ^ n << 48);
        let radios = config.radios.iter().zip(seeds).map(|((_, radio), seed)| SerialRadio::new(*radio, seed)).collect();
        Self {
            start,
            now: start,
            air: node(Side::Air, AIR),
            ground: node(Side::Ground, GROUND),
            made: paths.len() as u16,
            paths,
            radios,
            radios_read: start,
            sources: Vec::new(),
            sent_commands: [Vec::new(), Vec::new()],
            sent_frames: Vec::new(),
            rtp_seq: 0,
            deliveries: Vec::new(),
            setpoints: Vec::new(),
            sent_setpoints: Vec::new(),
            frames: Vec::new(),
            states: Vec::new(),
            bearer_states: Vec::new(),
            reroutes: Vec::new(),
            disconnects: Vec::new(),
            connects: Vec::new(),
            mavlink: Vec::new(),
            keep_frames: false,
            recorded: Vec::new(),
            record: false,
            record_ground: false,
            twice_each: 0,
            packets: 0,
            unknown: Vec::new(),
            parcels: VecDeque::new(),
            fates: VecDeque::new(),
            clock_jump: Duration::ZERO,
            timeouts: 0,
            recovery_wanted: 0,
            targets: Vec::new(),
            hash: Fnv::default(),
            parity,
            config,
        }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// The aircraft connects to the ground, on all bearers.
    pub fn connect(&mut self) {
        for bearer in BearerId::all().take(self.paths.len()) {
            self.connect_bearer(bearer);
        }
        self.begin_radios(Side::Air);
    }

    fn begin_radios(&mut self, side: Side) {
        for number in 0..self.radios.len() {
            let now = self.now;
            self.node(side).end.session.begin_radio(now, radio_id(number));
            self.drain(side);
        }
    }

    /// The aircraft connects to the ground on one bearer.
    pub fn connect_bearer(&mut self, bearer: BearerId) {
        let remote = self.ground.addresses[0];
        self.air.end.session.connect(self.now, bearer, remote).expect("a valid address");
        self.drain(Side::Air);
    }

    /// Adds traffic from now until `until`.
    pub fn add_source(&mut self, source: Source, until: Duration) {
        let until = self.start + until;
        self.sources.push(Running { source, next: self.now, until, count: 0 });
    }

    /// Sends a command now.
    pub fn send_command(&mut self, from: Side) {
        let index = self.sent_commands[from as usize].len() as u32;
        self.sent_commands[from as usize].push(self.elapsed());
        self.send_frame(from, &frames::command(from, index));
    }

    /// The same, signed: its time stamp is one more than its number.
    pub fn send_signed_command(&mut self, from: Side) {
        let index = self.sent_commands[from as usize].len() as u32;
        self.sent_commands[from as usize].push(self.elapsed());
        self.send_frame(from, &frames::signed(&frames::command(from, index), u64::from(index) + 1));
    }

    /// Sends any MAVLink frame now.
    pub fn send_frame(&mut self, from: Side, frame: &Frame) {
        let now = self.now;
        self.node(from).end.session.send_mavlink(now, frame);
        self.drain(from);
    }

    /// Sends a video packet from the aircraft now.
    pub fn send_video(&mut self, packet: &[u8]) {
        self.air.end.session.send_video(self.now, 0, packet);
        self.drain(Side::Air);
    }

    /// Writes to the aircraft's bulk stream; returns the bytes taken.
    pub fn write_bulk(&mut self, bytes: &[u8]) -> usize {
        let taken = self.air.end.session.write_bulk(self.now, bytes);
        self.drain(Side::Air);
        taken
    }

    /// Reads from the bulk stream that comes to an end.
    pub fn read_bulk(&mut self, at: Side, max: usize) -> Option<Bytes> {
        let now = self.now;
        let bytes = self.node(at).end.session.read_bulk(now, max);
        self.drain(at);
        bytes
    }

    /// The aircraft gets another bearer, over these paths and from a new address, and connects on it; `None` if it has too many.
    /// What is under way on a former one of its number is lost.
    pub fn add_bearer(&mut self, up: PathConfig, down: PathConfig, usage: Usage) -> Option<BearerId> {
        let config = BearerConfig { name: format!("bearer-{}", self.made), usage, ..BearerConfig::default() };
        let added = self.air.end.session.add_bearer(self.now, config).expect("a valid configuration");
        let number = usize::from(added?.number());
        let seed = self.config.seed ^ u64::from(self.made) << 32;
        let mut address = self.air.addresses[0];
        address.set_port(AIR_PORT + self.made);
        self.made += 1;
        let paths = [Path::new(up, seed), Path::new(down, !seed)];
        match self.paths.get_mut(number) {
            Some(former) => (*former, self.air.addresses[number]) = (paths, address),
            None => {
                self.paths.push(paths);
                self.air.addresses.push(address);
            }
        }
        self.drain(Side::Air);
        self.connect_bearer(added?);
        added
    }

    /// Takes a bearer out of the aircraft's use.
    pub fn remove_bearer(&mut self, bearer: BearerId) {
        self.air.end.session.remove_bearer(self.now, bearer);
        self.drain(Side::Air);
    }

    /// Two bearers of the aircraft's are seen at one address: a network in between makes them so.
    pub fn share_address(&mut self, one: usize, other: usize) {
        self.air.addresses[other] = self.air.addresses[one];
    }

    /// Runs until `until` after the start.
    pub fn run_until(&mut self, until: Duration) {
        let until = self.start + until;
        loop {
            let next = [
                Some(self.air.end.deadline),
                Some(self.ground.end.deadline),
                self.paths.iter().flatten().filter_map(Path::next_delivery).min(),
                // A driver gives what has come, not each byte.
                self.radios
                    .iter()
                    .filter_map(SerialRadio::next_deadline)
                    .min()
                    .map(|at| at.max(self.radios_read + READ)),
                self.sources.iter().map(|source| source.next).min(),
            ];
            let next = next.into_iter().flatten().min().expect("sessions always have a deadline");
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            self.step();
        }
        self.now = until;
    }

    /// Both directions of all bearers lose everything, or hold it, from now on.
    pub fn begin_outage(&mut self, outage: Outage) {
        self.paths.iter_mut().flatten().for_each(|path| path.begin_outage(self.now, outage));
    }

    /// The same of one bearer, in the directions from these sides.
    pub fn begin_outage_of(&mut self, bearer: usize, from: &[Side], outage: Outage) {
        from.iter().for_each(|side| self.paths[bearer][*side as usize].begin_outage(self.now, outage));
    }

    /// The outage of one bearer is over; nobody is told.
    pub fn end_outage_of(&mut self, bearer: usize) {
        self.paths[bearer].iter_mut().for_each(|path| path.end_outage(self.now));
    }

    /// The outage is over. `link_event`: both ends are told that their link came up.
    pub fn end_outage(&mut self, link_event: bool) {
        self.paths.iter_mut().flatten().for_each(|path| path.end_outage(self.now));
        if link_event {
            for side in [Side::Air, Side::Ground] {
                let now = self.now;
                self.node(side).end.session.network_changed(now, None);
                self.drain(side);
            }
        }
    }

    /// The uplink's rate changes, of the first bearer.
    pub fn set_up_rate(&mut self, rate: Bitrate) {
        self.paths[0][0].set_rate(self.now, Some(rate.0));
    }

    /// A bearer's path from a side has another rate from now on, and loses another share behind its bottleneck.
    pub fn change_path(&mut self, bearer: usize, from: Side, rate: Bitrate, air_loss: Loss) {
        let path = &mut self.paths[bearer][usize::from(from == Side::Ground)];
        path.set_rate(self.now, Some(rate.0));
        path.set_air_loss(self.now, air_loss);
    }

    /// A bearer takes so long from now on, in both directions.
    pub fn set_delay(&mut self, bearer: usize, delay: Duration) {
        self.paths[bearer].iter_mut().for_each(|path| path.set_delay(self.now, delay));
    }

    /// Sends a parcel with a token.
    pub fn send_parcel(&mut self, from: Side, port: ParcelPort, token: u64, bytes: Bytes) -> bool {
        let now = self.now;
        let taken = self.node(from).end.session.send_parcel(now, port, Some(token), bytes);
        self.drain(from);
        taken
    }

    /// The session of an end, for what has no method here. Drain it by [`Pair::settle`].
    pub fn session(&mut self, side: Side) -> &mut Session {
        &mut self.node(side).end.session
    }

    /// Does what an end's session wants after it was handed something.
    pub fn settle(&mut self, side: Side) {
        self.drain(side);
    }

    /// The aircraft is seen under another address from now on; what is sent to the old one is lost. `noticed`: its
    /// operating system tells it.
    pub fn move_air(&mut self, address: &str, noticed: bool) {
        self.air.addresses[0] = address.parse().expect("a valid address");
        if noticed {
            self.air.end.session.network_changed(self.now, Some(BearerId::FIRST));
            self.drain(Side::Air);
        }
    }

    /// An end's process dies and is started anew with what it had stored. A restarted aircraft connects by itself.
    pub fn restart(&mut self, side: Side) {
        let (now, elapsed, config) = (self.now, self.elapsed() + self.clock_jump, self.config.end(side, self.parity));
        let end = &mut self.node(side).end;
        let stored = end.take_stored();
        *end = End::new(config, end.life + 1, stored, now, elapsed).expect("a valid configuration");
        if side == Side::Air {
            self.connect();
        }
    }

    /// Puts a recorded packet of the aircraft on the wire again, from another address.
    pub fn replay(&mut self, recorded: &Recorded, from: &str) {
        let from = from.parse().expect("a valid address");
        let packet = Packet { from, to: self.ground.addresses[0], ecn: None, data: recorded.data.clone() };
        let _ = self.paths[0][0].push(self.now, recorded.data.len() + IP_UDP, packet);
    }

    /// Puts a recorded packet on a bearer's wire again, in the direction that it went, as if the same end had sent it there;
    /// `flipped`: with this bit of it changed.
    pub fn replay_on(&mut self, bearer: usize, recorded: &Recorded, flipped: Option<usize>) {
        let mut data = recorded.data.clone();
        if let Some(bit) = flipped.filter(|_| !data.is_empty()) {
            let at = bit / 8 % data.len();
            data[at] ^= 1 << (bit % 8);
        }
        self.forge(bearer, recorded.from, data);
    }

    /// Puts any bytes on a bearer's wire as if an end had sent them.
    pub fn inject_on(&mut self, bearer: usize, from: Side, data: &[u8]) {
        self.forge(bearer, from, BytesMut::from(data));
    }

    fn forge(&mut self, bearer: usize, side: Side, data: BytesMut) {
        let (air, ground) = (self.air.addresses[bearer], self.ground.addresses[0]);
        let (from, to) = if side == Side::Air { (air, ground) } else { (ground, air) };
        let bytes = data.len() + IP_UDP;
        let _ = self.paths[bearer][side as usize].push(self.now, bytes, Packet { from, to, ecn: None, data });
    }

    /// Puts a copy of the aircraft's newest packet on the wire as if it came from `from`.
    pub fn respoof_last(&mut self, from: &str) {
        let last = self.recorded.last().cloned().expect("record first");
        self.replay(&last, from);
    }

    /// Puts any bytes on the wire to an end.
    pub fn inject(&mut self, to: Side, from: &str, data: &[u8]) {
        let from = from.parse().expect("a valid address");
        let now = self.now;
        let packet = Packet { from, to: self.node(to).addresses[0], ecn: None, data: BytesMut::from(data) };
        let path = &mut self.paths[0][usize::from(to == Side::Air)];
        let _ = path.push(now, data.len() + IP_UDP, packet);
    }

    /// Counters of an end.
    pub fn stats(&mut self, side: Side) -> Stats {
        let now = self.now;
        self.node(side).end.session.stats(now)
    }

    /// A radio, to look at and to change.
    pub fn radio(&mut self, number: usize) -> &mut SerialRadio {
        &mut self.radios[number]
    }

    /// Counters of the first bearer's paths: up, down.
    pub fn paths(&self) -> (aquila_emu::PathStats, aquila_emu::PathStats) {
        self.paths_of(0)
    }

    /// The same of any bearer.
    pub fn paths_of(&self, bearer: usize) -> (aquila_emu::PathStats, aquila_emu::PathStats) {
        let [up, down] = &self.paths[bearer];
        (up.stats(), down.stats())
    }

    /// Rates asked of the encoder, and how often a recovery point was wanted of it.
    pub fn encoder(&self) -> (&[(Duration, Bitrate)], u64) {
        (&self.targets, self.recovery_wanted)
    }

    /// Commands sent by an end so far.
    pub fn commands_sent(&self, from: Side) -> usize {
        self.sent_commands[from as usize].len()
    }

    /// Latencies of the commands that arrived at an end, in order of arrival, sent from `since` on.
    pub fn latencies(&self, to: Side, since: Duration) -> Vec<Duration> {
        let of_end = self.deliveries.iter().filter(|delivery| delivery.to == to && delivery.sent >= since);
        of_end.map(|delivery| delivery.arrived - delivery.sent).collect()
    }

    /// A hash over everything that happened, in order: packets (time, direction, size) and deliveries.
    pub fn log_hash(&self) -> u64 {
        self.hash.value()
    }

    fn node(&mut self, side: Side) -> &mut Node {
        match side {
            Side::Air => &mut self.air,
            Side::Ground => &mut self.ground,
        }
    }

    fn step(&mut self) {
        for number in 0..self.radios.len() {
            for (direction, to) in [(Direction::Up, Side::Ground), (Direction::Down, Side::Air)] {
                let (now, mut bytes) = (self.now, Vec::new());
                self.radios[number].read(now, direction, &mut bytes);
                self.radios_read = now;
                if !bytes.is_empty() {
                    self.note(&[to as u64 + 14, bytes.len() as u64]);
                    self.node(to).end.session.handle_line(now, radio_id(number), &bytes);
                    self.drain(to);
                }
            }
        }
        for bearer in 0..self.paths.len() {
            while let Some(packet) = self.paths[bearer][0].pop(self.now) {
                self.arrive(bearer, Side::Ground, packet);
            }
            while let Some(packet) = self.paths[bearer][1].pop(self.now) {
                self.arrive(bearer, Side::Air, packet);
            }
        }
        for side in [Side::Air, Side::Ground] {
            let now = self.now;
            let node = self.node(side);
            if node.end.deadline <= now {
                node.end.session.handle_timeout(now);
                self.timeouts += 1;
                self.drain(side);
            }
        }
        for index in 0..self.sources.len() {
            while self.sources[index].next <= self.now {
                self.emit(index);
            }
        }
        let now = self.now;
        self.sources.retain(|source| source.next <= source.until || source.next <= now);
    }

    fn arrive(&mut self, bearer: usize, side: Side, packet: Packet) {
        let now = self.now;
        self.note(&[side as u64 + 10, packet.data.len() as u64]);
        let node = self.node(side);
        let ours = if side == Side::Air { node.addresses[bearer] } else { node.addresses[0] };
        if packet.to != ours {
            return; // The address it was sent to is no longer ours.
        }
        let ecn = packet.ecn.and_then(EcnCodepoint::from_bits);
        let bearer = BearerId::new(bearer as u8).filter(|_| side == Side::Air);
        let arrival = Arrival { bearer, ecn, ..Arrival::new(now, packet.from) };
        node.end.session.handle_datagram(now, arrival, packet.data);
        self.drain(side);
    }

    fn emit(&mut self, index: usize) {
        let running = &mut self.sources[index];
        let (count, source) = (running.count, running.source.clone());
        running.count += 1;
        let step = match source {
            Source::Commands { every, .. } | Source::Setpoints { every } | Source::Parameters { every } => every,
            Source::Video { .. } => Duration::from_nanos(33_333_333),
        };
        running.next += step;
        if running.next > running.until {
            running.next += Duration::from_secs(3600 * 24 * 365);
        }
        match source {
            Source::Commands { from, .. } => self.send_command(from),
            Source::Setpoints { .. } => {
                let index = self.sent_setpoints.len() as u32;
                self.sent_setpoints.push(self.elapsed());
                self.send_frame(Side::Ground, &frames::manual_control(index));
            }
            Source::Parameters { .. } => {
                for from in [Side::Air, Side::Ground] {
                    self.send_frame(from, &frames::param_value(from, count as u16));
                }
            }
            Source::Video { rate, packet } => {
                self.sent_frames.push(self.elapsed());
                let mut left = rate.bytes_in(step).as_usize();
                while left > 0 {
                    let len = left.min(packet).max(frames::RTP_MIN);
                    left = left.saturating_sub(len);
                    let rtp = frames::rtp(self.rtp_seq, count, len, left == 0);
                    self.rtp_seq = self.rtp_seq.wrapping_add(1);
                    self.air.end.session.send_video(self.now, 0, &rtp);
                    self.drain(Side::Air);
                }
            }
        }
    }

    fn drain(&mut self, side: Side) {
        let (now, elapsed) = (self.now, self.elapsed());
        let mut frames_in = VecDeque::new();
        loop {
            let node = match side {
                Side::Air => &mut self.air,
                Side::Ground => &mut self.ground,
            };
            match node.end.session.poll_output(now) {
                Output::Timeout(at) => {
                    node.end.deadline = at;
                    break;
                }
                Output::Transmit(bearer, transmit, data) => {
                    let bearer = usize::from(bearer.number());
                    let from = node.addresses[if side == Side::Air { bearer } else { 0 }];
                    let ecn = transmit.ecn.map(|ecn| ecn as u8);
                    let data = BytesMut::from(data);
                    if self.record && (side == Side::Air || self.record_ground) {
                        let to = transmit.destination;
                        self.recorded.push(Recorded { at: elapsed, from: side, to, bearer, data: data.clone() });
                    }
                    let len = data.len();
                    let packet = Packet { from, to: transmit.destination, ecn, data };
                    self.packets += 1;
                    if self.twice_each > 0 && self.packets.is_multiple_of(self.twice_each) {
                        let _ = self.paths[bearer][side as usize].push(now, len + IP_UDP, packet.clone());
                    }
                    let _ = self.paths[bearer][side as usize].push(now, len + IP_UDP, packet);
                    self.note(&[side as u64, len as u64]);
                }
                Output::Line(bearer, data) => {
                    let direction = if side == Side::Air { Direction::Up } else { Direction::Down };
                    let number = usize::from(radio_id(0).number() - bearer.number());
                    let taken = self.radios[number].write(now, direction, data);
                    self.note(&[side as u64 + 2, taken as u64]);
                }
                Output::Event(event) => frames_in.push_back(event),
            }
        }
        self.node(side).end.store();
        while let Some(event) = frames_in.pop_front() {
            self.on_event(side, event);
        }
    }

    fn on_event(&mut self, side: Side, event: Event) {
        let elapsed = self.elapsed();
        match event {
            Event::Mavlink { frame, class } => self.on_mavlink(side, frame, class),
            Event::Video { packets, .. } => {
                if let Some(index) = packets.clone().find_map(|packet| frames::rtp_index(&packet)) {
                    let sent = self.sent_frames.get(index as usize).copied().unwrap_or_default();
                    self.note(&[20, u64::from(index)]);
                    self.frames.push(FrameOut { index, sent, arrived: elapsed });
                }
            }
            Event::State { state, silence } => self.states.push((elapsed, side, state, silence)),
            Event::Disconnected { reason, .. } => self.disconnects.push((elapsed, side, reason)),
            Event::BearerState { bearer, state, .. } => self.bearer_states.push((elapsed, side, bearer, state)),
            Event::Rerouted { class, bearer } => self.reroutes.push((elapsed, side, class, bearer)),
            Event::Connected { resumed, .. } => self.connects.push((elapsed, side, resumed)),
            Event::AddressWanted(bearer) if side == Side::Air => {
                let remote = self.ground.addresses[0];
                self.air.end.session.reconnect(self.now, bearer, remote).expect("a valid address");
                self.drain(Side::Air);
            }
            Event::Unknown { count, .. } => self.unknown.push((elapsed, side, count)),
            Event::Parcel { port, bytes } => self.parcels.push_back((side, port, bytes)),
            Event::ParcelFate(fate) => self.fates.push_back((side, fate)),
            Event::RecoveryPointWanted { .. } => self.recovery_wanted += 1,
            Event::TargetRate { target, .. } if side == Side::Air => self.targets.push((elapsed, target)),
            _ => {}
        }
    }

    fn on_mavlink(&mut self, side: Side, frame: Frame, class: Class) {
        let elapsed = self.elapsed();
        let from = if side == Side::Air { Side::Ground } else { Side::Air };
        if let Some(index) = frames::command_index(&frame) {
            let sent = self.sent_commands[from as usize].get(index as usize).copied().unwrap_or_default();
            self.note(&[30 + side as u64, u64::from(index)]);
            self.deliveries.push(Delivery { to: side, index, sent, arrived: elapsed });
        } else if let Some(index) = frames::manual_control_index(&frame) {
            let sent = self.sent_setpoints.get(index as usize).copied().unwrap_or_default();
            self.note(&[40, u64::from(index)]);
            self.setpoints.push(Delivery { to: side, index, sent, arrived: elapsed });
        }
        if self.keep_frames {
            self.mavlink.push((side, class, frame.into_bytes()));
        }
    }

    /// Hashes the time and some numbers.
    fn note(&mut self, numbers: &[u64]) {
        let time = self.elapsed().as_nanos() as u64;
        self.hash.add(std::iter::once(time).chain(numbers.iter().copied()));
    }
}
