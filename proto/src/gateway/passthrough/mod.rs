//! Mode *reliable* with TCP's acknowledgements passed through [AeroTP §III-D, figure 7]: no byte is acknowledged to the
//! application's kernel here before the far application's kernel has acknowledged it.
//!
//! Sockets cannot do that, since a kernel acknowledges what it receives. So packets of a TUN device go in and out: here the
//! gateway speaks TCP in the name of the far application, there in the name of ours, each time from an address that is routed
//! to the device. Between the two are bytes with offsets, acknowledgements and windows, in [`Segment`](super::Segment)s over a
//! reliable connection of AeroTP, which repeats what the radio loses: what a kernel repeats meanwhile costs nothing there.
//!
//! ```text
//! kernel --SYN--> | --Connect--> | --SYN--> kernel     packet   IP and TCP
//!        <-S/A--- | <--Segment-- | <-S/A---            splice   one connection with a kernel, of an intake and an outlet
//!        --data-> | --Segment--> | --data->            flow     two splices and what is said between them
//!        <-ACK--- | <--Segment-- | <-ACK---
//! ```

mod flow;
mod intake;
mod outlet;
mod packet;
mod splice;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::frame::{Connect, FlowId, Frame, Reason};
use super::status::{Ending, FlowStatus};
use super::{Action, MAX_STRANGERS};
use crate::ByteCount;
use crate::aerotp::{ConnectionConfig, ConnectionId, Endpoint, Piece, Port, TransferMode};
use crate::seeded::SeededBytes;
use flow::{Over, PassFlow};
use packet::{Dropped, Flags, Packet};
use splice::{Event, Splice, clamped_mss};

/// Port of AeroTP that its connections go to.
pub(super) const PORT: Port = Port(20);

/// A connection to these addresses and ports is taken, and carried to the far side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intercept {
    /// Network.
    pub network: IpAddr,
    /// Bits of it that count.
    pub bits: u8,
    /// Ports.
    pub ports: RangeInclusive<u16>,
    /// Whom the far side connects to, if not to the same address; the port stays.
    pub to: Option<IpAddr>,
}

impl Intercept {
    /// Whom a connection to this address is carried to, if it is taken.
    pub fn target(&self, address: SocketAddr) -> Option<SocketAddr> {
        let fits = is_within(self.network, self.bits, address.ip()) && self.ports.contains(&address.port());
        fits.then(|| SocketAddr::new(self.to.unwrap_or(address.ip()), address.port()))
    }
}

/// Whether an address is in a network.
pub fn is_within(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    let bits_of = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    };
    let ((own, length), (other, of_other)) = (bits_of(network), bits_of(address.to_canonical()));
    length == of_other && (bits == 0 || (own ^ other) >> (128 - u32::from(bits.min(128))) == 0)
}

/// The TUN device that packets come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunConfig {
    /// Longest packet of it, in bytes.
    pub mtu: u16,
    /// Address that the gateway connects to targets from; routed to the device.
    pub v4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub v6: Option<Ipv6Addr>,
    /// What is taken of what applications here open: the first that fits.
    pub intercepts: Vec<Intercept>,
}

/// What became of the packets of the TUN device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketCounters {
    /// Belonged to a flow, or began one.
    pub taken: u64,
    /// Belonged to none, and were answered with a reset.
    pub refused: u64,
    /// Were fragments.
    pub fragments: u64,
    /// Were no TCP: ICMP, UDP.
    pub other: u64,
    /// Made no sense, or had a wrong checksum.
    pub malformed: u64,
}

/// What of a connection has to be kept to end it after a restart of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Former {
    /// The application's kernel.
    pub kernel: SocketAddr,
    /// The address that we speak from.
    pub own: SocketAddr,
    /// First sequence numbers: the kernel's and ours.
    pub numbers: [u32; 2],
}

/// A connection has ended like this, and its kernel may not have heard our last word.
#[derive(Debug)]
struct Lingering {
    addresses: [SocketAddr; 2],
    seq: u32,
    ack: u32,
    until: Instant,
}

/// All flows that are passed through.
#[derive(Debug)]
pub(super) struct Passthrough {
    tun: Option<TunConfig>,
    random: SeededBytes,
    max_flows: usize,
    flows: BTreeMap<FlowId, PassFlow>,
    /// By the kernel's address and ours.
    by_addresses: BTreeMap<[SocketAddr; 2], FlowId>,
    by_connection: BTreeMap<ConnectionId, FlowId>,
    strangers: BTreeSet<ConnectionId>,
    lingering: VecDeque<Lingering>,
    /// For the device.
    packets: VecDeque<Vec<u8>>,
    next_port: u16,
    counters: PacketCounters,
}

