//! What a gateway sends its segments into.

use aquila_proto::BearerId;
use tokio::sync::mpsc;

use super::passage::GatewayEnd;
use super::{EVENTS, Way};
use crate::radio::{LineNews, RadioLine};

/// The line to the far gateway.
#[derive(Debug)]
pub(super) enum Line {
    /// A radio's, which paces itself: what it does not take is late and lost.
    Radio(RadioLine, String),
    /// A session, which takes what it has room for.
    Session(mpsc::Sender<Vec<u8>>),
}

impl Line {
    /// The line, and what comes from it.
    pub fn open(way: Way) -> (Self, mpsc::Receiver<LineNews>) {
        match way {
            Way::Radio(spec) => {
                let (news, from_line) = mpsc::channel(EVENTS);
                (Self::Radio(RadioLine::spawn(BearerId::FIRST, spec.line.clone(), news), spec.name()), from_line)
            }
            Way::Session(GatewayEnd { to_session, from_session }) => (Self::Session(to_session), from_session),
        }
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Radio(_, name) => name,
            Self::Session(_) => "session",
        }
    }

    /// Whether it takes a segment now.
    pub fn has_room(&self) -> bool {
        match self {
            Self::Radio(..) => true,
            Self::Session(to_session) => to_session.capacity() > 0,
        }
    }

    /// Waits until it takes segments, if it takes none now.
    pub async fn room(&self) {
        if let Self::Session(to_session) = self
            && to_session.capacity() == 0
            && to_session.reserve().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    pub fn send(&mut self, segment: &[u8]) {
        match self {
            Self::Radio(line, _) => line.send(segment),
            // A session that has ended needs nothing.
            Self::Session(to_session) => drop(to_session.try_send(segment.to_vec())),
        }
    }

    /// Segments that it did not take.
    pub fn refused(&self) -> u64 {
        match self {
            Self::Radio(line, _) => line.refused,
            Self::Session(_) => 0,
        }
    }
}
