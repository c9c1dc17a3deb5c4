//! What a bearer is carried by: QUIC over a network, or AeroTP over a radio.
//!
//! A closed choice. Both keep no queue that the scheduler does not know of: what is handed over leaves next.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::{ConnectError, EcnCodepoint};

use super::SessionConfig;
use crate::aerotp::{Handling, RadioBearer, RadioConfig, RadioEvent, RadioStats, SecurityConfig};
use crate::quic::{BearerEvent, ConnectionId, QuicBearer, QuicConfig, StreamRef, Transmit};
use crate::seeded::SeededBytes;
use crate::{BearerId, Class};

/// What carries a bearer.
#[derive(Debug)]
pub(super) enum Carrier {
    Quic(Box<QuicBearer>),
    Radio(Box<Radio>),
}

/// A radio, and which bearer it is.
#[derive(Debug)]
pub(super) struct Radio {
    id: BearerId,
    pub bearer: RadioBearer,
    out: Vec<u8>,
}

/// What leaves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Leaves {
    Packet(Transmit),
    Line,
}

/// What a carrier tells.
#[derive(Debug)]
pub(super) enum CarrierEvent {
    Quic(BearerEvent),
    Radio(RadioEvent),
}

impl Carrier {
    pub fn quic(
        id: BearerId,
        resumption: Option<Vec<u8>>,
        session: &SessionConfig,
        random: &mut SeededBytes,
    ) -> Result<Self, rustls::Error> {
        let quic = QuicConfig { bearer: id, resumption, ..session.quic.clone() };
        let mut quic = QuicBearer::new(quic, random)?;
        quic.set_wall_clock(session.since_1970);
        Ok(Self::Quic(Box::new(quic)))
    }

