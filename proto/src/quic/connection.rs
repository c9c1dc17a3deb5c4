//! One QUIC connection: its streams, and the translation of QUIC's events to ours.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::{
    Connection, ConnectionError, Dir, Event, FinishError, PathId, ReadError, Side, StreamEvent, StreamId,
    TransportErrorCode, VarInt,
};
use rustls::pki_types::CertificateDer;

use super::awake::Awake;
use super::bearer::{BearerEvent, ConnectionId, DisconnectReason, Handle};
use crate::identity::PublicKey;

/// Largest message on a stream of its own; the peer is authenticated, but may be broken.
const MAX_MESSAGE: usize = 1 << 16;

/// Streams whose message has begun and not ended. Together with [`MAX_MESSAGE`] this bounds what a peer can make us hold.
const MAX_PARTIAL: usize = 256;

/// Packets that leave after a connection has ended. noq-proto 1.4.0 never stops giving CONNECTION_CLOSE packets when a
/// client ends a handshake for which it has Initial and Handshake keys and one datagram is asked for at a time.
const MAX_GOODBYES: u8 = 4;

/// A connection whose timers are served this late, since the process or the machine slept, is given up. noq-proto 1.4.0's
/// probe timer saturates at 65,536 times its base, and serving it later than that never ends; and the other side will have
/// gone on without us.
const MAX_SLEEP: Duration = Duration::from_secs(20);

/// A client's handshake takes two round trips and its retransmissions.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// Goodbye.
const CLOSE_DONE: VarInt = VarInt::from_u32(0);
/// A message nobody needs any more.
const RESET_STALE: VarInt = VarInt::from_u32(1);

/// What a connection tells its bearer.
pub(super) enum ConnEvent {
    Up(BearerEvent),
    Connected { remote: SocketAddr, resumed: bool },
    Ended { reason: DisconnectReason, remote: SocketAddr },
}

/// One connection.
pub(super) struct Conn {
    pub id: ConnectionId,
    pub handle: Handle,
    pub inner: Awake,
    pub remote: SocketAddr,
    /// Protocols the client offered, if ours is not among them.
    pub offered: Option<String>,
    connected: bool,
    /// The peer's key is the one we pinned.
    verified: bool,
    ended: bool,
    goodbyes: u8,
    since: Instant,
    /// Messages not acknowledged yet, with the tokens to report them by.
    sent: BTreeMap<StreamId, u64>,
    partial: BTreeMap<StreamId, BytesMut>,
    /// A client that may send early data.
    had_early_data: bool,
    /// It has been told that our peer is resuming a session.
    told_resuming: bool,
    /// A server that was given some.
    took_early_data: bool,
}

impl Conn {
    pub fn new(id: ConnectionId, since: Instant, handle: Handle, inner: Connection, remote: SocketAddr) -> Self {
        let had_early_data = inner.side() == Side::Client && inner.has_0rtt();
        Self {
            id,
            handle,
            inner: Awake::new(inner),
            remote,
            offered: None,
            connected: false,
            verified: false,
            ended: false,
            goodbyes: 0,
            since,
            sent: BTreeMap::new(),
            partial: BTreeMap::new(),
            had_early_data,
            told_resuming: false,
            took_early_data: false,
        }
    }

    /// A client may send at once if it has early keys; a server waits until the client has proved who it is.
    pub fn is_ready(&self) -> bool {
        !self.ended && (self.connected || self.had_early_data)
    }

