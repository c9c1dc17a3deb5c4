//! This product: two sessions, as they fly.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquila_emu::Ecn;
use aquila_proto::identity::Identity;
use aquila_proto::mavlink::Frame;
use aquila_proto::quic::{EcnCodepoint, MemoryTickets, QuicConfig, TicketStore};
use aquila_proto::{Bitrate, Event, Output as SessionOutput, Session, SessionConfig, Side};
use bytes::BytesMut;

use super::contender::{Contender, Content, Outgoing, Output, Wire};
use crate::frames;
use crate::pair::IP_UDP;
use crate::plan::{ContenderPlan, Reconnect, TrafficKind, TrafficPlan};

const GROUND: &str = "203.0.113.1:9400";

/// The contender.
pub struct Aquila {
    ends: [End; 2],
    reconnect: Reconnect,
    mtu: u16,
    seed: u64,
    start: Instant,
    /// The aircraft's address, which changes.
    address: u32,
    /// Flows of video in order, for their numbers in a session.
    cameras: Vec<usize>,
    /// What was sent from a node, by its number among the commands, parameters or pictures of that node.
    sent: [BTreeMap<Key, (usize, u32)>; 2],
    counts: [[u32; 2]; 2],
    rtp_seq: u16,
    target: Option<Bitrate>,
    output: VecDeque<Output>,
}

/// What a message is recognised by when it comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Command(u32),
    Parameter(u16),
    Frame(u8, u32),
}

struct End {
    session: Session,
    deadline: Instant,
    former: Former,
    life: u32,
}

/// What is on an end's disk.
#[derive(Default)]
struct Former {
    tickets: Arc<MemoryTickets>,
    replay: Option<Vec<u8>>,
    resumption: Option<Vec<u8>>,
}

/// Messages remembered; those under way are far fewer.
const MAX_SENT: usize = 1 << 16;

impl Aquila {
    pub fn new(plan: &ContenderPlan, traffic: &[&TrafficPlan], seed: u64, start: Instant) -> Result<Self, String> {
        let is_video = |traffic: &&&TrafficPlan| matches!(traffic.kind(), Ok(TrafficKind::Video(_)));
        let cameras = traffic.iter().filter(is_video).count();
        let ends = [0, 1].map(|node| End::new(node, plan.mtu, cameras, seed, (start, start), 1, Former::default()));
        let [air, ground] = ends;
        Ok(Self {
            ends: [air?, ground?],
            reconnect: plan.reconnect,
            mtu: plan.mtu,
            seed,
            start,
            address: 1,
            cameras: Vec::new(),
            sent: [BTreeMap::new(), BTreeMap::new()],
            counts: [[0; 2]; 2],
            rtp_seq: 0,
            target: None,
            output: VecDeque::new(),
        })
    }

    fn air_address(&self) -> SocketAddr {
        SocketAddr::from(([198, 51, (self.address >> 8) as u8, self.address as u8], 40_000))
    }

    fn address_of(&self, node: usize) -> SocketAddr {
        if node == 0 { self.air_address() } else { GROUND.parse().expect("an address") }
    }

    fn connect(&mut self, now: Instant) {
        let remote = self.address_of(1);
        if let Err(error) = self.ends[0].session.connect(now, remote) {
            self.note(0, format!("cannot connect: {error}"));
        }
        self.drain(now, 0);
    }

    fn note(&mut self, node: usize, text: String) {
        self.output.push_back(Output::Note { node, text });
    }

    fn remember(&mut self, node: usize, key: Key, message: &Outgoing) {
        let sent = &mut self.sent[node];
        if sent.len() >= MAX_SENT {
            sent.pop_first();
        }
        sent.insert(key, (message.flow, message.number));
    }

    fn on_delivered(&mut self, node: usize, key: Key) {
        if let Some((flow, number)) = self.sent[1 - node].get(&key).copied() {
            self.output.push_back(Output::Delivered { flow, number });
        }
    }

    fn count(&mut self, node: usize, kind: usize) -> u32 {
        let count = &mut self.counts[node][kind];
        *count += 1;
        *count - 1
    }

    fn send_video(&mut self, now: Instant, message: &Outgoing, bytes: usize, packet: usize) {
        let known = self.cameras.iter().position(|flow| *flow == message.flow);
        let camera = known.unwrap_or_else(|| {
            self.cameras.push(message.flow);
            self.cameras.len() - 1
        });
        self.remember(message.node, Key::Frame(camera as u8, message.number), message);
        let mut left = bytes;
        while left > 0 {
            let len = left.min(packet).max(frames::RTP_MIN);
            left = left.saturating_sub(len);
            let rtp = frames::rtp(self.rtp_seq, message.number, len, left == 0);
            self.rtp_seq = self.rtp_seq.wrapping_add(1);
            self.ends[message.node].session.send_video(now, camera, &rtp);
            self.drain(now, message.node);
        }
    }

    fn drain(&mut self, now: Instant, node: usize) {
        let from = self.address_of(node);
        let mut events = Vec::new();
        loop {
            let end = &mut self.ends[node];
            match end.session.poll_output(now) {
                SessionOutput::Timeout(at) => {
                    end.deadline = at;
                    break;
                }
                SessionOutput::Transmit(transmit, data) => {
                    let wire = Wire::Datagram { from, to: transmit.destination, data: BytesMut::from(data) };
                    let ecn = transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
                    let bytes = data.len() + IP_UDP;
                    self.output.push_back(Output::Transmit { node, link: 0, bytes, ecn, wire });
                }
                SessionOutput::Event(event) => events.push(event),
            }
        }
        let end = &mut self.ends[node];
        if let Some(replay) = end.session.replay_snapshot() {
            end.former.replay = Some(replay);
        }
        if let Some(resumption) = end.session.resumption_snapshot() {
            end.former.resumption = Some(resumption);
        }
        for event in events {
            self.on_event(now, node, event);
        }
    }

