//! The gateway between TCP and UDP at either side and AeroTP between them [AeroTP §III-B, figures 7 to 11].
//!
//! Sans-IO: what applications say, bytes of the radio's line and time go in; actions, bytes and a deadline come out. Each TCP
//! connection is a [flow](FlowId) with a connection of AeroTP of its own, over which both gateways speak [frames](Frame).
//! What is in custody is kept by a [`Custody`] that the caller brings.

mod action;
mod custody;
mod flow;
mod frame;
mod passthrough;
mod quasi;
mod status;
mod target;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;
mod udp;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;

pub use action::{Action, GatewayConfig, TcpMode};
pub use custody::{Custody, Deed, Kept, StorageError};
pub use frame::{
    Connect, DATA_OVERHEAD, DATAGRAM_OVERHEAD, FlowId, Frame, MalformedFrame, Open, Reason, SEGMENT_OVERHEAD, Segment,
};
pub use passthrough::{Former, Intercept, PacketCounters, TunConfig, is_within};
pub use quasi::Fill;
pub use status::{Ending, FlowState, FlowStatus, GatewayStats};
pub use target::{MalformedTarget, Name, Target};
pub use udp::{Client, Peer};

use crate::aerotp::{
    Closed, ConnectionConfig, ConnectionId, EndpointEvent, Piece, Port, RadioConfig, SecurityConfig, SecurityError,
    Transceiver, TransferMode,
};
use crate::seeded::SeededBytes;
use flow::{App, Flow, Kind, Means};
use passthrough::Passthrough;
use udp::Udp;

/// With nothing to send, the other side is greeted anew when nothing was heard for so long: it may have restarted.
const ANEW_IDLE: Duration = Duration::from_secs(15);
/// Ports of AeroTP that gateways listen on.
const CUSTODY: Port = Port(16);
const QUASI_CONTROL: Port = Port(17);
const QUASI_DATA: Port = Port(18);
const ORDERED_UDP: Port = Port(19);
/// The first that is used to connect from.
const FIRST_PORT: u16 = 1024;
/// A connection that the other side does not take is tried again after this.
const REOPEN: Duration = Duration::from_secs(1);
/// What could not be stored is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// A flow that the other side opened, and does not take up again although it can be heard, is over.
const ABANDONED: Duration = Duration::from_secs(60);
/// Connections whose flow is not known, and what is kept of each until it is.
const MAX_STRANGERS: usize = 64;
const MAX_EARLY: usize = 64;
/// Ends of flows that are remembered, so that none is begun again.
const MAX_ENDED: usize = 1024;

/// A gateway: one of the two.
#[derive(Debug)]
pub struct Gateway<C> {
    config: GatewayConfig,
    line: Transceiver,
    custody: C,
    random: SeededBytes,
    next_port: u16,
    flows: BTreeMap<FlowId, Flow>,
    by_connection: BTreeMap<ConnectionId, FlowId>,
    /// Connections of the other side's whose flow is not known yet.
    strangers: BTreeMap<ConnectionId, Stranger>,
    ended: VecDeque<(FlowId, Option<Reason>, u64)>,
    udp: Udp,
    passthrough: Passthrough,
    counters: Counters,
    actions: VecDeque<Action>,
}

/// A connection whose flow is not known yet.
#[derive(Debug)]
struct Stranger {
    /// Our port, and the other side's.
    local: Port,
    remote: Port,
    /// What came on it, of data whose flow has yet to be opened.
    early: Vec<Bytes>,
}

#[derive(Debug, Default)]
struct Counters {
    malformed: u64,
    ended: u64,
    undelivered: u64,
}

