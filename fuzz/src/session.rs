//! A whole session, whose other side has the right key and is broken or hostile: it sends what it likes on streams and in
//! datagrams, loses packets, repeats them, and comes back under another address. Everything that QUIC protects from
//! strangers is reached this way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aquila_fec::rlc::RepairHeader;
use aquila_proto::mavlink::{Address, Frame, MessageId, Version};
use aquila_proto::quic::QuicBearer;
use aquila_proto::session::{self, BearerConfig, ParcelPort};
use aquila_proto::signing::Place;
use aquila_proto::video::{FragmentFlags, FragmentHeader, VideoParity};
use aquila_proto::wire::datagram::{BulkPiece, BulkWindow, DatagramHeader, Heartbeat, RecoveryRequest};
use aquila_proto::wire::feedback::{Arrival, Feedback};
use aquila_proto::wire::history::History;
use aquila_proto::wire::message::{Hello, MessageHeader, put_copy};
use aquila_proto::wire::receipt::Receipt;
use aquila_proto::wire::repair::VideoRepair;
use aquila_proto::wire::{flow, varint::put_varint};
use aquila_proto::{BearerId, Class, Event, Output, Session, SessionConfig, Side, Usage};
use bytes::BytesMut;

use crate::input::{Input, epoch};
use crate::quic::{AIR, GROUND, SINCE_1970, address, new_bearer_of, quic_config, transmits};

/// COMMAND_LONG, and where its first parameters are.
const COMMAND_LONG: MessageId = MessageId(76);
/// Tells a marked command from one that the input has made.
const SECRET: u32 = 0x9e37_79b9;
/// Bytes of a reader's appetite.
const READ: usize = 4096;

/// A list of steps of both sides and of the network between them.
pub fn session(data: &[u8]) {
    let mut input = Input(data);
    let mut pair = Pair::new(input.bool());
    while !input.is_empty() {
        pair.step(&mut input);
        pair.exchange();
    }
    // The session is alive still: a good message gets through once the network does.
    (pair.cut, pair.now) = (false, pair.now + Duration::from_millis(1));
    pair.exchange();
    pair.check_bounds();
}

/// What is delivered once: for telemetry the session's life, then epoch and sequence number.
type Number = (Option<u8>, u64, u64);

/// A session and its other side.
struct Pair {
    now: Instant,
    began: Instant,
    session: Session,
    /// Whether the session waits for connections; else the other side does.
    listens: bool,
    lives: u8,
    replay: Option<Vec<u8>>,
    deadline: Instant,
    /// Its other side, on each of two bearers, and the one that it speaks on.
    peers: [QuicBearer; 2],
    on: usize,
    /// The other side's address, as the session sees it.
    peer_address: SocketAddr,
    peer_seq: u16,
    /// The network loses everything.
    cut: bool,
    /// Packets of the other side, to be sent again.
    recorded: Vec<BytesMut>,
    /// Marked commands by what was written into them.
    marked: BTreeMap<u32, Number>,
    delivered: BTreeSet<Number>,
}

impl Pair {
    fn new(listens: bool) -> Self {
        let now = epoch();
        let (us, them) = if listens { (Side::Ground, Side::Air) } else { (Side::Air, Side::Ground) };
        let mut pair = Self {
            now,
            began: now,
            session: new_session(us, listens, now, now, 0, None),
            listens,
            lives: 0,
            replay: None,
            deadline: now,
            peers: [0, 1].map(|n| new_bearer_of(BearerId::new(n).expect("there are as many"), them, !listens)),
            on: 0,
            peer_address: address(if listens { AIR } else { GROUND }),
            peer_seq: 0,
            cut: false,
            recorded: Vec::new(),
            marked: BTreeMap::new(),
            delivered: BTreeSet::new(),
        };
        pair.connect();
        pair.exchange();
        pair
    }

    fn ours(&self) -> SocketAddr {
        address(if self.listens { GROUND } else { AIR })
    }

    fn bearer(&self) -> BearerId {
        BearerId::new(self.on as u8).expect("there are as many")
    }

