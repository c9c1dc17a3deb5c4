//! UDP: each datagram by itself, or those of a client in order; one for one.
//!
//! A datagram says whom it is for, so that nothing need be agreed on before. What is remembered is only whom answers go to.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Action, Frame, ORDERED_UDP};
use crate::aerotp::{ConnectionConfig, ConnectionId, Endpoint, Port, TransferMode};

/// Clients here, and peers of the other side's, at a time: the one that was silent for longest makes room.
pub(super) const MAX_CLIENTS: usize = 256;
/// Bytes of one client that wait for the radio.
const AHEAD: usize = 32 << 10;

/// Who sends datagrams to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// Which of our sockets they come to.
    pub listener: u16,
    /// Where from.
    pub address: SocketAddr,
}

/// In whose name datagrams are sent: a client of the other side's, and whom it talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// The client's port, as AeroTP has it.
    port: u16,
    /// Its connection, if it has one.
    connection: Option<ConnectionId>,
    /// Whom it talks to.
    pub to: SocketAddr,
}

#[derive(Debug)]
struct Ours {
    port: Port,
    connection: Option<ConnectionId>,
    used: Instant,
}

/// Who talks to whom.
#[derive(Debug)]
pub(super) struct Udp {
    idle: Duration,
    clients: BTreeMap<Client, Ours>,
    peers: BTreeMap<Peer, Instant>,
    /// The other side's connections.
    connections: Vec<ConnectionId>,
    pub malformed: u64,
    /// Datagrams that did not fit a segment, or for which there was no room.
    pub dropped: u64,
}

pub(super) fn ordered_connection() -> ConnectionConfig {
    ConnectionConfig {
        ordered: true,
        hold: Duration::from_millis(20),
        ..ConnectionConfig::messages(TransferMode::UnreliableConnection)
    }
}

impl Udp {
    pub fn new(idle: Duration) -> Self {
        let (clients, peers, connections) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { idle, clients, peers, connections, malformed: 0, dropped: 0 }
    }

    pub fn len(&self) -> usize {
        self.clients.len() + self.peers.len()
    }

    pub fn send(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        client: Client,
        to: SocketAddr,
        ordered: bool,
        bytes: &[u8],
    ) {
        if !self.clients.contains_key(&client) {
            if self.clients.len() == MAX_CLIENTS {
                self.drop_oldest_client(now, endpoint);
            }
            let port = self.free_port(client.address.port());
            self.clients.insert(client, Ours { port, connection: None, used: now });
        }
        let Some(ours) = self.clients.get_mut(&client) else { return };
        ours.used = now;
        let bytes = Bytes::from(Frame::Datagram { to, bytes }.encode());
        if !ordered {
            self.dropped += u64::from(endpoint.send_datagram(ours.port, Port(to.port()), 4, bytes).is_err());
            return;
        }
        let open = || endpoint.connect(now, ordered_connection(), ours.port, ORDERED_UDP);
        ours.connection = ours.connection.or_else(open);
        let sent = ours.connection.is_some_and(|connection| send_on(endpoint, connection, bytes));
        self.dropped += u64::from(!sent);
    }

    pub fn answer(&mut self, now: Instant, endpoint: &mut Endpoint, peer: Peer, bytes: &[u8]) {
        let Some(used) = self.peers.get_mut(&peer) else { return };
        *used = now;
        let bytes = Bytes::from(Frame::Answer { bytes }.encode());
        let sent = match peer.connection {
            Some(connection) => send_on(endpoint, connection, bytes),
            None => endpoint.send_datagram(Port(peer.to.port()), Port(peer.port), 4, bytes).is_ok(),
        };
        self.dropped += u64::from(!sent);
    }

    pub fn on_opened(&mut self, connection: ConnectionId) {
        self.connections.push(connection);
    }

    pub fn is_ours(&self, connection: ConnectionId) -> bool {
        self.connections.contains(&connection)
            || self.clients.values().any(|client| client.connection == Some(connection))
    }

    pub fn on_closed(&mut self, connection: ConnectionId) {
        self.connections.retain(|own| *own != connection);
        for client in self.clients.values_mut().filter(|client| client.connection == Some(connection)) {
            client.connection = None;
        }
    }

