//! One bearer over QUIC: an endpoint and the connections to our one peer.
//!
//! Sans-IO: packets and time in, packets, events and a deadline out. It keeps no queue: what is handed to it leaves with
//! the next [`QuicBearer::poll_transmit`], which is what makes the scheduler's priorities hold (QUIC itself packs
//! DATAGRAM before STREAM frames and holds back everything, even acknowledgements, when its window is full).

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple, Incoming,
    ServerConfig, StreamId,
};
use rustls::client::Resumption;

use super::clock::SharedClock;
use super::connection::{Conn, ConnEvent, disconnect_reason};
use super::keys::{CidGenerator, Greeting, ResetKey, TokenKey, destination};
use super::lent::{Lent, RttSlot};
use super::resumption::{ResumableClient, TicketBook};
use super::tickets::{ServerSessions, TicketStore};
use super::transport::OpenGate;
use super::{seeded_tls, tls, transport};
use crate::bearer::BearerId;
use crate::cc::{Borrowed, Controller};
use crate::identity::{Identity, PublicKey};
use crate::seeded::SeededBytes;

/// Connections at a time, handshaking ones included. One is in use; others come from restarts of the peer, and from someone
/// who knows both public keys. The oldest half-open one makes room for a new one: an honest handshake needs two round trips.
const MAX_CONNECTIONS: usize = 16;

/// The same with those that are closed and still drain, for three probe time-outs (RFC 9000 §10.2).
const MAX_CLOSING: usize = 64;

/// From this many handshakes under way a client must first prove its address (RFC 9000 §8.1.2), which costs it a round
/// trip and an attacker its forged source.
const RETRY_FROM: usize = 4;

/// A connection that hears nothing at all for this long is given up. Long: after an outage an old connection is as good
/// as a new one and needs no handshake; a peer that restarted says so by a stateless reset.
const IDLE: Duration = Duration::from_secs(600);

/// QUIC version 1; packets of others are dropped unanswered.
const QUIC_V1: u32 = 1;

/// What a bearer is made of.
#[derive(Debug, Clone)]
pub struct QuicConfig {
    /// Its number within the session.
    pub bearer: BearerId,
    /// Who we are.
    pub identity: Arc<Identity>,
    /// The only key we talk to.
    pub peer: PublicKey,
    /// UDP payload in bytes, at least [`transport::MIN_MTU`].
    pub mtu: u16,
    /// Where a server keeps sessions that may be resumed.
    pub tickets: Arc<dyn TicketStore>,
    /// [`QuicBearer::resumption_snapshot`] of a client's former life.
    pub resumption: Option<Vec<u8>>,
    /// Whether incoming connections are accepted.
    pub listen: bool,
}

/// Tells the connections of a session apart; of one bearer's, the later one is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId {
    bearer: BearerId,
    number: u64,
}

impl ConnectionId {
    /// Of a bearer that is not QUIC's.
    pub(crate) fn new(bearer: BearerId, number: u64) -> Self {
        Self { bearer, number }
    }

    /// Whose it is.
    pub fn bearer(self) -> BearerId {
        self.bearer
    }
}

/// A message on a stream of its own, or what a radio has in its place, to cancel it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamRef {
    connection: ConnectionId,
    message: Message,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    Stream(StreamId),
    Token(u64),
}

impl StreamRef {
    /// A message of a radio's.
    pub(crate) fn of_message(connection: ConnectionId, token: u64) -> Self {
        Self { connection, message: Message::Token(token) }
    }

    /// What a radio's message was sent with.
    pub(crate) fn token(self) -> Option<u64> {
        match self.message {
            Message::Stream(_) => None,
            Message::Token(token) => Some(token),
        }
    }

    /// Whose it is.
    pub fn bearer(self) -> BearerId {
        self.connection.bearer
    }
}

/// A packet to send; its bytes are in the buffer given to [`QuicBearer::poll_transmit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub destination: SocketAddr,
    /// From which local address, if it matters.
    pub source: Option<IpAddr>,
    /// ECN codepoint to set.
    pub ecn: Option<EcnCodepoint>,
}

