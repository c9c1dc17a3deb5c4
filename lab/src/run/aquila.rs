//! This product: two sessions, as they fly.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aquila_emu::Ecn;
use aquila_net::encoder::{EncoderKind, MAJESTIC_STEPS, Steps};
use aquila_proto::cc::{EncoderRange, Radio, Response};
use aquila_proto::mavlink::Frame;
use aquila_proto::quic::EcnCodepoint;
use aquila_proto::session::Arrival;
use aquila_proto::video::VideoParity;
use aquila_proto::{BearerId, Bitrate, Event, FrameBitrate, FrameTurn, Output as SessionOutput, Side, Usage};
use bytes::BytesMut;

use super::clock::Clock;
use super::contender::{Contender, Content, Data, Outgoing, Output, Wanted, Wire};
use super::oracle::{Knowing, Truth};
use crate::ends::{End, EndConfig, Stored};
use crate::frames;
use crate::pair::IP_UDP;
use crate::plan::{ContenderPlan, Plan, Reconnect, Told, TrafficPlan, VideoTraffic};

const GROUND: ([u8; 4], u16) = ([203, 0, 113, 1], 9_400);
const AIR_PORT: u16 = 40_000;

/// The contender.
pub struct Aquila {
    ends: [End; 2],
    /// What the ends take for the time.
    clocks: [Clock; 2],
    reconnect: Reconnect,
    /// Of the aircraft.
    config: EndConfig,
    /// What replaces its controller.
    knowing: Option<Knowing>,
    start: Instant,
    /// The aircraft's address, which changes.
    address: u32,
    /// Sessions at the same nodes have other ports.
    ports: u16,
    /// Each link is a bearer.
    links: usize,
    names: Vec<String>,
    /// Flows of video in order, for their numbers in a session.
    cameras: Vec<usize>,
    /// What was sent from a node, by its number among those of its kind and node.
    sent: [BTreeMap<Key, (usize, u32)>; 2],
    counts: [[u32; 3]; 2],
    /// Of what goes with commands: frames that have not come yet, by node and number.
    missing: [BTreeMap<u32, usize>; 2],
    rtp_seq: u16,
    /// The last rate that was said, and whether a recovery point is wanted.
    target: Option<Bitrate>,
    recovery: bool,
    asks: bool,
    /// It can be told to pause, and has been.
    pauses: bool,
    held: bool,
    /// When it is told another rate, if that is seldom.
    steps: Option<Steps>,
    /// There is always more of a file to send.
    bulk: bool,
    output: VecDeque<Output>,
}

/// What a message is recognised by when it comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Command(u32),
    Parameter(u16),
    Data(u32),
    Frame(u8, u32),
}

/// Messages remembered; those under way are far fewer.
const MAX_SENT: usize = 1 << 16;

impl Aquila {
    /// `encoder`: what the camera has; `None` if it is the model that the plan describes.
    pub fn new(
        contender: &ContenderPlan,
        plan: &Plan,
        truth: Option<Truth>,
        seed: u64,
        start: Instant,
        encoder: Option<EncoderKind>,
    ) -> Result<Self, String> {
        let traffic = &plan.traffic();
        let videos = traffic.iter().filter_map(|traffic| traffic.video);
        let (cameras, asks) = (videos.clone().count(), videos.clone().any(|video| video.asks));
        let told = |how| !asks && videos.clone().any(|video| video.told == how);
        let (is_told_seldom, pauses) = (told(Told::Seldom), told(Told::Pauses));
        let congestion = contender.congestion().map_err(|name| format!("'{name}' is no controller"))?;
        let modelled = encoder_range(traffic);
        let encoder = match encoder {
            Some(kind) => kind.range(modelled.least, modelled.most),
            // Their encoders make exactly what they are asked for.
            None if truth.is_some() => EncoderRange { response: Response::AT_ONCE, ..modelled },
            None => modelled,
        };
        let knowing = contender.oracle().zip(truth).map(|(kind, truth)| Knowing::new(kind, truth, traffic, encoder));
        let bearers = vec![Usage::Normal; plan.links.len().clamp(1, BearerId::COUNT)];
        let config = EndConfig {
            side: Side::Air,
            mtu: contender.mtu,
            cameras,
            seed,
            encoder,
            congestion,
            bearers,
            radios: Vec::new(),
            parity: VideoParity::default(),
        };
        let links = config.bearers.len();
        let end = |side| {
            let config = EndConfig { side, ..config.clone() };
            End::new(config, 1, Stored::default(), start, Duration::ZERO).map_err(|error| error.to_string())
        };
        let mut contender = Self {
            ends: [end(Side::Air)?, end(Side::Ground)?],
            clocks: [0, 1].map(|node| Clock::new(start, plan.drift(node))),
            reconnect: contender.reconnect,
            config,
            knowing,
            start,
            address: 1,
            ports: 0,
            links,
            names: plan.links.iter().map(|link| link.get_ref().name.get_ref().clone()).collect(),
            cameras: Vec::new(),
            sent: [BTreeMap::new(), BTreeMap::new()],
            counts: [[0; 3]; 2],
            missing: [BTreeMap::new(), BTreeMap::new()],
            rtp_seq: 0,
            target: None,
            recovery: false,
            asks,
            pauses,
            held: false,
            steps: is_told_seldom.then(|| Steps::new(MAJESTIC_STEPS)),
            bulk: contender.bulk,
            output: VecDeque::new(),
        };
        contender.tell();
        Ok(contender)
    }

