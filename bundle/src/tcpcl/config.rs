//! What a session is told.

use std::time::Duration;

use super::Decoder;
use crate::NodeId;

/// What a session is told. Times of 0 mean never, but for `contact`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Our name.
    pub node: NodeId,
    /// How long we may be silent, in whole seconds to 65535 s; the smaller of both sides' counts. 30 s (RFC 9174
    /// §5.1.1: 30 s at least on a shared network, 600 s at most).
    pub keepalive: Duration,
    /// Bytes of data in a segment that we take, and send at most. 64 KiB.
    pub segment: u64,
    /// Bytes of a bundle that we take. 16 MiB.
    pub transfer: u64,
    /// How long contact headers and SESS_INIT may take. 15 s (RFC 9174 §4.1: 60 s at most).
    pub contact: Duration,
    /// How long a session without transfers lives on. 60 s.
    pub idle: Duration,
    /// How long the other side may take for [`Self::STEP`] bytes of a bundle, or for acknowledging anything. 30 s.
    pub stall: Duration,
    /// How long transfers may take that are under way when the session is to end. 30 s.
    pub drain: Duration,
    /// Bundles that we have sent, or are sending, and that are not acknowledged. 4.
    pub window: usize,
    /// Bundles that are whole and that the caller has not decided about. No more is read until it has. 2.
    pub undecided: usize,
    /// Send bundles that are larger than the peer says it takes. Against RFC 9174 §4.6; dtn7 0.21 says 64,000 and takes
    /// more.
    pub ignore_transfer_mru: bool,
}

/// Why a configuration is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A name that nobody would read.
    #[error("a node's name of more than {max} bytes", max = Decoder::MAX_NODE)]
    Node,
    /// Longer than can be said.
    #[error("a keepalive of more than 65535 s")]
    Keepalive,
    /// Nothing would go.
    #[error("segments, transfers and their numbers must be at least 1, and there must be a time for contact")]
    Zero,
}

impl SessionConfig {
    /// Bytes that have to come within [`Self::stall`].
    pub const STEP: u64 = 1024;

    /// For this node; all else as said above.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            keepalive: Duration::from_secs(30),
            segment: 64 << 10,
            transfer: 16 << 20,
            contact: Duration::from_secs(15),
            idle: Duration::from_secs(60),
            stall: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            window: 4,
            undecided: 2,
            ignore_transfer_mru: false,
        }
    }

    /// Can it be used?
    ///
    /// # Errors
    /// [`ConfigError`] if not.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.node.to_string().len() > Decoder::MAX_NODE {
            return Err(ConfigError::Node);
        }
        if self.keepalive.as_secs() > u64::from(u16::MAX) {
            return Err(ConfigError::Keepalive);
        }
        let zero = self.segment == 0 || self.transfer == 0 || self.window == 0 || self.undecided == 0;
        if zero || self.contact.is_zero() { Err(ConfigError::Zero) } else { Ok(()) }
    }
}
