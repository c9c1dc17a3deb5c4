//! The QUIC bearer (RFC 9000, 9001, 9221), on `noq-proto` with everything that queues or decides taken out of it.

mod awake;
mod bearer;
mod clock;
mod connection;
mod keys;
mod lent;
mod resumption;
mod seeded_tls;
mod tickets;
mod tls;
mod transport;

pub use bearer::{
    BearerEvent, ConnectionId, DisconnectReason, QuicBearer, QuicConfig, StreamRef, Transmit, UnknownPeer,
};
pub use keys::{Door, bearer_of};
pub use noq_proto::EcnCodepoint;
pub use rustls::Error as TlsError;
pub use tickets::{MemoryTickets, TicketStore};
pub use tls::ALPN;
pub use transport::MIN_MTU;