    /// The same with ports that are so much higher.
    pub fn at_ports(self, ports: u16) -> Self {
        Self { ports, ..self }
    }

    /// The aircraft's session gets the controller that knows the link, if that is what the plan wants.
    fn tell(&mut self) {
        if let Some(knowing) = &self.knowing {
            self.ends[0].session.set_controller(|| Box::new(knowing.clone()));
        }
    }

    /// The aircraft's address on a link: each is another network.
    fn air_address(&self, link: usize) -> SocketAddr {
        let network = 51 + link as u8;
        SocketAddr::from(([198, network, (self.address >> 8) as u8, self.address as u8], AIR_PORT + self.ports))
    }

    fn address_of(&self, node: usize, link: usize) -> SocketAddr {
        if node == 0 { self.air_address(link) } else { SocketAddr::from((GROUND.0, GROUND.1 + self.ports)) }
    }

    fn connect(&mut self, now: Instant) {
        let (remote, shown) = (self.address_of(1, 0), self.clocks[0].shown(now));
        for bearer in BearerId::all().take(self.links) {
            if let Err(error) = self.ends[0].session.connect(shown, bearer, remote) {
                self.note(0, format!("cannot connect: {error}"));
            }
            self.drain(now, 0);
        }
    }

    fn note(&mut self, node: usize, text: String) {
        self.output.push_back(Output::Note { node, text });
    }

    fn remember(&mut self, node: usize, key: Key, message: (usize, u32)) {
        let sent = &mut self.sent[node];
        if sent.len() >= MAX_SENT {
            sent.pop_first();
        }
        sent.insert(key, message);
    }

    fn on_delivered(&mut self, node: usize, key: Key) {
        if let Some((flow, number)) = self.sent[1 - node].get(&key).copied() {
            self.output.push_back(Output::Delivered { flow, number });
        }
    }

    /// Whether this was the last frame of what goes with a command.
    fn is_whole(&mut self, node: usize, key: Key) -> bool {
        let Key::Data(number) = key else { return true };
        let missing = &mut self.missing[1 - node];
        let Some(left) = missing.get_mut(&number) else { return false };
        *left -= 1;
        let is_whole = *left == 0;
        if is_whole {
            missing.remove(&number);
        }
        is_whole
    }

    fn count(&mut self, node: usize, kind: usize) -> u32 {
        let count = &mut self.counts[node][kind];
        *count += 1;
        *count - 1
    }

    /// Number on the link of the camera that makes a flow.
    fn camera_of(&mut self, flow: usize) -> usize {
        let known = self.cameras.iter().position(|known| *known == flow);
        known.unwrap_or_else(|| {
            self.cameras.push(flow);
            self.cameras.len() - 1
        })
    }

    fn send_video(&mut self, now: Instant, message: &Outgoing, bytes: usize, packet: usize, recovery: bool) {
        let camera = self.camera_of(message.flow);
        self.remember(message.node, Key::Frame(camera as u8, message.number), (message.flow, message.number));
        let mut left = bytes;
        while left > 0 {
            let len = left.min(packet).max(frames::RTP_MIN);
            left = left.saturating_sub(len);
            let rtp = frames::h264(self.rtp_seq, message.number, len, left == 0, recovery);
            self.rtp_seq = self.rtp_seq.wrapping_add(1);
            let shown = self.clocks[message.node].shown(now);
            self.ends[message.node].session.send_video(shown, camera, &rtp);
            self.drain(now, message.node);
        }
    }