    fn connect(&mut self) {
        match self.listens {
            true => {
                let ours = self.ours();
                let _ = self.peers[self.on].connect(self.now, ours);
            }
            false => {
                let _ = self.session.connect(self.now, self.bearer(), self.peer_address);
                self.drain();
            }
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(27) {
            0 | 1 => self.wait(input.step()),
            2 => self.in_datagram(input.short_bytes().to_vec()),
            3 => self.send_message(input),
            4 => self.send_copies(input),
            5 => self.on_stream(input.short_bytes(), &[]),
            6 => {
                let (long, step) = (usize::from(input.u8()) * 400, input.u8());
                self.on_stream(&vec![step; long], input.short_bytes());
            }
            7 => self.send_feedback(input),
            8 => self.send_heartbeat(input),
            9 => {
                let mut body = Vec::new();
                RecoveryRequest { video: u64::from(input.u8() & 3), frame: input.u32().into() }.put(&mut body);
                self.send_datagram(flow::RECOVERY, &body);
            }
            10 => {
                let flow = u64::from(input.u8() & 31);
                self.send_datagram(flow, input.short_bytes());
            }
            11 => {
                let mut hello = Vec::new();
                let version = String::from_utf8_lossy(input.short_bytes()).into_owned();
                let (epoch, name) = (input.u8().into(), String::from_utf8_lossy(input.short_bytes()).into_owned());
                let usage = Usage::ALL[usize::from(input.u8()) % 3];
                let (revision, air) = (input.u8().into(), input.bool());
                Hello { revision, air, version, epoch, usage, bearer: name }.put_on_stream(&mut hello);
                self.on_stream(&hello, &[]);
            }
            12 => {
                let mut body = Vec::new();
                let far = if input.bool() { u64::from(input.u32()) << 12 } else { u64::from(input.u8()) * 100 };
                BulkPiece { stream: input.u8().into(), offset: far }.put(&mut body);
                body.extend_from_slice(input.short_bytes());
                self.send_datagram(flow::BULK, &body);
                if input.bool() {
                    self.session.read_bulk(self.now, READ);
                    self.drain();
                }
            }
            13 => {
                let bytes = vec![input.u8(); usize::from(input.u8()) * 400];
                let taken = self.session.write_bulk(self.now, &bytes);
                assert!(taken <= bytes.len());
                self.drain();
            }
            14 => {
                let frame = frame(input);
                self.session.send_mavlink(self.now, &frame);
                self.drain();
            }
            15 => {
                let packet =
                    [&[0x80, 0x60 | input.u8() & 0x80, 0, input.u8(), 0, 0, 0, input.u8()], input.short_bytes()];
                self.session.send_video(self.now, usize::from(input.u8() & 1), &packet.concat());
                self.drain();
            }
            16 => {
                let from = SocketAddr::new(self.peer_address.ip(), 1 + u16::from(input.u8()));
                let data = match self.recorded.len() {
                    len if len > 0 && input.bool() => self.recorded[usize::from(input.u8()) % len].clone(),
                    _ => BytesMut::from(input.short_bytes()),
                };
                self.arrive(from, data);
            }
            17 => self.cut = input.bool(),
            18 => match input.below(4) {
                0 => self.connect(),
                1 => {
                    let bearer = input.bool().then(|| self.bearer());
                    self.session.network_changed(self.now, bearer);
                    self.drain();
                }
                2 => self.peer_address.set_port(1 + u16::from(input.u8())),
                _ => {
                    self.peers[self.on].close(self.now);
                    self.connect();
                }
            },
            19 => self.on ^= 1,
            20 => {
                let mut body = Vec::new();
                flow::put(&mut body, flow::RECEIPT);
                // Of the session's own life, or of another.
                let epoch = if input.bool() { 1000 + u64::from(self.lives) } else { input.u8().into() };
                let before = u64::from(input.u32()) << 32 | u64::from(input.u32());
                Receipt { epoch, newest: input.u8().into(), before }.put(&mut body);
                self.in_datagram(body);
            }
            21 => {
                // A fragment with a number, near those before.
                let (number, bits) = (u16::from(input.u8()), input.u8());
                let flags = FragmentFlags { last: bits & 1 != 0, ..FragmentFlags::default() };
                let (frame, index) = (u32::from(bits >> 3), u32::from(bits >> 1 & 3));
                let mut body = Vec::new();
                FragmentHeader { flags, frame, index, waited_ms: None, number: Some(number) }.put(&mut body);
                body.extend_from_slice(input.short_bytes());
                self.send_datagram(flow::VIDEO, &body);
            }
            22 => {
                let far = if input.bool() { input.u32() } else { input.u8().into() };
                let header = RepairHeader { first: far, count: 1 + u16::from(input.u8()), key: input.u8().into() };
                let mut body = Vec::new();
                VideoRepair { video: u64::from(input.u8() & 17), settled: input.u8().into(), header }.put(&mut body);
                body.extend_from_slice(input.short_bytes());
                self.send_datagram(flow::VIDEO_REPAIR, &body);
            }
            23 => {
                let (end, bits) = (input.u16(), input.short_bytes().to_vec());
                let mut history = Vec::new();
                History { end: if input.bool() { end } else { end & 63 }, bits }.put(&mut history);
                self.in_datagram(history);
            }
            24 => self.send_datagram(flow::PARCELS + u64::from(input.u8() & 15), input.short_bytes()),
            25 => {
                let port = ParcelPort::new(input.u8() & 7).expect("one of eight");
                let bytes = vec![input.u8(); usize::from(input.u8()) * 6];
                let token = input.bool().then(|| input.u8().into());
                let (room, max) = (self.session.parcel_room(port), self.session.max_parcel());
                let taken = self.session.send_parcel(self.now, port, token, bytes.clone().into());
                assert_eq!(taken, room > 0 && bytes.len() <= max);
                self.drain();
            }
            _ => self.restart(),
        }
    }

    /// The session's process dies and is started anew with what it had stored.
    fn restart(&mut self) {
        if self.lives > 6 {
            return;
        }
        self.lives += 1;
        let us = self.session.side();
        self.session = new_session(us, self.listens, self.began, self.now, self.lives, self.replay.clone());
        self.deadline = self.now;
        self.connect();
    }

    fn wait(&mut self, step: Duration) {
        let until = self.now + step;
        for _ in 0..40 {
            if self.deadline > until {
                break;
            }
            self.now = self.now.max(self.deadline);
            self.exchange();
        }
        self.now = until;
    }

    /// On a stream of its own, if the session lets us open one.
    fn on_stream(&mut self, head: &[u8], body: &[u8]) {
        let _ = self.peers[self.on].send_message(head, body, 0, 1);
    }

    /// As it is, if it fits.
    fn in_datagram(&mut self, datagram: Vec<u8>) {
        let _ = self.peers[self.on].send_datagram(datagram.into());
    }

    /// Both ends' clock, wrapping.
    fn clock_us(&self) -> u32 {
        (SINCE_1970 + (self.now - self.began)).as_micros() as u32
    }

    fn send_datagram(&mut self, flow: u64, body: &[u8]) {
        let mut datagram = Vec::new();
        let sent_us = self.clock_us();
        self.peer_seq = self.peer_seq.wrapping_add(1);
        DatagramHeader { flow, seq: self.peer_seq, sent_us: Some(sent_us) }.put(&mut datagram);
        datagram.extend_from_slice(body);
        self.in_datagram(datagram);
    }

    /// A message, good or nearly so, with a marked command in it.
    fn message(&mut self, input: &mut Input<'_>) -> (MessageHeader, Vec<u8>) {
        let bits = input.u8();
        let seq = if bits & 4 == 0 { u64::from(input.u8()) } else { u64::from(input.u32()) << (bits >> 4) };
        let header = MessageHeader {
            epoch: u64::from(bits & 3),
            seq,
            origin_us: if bits & 8 == 0 { self.clock_us() } else { input.u32() },
            max_age_ms: input.u16().into(),
            slot: (bits & 0x10 != 0).then(|| u64::from(bits >> 6)),
            telemetry: bits & 0x20 != 0,
            place: self.place(input, bits & 0x20 != 0),
        };
        let mark = self.marked.len() as u32;
        // Batches of telemetry count on their own, and their window does not outlive the process.
        let life = header.telemetry.then_some(self.lives);
        self.marked.insert(mark, (life, header.epoch, header.seq));
        let payload = [mark.to_le_bytes(), (mark ^ SECRET).to_le_bytes()].concat();
        let command =
            Frame::build(Version::V2, 0, Address::new(1, 1), COMMAND_LONG, &payload).expect("a known message");
        let frame = command.bytes().to_vec();
        (header, if header.place.is_some() { signed(frame, header.slot.unwrap_or_default() as u8) } else { frame })
    }

    /// A place among signed frames, near or far, or none.
    fn place(&mut self, input: &mut Input<'_>, telemetry: bool) -> Option<Place> {
        let bits = input.u8();
        let after = if bits & 4 == 0 { u64::from(bits >> 3) } else { u64::from(input.u32()) << (bits >> 3) };
        let telemetry = telemetry.then_some(after >> 3);
        (bits & 1 != 0).then_some(Place { control: after >> 2, telemetry, counted: bits & 2 != 0 })
    }

    fn send_message(&mut self, input: &mut Input<'_>) {
        let (header, mut frames) = self.message(input);
        frames.extend_from_slice(input.short_bytes());
        let mut head = Vec::new();
        header.put_on_stream(&mut head);
        self.on_stream(&head, &frames);
    }

    fn send_copies(&mut self, input: &mut Input<'_>) {
        let mut body = Vec::new();
        for _ in 0..input.below(4) {
            let (header, frames) = self.message(input);
            put_copy(&mut body, &header, &frames);
        }
        body.extend_from_slice(input.short_bytes());
        self.send_datagram(flow::MESSAGE, &body);
    }

    fn send_feedback(&mut self, input: &mut Input<'_>) {
        let mut at_us = input.u32();
        let (sent_us, first_seq) = (at_us, if input.bool() { input.u16() } else { input.u8().into() });
        let arrivals = input.short_bytes().iter().map(|byte| {
            at_us = at_us.wrapping_add(u32::from(byte >> 2) * 64);
            (byte & 3 != 3).then_some(Arrival { at_us, ecn: byte & 3 })
        });
        let mut report = Vec::new();
        Feedback { sent_us, first_seq, arrivals: arrivals.collect() }.put(&mut report);
        self.in_datagram(report);
    }

    fn send_heartbeat(&mut self, input: &mut Input<'_>) {
        let bits = input.u8();
        let mut big = || u64::from(input.u32()) << ((bits >> 2) & 31);
        let echo = match bits & 3 {
            0 => None,
            1 => Some((self.clock_us().wrapping_sub(big() as u32 & 0xffff), 0)),
            2 => Some((self.clock_us().wrapping_sub(big() as u32), 0)),
            _ => Some((big() as u32, big())),
        };
        let heartbeat = Heartbeat { echo, frames_received: big(), frames_lost: big(), ..Heartbeat::default() };
        let stream = u64::from(input.u8());
        let heartbeat =
            Heartbeat { bulk: Some(BulkWindow { stream, limit: u64::from(input.u32()) << 20 }), ..heartbeat };
        let mut body = Vec::new();
        heartbeat.put(&mut body);
        put_varint(&mut body, 1);
        self.send_datagram(flow::HEARTBEAT, &body);
    }

    /// Both ends send until they have nothing more to say.
    fn exchange(&mut self) {
        let (now, on) = (self.now, self.on);
        self.peers.iter_mut().for_each(|peer| peer.set_wall_clock(SINCE_1970 + (now - self.began)));
        for _ in 0..50 {
            if self.deadline <= now {
                self.session.handle_timeout(now);
                self.drain();
            }
            let mut quiet = true;
            for n in 0..self.peers.len() {
                self.on = n;
                if self.peers[n].poll_timeout().is_some_and(|due| due <= now) {
                    self.peers[n].handle_timeout(now);
                }
                let packets = transmits(&mut self.peers[n], now);
                quiet &= packets.is_empty();
                for packet in packets {
                    self.recorded.push(packet.clone());
                    self.recorded.truncate(64);
                    if !self.cut {
                        self.arrive(self.peer_address, packet);
                    }
                }
                while self.peers[n].poll_event().is_some() {}
            }
            if quiet {
                break;
            }
        }
        self.on = on;
    }

    fn arrive(&mut self, from: SocketAddr, data: BytesMut) {
        let bearer = (!self.listens).then(|| self.bearer());
        let arrival = session::Arrival { bearer, ..session::Arrival::new(self.now, from) };
        self.session.handle_datagram(self.now, arrival, data);
        self.drain();
    }

    /// Does what the session says, and checks what it gives out.
    fn drain(&mut self) {
        // As a driver has to: stored before anything is handed on.
        if let Some(snapshot) = self.session.replay_snapshot() {
            self.replay = Some(snapshot);
        }
        while self.session.resumption_snapshot().is_some() {}
        let ours = self.ours();
        let mut packets = Vec::new();
        for round in 0.. {
            assert!(round < 20_000, "a drain that does not end");
            match self.session.poll_output(self.now) {
                Output::Transmit(bearer, _, data) => packets.push((bearer, BytesMut::from(data))),
                Output::Line(..) => unreachable!("there is no radio"),
                Output::Timeout(at) => {
                    assert!(at > self.now, "a deadline that has passed");
                    self.deadline = at;
                    break;
                }
                Output::Event(Event::Mavlink { frame, .. }) => {
                    let [mark, secret] = [0, 4].map(|at| u32::from_le_bytes(frame.field(at)));
                    if frame.message_id() == COMMAND_LONG
                        && secret == mark ^ SECRET
                        && let Some(message) = self.marked.get(&mark)
                    {
                        assert!(self.delivered.insert(*message), "delivered twice: {message:?}");
                    }
                }
                Output::Event(Event::Video { packets, .. }) => assert!(packets.len() > 0 && packets.count() > 0),
                Output::Event(Event::Hello { version, .. }) => assert!(!version.contains(char::is_control)),
                Output::Event(_) => {}
            }
        }
        if !self.cut {
            for (bearer, packet) in packets {
                let peer = &mut self.peers[usize::from(bearer.number())];
                peer.handle_datagram(self.now, ours, None, None, packet);
            }
        }
    }

    /// Bounds of every queue, see docs/architecture.md.
    fn check_bounds(&mut self) {
        let config = SessionConfig::new(Side::Air, quic_config(Side::Air, false), self.now, SINCE_1970, [0; 32]);
        let stats = self.session.stats(self.now);
        let [control, telemetry, video, bulk] = Class::ALL.map(|class| stats.classes[class.index()]);
        assert!(control.queued + stats.unacknowledged <= config.control.messages);
        assert!(telemetry.queued <= config.telemetry.states + config.telemetry.transactions);
        assert!(video.queued <= config.video[0].max_frames);
        assert!(bulk.queued_bytes <= (1 << 20) + (65 << 10), "waiting and under way");
        assert!(stats.bearers.len() <= 2);
    }
}

fn new_session(side: Side, listens: bool, began: Instant, now: Instant, life: u8, replay: Option<Vec<u8>>) -> Session {
    let since_1970 = SINCE_1970 + (now - began);
    let mut config = SessionConfig::new(side, quic_config(side, listens), now, since_1970, [life; 32]);
    config.epoch = 1000 + u64::from(life);
    config.video_parity = VideoParity { share: 0.5, frames: 3, repeat: true };
    config.replay = replay;
    config.bearers = vec![BearerConfig::default(), BearerConfig { name: "other".into(), ..BearerConfig::default() }];
    Session::new(config).expect("a valid configuration")
}

/// A frame of a message of any treatment.
fn frame(input: &mut Input<'_>) -> Frame {
    let ids = [0, 69, 70, 76, 30, 147, 22, 126, 253, 81];
    let id = MessageId(ids[input.below(ids.len())]);
    let payload = input.short_bytes();
    let source = Address::new(input.u8(), 1);
    let build = |payload| Frame::build(Version::V2, 0, source, id, payload);
    build(payload).or_else(|_| build(&[1])).expect("a known message")
}

/// A COMMAND_LONG with a signature of link `link` that nobody can check.
fn signed(mut frame: Vec<u8>, link: u8) -> Vec<u8> {
    const COMMAND_LONG_EXTRA: u8 = 152;
    frame[2] |= 1;
    let end = frame.len() - 2;
    let crc = frame[1..end].iter().chain(&[COMMAND_LONG_EXTRA]).fold(0xffff, |crc: u16, byte| {
        let low = byte ^ crc as u8;
        let low = u16::from(low ^ low << 4);
        crc >> 8 ^ low << 8 ^ low << 3 ^ low >> 4
    });
    frame[end..].copy_from_slice(&crc.to_le_bytes());
    frame.extend([link, 1, 0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5]);
    frame
}