    /// A datagram by itself.
    pub fn on_datagram(
        &mut self,
        now: Instant,
        (source, destination): (Port, Port),
        bytes: &[u8],
        actions: &mut VecDeque<Action>,
    ) {
        match Frame::parse(bytes) {
            Ok(Frame::Datagram { to, bytes }) => {
                self.deliver(now, Peer { port: source.0, connection: None, to }, bytes, actions);
            }
            Ok(Frame::Answer { bytes }) => {
                let client = self.clients.iter_mut().find(|(_, client)| client.port == destination);
                return_to(now, client, bytes, actions);
            }
            _ => self.malformed += 1,
        }
    }

    /// One of a connection.
    pub fn on_piece(&mut self, now: Instant, connection: ConnectionId, bytes: &[u8], actions: &mut VecDeque<Action>) {
        match Frame::parse(bytes) {
            Ok(Frame::Datagram { to, bytes }) => {
                self.deliver(now, Peer { port: 0, connection: Some(connection), to }, bytes, actions);
            }
            Ok(Frame::Answer { bytes }) => {
                let client = self.clients.iter_mut().find(|(_, client)| client.connection == Some(connection));
                return_to(now, client, bytes, actions);
            }
            _ => self.malformed += 1,
        }
    }

    fn deliver(&mut self, now: Instant, peer: Peer, bytes: &[u8], actions: &mut VecDeque<Action>) {
        if self.peers.len() == MAX_CLIENTS && !self.peers.contains_key(&peer) {
            let oldest = self.peers.iter().min_by_key(|(_, used)| **used).map(|(peer, _)| *peer);
            if let Some(peer) = oldest {
                self.peers.remove(&peer);
                actions.push_back(Action::Forget { peer });
            }
        }
        self.peers.insert(peer, now);
        actions.push_back(Action::Datagram { peer, bytes: Bytes::copy_from_slice(bytes) });
    }

    pub fn deadline(&self) -> Option<Instant> {
        let clients = self.clients.values().map(|client| client.used);
        clients.chain(self.peers.values().copied()).min().map(|used| used + self.idle)
    }

    pub fn handle_timeout(&mut self, now: Instant, endpoint: &mut Endpoint, actions: &mut VecDeque<Action>) {
        let idle = self.idle;
        let is_over = |used: Instant| now.saturating_duration_since(used) >= idle;
        self.clients.retain(|_, client| {
            let over = is_over(client.used);
            client.connection.into_iter().filter(|_| over).for_each(|connection| endpoint.close(now, connection));
            !over
        });
        self.peers.retain(|peer, used| {
            let over = is_over(*used);
            if over {
                actions.push_back(Action::Forget { peer: *peer });
            }
            !over
        });
    }

    fn drop_oldest_client(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let oldest = self.clients.iter().min_by_key(|(_, client)| client.used).map(|(client, _)| *client);
        let connection = oldest.and_then(|client| self.clients.remove(&client)).and_then(|ours| ours.connection);
        connection.into_iter().for_each(|connection| endpoint.close(now, connection));
    }

    /// The client's own port, or the next one above it that no other has.
    fn free_port(&self, wanted: u16) -> Port {
        let is_free = |port: &u16| *port > 0 && !self.clients.values().any(|client| client.port.0 == *port);
        Port((wanted..=u16::MAX).chain(1..wanted).find(is_free).unwrap_or(wanted))
    }
}

fn send_on(endpoint: &mut Endpoint, connection: ConnectionId, bytes: Bytes) -> bool {
    let waiting = endpoint.waiting_bytes(connection).unwrap_or(usize::MAX);
    waiting < AHEAD && endpoint.send(connection, bytes, None).is_ok()
}

fn return_to(now: Instant, client: Option<(&Client, &mut Ours)>, bytes: &[u8], actions: &mut VecDeque<Action>) {
    if let Some((client, ours)) = client {
        ours.used = now;
        actions.push_back(Action::Answer { client: *client, bytes: Bytes::copy_from_slice(bytes) });
    }
}