    /// The next packet to leave now.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<noq_proto::Transmit> {
        if self.ended && self.goodbyes >= MAX_GOODBYES {
            return None;
        }
        let transmit = self.inner.poll_transmit(now, out)?;
        self.goodbyes += u8::from(self.ended);
        Some(transmit)
    }

    /// To be called when a timer is due. `true` if we were asleep for so long that the connection is given up.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let asleep = self.inner.poll_timeout().is_some_and(|due| now.saturating_duration_since(due) > MAX_SLEEP);
        if asleep && !self.ended {
            self.close(now);
            return true;
        }
        self.inner.handle_timeout(now);
        self.expire_handshake(now);
        false
    }

    /// Gives up a client that has not completed its handshake in time: half-open connections are what a flood is made of.
    fn expire_handshake(&mut self, now: Instant) {
        if self.is_half_open() && now.saturating_duration_since(self.since) >= HANDSHAKE_TIME {
            self.abandon(now);
        }
    }

    /// A client that has not completed its handshake.
    pub fn is_half_open(&self) -> bool {
        !self.ended && self.inner.side() == Side::Server && self.inner.is_handshaking()
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Closes without a word.
    pub fn abandon(&mut self, now: Instant) {
        self.close(now);
        self.goodbyes = MAX_GOODBYES;
    }

    pub fn close(&mut self, now: Instant) {
        self.ended = true;
        self.inner.close(now, CLOSE_DONE, Bytes::new());
    }

    pub fn send_message(&mut self, head: &[u8], body: &[u8], priority: i32, token: u64) -> Option<StreamId> {
        let id = self.inner.streams().open(Dir::Uni)?;
        let mut stream = self.inner.send_stream(id);
        let written = stream.write(head).unwrap_or(0) + stream.write(body).unwrap_or(0);
        if written < head.len() + body.len() || stream.set_priority(priority).is_err() {
            // Flow control: the peer has stopped reading.
            let _ = stream.reset(RESET_STALE);
            return None;
        }
        match stream.finish() {
            Ok(()) => {}
            Err(FinishError::Stopped(_) | FinishError::ClosedStream) => return None,
        }
        self.sent.insert(id, token);
        Some(id)
    }

    pub fn cancel(&mut self, stream: StreamId) {
        if self.sent.remove(&stream).is_some() {
            let _ = self.inner.send_stream(stream).reset(RESET_STALE);
        }
    }

    /// Takes all events out of QUIC. Data is passed up only once the peer is known to be `peer`.
    pub fn drain_events(&mut self, peer: &PublicKey, out: &mut VecDeque<ConnEvent>) {
        while let Some(event) = self.inner.unchanged().poll() {
            self.on_event(event, peer, out);
        }
        // Before the handshake is complete, only a resumed session tells who the client is.
        if !self.told_resuming && self.is_half_open() && self.is_peer(peer) {
            self.told_resuming = true;
            out.push_back(ConnEvent::Up(BearerEvent::Resuming { connection: self.id }));
        }
        if let Ok(path) = self.inner.network_path(PathId::ZERO) {
            let to = path.remote();
            if to != self.remote && !self.ended {
                let from = std::mem::replace(&mut self.remote, to);
                out.push_back(ConnEvent::Up(BearerEvent::PeerMoved { from, to }));
            }
        }
    }

    fn on_event(&mut self, event: Event, peer: &PublicKey, out: &mut VecDeque<ConnEvent>) {
        match event {
            Event::Connected => self.on_connected(peer, out),
            Event::ConnectionLost { reason } if !self.ended => {
                self.ended = true;
                let reason = self.disconnect_reason(reason);
                out.push_back(ConnEvent::Ended { reason, remote: self.remote });
            }
            Event::DatagramReceived if self.is_peer(peer) => {
                let early = !self.connected;
                self.took_early_data |= early;
                while let Some(bytes) = self.inner.datagrams().recv() {
                    out.push_back(ConnEvent::Up(BearerEvent::Datagram { connection: self.id, bytes, early }));
                }
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(id) = self.inner.streams().accept(Dir::Uni) {
                    self.read(id, peer, out);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(id, peer, out),
            Event::Stream(StreamEvent::Finished { id }) => {
                if let Some(token) = self.sent.remove(&id) {
                    out.push_back(ConnEvent::Up(BearerEvent::Acknowledged { token }));
                }
            }
            Event::Stream(StreamEvent::Stopped { id, .. }) => {
                // Refused, not received: the message is still the session's to deliver.
                let _ = self.inner.send_stream(id).reset(RESET_STALE);
                if let Some(token) = self.sent.remove(&id) {
                    out.push_back(ConnEvent::Up(BearerEvent::Refused { token }));
                }
            }
            _ => {}
        }
    }

    fn on_connected(&mut self, peer: &PublicKey, out: &mut VecDeque<ConnEvent>) {
        if !self.is_peer(peer) {
            // A ticket of a peer that has been replaced since: resumption skips the check of the pinned key.
            self.ended = true;
            let reason = DisconnectReason::Identity("ticket of a former peer".into());
            return out.push_back(ConnEvent::Ended { reason, remote: self.remote });
        }
        self.connected = true;
        if self.had_early_data && !self.inner.accepted_0rtt() {
            self.sent.clear();
            out.push_back(ConnEvent::Up(BearerEvent::EarlyDataRejected));
        }
        let resumed = self.inner.accepted_0rtt() || self.took_early_data;
        out.push_back(ConnEvent::Connected { remote: self.remote, resumed });
    }

    fn is_peer(&mut self, peer: &PublicKey) -> bool {
        if self.verified {
            return true;
        }
        let identity = self.inner.crypto_session().peer_identity();
        let chain = identity.and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
        self.verified =
            chain.is_some_and(|chain| chain.first().and_then(|der| PublicKey::from_spki_der(der)) == Some(*peer));
        self.verified
    }

    fn read(&mut self, id: StreamId, peer: &PublicKey, out: &mut VecDeque<ConnEvent>) {
        if !self.is_peer(peer) {
            return;
        }
        let message = self.partial.entry(id).or_default();
        let mut stream = self.inner.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            self.partial.remove(&id);
            return;
        };
        let whole = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => message.extend_from_slice(&chunk.bytes),
                Ok(None) => break Some(true),
                Err(ReadError::Blocked) => break Some(false),
                Err(ReadError::Reset(_)) => break None,
            }
            if message.len() > MAX_MESSAGE {
                break Some(false);
            }
        };
        let _ = chunks.finalize();
        let too_long = message.len() > MAX_MESSAGE;
        match whole {
            Some(true) => {
                let bytes = self.partial.remove(&id).unwrap_or_default().freeze();
                self.took_early_data |= !self.connected;
                out.push_back(ConnEvent::Up(BearerEvent::Message {
                    connection: self.id,
                    bytes,
                    early: !self.connected,
                }));
            }
            // A stream that is known only by a later one has no bytes yet and costs nothing.
            Some(false) if message.is_empty() => drop(self.partial.remove(&id)),
            Some(false) if !too_long && self.partial.len() <= MAX_PARTIAL => {}
            _ => {
                self.partial.remove(&id);
                let _ = self.inner.recv_stream(id).stop(RESET_STALE);
            }
        }
    }

    fn disconnect_reason(&self, error: ConnectionError) -> DisconnectReason {
        disconnect_reason(error, self.offered.as_deref())
    }
}

