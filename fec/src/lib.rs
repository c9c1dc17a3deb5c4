//! The error-correcting codes of the AeroTP bearer: computation only, nothing of packets' meaning.
//!
//! | what was lost | what brings it back |
//! |---|---|
//! | bits within a packet | [`rs`]: Reed-Solomon parity, interleaved |
//! | bits within several copies of a packet | [`combine`]: choices between them against a CRC, with or without parity |
//! | whole packets of a stream | [`rlc`]: repairs over a sliding window |
//! | whole packets of a block | [`block`]: any k of k + r |
//!
//! [`gf256`] is the arithmetic below them, with a kernel for each set of vector instructions.
//!
//! Nothing here reads a clock, a file or the system's randomness, allocates without a bound, or panics on what a network
//! brings.
//!
//! ```
//! use aquila_fec::rs::Interleaved;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let code = Interleaved::new(1460, 8)?;
//! let mut packet = vec![7; code.coded_len()];
//! let (data, parity) = packet.split_at_mut(code.data_len());
//! code.encode(data, parity)?;
//! packet[99..111].fill(0); // a burst of 12 bytes
//! assert_eq!(code.correct(&mut packet)?.symbols, 12);
//! assert_eq!(packet[..1460], [7; 1460]);
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

pub mod block;
pub mod combine;
pub mod gf256;
pub mod rlc;
pub mod rs;

/// CRC-32C (Castagnoli, RFC 3720 §12.1), with the processor's instruction for it if there is one.
pub fn crc32c(data: &[u8]) -> u32 {
    crc32c::crc32c(data)
}