impl<C: Custody> Gateway<C> {
    /// A gateway that has said nothing yet. What is in custody of a former run is taken up again.
    ///
    /// # Errors
    /// If no secret can be agreed with the other side's key.
    pub fn new(
        now: Instant,
        config: GatewayConfig,
        radio: &RadioConfig,
        security: SecurityConfig,
        mut random: SeededBytes,
        mut custody: C,
    ) -> Result<Self, SecurityError> {
        let seed = random.next_seed();
        // A flow may have two, a UDP client one.
        let connections = config.max_flows * 2 + udp::MAX_CLIENTS;
        let mut line = Transceiver::new(
            radio,
            (radio.max_segment, connections, ANEW_IDLE),
            security,
            SeededBytes::new(&seed, "aerotp"),
        )?;
        for (port, mode) in [
            (CUSTODY, custody_connection()),
            (QUASI_CONTROL, quasi_control()),
            (QUASI_DATA, quasi_data()),
            (ORDERED_UDP, udp::ordered_connection()),
            (passthrough::PORT, passthrough::connection()),
        ] {
            line.endpoint.listen(port.0..=port.0, mode);
        }
        let flows = custody.load().into_iter().map(|kept| (kept.deed.flow, Flow::restored(now, &kept))).collect();
        let ended = custody.load_ended().into();
        let mut port = [0; 2];
        random.fill(&mut port);
        let passthrough = Passthrough::new(SeededBytes::new(&seed, "passthrough"), config.max_flows);
        Ok(Self {
            config,
            line,
            custody,
            random,
            next_port: u16::from_be_bytes(port).max(FIRST_PORT),
            flows,
            by_connection: BTreeMap::new(),
            strangers: BTreeMap::new(),
            ended,
            udp: Udp::new(config.udp_idle),
            passthrough,
            counters: Counters::default(),
            actions: VecDeque::new(),
        })
    }

    /// The side that initiates begins; the other one waits to be spoken to.
    pub fn begin(&mut self, now: Instant) {
        self.line.begin(now);
        self.pump(now);
    }

