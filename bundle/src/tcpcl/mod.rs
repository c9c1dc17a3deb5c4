//! A session of TCPCLv4 (RFC 9174), without IO: bytes, decisions and time go in; bytes, events and a deadline come out.
//!
//! TLS is not spoken: the contact header says so (CAN_TLS = 0), and a peer that does not do without ends the session.
//!
//! Receiving: the acknowledgement of a bundle's last segment leaves when the caller said that it has the bundle for
//! good ([`Session::accept`]). Sending: a bundle counts as delivered ([`Event::Delivered`]) when all of it was
//! acknowledged. Whatever is cut before comes again: each bundle arrives at least once.

mod codec;
mod config;
mod decoder;
mod incoming;
mod outgoing;
mod session;

pub use codec::{Extension, Message, Refusal, RejectReason, TermReason};
pub use config::{ConfigError, SessionConfig};
pub use decoder::{DecodeError, Decoder, Item};
pub use outgoing::SendError;
pub use session::{End, Event, Fault, Peer, Role, Session};

/// Counts the transfers of one direction of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

#[cfg(test)]
mod tests;
