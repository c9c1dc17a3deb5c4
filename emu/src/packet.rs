//! What travels.

use std::time::Instant;

/// A packet and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes on the wire, IP and UDP headers included.
    pub bytes: usize,
    /// The ECN field; the path may change it to [`Ecn::Ce`].
    pub ecn: Ecn,
    /// What the user of the emulator gets back at the other end.
    pub payload: T,
}

impl<T> Packet<T> {
    /// A packet of `bytes` on the wire that is not ECN-capable.
    pub fn new(bytes: usize, payload: T) -> Self {
        Self { bytes, ecn: Ecn::NotEct, payload }
    }

    /// The same with another ECN field.
    pub fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }
}

/// The two ECN bits of the IP header (RFC 3168 §5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable: never marked.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, ECT(1): L4S (RFC 9331).
    Ect1 = 0b01,
    /// ECN-capable, ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// The lower two bits of the IP header's traffic class; the others are not looked at.
    pub fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            0b11 => Self::Ce,
            _ => Self::NotEct,
        }
    }

    /// As in the IP header.
    pub fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a router may mark it instead of dropping it. A packet that is marked already counts.
    pub fn is_capable(self) -> bool {
        self != Self::NotEct
    }
}

/// What the path carries for its user, so that bit errors can be put into it.
pub trait Payload {
    /// The bytes that travel, the last ones of the packet: headers that the emulator's user leaves away are in front of
    /// them. None by default: bit errors are then counted only.
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }
}

impl Payload for Vec<u8> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl Payload for Box<[u8]> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl<const N: usize> Payload for [u8; N] {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

// Models that carry numbers or names instead of bytes.
impl Payload for () {}
impl Payload for char {}
impl Payload for u32 {}
impl Payload for u64 {}
impl Payload for usize {}
impl Payload for i32 {}
impl Payload for &str {}

/// A packet that came out, and what happened to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered<T> {
    /// The packet, marked and damaged as the path had it.
    pub packet: Packet<T>,
    /// Its number: how many were pushed before it.
    pub number: u64,
    /// When it was pushed.
    pub pushed: Instant,
    /// When it was due. How much later it was popped is the caller's lateness.
    pub due: Instant,
    /// Bits flipped in the payload's bytes.
    pub flipped_bits: u32,
    /// Bits that would have been flipped in what is on the wire but not in the payload: IP and UDP headers that the
    /// caller does not carry. On a real link such a packet is dropped by the receiver's checksum.
    pub flipped_header_bits: u32,
}

/// A packet inside a path.
#[derive(Debug)]
pub(crate) struct Item<T> {
    pub(crate) packet: Packet<T>,
    pub(crate) number: u64,
    pub(crate) pushed: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_bits_are_those_of_rfc_3168() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits | 0b1011_1000).bits(), bits);
        }
        assert!(!Ecn::NotEct.is_capable() && Ecn::Ect0.is_capable() && Ecn::Ect1.is_capable() && Ecn::Ce.is_capable());
    }
}