    /// The aircraft's bulk takes what it can.
    fn fill(&mut self, now: Instant) {
        const PIECE: [u8; 16_384] = [0x5a; 16_384];
        let mut wants_more = self.bulk;
        while wants_more {
            let taken = self.ends[0].session.write_bulk(self.clocks[0].shown(now), &PIECE);
            self.drain(now, 0);
            wants_more = taken == PIECE.len();
        }
    }

    fn drain(&mut self, now: Instant, node: usize) {
        let clock = self.clocks[node];
        let mut events = Vec::new();
        loop {
            let end = &mut self.ends[node];
            match end.session.poll_output(clock.shown(now)) {
                SessionOutput::Timeout(at) => {
                    end.deadline = clock.when(at);
                    break;
                }
                SessionOutput::Transmit(bearer, transmit, data) => {
                    let link = usize::from(bearer.number());
                    let (data, bytes) = (BytesMut::from(data), data.len() + IP_UDP);
                    let from = self.address_of(node, link);
                    let wire = Wire::Datagram { from, to: transmit.destination, data };
                    let ecn = transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
                    self.output.push_back(Output::Transmit { node, link, bytes, ecn, wire });
                }
                // No plan has a radio yet.
                SessionOutput::Line(..) => {}
                SessionOutput::Event(event) => events.push(event),
            }
        }
        self.ends[node].store();
        for event in events {
            self.on_event(now, node, event);
        }
    }

