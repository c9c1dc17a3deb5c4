//! What a gateway says of itself.

use std::time::{Duration, Instant};

use super::Gateway;
use super::custody::Custody;
use super::flow::Flow;
use super::frame::{FlowId, Reason};
use super::target::Target;
use crate::ByteCount;
use crate::aerotp::EndpointCounters;

/// Where a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowState {
    /// The far side has not connected to the target yet.
    Opening,
    /// Bytes go both ways.
    Open,
    /// One end has closed.
    Closing,
    /// The other gateway does not know of it, or cannot be heard.
    Disconnected,
    /// The application here is gone; what it had sent is still on its way.
    Delivering,
}

impl FlowState {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Closing => "closing",
            Self::Disconnected => "disconnected",
            Self::Delivering => "delivering",
        }
    }
}

/// How a flow fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowStatus {
    /// Which.
    pub flow: FlowId,
    /// It was opened here.
    pub ours: bool,
    /// Whom it goes to.
    pub target: Target,
    /// How it travels.
    pub mode: &'static str,
    /// Where it is.
    pub state: FlowState,
    /// Since it began, or the program did.
    pub age: Duration,
    /// What its application here has sent.
    pub sent: ByteCount,
    /// Of that, what the far application has taken.
    pub acknowledged: ByteCount,
    /// Of that, what is in custody.
    pub custody: ByteCount,
    /// What came from the far application.
    pub received: ByteCount,
    /// Of that, what the application here has taken.
    pub taken: ByteCount,
    /// What was missing when its time had come (quasi-reliable).
    pub skipped: ByteCount,
}

/// The end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// How it stood.
    pub status: FlowStatus,
    /// Why, if not since both ends had closed it.
    pub reason: Option<Reason>,
    /// What was confirmed to the application here, and is not known to have been delivered: the price of split TCP
    /// [AeroTP figure 8].
    pub undelivered: ByteCount,
}

/// Counters since the beginning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GatewayStats {
    /// Bytes in custody.
    pub custody: ByteCount,
    /// Flows that have ended.
    pub ended: u64,
    /// Bytes that were confirmed and are not known to have been delivered.
    pub undelivered: ByteCount,
    /// Frames of the other side's that made no sense.
    pub malformed: u64,
    /// UDP clients and peers.
    pub udp: usize,
    /// Since when the other side was not heard; `None` if it never was.
    pub silent: Option<Duration>,
    /// Round trip of the radio.
    pub rtt: Option<Duration>,
    /// The radio's counters.
    pub radio: EndpointCounters,
}

impl<C: Custody> Gateway<C> {
    /// How the flows fare.
    pub fn flows(&self, now: Instant) -> impl Iterator<Item = FlowStatus> + '_ {
        self.flows.values().map(move |flow: &Flow| flow.status(now)).chain(self.passthrough.statuses(now))
    }

    /// How the gateway fares.
    pub fn stats(&self, now: Instant) -> GatewayStats {
        let endpoint = &self.line.endpoint;
        GatewayStats {
            custody: ByteCount(self.flows.values().map(Flow::held).sum()),
            ended: self.counters.ended,
            undelivered: ByteCount(self.counters.undelivered),
            malformed: self.counters.malformed + self.udp.malformed,
            udp: self.udp.len(),
            silent: endpoint.heard().map(|at| now.saturating_duration_since(at)),
            rtt: endpoint.rtt(),
            radio: endpoint.counters(),
        }
    }
}
