//! Messages of TCPCLv4, and how they are written (RFC 9174 §4, §5, §6).

use bytes::{BufMut, Bytes, BytesMut};

use super::TransferId;

/// First bytes of a connection (RFC 9174 §4.2).
pub(crate) const MAGIC: &[u8; 4] = b"dtn!";
/// The version that is spoken.
pub(crate) const VERSION: u8 = 4;
/// Flag of the contact header: TLS could be spoken.
pub(crate) const CAN_TLS: u8 = 1;
/// Flag of extension items: who does not know this must not go on.
pub(crate) const CRITICAL: u8 = 1;
/// Extension of a transfer: its length (RFC 9174 §5.2.5.1).
pub(crate) const TRANSFER_LENGTH: u16 = 1;
/// Flag of a segment: the transfer's last.
pub(crate) const END: u8 = 1;
/// Flag of a segment: the transfer's first.
pub(crate) const START: u8 = 2;
/// Flag of SESS_TERM: an answer to one.
pub(crate) const REPLY: u8 = 1;

/// Codes of messages (RFC 9174 §4.5, table 2).
pub(crate) mod code {
    pub const XFER_SEGMENT: u8 = 1;
    pub const XFER_ACK: u8 = 2;
    pub const XFER_REFUSE: u8 = 3;
    pub const KEEPALIVE: u8 = 4;
    pub const SESS_TERM: u8 = 5;
    pub const MSG_REJECT: u8 = 6;
    pub const SESS_INIT: u8 = 7;
}

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal: $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// A code that we do not know.
            Other(u8),
        }

        impl From<u8> for $name {
            fn from(code: u8) -> Self {
                match code { $($code => Self::$variant,)* code => Self::Other(code) }
            }
        }

        impl From<$name> for u8 {
            fn from(reason: $name) -> u8 {
                match reason { $($name::$variant => $code,)* $name::Other(code) => code }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self { $(Self::$variant => f.write_str($text),)* Self::Other(code) => write!(f, "reason {code}") }
            }
        }
    };
}

codes! {
    /// Why a session ends (RFC 9174 §6.1).
    TermReason {
        /// Nothing said.
        Unknown = 0: "no reason",
        /// Nothing to do, or nothing heard.
        IdleTimeout = 1: "idle",
        /// Another version of the protocol.
        VersionMismatch = 2: "version mismatch",
        /// Too busy.
        Busy = 3: "busy",
        /// The session could not be agreed upon; also what a peer says that asks for TLS.
        ContactFailure = 4: "contact failure",
        /// No memory, no disk.
        ResourceExhaustion = 5: "resources exhausted",
    }
}

codes! {
    /// Why a transfer is refused (RFC 9174 §5.2.4).
    Refusal {
        /// Nothing said.
        Unknown = 0: "no reason",
        /// The receiver has the bundle already.
        Completed = 1: "already there",
        /// No room now.
        NoResources = 2: "no resources",
        /// Something went wrong; it may come again as it is.
        Retransmit = 3: "to be sent again",
        /// The bundle is not wanted, now or later.
        NotAcceptable = 4: "not acceptable",
        /// An extension of the transfer is not understood.
        ExtensionFailure = 5: "extension not understood",
        /// The session is ending.
        SessionTerminating = 6: "session terminating",
    }
}

codes! {
    /// Why a message is rejected (RFC 9174 §5.1.2).
    RejectReason {
        /// A message that there is not.
        TypeUnknown = 1: "unknown message",
        /// A message that cannot be complied with.
        Unsupported = 2: "unsupported message",
        /// A message that has no place here.
        Unexpected = 3: "unexpected message",
    }
}

/// An extension of a session or of a transfer (RFC 9174 §4.8, §5.2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Who does not know it must not go on.
    pub critical: bool,
    /// What it is.
    pub kind: u16,
    /// What it says.
    pub value: Bytes,
}

