//! The C2 reserve: what control may have under way beyond the window ([AQUILA §3.2]).
//!
//! The paper lets control exceed the window by "credits" and does not say how many there are, how they are earned or spent.
//! Here control never waits, whatever the credits; they decide who pays for it:
//!
//! - **How much**: what [`R_SAFE`] brings in a round trip and one packet, ten packets at most (SCReAM's bound of its own credits).
//! - **Spent**: a byte for each byte of control that is under way.
//! - **Earned**: when the other side has acknowledged it.
//!
//! What is under way beyond them counts as in flight: the gate stays shut for as much of telemetry, video and bulk, and the
//! encoder is asked for less. A control stream of more than [`R_SAFE`] then takes the place of video instead of a queue's.

use std::time::Duration;

use crate::{Bitrate, ByteCount};

/// Left free by the encoder's rate for control ([AQUILA eq. 7] R_safe).
pub const R_SAFE: Bitrate = Bitrate::kbps(15);
/// A full packet, and so many at most.
const PACKET: ByteCount = ByteCount(1240);
const MOST: ByteCount = ByteCount(10 * PACKET.0);
/// Bytes around a control message in its packet: message header, stream frame, and its part of the packet's own.
const AROUND: u64 = 40;

/// What control that is under way takes beyond its credits.
pub fn beyond_credits(messages: usize, bytes: usize, rtt: Duration) -> ByteCount {
    let under_way = ByteCount(bytes as u64 + AROUND * messages as u64);
    under_way - (R_SAFE.bytes_in(rtt) + PACKET).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_at_r_safe_are_free_and_what_is_more_is_charged() {
        let rtt = Duration::from_millis(100);
        // Ten commands a second, 45 bytes each: one under way.
        assert_eq!(beyond_credits(1, 45, rtt), ByteCount::ZERO);
        assert_eq!(beyond_credits(15, 900, rtt), ByteCount(15 * 40 + 900 - 1240 - 187));
        // However long the round trip is.
        assert_eq!(beyond_credits(1000, 100_000, Duration::from_secs(3600)), ByteCount(140_000 - 12_400));
        assert_eq!(beyond_credits(0, 0, Duration::ZERO), ByteCount::ZERO);
    }
}
