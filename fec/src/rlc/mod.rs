//! A sliding-window random linear code: packets leave as they are, and now and then a *repair* leaves that is a random
//! combination of the last ones. Whoever lost some of them gets them back from as many repairs, at once, whichever packets
//! they are.
//!
//! In the spirit of RFC 8681, with its coefficients for GF(2^8) at full density. Beside a block code of the same rate it
//! delays nothing, since it has no blocks to fill, and it survives bursts better, since a repair covers several frames.
//!
//! # The code
//!
//! Packets have consecutive numbers of 32 bits, which wrap. The *symbol* of a packet is its length in two bytes, in network
//! byte order, the packet, and zeros. A repair of `count` packets from `first` on, with a `key`, is
//! the sum of `c[i]` times the symbol of packet `first + i`, as long as the longest of them without its zeros. `c` are the
//! low bytes of the numbers that TinyMT32 (RFC 8682) draws from the seed `key`, less those that are 0 (RFC 8681 §3.6 with
//! m = 8 and a density of 15; its field has our polynomial).
//!
//! # When to send repairs
//!
//! With the end of a frame, over the frames that are still worth something. With 8 packets and 4 repairs a frame, 5 % loss
//! in bursts of 4, and three frames' time to wait, 0.44 % of the frames are missed so, 0.69 % if repairs go between
//! packets, and 4.5 % with a block code (`cargo test -p aquila-fec frames_missed -- --nocapture`).
//!
//! ```
//! use aquila_fec::rlc::{Decoder, Encoder, Limits};
//!
//! # fn main() -> Result<(), aquila_fec::rlc::TooLong> {
//! let (mut encoder, mut decoder) = (Encoder::new(Limits::default(), 0), Decoder::new(Limits::default()));
//! for packet in ["a", "picture", "in three"] {
//!     let number = encoder.push(packet.as_bytes())?;
//!     if number != 1 {
//!         decoder.handle_packet(number, packet.as_bytes());
//!     }
//! }
//! let mut coded = Vec::new();
//! if let Some(header) = encoder.repair(&mut coded) {
//!     decoder.handle_repair(header, &coded);
//! }
//! assert_eq!(decoder.poll_recovered(), Some((1, &b"picture"[..])));
//! # Ok(())
//! # }
//! ```
//!
//! # Trust
//!
//! [`Decoder`] takes any header and any bytes without harm to anything but what it decodes: a forged repair makes forged
//! packets, and may move the window. So whatever carries repairs should authenticate them, or what comes out of them.

mod decoder;
mod encoder;
#[cfg(test)]
mod tests;
mod tinymt;

pub use decoder::{Decoder, Statistics};
pub use encoder::{Encoder, TooLong};
pub use tinymt::{Coefficients, TinyMt32};

/// Most packets in a window.
pub const MAX_WINDOW: usize = 256;
/// Longest packet: what its length can say.
pub const MAX_PACKET: usize = 65_535;
/// Bytes of the length before a packet in its symbol.
const LENGTH: usize = 2;

/// How much a window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets, from 1 to [`MAX_WINDOW`]; what is outside counts as the nearest of them. The decoder needs what the encoder
    /// has, and some more if packets arrive out of order.
    pub packets: usize,
    /// Bytes of all of them, and in the decoder of repairs that wait as well.
    pub bytes: usize,
}

impl Default for Limits {
    /// 64 packets, 1 MB.
    fn default() -> Self {
        Self { packets: 64, bytes: 1 << 20 }
    }
}

impl Limits {
    fn packets(&self) -> u32 {
        self.packets.clamp(1, MAX_WINDOW) as u32
    }
}

/// What a repair is the combination of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairHeader {
    /// Number of the first packet.
    pub first: u32,
    /// How many packets, from 1 to [`MAX_WINDOW`].
    pub count: u16,
    /// Seed of the coefficients.
    pub key: u16,
}

impl RepairHeader {
    /// Bytes on the wire.
    pub const LEN: usize = 7;

    /// `first`, `count - 1` in a byte, `key`, in network byte order. A count that there is not is written as the nearest
    /// there is.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let ([a, b, c, d], [e, f]) = (self.first.to_be_bytes(), self.key.to_be_bytes());
        [a, b, c, d, (self.count.clamp(1, MAX_WINDOW as u16) - 1) as u8, e, f]
    }

    /// The inverse of [`Self::to_bytes`]: there are no bytes that are no header.
    pub fn from_bytes([a, b, c, d, count, e, f]: [u8; Self::LEN]) -> Self {
        let first = u32::from_be_bytes([a, b, c, d]);
        Self { first, count: u16::from(count) + 1, key: u16::from_be_bytes([e, f]) }
    }
}
