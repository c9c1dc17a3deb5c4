//! What a gateway may take, and what it has its caller do.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

#[cfg(doc)]
use super::Gateway;
use super::frame::FlowId;
use super::quasi::Fill;
use super::status::Ending;
use super::target::Target;
use super::udp::{Client, Peer};
use crate::ByteCount;

/// What a gateway may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayConfig {
    /// TCP connections at a time; at most [`GatewayConfig::MOST_FLOWS`].
    pub max_flows: usize,
    /// Bytes of one flow in custody, in one direction.
    pub flow_custody: ByteCount,
    /// Bytes of all flows in custody.
    pub total_custody: ByteCount,
    /// A UDP flow ends when nothing has come for so long.
    pub udp_idle: Duration,
}

impl GatewayConfig {
    /// More connections of AeroTP than twice that are too many to serve well.
    pub const MOST_FLOWS: usize = 1000;
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            max_flows: 250,
            flow_custody: ByteCount(16 << 20),
            total_custody: ByteCount(256 << 20),
            udp_idle: Duration::from_secs(120),
        }
    }
}

/// How a TCP connection travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpMode {
    /// Kept in custody until the far side has it.
    NearReliable,
    /// Sent once, with parity; what is missing after this time is left out, or replaced by zeros.
    QuasiReliable {
        /// How long a hole is waited for.
        deadline: Duration,
        /// What becomes of it.
        fill: Fill,
    },
}

/// What the caller is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect to the target, if the rules allow it, and say how that went: [`Gateway::on_dialled`].
    Dial {
        /// Whose.
        flow: FlowId,
        /// Where to.
        target: Target,
    },
    /// Say whether the rules allow this target for a flow that is passed through: [`Gateway::on_admitted`].
    Admit {
        /// Whose.
        flow: FlowId,
        /// Where to.
        target: SocketAddr,
    },
    /// A connection was taken from the TUN device: nothing to do.
    Intercepted {
        /// Which.
        flow: FlowId,
        /// Who opened it.
        from: SocketAddr,
        /// Whom it is carried to.
        target: SocketAddr,
    },
    /// Write to the application.
    Write {
        /// Whose.
        flow: FlowId,
        /// What.
        bytes: Bytes,
    },
    /// Close the way to the application when all is written.
    Finish {
        /// Whose.
        flow: FlowId,
    },
    /// There is room again for what [`Gateway::on_app_bytes`] did not take.
    Room {
        /// Whose.
        flow: FlowId,
    },
    /// The flow is over. If there was a reason, its application's connection is reset.
    Ended(Ending),
    /// Send a datagram in the name of the other side's client, from a socket of its own.
    Datagram {
        /// Whose.
        peer: Peer,
        /// What.
        bytes: Bytes,
    },
    /// Send a datagram back to a client.
    Answer {
        /// Whom.
        client: Client,
        /// What.
        bytes: Bytes,
    },
    /// Nothing has come for long: the socket of [`Action::Datagram`] can be closed.
    Forget {
        /// Whose.
        peer: Peer,
    },
}