    fn on_event(&mut self, now: Instant, node: usize, event: Event) {
        match event {
            Event::Mavlink { frame, .. } => {
                if let Some(key) = key_of(&frame).filter(|key| self.is_whole(node, *key)) {
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
            Event::BearerState { bearer, state, silence } => {
                let link = &self.names[usize::from(bearer.number())];
                self.note(node, format!("{link} {} after {} ms of silence", state.name(), silence.as_millis()));
            }
            Event::Rerouted { class, bearer } => {
                let link = &self.names[usize::from(bearer.number())];
                self.note(node, format!("{} goes by {link}", class.name()));
            }
            Event::Connected { resumed, .. } => {
                self.note(node, if resumed { "connected by 0-RTT" } else { "connected" }.to_owned());
            }
            Event::Disconnected { reason, .. } => self.note(node, format!("disconnected: {reason}")),
            Event::PeerMoved { .. } => self.note(node, "the other side's address changed".to_owned()),
            Event::AddressWanted(bearer) if node == 0 => {
                let (remote, shown) = (self.address_of(1, 0), self.clocks[0].shown(now));
                if let Err(error) = self.ends[0].session.reconnect(shown, bearer, remote) {
                    self.note(0, format!("cannot connect: {error}"));
                }
                self.drain(now, 0);
            }
            Event::BulkReadable => {
                let shown = self.clocks[node].shown(now);
                while self.ends[node].session.read_bulk(shown, 65_536).is_some() {
                    self.drain(now, node);
                }
                self.drain(now, node);
            }
            Event::TargetRate { asked, seldom, .. } if node == 0 => match &mut self.steps {
                Some(steps) => steps.want(now, seldom),
                None => self.target = Some(asked),
            },
            Event::Hold(hold) if node == 0 => self.held = hold && self.pauses,
            Event::RecoveryPointWanted { .. } if node == 0 => self.recovery = true,
            _ => {}
        }
    }
}

impl Contender for Aquila {
    fn start(&mut self, now: Instant) {
        self.connect(now);
        self.drain(now, 1);
        self.fill(now);
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
            Content::Frame { bytes, packet, recovery } => {
                return self.send_video(now, &message, bytes, packet, recovery);
            }
        };
        self.remember(node, key, (message.flow, message.number));
        self.ends[node].session.send_mavlink(self.clocks[node].shown(now), &frame);
        self.drain(now, node);
    }

    fn send_data(&mut self, now: Instant, data: Data) {
        let Data { flow, number, node, bytes } = data;
        let side = if node == 0 { Side::Air } else { Side::Ground };
        let count = self.count(node, 2);
        let frames = frames::data(side, count, bytes);
        let missing = &mut self.missing[node];
        if missing.len() >= MAX_SENT {
            missing.pop_first();
        }
        missing.insert(count, frames.len());
        self.remember(node, Key::Data(count), (flow, number));
        for frame in &frames {
            self.ends[node].session.send_mavlink(self.clocks[node].shown(now), frame);
            self.drain(now, node);
        }
    }

    fn receive(&mut self, now: Instant, node: usize, ecn: Ecn, wire: Wire) {
        let Wire::Datagram { from, to, data } = wire else { return };
        let link = (0..self.links).find(|link| to == self.address_of(node, *link));
        let Some(link) = link else { return };
        let shown = self.clocks[node].shown(now);
        let bearer = BearerId::new(link as u8).filter(|_| node == 0);
        let arrival = Arrival { bearer, ecn: EcnCodepoint::from_bits(ecn.bits()), ..Arrival::new(shown, from) };
        self.ends[node].session.handle_datagram(shown, arrival, data);
        self.drain(now, node);
        if node == 0 {
            self.fill(now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in 0..2 {
            if self.ends[node].deadline <= now {
                self.ends[node].session.handle_timeout(self.clocks[node].shown(now));
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

    fn on_link_up(&mut self, now: Instant, links: &[usize]) {
        for node in 0..2 {
            for link in links {
                let shown = self.clocks[node].shown(now);
                self.ends[node].session.network_changed(shown, BearerId::new(*link as u8));
                self.drain(now, node);
            }
        }
    }

    fn on_radio(&mut self, now: Instant, link: Option<usize>, radio: &Radio) {
        let shown = self.clocks[0].shown(now);
        let bearer = link.and_then(|link| BearerId::new(link as u8));
        self.ends[0].session.set_radio(shown, bearer, radio);
        self.drain(now, 0);
    }

    /// The aircraft's process dies, and is started again at once: with what was on disk, or with nothing but its key. What
    /// the former one had not delivered is gone with it.
    fn before_reconnect(&mut self, now: Instant) {
        if self.reconnect == Reconnect::Keep {
            return;
        }
        let shown = self.clocks[0].shown(now);
        let air = &mut self.ends[0];
        let mut stored = air.take_stored();
        stored.resumption.retain(|_, _| self.reconnect == Reconnect::Resume);
        match End::new(self.config.clone(), air.life + 1, stored, shown, shown - self.start) {
            Ok(end) => {
                self.ends[0] = end;
                self.tell();
            }
            Err(error) => self.note(0, error.to_string()),
        }
        self.connect(now);
    }

    fn reconnect(&mut self, _: Instant) {
        // It is told of the link and the address, or finds out by itself.
    }

    fn next_frame(&mut self, now: Instant, node: usize, flow: usize, waited: Duration) -> Wanted {
        let shown = self.clocks[node].shown(now);
        if let Some(told) = self.steps.as_mut().and_then(|steps| steps.poll(now)) {
            self.target = Some(told);
            self.note(node, format!("the camera is told {} kbit/s", told.0 / 1000));
        }
        let turn = match (self.asks, self.target) {
            (true, _) => {
                let camera = self.camera_of(flow);
                self.ends[node].session.next_frame(shown, camera, waited)
            }
            (false, _) if self.held => FrameTurn::LeaveOut,
            (false, Some(told)) => FrameTurn::Encode(FrameBitrate::both(told)),
            (false, None) => return Wanted::default(),
        };
        match turn {
            FrameTurn::Encode(rate) => {
                Wanted { rate, recovery: std::mem::take(&mut self.recovery), ..Wanted::default() }
            }
            FrameTurn::Wait(time) => Wanted { wait: Some(time), ..Wanted::default() },
            FrameTurn::LeaveOut => Wanted { skip: true, ..Wanted::default() },
        }
    }
}

/// What all cameras together make.
fn encoder_range(traffic: &[&TrafficPlan]) -> EncoderRange {
    let videos = || traffic.iter().filter_map(|traffic| traffic.video);
    let least = |video: &VideoTraffic| video.least.map(|least| least.bitrate());
    match videos().map(|video| video.rate.bitrate()).reduce(std::ops::Add::add) {
        Some(most) => EncoderRange {
            least: videos().filter_map(|video| least(&video)).min().unwrap_or_default(),
            most,
            response: Response::both(
                videos().filter(|video| video.known).map(|video| video.response).fold(1.0, f64::min),
            ),
            ..EncoderRange::default()
        },
        None => EncoderRange::default(),
    }
}

fn key_of(frame: &Frame) -> Option<Key> {
    let parameter = || frames::param_index(frame).map(Key::Parameter);
    let data = || frames::data_index(frame).map(Key::Data);
    frames::command_index(frame).map(Key::Command).or_else(parameter).or_else(data)
}
