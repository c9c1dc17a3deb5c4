//! What sealing and opening give and refuse.

/// Why there can be no association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecurityError {
    /// The peer's key is no point of Ed25519's group, or one of small order.
    #[error("the peer's public key is not a usable Ed25519 key")]
    Public,
    /// The identity's private key does not belong to its public key.
    #[error("the private key does not fit its public key")]
    Secret,
    /// Both ends are the same.
    #[error("the peer's key is our own")]
    Ourselves,
    /// A life of 2^44 or more.
    #[error("the number of lives is beyond 2^44")]
    Life,
}

/// Why nothing was sealed; the plaintext is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// There is no key yet: the initiator has not begun, or the responder has heard nothing.
    #[error("no key yet")]
    NoKey,
    /// Extension, plaintext and tag are longer than 65535 bytes.
    #[error("too long for a segment")]
    TooLong,
}

/// Why a segment was not opened. What is left in its buffer is worthless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Lengths or extension words contradict each other.
    #[error("malformed segment")]
    Malformed,
    /// There is no key for its phase, or it is early and its first message was refused.
    #[error("no key for the segment")]
    NoKey,
    /// The tag does not fit.
    #[error("forged or damaged segment")]
    Forged,
}

/// What sealing adds to the plaintext in its buffer.
#[derive(Debug)]
pub struct Sealed<'a> {
    /// The extension words, for [`encode_segment`](crate::aerotp::encode_segment); may be empty.
    pub extension: &'a [u8],
    /// The segment's number: microseconds of our clock in this association, more if they ran out. The header has the low
    /// 32 bits.
    pub number: u64,
    /// Counter of the association it is sealed in, or of the attempt if it is early.
    pub association: u64,
}

/// A segment that the peer has sealed.
#[derive(Debug)]
pub struct Opened<'a> {
    /// What it carries.
    pub plaintext: &'a mut [u8],
    /// Its number by the peer's clock, see [`Sealed::number`].
    pub number: u64,
    /// Whether this number was opened before, or is so old that it cannot be told: a copy, a late retransmission or a
    /// replay. 4096 numbers are remembered. A connection with a window of sequence numbers need not look at this; what
    /// makes or ends a connection, or is a datagram without one, must not act on a repeated segment.
    pub repeated: bool,
    /// Sealed with the early key: no forward secrecy towards our static key.
    pub early: bool,
    /// Counter of the association.
    pub association: u64,
    /// What has happened since the last segment that was opened.
    pub news: Option<News>,
}

/// What happens to an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// There is a new association, and what is sealed from now on is sealed in it.
    Associated {
        /// Its counter: the initiator's life and number of attempts, `life << 20 | attempt`.
        counter: u64,
        /// The peer's life.
        peer_life: u64,
        /// The peer has another life than in the association before: it has forgotten all connections.
        restarted: bool,
    },
}

/// What came that was no segment of the peer's, and what it cost. All wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecurityCounters {
    /// Segments opened.
    pub opened: u64,
    /// Of those, ones opened before.
    pub repeated: u64,
    /// Segments whose tag did not fit.
    pub forged: u64,
    /// Segments for which there was no key.
    pub no_key: u64,
    /// Segments whose lengths or extension contradict each other.
    pub malformed: u64,
    /// Hellos that the filter or Noise refused.
    pub forged_hellos: u64,
    /// First messages whose counter was accepted before, or is below one that was.
    pub replayed_hellos: u64,
    /// Hellos not looked at because there were too many.
    pub limited_hellos: u64,
    /// Handshakes done.
    pub associations: u64,
}
