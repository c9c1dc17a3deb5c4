//! The way between two gateways through a session: segments of AeroTP as parcels, beside all else that it carries.

use std::time::Instant;

use aquila_proto::session::ParcelPort;
use aquila_proto::{BearerId, LinkState, Session};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::radio::{LineInput, LineNews};

/// Segments on their way from the gateway to the session. Few: which leaves next is decided late.
const LEAVING: usize = 4;
/// Parcels that wait in the session at most, of those that it takes.
const WAITING: usize = 8;
/// Segments on their way from the session to the gateway; what does not fit is lost, as if by a radio.
const ARRIVING: usize = 1024;

/// The gateway's end of the way.
#[derive(Debug)]
pub struct GatewayEnd {
    pub(super) to_session: mpsc::Sender<Vec<u8>>,
    pub(super) from_session: mpsc::Receiver<LineNews>,
}

/// The session's end of the way; see [`Node::set_gateway`](crate::node::Node::set_gateway).
#[derive(Debug)]
pub struct SessionEnd {
    from_gateway: mpsc::Receiver<Vec<u8>>,
    to_gateway: mpsc::Sender<LineNews>,
    /// The session has no room for it yet.
    held: Option<Bytes>,
    is_up: bool,
}

/// A way between a gateway and a session of the same process.
pub fn passage() -> (GatewayEnd, SessionEnd) {
    let (to_session, from_gateway) = mpsc::channel(LEAVING);
    let (to_gateway, from_session) = mpsc::channel(ARRIVING);
    let session = SessionEnd { from_gateway, to_gateway, held: None, is_up: false };
    (GatewayEnd { to_session, from_session }, session)
}

impl SessionEnd {
    /// Waits until the gateway has something to send that was not yet waited for.
    pub(crate) async fn wants(&mut self) {
        if self.held.is_none()
            && let Some(segment) = self.from_gateway.recv().await
        {
            self.held = Some(segment.into());
            return;
        }
        std::future::pending().await
    }

    /// Hands the session a segment if there is one and it takes it. Whether it did: then the session is to be asked what it does with
    /// it, and this called again.
    pub(crate) fn pump(&mut self, now: Instant, session: &mut Session) -> bool {
        let taken = ParcelPort::MAX_WAITING - session.parcel_room(ParcelPort::GATEWAY);
        if taken >= WAITING || session.max_parcel() == 0 {
            return false;
        }
        let segment = self.held.take().or_else(|| self.from_gateway.try_recv().ok().map(Bytes::from));
        segment.is_some_and(|segment| session.send_parcel(now, ParcelPort::GATEWAY, None, segment))
    }

    pub(crate) fn on_parcel(&self, bytes: &Bytes) {
        self.tell(LineInput::Bytes(bytes.to_vec()));
    }

    pub(crate) fn on_state(&mut self, state: LinkState) {
        let was_up = std::mem::replace(&mut self.is_up, matches!(state, LinkState::Up | LinkState::Stalled));
        if self.is_up && !was_up {
            self.tell(LineInput::Opened);
        }
    }

    fn tell(&self, what: LineInput) {
        // What is lost is repeated.
        let _ = self.to_gateway.try_send(LineNews { bearer: BearerId::FIRST, what });
    }
}