/// The last word is repeated for so long, to so many.
const LINGER: Duration = Duration::from_secs(10);
const MAX_LINGERING: usize = 256;
/// Refusals that wait for the device.
const MAX_PACKETS: usize = 1024;

pub(super) fn connection() -> ConnectionConfig {
    ConnectionConfig { ordered: true, ..ConnectionConfig::messages(TransferMode::Reliable) }
}

impl Passthrough {
    pub fn new(random: SeededBytes, max_flows: usize) -> Self {
        Self {
            tun: None,
            random,
            max_flows,
            flows: BTreeMap::new(),
            by_addresses: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            strangers: BTreeSet::new(),
            lingering: VecDeque::new(),
            packets: VecDeque::new(),
            next_port: super::FIRST_PORT,
            counters: PacketCounters::default(),
        }
    }

    pub fn set_tun(&mut self, tun: TunConfig) {
        self.tun = Some(tun);
    }

    pub fn len(&self) -> usize {
        self.flows.len()
    }

    pub fn counters(&self) -> PacketCounters {
        self.counters
    }

    pub fn statuses(&self, now: Instant) -> impl Iterator<Item = FlowStatus> + '_ {
        self.flows.values().map(move |flow| flow.status(now))
    }

    /// What has to be known to end the connections after a restart.
    pub fn formers(&self) -> impl Iterator<Item = Former> + Clone + '_ {
        self.flows.values().filter(|flow| flow.splice.is_known()).map(|flow| flow.splice.former())
    }

    /// A former run had these connections. Each kernel is made to say where it stands, upon which it is reset.
    pub fn revive(&mut self, former: impl IntoIterator<Item = Former>) {
        for Former { kernel, own, numbers: [kernel_syn, own_syn] } in former.into_iter().take(MAX_PACKETS) {
            // Before all that it expects, as a keep-alive is; it acknowledges nothing but the SYN (RFC 9293 §3.8.4).
            let (from, to, seq, ack) = (own, kernel, own_syn, Some(kernel_syn.wrapping_add(1)));
            let flags = Flags::default();
            self.push(&Packet { from, to, seq, ack, flags, window: 0, mss: None, scale: None, payload: &[] });
        }
    }

    fn random_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.random.fill(&mut bytes);
        u32::from_be_bytes(bytes)
    }

    fn push(&mut self, packet: &Packet<'_>) {
        if self.packets.len() < MAX_PACKETS {
            let mut bytes = Vec::new();
            packet.write(&mut bytes);
            self.packets.push_back(bytes);
        }
    }

    /// A packet of the device's; `others`: flows of other modes; `message`: what fits a message of the radio.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        bytes: &[u8],
        (others, message): (usize, usize),
        actions: &mut VecDeque<Action>,
    ) {
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(dropped) => {
                let counters = &mut self.counters;
                *match dropped {
                    Dropped::Fragment => &mut counters.fragments,
                    Dropped::Other => &mut counters.other,
                    Dropped::Malformed | Dropped::Checksum => &mut counters.malformed,
                } += 1;
                return;
            }
        };
        let addresses = [packet.from, packet.to];
        if let Some(flow) = self.by_addresses.get(&addresses).and_then(|id| self.flows.get_mut(id)) {
            self.counters.taken += 1;
            let event = flow.splice.on_packet(now, &packet);
            flow.on_event(event);
            if event != Event::Anew {
                return;
            }
            // The kernel knows nothing of the former one.
            self.by_addresses.remove(&addresses);
        }
        let begins = packet.flags.syn && packet.ack.is_none();
        if let Some(at) = self.lingering.iter().position(|lingering| lingering.addresses == addresses) {
            if !begins && !packet.flags.rst {
                return self.repeat_last_word(at, &packet);
            }
            self.lingering.remove(at);
        }
        let target = || self.tun.as_ref()?.intercepts.iter().find_map(|one| one.target(packet.to));
        match target().filter(|_| begins && packet.payload.is_empty() && self.flows.len() + others < self.max_flows) {
            Some(target) => {
                let flow = self.begin(now, &packet, target, message);
                actions.push_back(Action::Intercepted { flow, from: packet.from, target });
            }
            None => {
                self.counters.refused += 1;
                if let Some(refusal) = packet.refusal() {
                    self.push(&refusal);
                }
            }
        }
    }

    fn repeat_last_word(&mut self, at: usize, packet: &Packet<'_>) {
        let lingering = &self.lingering[at];
        if packet.length() > 0 {
            let (seq, ack, [to, from]) = (lingering.seq, Some(lingering.ack), lingering.addresses);
            let (flags, window) = (Flags::default(), 0);
            self.push(&Packet { from, to, seq, ack, flags, window, mss: None, scale: None, payload: &[] });
        }
    }

    /// An application here opens a connection.
    fn begin(&mut self, now: Instant, syn: &Packet<'_>, target: SocketAddr, message: usize) -> FlowId {
        self.counters.taken += 1;
        let mut id = [0; 8];
        self.random.fill(&mut id);
        let id = FlowId(u64::from_be_bytes(id));
        let own_syn = self.random_u32();
        let mtu = self.tun.as_ref().map_or(0, |tun| tun.mtu);
        let splice = Splice::asked(now, syn, own_syn, clamped_mss(mtu, syn.from.is_ipv6(), message));
        self.by_addresses.insert([syn.from, syn.to], id);
        self.flows.insert(id, PassFlow::new(now, id, true, target, splice));
        id
    }

    /// Whether it is about one of our connections.
    pub fn owns(&self, connection: ConnectionId) -> bool {
        self.by_connection.contains_key(&connection) || self.strangers.contains(&connection)
    }

    /// The other side has opened a connection to [`PORT`].
    pub fn on_opened(&mut self, endpoint: &mut Endpoint, connection: ConnectionId) {
        if self.strangers.len() == MAX_STRANGERS {
            return endpoint.reset(connection);
        }
        self.strangers.insert(connection);
    }

    /// Something has come on a connection of ours; how many frames made no sense.
    pub fn on_readable(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        connection: ConnectionId,
        others: usize,
        actions: &mut VecDeque<Action>,
    ) -> u64 {
        let mut malformed = 0;
        while let Some(Piece { bytes, .. }) = endpoint.read(now, connection) {
            let Ok(frame) = Frame::parse(&bytes) else {
                malformed += 1;
                continue;
            };
            if let Some(flow) = self.by_connection.get(&connection).and_then(|id| self.flows.get_mut(id)) {
                flow.on_frame(now, frame);
            } else if self.strangers.remove(&connection) {
                match frame {
                    Frame::Connect(connect) => self.on_connect(now, endpoint, connection, connect, others, actions),
                    _ => {
                        malformed += 1;
                        endpoint.reset(connection);
                    }
                }
            }
        }
        malformed
    }

    /// The other side wants a target of ours.
    fn on_connect(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        connection: ConnectionId,
        connect: Connect,
        others: usize,
        actions: &mut VecDeque<Action>,
    ) {
        let Connect { flow: id, room, target } = connect;
        let is_taken = |tun: &TunConfig| tun.intercepts.iter().any(|one| one.target(target).is_some());
        let refused = match () {
            () if self.own_address(target.ip()).is_none() => Some(Reason::NoTun),
            // It would come back to the device, and go round.
            () if self.tun.as_ref().is_some_and(is_taken) => Some(Reason::Unreachable),
            () if self.flows.len() + others >= self.max_flows => Some(Reason::TooMany),
            () if self.flows.contains_key(&id) => Some(Reason::Protocol),
            () => None,
        };
        let own = match (refused, self.own_address(target.ip())) {
            (None, Some(own)) => self.free_port(own, target),
            (reason, _) => {
                // Who hears it closes the connection.
                let frame = Frame::Reset { reason: reason.unwrap_or(Reason::NoTun), taken: 0 };
                let _ = endpoint.send(connection, frame.encode().into(), None);
                return;
            }
        };
        let syn = self.random_u32();
        let mtu = self.tun.as_ref().map_or(0, |tun| tun.mtu);
        let mss = clamped_mss(mtu, target.is_ipv6(), endpoint.max_message(connection));
        let splice = Splice::calling(now, target, own, syn, mss, room);
        let mut flow = PassFlow::new(now, id, false, target, splice);
        flow.connection = Some(connection);
        self.flows.insert(id, flow);
        self.by_addresses.insert([target, own], id);
        self.by_connection.insert(connection, id);
        actions.push_back(Action::Admit { flow: id, target });
    }

    fn own_address(&self, of: IpAddr) -> Option<IpAddr> {
        let tun = self.tun.as_ref()?;
        match of {
            IpAddr::V4(_) => tun.v4.map(IpAddr::V4),
            IpAddr::V6(_) => tun.v6.map(IpAddr::V6),
        }
    }

    /// A port from which there is no connection to the target, and was none lately.
    fn free_port(&mut self, own: IpAddr, target: SocketAddr) -> SocketAddr {
        if self.by_addresses.is_empty() {
            let random = self.random_u32() as u16;
            self.next_port = random.max(super::FIRST_PORT);
        }
        loop {
            let own = SocketAddr::new(own, self.next_port);
            self.next_port = self.next_port.checked_add(1).unwrap_or(super::FIRST_PORT);
            let addresses = [target, own];
            let lingers = self.lingering.iter().any(|lingering| lingering.addresses == addresses);
            // There are fewer flows than ports.
            if !self.by_addresses.contains_key(&addresses) && !lingers {
                return own;
            }
        }
    }

    /// Whether [`Action::Admit`]'s target may be reached from here.
    pub fn on_admitted(&mut self, now: Instant, id: FlowId, result: Result<(), Reason>) {
        match (self.flows.get_mut(&id), result) {
            (Some(flow), Ok(())) => flow.splice.call(now),
            (Some(flow), Err(reason)) => flow.end(reason),
            (None, _) => {}
        }
    }

    /// All flows end.
    pub fn end_all(&mut self) {
        self.flows.values_mut().for_each(|flow| flow.end(Reason::Restarted));
    }

    pub fn on_closed(&mut self, connection: ConnectionId) {
        self.strangers.remove(&connection);
        let flow = self.by_connection.remove(&connection).and_then(|id| self.flows.get_mut(&id));
        flow.into_iter().for_each(PassFlow::on_disconnected);
    }

    /// When [`Passthrough::serve`] has something to do without anything coming in.
    pub fn deadline(&self) -> Option<Instant> {
        self.flows.values().filter_map(PassFlow::deadline).min()
    }

    /// The next packet for the device.
    pub fn poll_packet(&mut self) -> Option<Vec<u8>> {
        self.packets.pop_front()
    }

    /// Serves all flows; gives what opened a flow's connection, and takes where its next port is from.
    pub fn serve(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        ports: &mut impl FnMut() -> Port,
        actions: &mut VecDeque<Action>,
    ) {
        let mut over = Vec::new();
        let mut packet = Vec::new();
        for (id, flow) in &mut self.flows {
            if flow.wants_connection(now) {
                let connection = endpoint.connect(now, connection(), ports(), PORT);
                flow.on_connection(now, endpoint, connection);
                self.by_connection.extend(connection.map(|connection| (connection, *id)));
            }
            flow.serve(now, endpoint);
            let ahead = flow.ahead(endpoint);
            while self.packets.len() < MAX_PACKETS && flow.splice.poll(now, ahead, &mut packet) {
                self.packets.push_back(std::mem::take(&mut packet));
            }
            if let Some(how) = flow.over() {
                over.push((*id, how));
            }
        }
        for (id, how) in over {
            self.end(now, endpoint, id, how, actions);
        }
        self.lingering.retain(|lingering| lingering.until > now);
    }

    fn end(&mut self, now: Instant, endpoint: &mut Endpoint, id: FlowId, how: Over, actions: &mut VecDeque<Action>) {
        let Some(flow) = self.flows.remove(&id) else { return };
        let addresses = [flow.splice.kernel, flow.splice.own];
        if self.by_addresses.get(&addresses) == Some(&id) {
            self.by_addresses.remove(&addresses);
        }
        let mut packet = Vec::new();
        if !how.by_kernel && flow.splice.reset(&mut packet) {
            self.packets.push_back(packet);
        }
        if how.reason.is_none() {
            if self.lingering.len() == MAX_LINGERING {
                self.lingering.pop_front();
            }
            let (seq, ack) = (flow.splice.outlet.seq(), flow.splice.intake.ack());
            self.lingering.push_back(Lingering { addresses, seq, ack, until: now + LINGER });
        }
        if let Some(connection) = flow.connection {
            self.by_connection.remove(&connection);
            let taken = flow.splice.outlet.acked();
            match how.reason.filter(|_| !how.by_peer) {
                // The other side may never have heard of it, and need not now.
                Some(_) if flow.ours && !flow.is_met() => endpoint.reset(connection),
                // Who hears that a flow is over closes what it was on: till then it is repeated.
                Some(reason) => {
                    let frame = Frame::Reset { reason, taken };
                    if endpoint.send(connection, frame.encode().into(), None).is_err() {
                        endpoint.close(now, connection);
                    }
                }
                None => endpoint.close(now, connection),
            }
        }
        let ending = Ending { status: flow.status(now), reason: how.reason, undelivered: ByteCount::ZERO };
        actions.push_back(Action::Ended(ending));
    }
}