/// What a bearer tells the session.
#[derive(Debug)]
pub enum BearerEvent {
    /// The handshake is complete and the peer is who we pinned; from now on this connection is used for sending.
    Connected { connection: ConnectionId, remote: SocketAddr, resumed: bool },
    /// A client that resumes a session of our peer's is completing its handshake. What is sent to it now, with
    /// [`QuicBearer::send_datagram_to`], only our peer can read; but it may not be listening, if somebody repeats an old
    /// packet of its.
    Resuming { connection: ConnectionId },
    /// The server did not take our early data: everything sent so far is lost and must be sent again.
    EarlyDataRejected,
    /// A whole message that came on a stream of its own. `early`: in 0-RTT data, so it might be replayed.
    Message { connection: ConnectionId, bytes: Bytes, early: bool },
    /// A datagram. `early` as above.
    Datagram { connection: ConnectionId, bytes: Bytes, early: bool },
    /// The peer has all of a message.
    Acknowledged { token: u64 },
    /// The peer did not take a message; it has to be sent again.
    Refused { token: u64 },
    /// The peer's address changed.
    PeerMoved { from: SocketAddr, to: SocketAddr },
    /// The connection used for sending is gone, and with it what was not acknowledged.
    Disconnected(DisconnectReason),
    /// Someone who may not talk to us tried to.
    Unknown(UnknownPeer),
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    /// Nothing was heard for the idle time.
    #[error("nothing heard for {} s", IDLE.as_secs())]
    TimedOut,
    /// We were not running for a while.
    #[error("this machine or program was asleep")]
    Asleep,
    /// The peer has restarted and does not know the connection any more.
    #[error("the other side has restarted")]
    PeerRestarted,
    /// The peer said goodbye.
    #[error("the other side closed the link")]
    PeerClosed,
    /// The peer presented another key than the one we pinned, or does not accept ours.
    #[error("keys do not match: {0}")]
    Identity(String),
    /// No common protocol version.
    #[error("the other side does not speak aquila/1: update the older of the two ({0})")]
    Incompatible(String),
    /// A newer connection of the same peer took its place.
    #[error("replaced by a newer connection of the same peer")]
    Superseded,
    /// Anything else that QUIC reports.
    #[error("{0}")]
    Protocol(String),
}

/// A packet or handshake that was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPeer {
    /// Where it came from.
    pub from: SocketAddr,
    /// What was wrong.
    pub reason: String,
    /// It knew both public keys and began a handshake.
    pub handshake: bool,
}

/// One bearer over QUIC.
pub struct QuicBearer {
    endpoint: Endpoint,
    client_config: ClientConfig,
    greeting: Greeting,
    cids: CidGenerator,
    config: QuicConfig,
    clock: SharedClock,
    book: TicketBook,
    /// What the book's tickets are for.
    tls_client: Arc<rustls::ClientConfig>,
    connections: Vec<Conn>,
    next_connection: ConnectionId,
    /// Id of the connection that is used for sending.
    active: Option<ConnectionId>,
    /// Id of an attempt beside it.
    aside: Option<ConnectionId>,
    responses: VecDeque<(Transmit, Vec<u8>)>,
    events: VecDeque<BearerEvent>,
    /// Where connections leave their estimates of the round-trip time, if a controller is lent out.
    rtt: Option<RttSlot>,
}