    fn on_event(&mut self, now: Instant, node: usize, event: Event) {
        match event {
            Event::Mavlink { frame, .. } => {
                if let Some(key) = key_of(&frame) {
                    self.on_delivered(node, key);
                }
            }
            Event::Video { flow, packets, .. } => {
                let first = packets.clone().next();
                if let Some(number) = first.and_then(|packet| frames::rtp_index(&packet)) {
                    self.on_delivered(node, Key::Frame(flow, number));
                }
            }
            Event::State { state, silence } => {
                self.note(node, format!("link {} after {} ms of silence", state.name(), silence.as_millis()));
            }
            Event::Connected { resumed, .. } => {
                self.note(node, if resumed { "connected by 0-RTT" } else { "connected" }.to_owned());
            }
            Event::Disconnected(reason) => self.note(node, format!("disconnected: {reason}")),
            Event::PeerMoved { .. } => self.note(node, "the other side's address changed".to_owned()),
            Event::AddressWanted if node == 0 => {
                let remote = self.address_of(1);
                if let Err(error) = self.ends[0].session.reconnect(now, remote) {
                    self.note(0, format!("cannot connect: {error}"));
                }
                self.drain(now, 0);
            }
            Event::TargetRate(rate) if node == 0 => self.target = Some(rate),
            _ => {}
        }
    }
}

impl Contender for Aquila {
    fn start(&mut self, now: Instant) {
        self.connect(now);
        self.drain(now, 1);
    }

    fn send(&mut self, now: Instant, message: Outgoing) {
        let node = message.node;
        let side = if node == 0 { Side::Air } else { Side::Ground };
        let (key, frame) = match message.content {
            Content::Command => {
                let count = self.count(node, 0);
                (Key::Command(count), frames::command(side, count))
            }
            Content::Parameter => {
                let count = self.count(node, 1) as u16;
                (Key::Parameter(count), frames::param_value(side, count))
            }
            Content::Frame { bytes, packet } => return self.send_video(now, &message, bytes, packet),
        };
        self.remember(node, key, &message);
        self.ends[node].session.send_mavlink(now, &frame);
        self.drain(now, node);
    }

    fn receive(&mut self, now: Instant, node: usize, ecn: Ecn, wire: Wire) {
        let Wire::Datagram { from, to, data } = wire else { return };
        if to != self.address_of(node) {
            return;
        }
        let ecn = EcnCodepoint::from_bits(ecn.bits());
        self.ends[node].session.handle_datagram(now, now, from, None, ecn, data);
        self.drain(now, node);
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in 0..2 {
            if self.ends[node].deadline <= now {
                self.ends[node].session.handle_timeout(now);
                self.drain(now, node);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.ends.iter().map(|end| end.deadline).min()
    }

    fn poll(&mut self, _: Instant) -> Option<Output> {
        self.output.pop_front()
    }

    fn on_new_address(&mut self, _: Instant) {
        self.address += 1;
    }

    fn on_link_up(&mut self, now: Instant) {
        for node in 0..2 {
            self.ends[node].session.network_changed(now);
            self.drain(now, node);
        }
    }

    /// The aircraft's process dies, and is started again at once: with what was on disk, or with nothing but its key. What
    /// the former one had not delivered is gone with it.
    fn before_reconnect(&mut self, now: Instant) {
        if self.reconnect == Reconnect::Keep {
            return;
        }
        let air = &mut self.ends[0];
        let former = Former {
            tickets: air.former.tickets.clone(),
            replay: air.former.replay.take(),
            resumption: air.former.resumption.take().filter(|_| self.reconnect == Reconnect::Resume),
        };
        let (life, cameras) = (air.life + 1, self.cameras.len());
        match End::new(0, self.mtu, cameras, self.seed, (self.start, now), life, former) {
            Ok(end) => self.ends[0] = end,
            Err(message) => self.note(0, message),
        }
        self.connect(now);
    }

    fn reconnect(&mut self, _: Instant) {
        // It is told of the link and the address, or finds out by itself.
    }

    fn video_target(&self) -> Option<Bitrate> {
        self.target
    }
}

impl End {
    fn new(
        node: usize,
        mtu: u16,
        cameras: usize,
        seed: u64,
        (start, now): (Instant, Instant),
        life: u32,
        former: Former,
    ) -> Result<Self, String> {
        let side = if node == 0 { Side::Air } else { Side::Ground };
        let (air, ground) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
        let (identity, peer) = match side {
            Side::Air => (air, ground.public()),
            Side::Ground => (ground, air.public()),
        };
        let quic = QuicConfig {
            identity: Arc::new(identity),
            peer,
            mtu,
            tickets: former.tickets.clone() as Arc<dyn TicketStore>,
            resumption: former.resumption.clone(),
            listen: side == Side::Ground,
        };
        let mut bytes = [node as u8 + 1; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        bytes[8..12].copy_from_slice(&life.to_be_bytes());
        let since_1970 = Duration::from_secs(1_790_000_000) + (now - start);
        let mut config = SessionConfig::new(side, quic, now, since_1970, bytes);
        config.epoch = 1000 + u64::from(life);
        config.replay.clone_from(&former.replay);
        config.video = (0..cameras.max(1)).map(|_| aquila_proto::video::SendQueueConfig::default()).collect();
        let session = Session::new(config).map_err(|error| error.to_string())?;
        Ok(Self { session, deadline: now, former, life })
    }
}

fn key_of(frame: &Frame) -> Option<Key> {
    let parameter = || frames::param_index(frame).map(Key::Parameter);
    frames::command_index(frame).map(Key::Command).or_else(parameter)
}