/// What an error of QUIC's means; `offered`: the protocols of a client that does not offer ours.
pub(super) fn disconnect_reason(error: ConnectionError, offered: Option<&str>) -> DisconnectReason {
    /// TLS alerts as QUIC error codes, RFC 9001 §4.8 and RFC 8446 §6.
    const BAD_CERTIFICATE: [u8; 4] = [42, 46, 49, 51];
    const NO_APPLICATION_PROTOCOL: u8 = 120;
    let by_code = |code: TransportErrorCode, text: String| {
        let alert = u64::from(code).checked_sub(0x100).and_then(|alert| u8::try_from(alert).ok());
        match alert {
            Some(NO_APPLICATION_PROTOCOL) => {
                DisconnectReason::Incompatible(offered.map_or(text, |offered| format!("it offers {offered}")))
            }
            Some(alert) if BAD_CERTIFICATE.contains(&alert) => DisconnectReason::Identity(text),
            _ => DisconnectReason::Protocol(text),
        }
    };
    match error {
        ConnectionError::TimedOut => DisconnectReason::TimedOut,
        ConnectionError::Reset => DisconnectReason::PeerRestarted,
        ConnectionError::ApplicationClosed(_) => DisconnectReason::PeerClosed,
        ConnectionError::TransportError(error) => by_code(error.code, error.to_string()),
        ConnectionError::ConnectionClosed(close) => by_code(close.error_code, close.to_string()),
        other => DisconnectReason::Protocol(other.to_string()),
    }
}