impl QuicBearer {
    /// A bearer with no connection yet. All randomness comes from `random`.
    pub fn new(config: QuicConfig, random: &mut SeededBytes) -> Result<Self, rustls::Error> {
        let clock = SharedClock::default();
        let mut endpoint_config = EndpointConfig::new(Arc::new(ResetKey::new(&config.identity)));
        let cid_seed = random.next_seed();
        let (identity, bearer) = (config.identity.clone(), config.bearer);
        endpoint_config
            .rng_seed(Some(random.next_seed()))
            .max_udp_payload_size(config.mtu)
            .map_err(|_| rustls::Error::General("MTU below QUIC's minimum".into()))?
            .cid_generator(Arc::new(move || {
                Box::new(CidGenerator::new(&identity, SeededBytes::new(&cid_seed, "connection ids"), bearer))
            }));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server_config = match config.listen {
            true => Some(Arc::new(Self::server_config(&config, &provider, &clock)?)),
            false => None,
        };
        let book = TicketBook::default();
        let resumption = Resumption::store(Arc::new(book.clone()));
        let provider = Arc::new(seeded_tls::provider());
        let client = Arc::new(tls::client(provider, &config.identity, config.peer, &clock, resumption)?);
        if let Some(former) = &config.resumption {
            book.restore(former, &client, &clock);
        }
        let seeds = SeededBytes::new(&random.next_seed(), "handshakes");
        let tls_client = client.clone();
        let client = ResumableClient::new(tls::quic_client(client), book.clone(), seeds, clock.clone());
        let mut client_config = ClientConfig::new(Arc::new(client));
        let greeting = Greeting::new(&config.identity.public(), &config.peer);
        let greeting_bytes = std::sync::Mutex::new(SeededBytes::new(&random.next_seed(), "greeting"));
        client_config.initial_dst_cid_provider(Arc::new(move || {
            greeting.make(&mut greeting_bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner), bearer)
        }));
        Ok(Self {
            endpoint: Endpoint::new(Arc::new(endpoint_config), server_config, false),
            client_config,
            greeting: Greeting::new(&config.peer, &config.identity.public()),
            cids: CidGenerator::new(&config.identity, SeededBytes::new(&cid_seed, "unused: validation only"), bearer),
            config,
            clock,
            book,
            tls_client,
            connections: Vec::new(),
            next_connection: ConnectionId { bearer, number: 0 },
            active: None,
            aside: None,
            responses: VecDeque::new(),
            events: VecDeque::new(),
            rtt: None,
        })
    }

    /// Where connections leave their estimates of the round-trip time.
    #[cfg(test)]
    pub(super) fn rtt_slot(&self) -> Option<RttSlot> {
        self.rtt.clone()
    }

    /// One of QUIC's own congestion controllers as one of ours. It hears of the connections that begin from now on.
    pub fn lend(&mut self, borrowed: Borrowed, now: Instant) -> Box<dyn Controller> {
        let slot = self.rtt.get_or_insert_default().clone();
        Box::new(Lent::new(borrowed, self.config.mtu, now, slot))
    }

    fn server_config(
        config: &QuicConfig,
        provider: &Arc<rustls::crypto::CryptoProvider>,
        clock: &SharedClock,
    ) -> Result<ServerConfig, rustls::Error> {
        let sessions = Arc::new(ServerSessions(config.tickets.clone()));
        let tls = tls::server(provider.clone(), &config.identity, config.peer, clock, sessions)?;
        let mut server = ServerConfig::new(Arc::new(tls::quic_server(tls)), Arc::new(TokenKey::new(&config.identity)));
        server
            .time_source(Arc::new(clock.clone()))
            .max_incoming(MAX_CONNECTIONS)
            .incoming_buffer_size(1 << 16)
            .incoming_buffer_size_total(1 << 18)
            .migration(true);
        Ok(server)
    }

    /// Tells the bearer the wall-clock time, for ticket ages.
    pub fn set_wall_clock(&mut self, since_1970: Duration) {
        self.clock.set(since_1970);
    }

    /// Starts a connection to `remote`, in place of the one in use. If we hold a ticket, messages may be sent at once
    /// (0-RTT).
    pub fn connect(&mut self, now: Instant, remote: SocketAddr) -> Result<(), noq_proto::ConnectError> {
        let id = self.start(now, remote)?;
        if let Some(old) = self.active.replace(id).and_then(|old| self.connection_mut(old)) {
            old.close(now);
        }
        self.pump(now);
        Ok(())
    }

    /// Starts a connection to `remote` that takes over only when it is complete, in place of a former attempt of this
    /// kind.
    pub fn connect_aside(&mut self, now: Instant, remote: SocketAddr) -> Result<(), noq_proto::ConnectError> {
        let id = self.start(now, remote)?;
        let former = self.aside.replace(id).filter(|former| self.active != Some(*former));
        if let Some(former) = former.and_then(|former| self.connection_mut(former)) {
            former.close(now);
        }
        self.pump(now);
        Ok(())
    }

    /// Starts a connection as [`QuicBearer::connect_aside`] does, if we hold a ticket for it.
    pub fn resume_aside(&mut self, now: Instant, remote: SocketAddr) -> Result<(), noq_proto::ConnectError> {
        match self.book.has_ticket() {
            true => self.connect_aside(now, remote),
            false => Ok(()),
        }
    }

    fn start(&mut self, now: Instant, remote: SocketAddr) -> Result<ConnectionId, noq_proto::ConnectError> {
        let mut config = self.client_config.clone();
        config.transport_config(Arc::new(transport::config(self.config.mtu, IDLE, OpenGate::new(self.rtt.clone()))));
        let (handle, connection) = self.endpoint.connect(now, config, remote, tls::SERVER_NAME)?;
        Ok(self.add(Conn::new(self.next_connection, now, handle, connection, remote)))
    }

    /// A client's tickets, to be kept over a restart, if they changed since the last call. Secret.
    pub fn resumption_snapshot(&self) -> Option<Vec<u8>> {
        self.book.snapshot()
    }

    /// Takes in one UDP datagram.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        local: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
    ) {
        if !self.is_for_us(&data) {
            let reason = "packet without our greeting".to_owned();
            return self.on_unknown(from, reason, false);
        }
        let mut response = Vec::new();
        let path = FourTuple::new(from, local);
        let cid = data.get(1..9).and_then(|cid| <[u8; 8]>::try_from(cid).ok());
        let is_short = data.first().is_some_and(|first| first & 0x80 == 0);
        match self.endpoint.handle(now, path, ecn, data, &mut response) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(conn) = self.connections.iter_mut().find(|conn| conn.handle == handle) {
                    conn.inner.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.handle_incoming(now, incoming),
            Some(DatagramEvent::Response(transmit)) => self.respond(transmit, response),
            // A short header with an id that is none of ours was dropped without a word.
            None if is_short && !cid.is_some_and(|cid| self.cids.recognises(&cid)) => {
                self.on_unknown(from, "packet of no connection of ours".to_owned(), false);
            }
            None => {}
        }
        self.pump(now);
    }

    /// To be called when [`QuicBearer::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        for conn in &mut self.connections {
            if conn.handle_timeout(now) && self.active == Some(conn.id) {
                self.active = None;
                self.events.push_back(BearerEvent::Disconnected(DisconnectReason::Asleep));
            }
        }
        self.pump(now);
    }

    /// When [`QuicBearer::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.connections.iter().filter_map(|conn| conn.inner.poll_timeout()).min()
    }

    /// The next packet of the connection in use that must leave now, written to `out`. To be asked for before the others': no
    /// handshake delays a command.
    pub fn poll_transmit_in_use(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        out.clear();
        let transmit = self.active_mut()?.poll_transmit(now, out)?;
        self.pump(now);
        Some(transmit.into())
    }

    /// The next packet of any connection that must leave now, written to `out`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        out.clear();
        if let Some((transmit, bytes)) = self.responses.pop_front() {
            out.extend_from_slice(&bytes);
            return Some(transmit);
        }
        let transmit = self.connections.iter_mut().find_map(|conn| conn.poll_transmit(now, out))?;
        self.pump(now);
        Some(transmit.into())
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<BearerEvent> {
        self.events.pop_front()
    }

    /// Whether messages can be sent now, in early data or after the handshake.
    pub fn is_ready(&self) -> bool {
        self.active_ref().is_some_and(Conn::is_ready)
    }

    /// Whether there is a connection, ready or being set up.
    pub fn is_connecting_or_ready(&self) -> bool {
        self.active.is_some()
    }

    /// The connection used for sending.
    pub fn active_connection(&self) -> Option<ConnectionId> {
        self.active
    }

    /// Largest datagram that fits one packet, in bytes.
    pub fn max_datagram(&mut self) -> Option<usize> {
        self.active_mut()?.inner.unchanged().datagrams().max_size()
    }

    /// Sends a message, `head` and `body` joined, on a stream of its own; `token` comes back when it is acknowledged.
    /// `None` if no stream is free.
    pub fn send_message(&mut self, head: &[u8], body: &[u8], priority: i32, token: u64) -> Option<StreamRef> {
        let conn = self.active_mut()?;
        let stream = conn.send_message(head, body, priority, token)?;
        Some(StreamRef { connection: conn.id, message: Message::Stream(stream) })
    }

    /// Stops sending a message that has become worthless; nothing of it is retransmitted.
    pub fn cancel(&mut self, message: StreamRef) {
        if let (Message::Stream(stream), Some(conn)) = (message.message, self.connection_mut(message.connection)) {
            conn.cancel(stream);
        }
    }

    /// Hands over a datagram of at most [`QuicBearer::max_datagram`] bytes that leaves with the next packet. `false` if
    /// it does not fit or there is no connection.
    pub fn send_datagram(&mut self, bytes: Bytes) -> bool {
        self.active_mut().is_some_and(|conn| conn.inner.datagrams().send(bytes, false).is_ok())
    }

    /// As [`QuicBearer::send_datagram`], on another connection than the one in use.
    pub fn send_datagram_to(&mut self, connection: ConnectionId, bytes: Bytes) -> bool {
        let conn = self.connection_mut(connection).filter(|conn| !conn.has_ended());
        conn.is_some_and(|conn| conn.inner.datagrams().send(bytes, false).is_ok())
    }

    /// Whether all datagrams for a connection have left.
    pub fn is_drained_to(&mut self, connection: ConnectionId) -> bool {
        let conn = self.connection_mut(connection);
        // QUIC keeps some bytes of the space for itself.
        conn.is_none_or(|conn| conn.inner.unchanged().datagrams().send_buffer_space() >= transport::SEND_BUFFER - 256)
    }

    /// Tells QUIC that interface or address changed: probe at once, rotate the connection id, forget the back-off.
    pub fn network_changed(&mut self, now: Instant) {
        if let Some(conn) = self.active_mut() {
            conn.inner.handle_network_change(None, now);
        }
        self.pump(now);
    }

    /// Gives up the connection in use if it is an attempt that has met nothing but silence: there is another network now.
    /// Whether it was one.
    pub fn abandon_unanswered(&mut self, now: Instant) -> bool {
        let Some(conn) = self.active_mut() else { return false };
        if !conn.inner.is_handshaking() || conn.inner.unchanged().stats().udp_rx.datagrams > 0 {
            return false;
        }
        conn.abandon(now);
        self.book.on_unheard(&self.tls_client, &self.clock);
        true
    }

    /// The connection in use, of which nothing had been heard, is heard again: an attempt beside it is given up. Its handshake would only
    /// take the place of what works, and for the other side some time before it is complete there.
    pub fn abandon_aside(&mut self, now: Instant) {
        let Some(aside) = self.aside.filter(|aside| self.active != Some(*aside)) else { return };
        let Some(conn) = self.connection_mut(aside).filter(|conn| conn.inner.is_handshaking()) else { return };
        let unheard = conn.inner.unchanged().stats().udp_rx.datagrams == 0;
        conn.abandon(now);
        if unheard {
            self.book.on_unheard(&self.tls_client, &self.clock);
        }
        self.aside = None;
        self.pump(now);
    }

    /// Smoothed round-trip time of the connection in use.
    pub fn rtt(&self) -> Option<Duration> {
        self.active_ref()?.inner.rtt(noq_proto::PathId::ZERO)
    }

    /// The peer's address.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.active_ref().map(|conn| conn.remote)
    }

    /// Says goodbye; poll for transmits once more afterwards.
    pub fn close(&mut self, now: Instant) {
        for conn in &mut self.connections {
            conn.close(now);
        }
        self.active = None;
    }

    /// Drops what no peer of ours can have sent, before any state or cryptography is spent on it: an unknown peer gets
    /// nothing, not even a version negotiation or a stateless reset.
    fn is_for_us(&self, packet: &[u8]) -> bool {
        let Some((&first, rest)) = packet.split_first() else { return false };
        if first & 0x80 == 0 {
            return true; // A short header: noq answers only connection ids that validate.
        }
        let Some(cid) = destination(packet).and_then(|at| packet.get(at)) else { return false };
        let version = rest.first_chunk().map(|version| u32::from_be_bytes(*version));
        version == Some(QUIC_V1) && (self.greeting.matches(cid) || self.cids.recognises(cid))
    }

    fn handle_incoming(&mut self, now: Instant, incoming: Incoming) {
        let from = incoming.remote_address();
        let handshaking = self.connections.iter().filter(|conn| conn.inner.is_handshaking()).count();
        let mut response = Vec::new();
        if handshaking >= RETRY_FROM && incoming.may_retry() && !incoming.remote_address_validated() {
            match self.endpoint.retry(incoming, &mut response) {
                Ok(transmit) => self.respond(transmit, response),
                Err(error) => self.endpoint.ignore(error.into_incoming()),
            }
            return;
        }
        let open = self.connections.iter().filter(|conn| !conn.has_ended()).count();
        if self.connections.len() >= MAX_CLOSING || (open >= MAX_CONNECTIONS && !self.evict_half_open(now)) {
            let reason = "too many handshakes at a time".to_owned();
            self.on_unknown(from, reason, true);
            return self.endpoint.ignore(incoming);
        }
        let offered = offered_protocols(&incoming);
        let Ok(mut server) = self.accept_config() else { return self.endpoint.ignore(incoming) };
        server.transport_config(Arc::new(transport::config(self.config.mtu, IDLE, OpenGate::new(self.rtt.clone()))));
        match self.endpoint.accept(incoming, now, &mut response, Some(Arc::new(server))) {
            Ok((handle, connection)) => {
                let mut conn = Conn::new(self.next_connection, now, handle, connection, from);
                conn.offered = offered;
                self.add(conn);
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.respond(transmit, response);
                }
                let reason = disconnect_reason(error.cause, offered.as_deref());
                self.on_unknown(from, reason.to_string(), true);
            }
        }
    }

    /// Gives up the oldest client that has not completed its handshake.
    fn evict_half_open(&mut self, now: Instant) -> bool {
        let oldest = self.connections.iter_mut().find(|conn| conn.is_half_open());
        oldest.map(|conn| conn.abandon(now)).is_some()
    }

    /// Of one connection: whom its gate leaves round trips to may have changed since the last one.
    fn accept_config(&self) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Self::server_config(&self.config, &provider, &self.clock)
    }

    fn on_unknown(&mut self, from: SocketAddr, reason: String, handshake: bool) {
        self.events.push_back(BearerEvent::Unknown(UnknownPeer { from, reason, handshake }));
    }

    fn respond(&mut self, transmit: noq_proto::Transmit, bytes: Vec<u8>) {
        if self.responses.len() < MAX_CONNECTIONS {
            self.responses.push_back((transmit.into(), bytes));
        }
    }

    fn add(&mut self, conn: Conn) -> ConnectionId {
        self.next_connection.number += 1;
        let id = conn.id;
        self.connections.push(conn);
        id
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Conn> {
        self.connections.iter_mut().find(|conn| conn.id == id)
    }

    fn active_mut(&mut self) -> Option<&mut Conn> {
        self.active.and_then(|id| self.connection_mut(id))
    }

    fn active_ref(&self) -> Option<&Conn> {
        self.connections.iter().find(|conn| Some(conn.id) == self.active)
    }

    /// Carries events between endpoint and connections, and up, until there are none left.
    fn pump(&mut self, now: Instant) {
        let mut index = 0;
        while index < self.connections.len() {
            let conn = &mut self.connections[index];
            while let Some(event) = conn.inner.unchanged().poll_endpoint_events() {
                if let Some(reply) = self.endpoint.handle_event(conn.handle, event) {
                    conn.inner.handle_event(reply);
                }
            }
            let id = conn.id;
            let mut raised = VecDeque::new();
            conn.drain_events(&self.config.peer, &mut raised);
            let drained = conn.inner.is_drained();
            for event in raised {
                self.on_connection_event(now, id, event);
            }
            match drained {
                true => drop(self.connections.remove(index)),
                false => index += 1,
            }
        }
    }

    fn on_connection_event(&mut self, now: Instant, id: ConnectionId, event: ConnEvent) {
        match event {
            ConnEvent::Up(event) => self.events.push_back(event),
            ConnEvent::Connected { remote, resumed } => {
                if let Some(old) = self.active.replace(id).filter(|old| *old != id) {
                    if let Some(old) = self.connection_mut(old) {
                        old.close(now);
                    }
                    self.events.push_back(BearerEvent::Disconnected(DisconnectReason::Superseded));
                }
                self.book.on_connected();
                self.events.push_back(BearerEvent::Connected { connection: id, remote, resumed });
            }
            ConnEvent::Ended { reason, remote } => {
                if let Some(conn) = self.connection_mut(id).filter(|conn| !conn.inner.is_closed()) {
                    conn.close(now);
                }
                if self.active == Some(id) {
                    self.active = None;
                    self.events.push_back(BearerEvent::Disconnected(reason));
                } else if let DisconnectReason::Identity(_) | DisconnectReason::Incompatible(_) = reason {
                    self.on_unknown(remote, reason.to_string(), true);
                }
            }
        }
    }
}

impl std::fmt::Debug for QuicBearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QuicBearer({} connections, active {:?})", self.connections.len(), self.active)
    }
}

impl From<noq_proto::Transmit> for Transmit {
    fn from(transmit: noq_proto::Transmit) -> Self {
        Self { destination: transmit.destination, source: transmit.src_ip, ecn: transmit.ecn }
    }
}

/// The protocols a client offers, as text for a log line, if none of them is ours.
fn offered_protocols(incoming: &Incoming) -> Option<String> {
    let offered: Vec<Bytes> = incoming.decrypt()?.alpns()?.filter_map(Result::ok).collect();
    match offered.iter().any(|protocol| protocol.as_ref() == tls::ALPN) {
        true => None,
        false => Some(offered.iter().map(|protocol| String::from_utf8_lossy(protocol)).collect::<Vec<_>>().join(", ")),
    }
}

/// Which connection an event belongs to.
pub(super) type Handle = ConnectionHandle;

#[cfg(test)]
#[path = "bearer_tests.rs"]
mod tests;
