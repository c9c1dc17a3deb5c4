//! Objects over a link that nobody answers on, or to several receivers at once: RaptorQ (RFC 6330) over datagrams.
//!
//! Sans-IO. A contact ([`super::Hop`]) sends what was lost once more, since it hears what was. Without a return channel, or with many
//! receivers that each lose something else, that cannot be: a [`CastSender`] sends symbols, of which any `K` and a few make a block of
//! `K` whole, and goes round again with symbols that were never sent; a [`CastReceiver`] makes blocks whole, and hands manifests and chunks
//! on, which are verified as on any contact. What arrived is known to nobody but the receiver: a cast never gives custody away.
//!
//! Every datagram is sealed with a key that all members of the cast share, so that nothing of anybody else's reaches a decoder. Who has
//! that key can hold a cast up, but make no object: manifests are signed by their source, and chunks are what the manifest says.

mod block;
mod datagram;
mod layout;
mod receiver;
mod sender;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to begin at")]
mod tests;

pub use block::symbols_of_a_round;
pub use datagram::{CastKey, CastKeyError, Opener, Piece, Refused, Sealer};
pub use layout::{Block, Layout};
pub use receiver::{CastReceiver, HeardAction, ReceiverConfig, ReceiverStats};
pub use sender::{CastAction, CastObject, CastSender, SenderConfig, SenderStats};

/// Bytes of a datagram, UDP payload, at least and at most: what an IPv4 host must accept (RFC 791 §3.1: 576 with headers), and what Ethernet
/// carries.
pub const DATAGRAM: std::ops::RangeInclusive<usize> = 512..=1472;
/// Bytes of chunks in a block, at most, unless one chunk alone had more, which none has; and of a manifest.
pub const MAX_BLOCK: usize = 1 << 20;
/// Source symbols of a block, at most: RaptorQ would take 56,403 (RFC 6330 §5.1.2), but then a block takes long to solve.
pub const MAX_SYMBOLS: u32 = 4096;