    pub fn radio(
        id: BearerId,
        config: RadioConfig,
        former: Option<&[u8]>,
        session: &SessionConfig,
        random: &mut SeededBytes,
    ) -> Result<Self, rustls::Error> {
        let security = SecurityConfig {
            identity: session.quic.identity.clone(),
            peer: session.quic.peer,
            initiates: !session.quic.listen,
            life: config.life,
            accepted: former.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes),
        };
        let random = SeededBytes::new(&random.next_seed(), "radio");
        let bearer = RadioBearer::new(config, security, random)
            .map_err(|error| rustls::Error::General(format!("radio: {error}")))?;
        Ok(Self::Radio(Box::new(Radio { id, bearer, out: Vec::new() })))
    }

    pub fn as_quic(&mut self) -> Option<&mut QuicBearer> {
        match self {
            Self::Quic(quic) => Some(quic),
            Self::Radio(_) => None,
        }
    }

    pub fn as_radio(&self) -> Option<&RadioBearer> {
        match self {
            Self::Quic(_) => None,
            Self::Radio(radio) => Some(&radio.bearer),
        }
    }

    pub fn as_radio_mut(&mut self) -> Option<&mut RadioBearer> {
        match self {
            Self::Quic(_) => None,
            Self::Radio(radio) => Some(&mut radio.bearer),
        }
    }

    pub fn is_radio(&self) -> bool {
        self.as_radio().is_some()
    }

    pub fn radio_stats(&self) -> Option<RadioStats> {
        self.as_radio().map(RadioBearer::stats)
    }

    pub fn set_wall_clock(&mut self, since_1970: Duration) {
        if let Self::Quic(quic) = self {
            quic.set_wall_clock(since_1970);
        }
    }

    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        local: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
    ) {
        if let Self::Quic(quic) = self {
            quic.handle_datagram(now, from, local, ecn, data);
        }
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Quic(quic) => quic.handle_timeout(now),
            Self::Radio(radio) => radio.bearer.handle_timeout(now),
        }
    }

    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Self::Quic(quic) => quic.poll_timeout(),
            Self::Radio(radio) => radio.bearer.poll_timeout(now),
        }
    }

    /// What the connection in use has to send: it goes before what the scheduler has.
    pub fn poll_transmit_in_use(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Leaves> {
        match self {
            Self::Quic(quic) => quic.poll_transmit_in_use(now, out).map(Leaves::Packet),
            Self::Radio(radio) => radio.poll_transmit(now, out),
        }
    }

    /// What any connection has to send.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Leaves> {
        match self {
            Self::Quic(quic) => quic.poll_transmit(now, out).map(Leaves::Packet),
            Self::Radio(radio) => radio.poll_transmit(now, out),
        }
    }

    pub fn poll_event(&mut self) -> Option<CarrierEvent> {
        match self {
            Self::Quic(quic) => quic.poll_event().map(CarrierEvent::Quic),
            Self::Radio(radio) => radio.bearer.poll_event().map(CarrierEvent::Radio),
        }
    }

    /// What has to be kept over a restart, if it changed.
    pub fn snapshot(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Quic(quic) => quic.resumption_snapshot(),
            Self::Radio(radio) => radio.bearer.snapshot().map(|accepted| accepted.to_be_bytes().to_vec()),
        }
    }

    pub fn connect(&mut self, now: Instant, remote: SocketAddr) -> Result<(), ConnectError> {
        self.as_quic().map_or(Ok(()), |quic| quic.connect(now, remote))
    }

    /// The connection used for sending.
    pub fn active_connection(&self) -> Option<ConnectionId> {
        match self {
            Self::Quic(quic) => quic.active_connection(),
            Self::Radio(radio) => radio.connection(),
        }
    }

    pub fn is_ready(&self) -> bool {
        match self {
            Self::Quic(quic) => quic.is_ready(),
            Self::Radio(radio) => radio.bearer.is_ready(),
        }
    }

    pub fn is_connecting_or_ready(&self) -> bool {
        match self {
            Self::Quic(quic) => quic.is_connecting_or_ready(),
            Self::Radio(radio) => radio.bearer.is_ready(),
        }
    }

    /// What a message is sent on, `head` and `body` joined; `None` if it cannot be taken now.
    pub fn send_message(&mut self, head: &[u8], body: &[u8], priority: i32, token: u64) -> Option<StreamRef> {
        match self {
            Self::Quic(quic) => quic.send_message(head, body, priority, token),
            Self::Radio(radio) => {
                let connection = ConnectionId::new(radio.id, radio.bearer.life());
                let sent = radio.bearer.send_message([head, body].concat().into(), token);
                sent.then(|| StreamRef::of_message(connection, token))
            }
        }
    }

    pub fn cancel(&mut self, message: StreamRef) {
        match self {
            Self::Quic(quic) => quic.cancel(message),
            Self::Radio(radio) => message.token().into_iter().for_each(|token| radio.bearer.cancel(token)),
        }
    }

    pub fn send_datagram(&mut self, bytes: Bytes, handling: Handling) -> bool {
        match self {
            Self::Quic(quic) => quic.send_datagram(bytes),
            Self::Radio(radio) => radio.bearer.send_datagram(bytes, handling),
        }
    }

    pub fn max_datagram(&mut self) -> Option<usize> {
        match self {
            Self::Quic(quic) => quic.max_datagram(),
            Self::Radio(radio) => Some(radio.bearer.max_datagram()),
        }
    }

    pub fn network_changed(&mut self, now: Instant) {
        match self {
            Self::Quic(quic) => quic.network_changed(now),
            Self::Radio(radio) => radio.bearer.begin(now),
        }
    }

    pub fn rtt(&self) -> Option<Duration> {
        match self {
            Self::Quic(quic) => quic.rtt(),
            Self::Radio(radio) => radio.bearer.rtt(),
        }
    }

    pub fn remote(&self) -> Option<SocketAddr> {
        match self {
            Self::Quic(quic) => quic.remote(),
            Self::Radio(_) => None,
        }
    }

    pub fn close(&mut self, now: Instant) {
        match self {
            Self::Quic(quic) => quic.close(now),
            Self::Radio(radio) => radio.bearer.close(),
        }
    }

    /// It repeats what it was given of a class until it has arrived; the session need not.
    pub fn repeats(&self, class: Class) -> bool {
        self.as_radio().is_some_and(|radio| radio.repeats(class))
    }
}

impl Radio {
    /// Lives of the other side are what connections are elsewhere.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.bearer.connected().map(|number| ConnectionId::new(self.id, number))
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Leaves> {
        self.bearer.poll_transmit(now, &mut self.out).then(|| {
            out.clear();
            out.extend_from_slice(&self.out);
            Leaves::Line
        })
    }
}