    /// Takes in bytes of the line, or one packet.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        self.line.handle_bytes(now, bytes);
        self.pump(now);
    }

    /// To be called when the time that [`Gateway::poll_timeout`] gave has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.line.handle_timeout(now);
        self.udp.handle_timeout(now, &mut self.line.endpoint, &mut self.actions);
        self.pump(now);
    }

    /// When to call [`Gateway::handle_timeout`] and [`Gateway::poll_transmit`] next.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let flows = self.flows.values().filter_map(Flow::deadline).min();
        [self.line.poll_timeout(now), self.udp.deadline(), flows, self.passthrough.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next bytes for the line, or packet, put into `out`; whether there are any.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let sent = self.line.poll_transmit(now, out);
        if sent {
            // There may be room for more.
            self.serve(now);
        }
        sent
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What must be kept over a restart, if it changed: see [`Endpoint::snapshot`](crate::aerotp::Endpoint::snapshot).
    pub fn snapshot(&mut self) -> Option<u64> {
        self.line.endpoint.snapshot()
    }

    /// Packets of a TUN device are given and taken from now on, for connections that are passed through. `former`: what
    /// [`Gateway::formers`] gave last in a former run; those connections end now.
    pub fn set_tun(&mut self, tun: TunConfig, former: impl IntoIterator<Item = Former>) {
        self.passthrough.set_tun(tun);
        self.passthrough.revive(former);
    }

    /// Takes in a packet of the TUN device.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        let message = self.line.endpoint.max_datagram().saturating_sub(SEGMENT_OVERHEAD);
        self.passthrough.handle_packet(now, packet, (self.flows.len(), message), &mut self.actions);
        self.serve(now);
    }

    /// The next packet for the TUN device.
    pub fn poll_packet(&mut self) -> Option<Vec<u8>> {
        self.passthrough.poll_packet()
    }

    /// Connections that are passed through, to be kept over a restart.
    pub fn formers(&self) -> impl Iterator<Item = Former> + Clone + '_ {
        self.passthrough.formers()
    }

    /// The program ends: connections that are passed through are reset, since nobody would serve them.
    pub fn end_passed_through(&mut self, now: Instant) {
        self.passthrough.end_all();
        self.serve(now);
    }

    /// What became of the packets of the TUN device.
    pub fn packets(&self) -> PacketCounters {
        self.passthrough.counters()
    }

    /// Whether [`Action::Admit`]'s target is allowed, and can be reached through the TUN device.
    pub fn on_admitted(&mut self, now: Instant, flow: FlowId, result: Result<(), Reason>) {
        self.passthrough.on_admitted(now, flow, result);
        self.serve(now);
    }

    /// An application has connected, to be carried to `target`.
    ///
    /// # Errors
    /// If there are too many flows, or what has to be stored of it cannot be; its connection should be reset.
    pub fn open(&mut self, now: Instant, target: Target, mode: TcpMode) -> Result<FlowId, Reason> {
        if self.flows.len() + self.passthrough.len() >= self.config.max_flows {
            return Err(Reason::TooMany);
        }
        let mut id = [0; 8];
        self.random.fill(&mut id);
        let deed = Deed { flow: FlowId(u64::from_be_bytes(id)), ours: true, target };
        let kind = match mode {
            TcpMode::NearReliable => Kind::Custody,
            TcpMode::QuasiReliable { deadline, fill } => Kind::quasi(deadline, fill),
        };
        if matches!(kind, Kind::Custody) {
            self.custody.begin(&deed).map_err(|_| Reason::Storage)?;
        }
        self.flows.insert(deed.flow, Flow::new(now, deed, kind, App::Open));
        self.pump(now);
        Ok(deed.flow)
    }

    /// The application has sent bytes; `drained`: and nothing more for now. Whether they are taken: in custody, or on their way.
    /// If not, they are to stay where they are until [`Action::Room`].
    pub fn on_app_bytes(&mut self, now: Instant, id: FlowId, bytes: &[u8], drained: bool) -> bool {
        let held: u64 = self.flows.values().map(Flow::held).sum();
        let room = self.config.total_custody.0.saturating_sub(held);
        let Some(flow) = self.flows.get_mut(&id) else { return true };
        let mut means =
            Means { now, endpoint: &mut self.line.endpoint, custody: &mut self.custody, actions: &mut self.actions };
        let room = room.min(self.config.flow_custody.0.saturating_sub(flow.held()));
        let taken = flow.on_app_bytes(&mut means, bytes, drained, room);
        self.serve(now);
        taken
    }

    /// The application has closed its way to us; whether that is taken, as of [`Gateway::on_app_bytes`].
    pub fn on_app_fin(&mut self, now: Instant, id: FlowId) -> bool {
        let Some(flow) = self.flows.get_mut(&id) else { return true };
        let taken = flow.on_app_fin(now, &mut self.custody);
        self.serve(now);
        taken
    }

    /// The application has reset its connection, or it is gone.
    pub fn on_app_reset(&mut self, now: Instant, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.on_app_gone(Reason::Application);
        }
        self.pump(now);
    }

    /// How [`Action::Dial`] went.
    pub fn on_dialled(&mut self, now: Instant, id: FlowId, result: Result<(), Reason>) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.on_dialled(now, result);
        }
        self.pump(now);
    }

    /// The application's kernel has acknowledged so many of the bytes written; `fin`: and the end after them.
    pub fn on_taken(&mut self, now: Instant, id: FlowId, bytes: u64, fin: bool) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.on_taken(now, bytes, fin);
        }
        self.pump(now);
    }

    /// A client of ours sends a datagram to `to`, to travel in order with its others or by itself.
    pub fn send_datagram(&mut self, now: Instant, client: Client, to: SocketAddr, ordered: bool, bytes: &[u8]) {
        self.udp.send(now, &mut self.line.endpoint, client, to, ordered, bytes);
    }

    /// What came back to the socket of [`Action::Datagram`].
    pub fn send_answer(&mut self, now: Instant, peer: Peer, bytes: &[u8]) {
        self.udp.answer(now, &mut self.line.endpoint, peer, bytes);
    }

    /// Takes in what the endpoint says, and serves the flows.
    fn pump(&mut self, now: Instant) {
        while let Some(event) = self.line.endpoint.poll_event() {
            self.on_event(now, event);
        }
        self.serve(now);
    }

    fn serve(&mut self, now: Instant) {
        let mut over = Vec::new();
        let mut opens = Vec::new();
        let heard = self.line.endpoint.heard();
        let held: u64 = self.flows.values().map(Flow::held).sum();
        let room = self.config.total_custody.0.saturating_sub(held);
        for (id, flow) in &mut self.flows {
            let mut means = Means {
                now,
                endpoint: &mut self.line.endpoint,
                custody: &mut self.custody,
                actions: &mut self.actions,
            };
            let room = room.min(self.config.flow_custody.0.saturating_sub(flow.held()));
            if let Some(reason) = flow.serve(&mut means, heard, room) {
                over.push((*id, reason));
            } else if flow.wants_connection(now) {
                opens.push(*id);
            }
        }
        for (id, reason) in over {
            self.end(now, id, reason);
        }
        for id in opens {
            self.connect(now, id);
        }
        let next_port = &mut self.next_port;
        let mut ports = || next_port_of(next_port);
        self.passthrough.serve(now, &mut self.line.endpoint, &mut ports, &mut self.actions);
    }

    /// Opens what a flow of ours travels on.
    fn connect(&mut self, now: Instant, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let endpoint = &mut self.line.endpoint;
        let (port, config) = match flow.kind {
            Kind::Custody => (CUSTODY, custody_connection()),
            Kind::Quasi(_) => (QUASI_CONTROL, quasi_control()),
        };
        for _ in 0..16 {
            let local = next_port_of(&mut self.next_port);
            let Some(control) = endpoint.connect(now, config, local, port) else { continue };
            let data = matches!(flow.kind, Kind::Quasi(_))
                .then(|| endpoint.connect(now, quasi_data(), local, QUASI_DATA))
                .flatten();
            for connection in [Some(control), data].into_iter().flatten() {
                self.by_connection.insert(connection, id);
            }
            flow.on_connection(endpoint, control, data);
            return;
        }
        flow.reopen_at(now + REOPEN);
    }

    fn on_event(&mut self, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Opened { connection, local, .. } if local == ORDERED_UDP => self.udp.on_opened(connection),
            EndpointEvent::Opened { connection, local, .. } if local == passthrough::PORT => {
                self.passthrough.on_opened(&mut self.line.endpoint, connection);
            }
            EndpointEvent::Opened { connection, local, remote, .. } => {
                if self.strangers.len() == MAX_STRANGERS {
                    return self.line.endpoint.reset(connection);
                }
                self.strangers.insert(connection, Stranger { local, remote, early: Vec::new() });
                self.claim_data(now);
            }
            EndpointEvent::Readable(connection) => self.on_readable(now, connection),
            EndpointEvent::Closed { connection, reason } => self.on_closed(now, connection, reason),
            EndpointEvent::Datagram { source, destination, bytes } => {
                self.udp.on_datagram(now, (source, destination), &bytes, &mut self.actions);
            }
            EndpointEvent::Associated { .. } | EndpointEvent::Acknowledged { .. } | EndpointEvent::PeerClosed(_) => {}
        }
    }

    fn on_closed(&mut self, now: Instant, connection: ConnectionId, reason: Closed) {
        self.strangers.remove(&connection);
        self.udp.on_closed(connection);
        self.passthrough.on_closed(connection);
        let Some(flow) = self.by_connection.remove(&connection).and_then(|id| self.flows.get_mut(&id)) else { return };
        let again = if reason == Closed::PeerRestarted { now } else { now + REOPEN };
        flow.on_disconnected(now, &mut self.line.endpoint, connection, again);
    }

    fn on_readable(&mut self, now: Instant, connection: ConnectionId) {
        if self.udp.is_ours(connection) {
            while let Some(piece) = self.line.endpoint.read(now, connection) {
                self.udp.on_piece(now, connection, &piece.bytes, &mut self.actions);
            }
            return;
        }
        if self.passthrough.owns(connection) {
            let (endpoint, actions, others) = (&mut self.line.endpoint, &mut self.actions, self.flows.len());
            self.counters.malformed += self.passthrough.on_readable(now, endpoint, connection, others, actions);
            return;
        }
        while let Some(Piece { bytes, .. }) = self.line.endpoint.read(now, connection) {
            if let Some(stranger) = self.strangers.get_mut(&connection).filter(|other| other.local == QUASI_DATA) {
                if stranger.early.len() < MAX_EARLY {
                    stranger.early.push(bytes);
                }
                continue;
            }
            let Ok(frame) = Frame::parse(&bytes) else {
                self.counters.malformed += 1;
                continue;
            };
            match (frame, self.by_connection.get(&connection).copied()) {
                (Frame::Open(open), None) => self.on_open(now, connection, open),
                (frame, Some(id)) => self.on_frame(now, id, frame),
                // The rest of a flow that is no more.
                (_, None) => {}
            }
        }
    }

    fn on_frame(&mut self, now: Instant, id: FlowId, frame: Frame<'_>) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let mut means =
            Means { now, endpoint: &mut self.line.endpoint, custody: &mut self.custody, actions: &mut self.actions };
        flow.on_frame(&mut means, frame);
    }

    /// The other side opens a flow, or takes it up again.
    fn on_open(&mut self, now: Instant, connection: ConnectionId, open: Open) {
        let Some(Stranger { local, remote, .. }) = self.strangers.remove(&connection) else { return };
        let kind = match local {
            QUASI_CONTROL => Kind::quasi(
                Duration::from_millis(open.deadline_ms.into()),
                if open.zero_fill { Fill::Zeros } else { Fill::Nothing },
            ),
            _ => Kind::Custody,
        };
        if let Some(flow) = self.flows.get_mut(&open.flow) {
            if flow.deed.ours {
                return self.refuse(connection, Reason::Protocol, 0);
            }
            let former = flow.on_taken_up(&mut self.line.endpoint, connection, remote, &open, &mut self.custody);
            if let Some(former) = former {
                self.by_connection.remove(&former);
            }
            self.by_connection.insert(connection, open.flow);
            return self.claim_data(now);
        }
        if let Some((_, reason, taken)) = self.ended.iter().find(|(flow, ..)| *flow == open.flow).copied() {
            return match reason {
                Some(reason) => self.refuse(connection, reason, taken),
                None => self.say_taken(now, connection, taken),
            };
        }
        if open.resumed {
            return self.refuse(connection, Reason::Restarted, 0);
        }
        if self.flows.len() + self.passthrough.len() >= self.config.max_flows {
            return self.refuse(connection, Reason::TooMany, 0);
        }
        let deed = Deed { flow: open.flow, ours: false, target: open.target };
        if matches!(kind, Kind::Custody) && self.custody.begin(&deed).is_err() {
            return self.refuse(connection, Reason::Storage, 0);
        }
        let mut flow = Flow::new(now, deed, kind, App::Dialling);
        flow.on_taken_up(&mut self.line.endpoint, connection, remote, &open, &mut self.custody);
        self.flows.insert(open.flow, flow);
        self.by_connection.insert(connection, open.flow);
        self.actions.push_back(Action::Dial { flow: open.flow, target: open.target });
        self.claim_data(now);
    }

    /// Gives the flows the connections that their data comes on.
    fn claim_data(&mut self, now: Instant) {
        let waiting = self.strangers.iter().filter(|(_, stranger)| stranger.local == QUASI_DATA);
        let waiting: Vec<(ConnectionId, Port)> =
            waiting.map(|(connection, stranger)| (*connection, stranger.remote)).collect();
        for (connection, remote) in waiting {
            let Some((id, flow)) = self.flows.iter_mut().find(|(_, flow)| flow.wants_data(remote)) else { continue };
            let id = *id;
            flow.data = Some(connection);
            self.by_connection.insert(connection, id);
            let early = self.strangers.remove(&connection).map(|stranger| stranger.early).unwrap_or_default();
            for bytes in early {
                match Frame::parse(&bytes) {
                    Ok(frame) => self.on_frame(now, id, frame),
                    Err(MalformedFrame) => self.counters.malformed += 1,
                }
            }
        }
    }

    fn refuse(&mut self, connection: ConnectionId, reason: Reason, taken: u64) {
        // Who hears it closes the connection.
        let frame = Frame::Reset { reason, taken };
        let _ = self.line.endpoint.send(connection, frame.encode().into(), None);
    }

    fn say_taken(&mut self, now: Instant, connection: ConnectionId, taken: u64) {
        // It had everything of ours, or we had not ended.
        let frame = Frame::Taken { offset: taken, fin: true };
        let _ = self.line.endpoint.send(connection, frame.encode().into(), None);
        self.line.endpoint.close(now, connection);
    }

    fn end(&mut self, now: Instant, id: FlowId, reason: Option<Reason>) {
        let Some(flow) = self.flows.remove(&id) else { return };
        let said = flow.say_over(&mut self.line.endpoint);
        for connection in [flow.control, flow.data].into_iter().flatten() {
            self.by_connection.remove(&connection);
            // Who hears that a flow is over closes what it was on: till then it is repeated.
            if !(said && flow.control == Some(connection)) {
                self.line.endpoint.close(now, connection);
            }
        }
        let ending = flow.ending(now, reason);
        let remember = (!flow.deed.ours).then_some((reason, flow.taken()));
        if matches!(flow.kind, Kind::Custody) {
            self.custody.end(id, remember);
        }
        if let Some((reason, taken)) = remember {
            if self.ended.len() == MAX_ENDED {
                self.ended.pop_front();
            }
            self.ended.push_back((id, reason, taken));
        }
        self.counters.ended += 1;
        self.counters.undelivered += ending.undelivered.0;
        self.actions.push_back(Action::Ended(ending));
    }
}

fn next_port_of(next: &mut u16) -> Port {
    let port = Port(*next);
    *next = next.checked_add(1).unwrap_or(FIRST_PORT);
    port
}

fn custody_connection() -> ConnectionConfig {
    ConnectionConfig { ordered: true, ..ConnectionConfig::messages(TransferMode::NearReliable) }
}

fn quasi_control() -> ConnectionConfig {
    ConnectionConfig { ordered: true, ..ConnectionConfig::messages(TransferMode::Reliable) }.with_priority(3)
}

/// Order and patience are the gateway's: each flow has its own.
fn quasi_data() -> ConnectionConfig {
    ConnectionConfig::messages(TransferMode::QuasiReliable)
}