/// A message (RFC 9174 §4.5). A segment's data follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What a side can (RFC 9174 §4.6).
    SessInit {
        /// Seconds; 0 for none.
        keepalive: u16,
        /// Bytes of data in a segment that it takes.
        segment_mru: u64,
        /// Bytes of a bundle that it takes.
        transfer_mru: u64,
        /// Its node's name.
        node: Bytes,
        /// More.
        extensions: Vec<Extension>,
    },
    /// A piece of a bundle (RFC 9174 §5.2.2).
    Segment {
        /// The first.
        start: bool,
        /// The last.
        end: bool,
        /// Of which transfer.
        id: TransferId,
        /// Of the first.
        extensions: Vec<Extension>,
        /// Bytes of data that follow.
        len: u64,
    },
    /// What was processed (RFC 9174 §5.2.3).
    Ack {
        /// The segment's flags.
        flags: u8,
        /// Of which transfer.
        id: TransferId,
        /// Bytes of it.
        len: u64,
    },
    /// A transfer is not wanted (RFC 9174 §5.2.4).
    Refuse {
        /// Why.
        reason: Refusal,
        /// Which.
        id: TransferId,
    },
    /// Nothing, so that the other side hears something (RFC 9174 §5.1.1).
    Keepalive,
    /// The session is to end (RFC 9174 §6.1).
    Term {
        /// An answer to one.
        reply: bool,
        /// Why.
        reason: TermReason,
    },
    /// A message was not understood (RFC 9174 §5.1.2).
    Reject {
        /// Why.
        reason: RejectReason,
        /// Its code.
        code: u8,
    },
}

/// The contact header (RFC 9174 §4.2).
pub(crate) fn contact() -> Bytes {
    let mut out = BytesMut::with_capacity(6);
    out.put_slice(MAGIC);
    out.put_u8(VERSION);
    out.put_u8(0);
    out.freeze()
}

impl Message {
    /// Its code.
    pub fn code(&self) -> u8 {
        match self {
            Self::SessInit { .. } => code::SESS_INIT,
            Self::Segment { .. } => code::XFER_SEGMENT,
            Self::Ack { .. } => code::XFER_ACK,
            Self::Refuse { .. } => code::XFER_REFUSE,
            Self::Keepalive => code::KEEPALIVE,
            Self::Term { .. } => code::SESS_TERM,
            Self::Reject { .. } => code::MSG_REJECT,
        }
    }

    /// As it is written; of a segment, what goes before its data.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(32);
        out.put_u8(self.code());
        match self {
            Self::SessInit { keepalive, segment_mru, transfer_mru, node, extensions } => {
                out.put_u16(*keepalive);
                out.put_u64(*segment_mru);
                out.put_u64(*transfer_mru);
                out.put_u16(u16::try_from(node.len()).unwrap_or(u16::MAX));
                out.put_slice(&node[..node.len().min(usize::from(u16::MAX))]);
                put_extensions(&mut out, extensions);
            }
            Self::Segment { start, end, id, extensions, len } => {
                out.put_u8(if *start { START } else { 0 } | if *end { END } else { 0 });
                out.put_u64(id.0);
                if *start {
                    put_extensions(&mut out, extensions);
                }
                out.put_u64(*len);
            }
            Self::Ack { flags, id, len } => {
                out.put_u8(*flags);
                out.put_u64(id.0);
                out.put_u64(*len);
            }
            Self::Refuse { reason, id } => {
                out.put_u8((*reason).into());
                out.put_u64(id.0);
            }
            Self::Keepalive => {}
            Self::Term { reply, reason } => {
                out.put_u8(if *reply { REPLY } else { 0 });
                out.put_u8((*reason).into());
            }
            Self::Reject { reason, code } => {
                out.put_u8((*reason).into());
                out.put_u8(*code);
            }
        }
        out.freeze()
    }
}

/// Their length in bytes, then one behind the other. Ours are few and short.
fn put_extensions(out: &mut BytesMut, extensions: &[Extension]) {
    let len: usize = extensions.iter().map(|extension| 5 + extension.value.len()).sum();
    out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    for extension in extensions {
        out.put_u8(if extension.critical { CRITICAL } else { 0 });
        out.put_u16(extension.kind);
        out.put_u16(u16::try_from(extension.value.len()).unwrap_or(u16::MAX));
        out.put_slice(&extension.value);
    }
}
