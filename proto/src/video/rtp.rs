//! RTP headers (RFC 3550 §5.1), and RTP told from RTCP (RFC 5761 §4) and from everything else.

use std::ops::Range;

/// What a UDP datagram from a camera is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// A well-formed RTP packet.
    Rtp(RtpPacket<'a>),
    /// An RTCP packet: version 2 and packet type 200 to 207 (RFC 3550 §12.1, RFC 4585 §6.1, RFC 3611 §2).
    Rtcp,
    /// Anything else, RTP with lying lengths included.
    Other,
}

/// The fields of an RTP header that matter here, and the payload without CSRC list, extension and padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtpPacket<'a> {
    /// Set by video payload formats on the last packet of a frame.
    pub marker: bool,
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Sequence number, wrapping.
    pub sequence: u16,
    /// Media timestamp, in units of the payload's clock, wrapping.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Media payload; may be empty.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Tells what `bytes`, one whole UDP payload, are. Never fails: what is not understood is [`Datagram::Other`].
    pub fn parse(bytes: &'a [u8]) -> Self {
        match bytes {
            [first, second, ..] if first >> 6 == VERSION && RTCP_TYPES.contains(second) => Self::Rtcp,
            _ => RtpPacket::parse(bytes).map_or(Self::Other, Self::Rtp),
        }
    }
}

impl<'a> RtpPacket<'a> {
    /// Reads the header of one packet; `None` if it is not version 2 or its lengths do not fit `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let fixed = bytes.get(..FIXED_HEADER)?;
        if fixed[0] >> 6 != VERSION {
            return None;
        }
        let (padded, extended, csrcs) = (fixed[0] & 0x20 != 0, fixed[0] & 0x10 != 0, usize::from(fixed[0] & 0x0f));
        let mut start = FIXED_HEADER + 4 * csrcs;
        if extended {
            let length = bytes.get(start + 2..start + 4)?;
            start += 4 + 4 * usize::from(u16::from_be_bytes([length[0], length[1]]));
        }
        let mut end = bytes.len();
        if padded {
            let padding = usize::from(*bytes.last()?);
            end = end.checked_sub(padding).filter(|_| padding > 0)?;
        }
        Some(Self {
            marker: fixed[1] & 0x80 != 0,
            payload_type: fixed[1] & 0x7f,
            sequence: u16::from_be_bytes([fixed[2], fixed[3]]),
            timestamp: be_u32(fixed, 4..8),
            ssrc: be_u32(fixed, 8..12),
            payload: bytes.get(start..end)?,
        })
    }
}

const VERSION: u8 = 2;
const FIXED_HEADER: usize = 12;
const RTCP_TYPES: std::ops::RangeInclusive<u8> = 200..=207;

fn be_u32(bytes: &[u8], range: Range<usize>) -> u32 {
    bytes[range].iter().fold(0, |value, byte| (value << 8) | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: [u8; 14] = [0x80, 0xe0, 0x12, 0x34, 0, 0, 0, 7, 0xde, 0xad, 0xbe, 0xef, 0x65, 0x88];

    #[test]
    fn plain_header() {
        let packet = RtpPacket::parse(&PLAIN).unwrap();
        assert_eq!((packet.marker, packet.payload_type, packet.sequence), (true, 96, 0x1234));
        assert_eq!((packet.timestamp, packet.ssrc), (7, 0xdead_beef));
        assert_eq!(packet.payload, [0x65, 0x88]);
        assert!(RtpPacket::parse(&PLAIN[..12]).unwrap().payload.is_empty());
        assert_eq!(Datagram::parse(&PLAIN[..11]), Datagram::Other);
    }

    #[test]
    fn csrc_extension_and_padding_are_not_payload() {
        let mut bytes = vec![0x80 | 0x20 | 0x10 | 2, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
        bytes.extend([9; 8]); // two CSRC
        bytes.extend([0xbe, 0xde, 0, 1, 1, 2, 3, 4]); // extension of one word
        bytes.extend([0x41, 0x9a, 0, 0, 3]); // payload and three bytes of padding
        assert_eq!(RtpPacket::parse(&bytes).unwrap().payload, [0x41, 0x9a]);
        for cut in 12..28 {
            assert_eq!(RtpPacket::parse(&bytes[..cut]).map(|p| p.payload.len()), None, "cut at {cut}");
        }
    }

    #[test]
    fn lying_lengths_are_not_rtp() {
        let mut padded = PLAIN;
        padded[0] |= 0x20;
        for (padding, payload) in [(0, None), (1, Some(1)), (2, Some(0)), (3, None), (255, None)] {
            padded[13] = padding;
            assert_eq!(RtpPacket::parse(&padded).map(|p| p.payload.len()), payload, "padding {padding}");
        }
        let mut csrc = PLAIN;
        csrc[0] |= 15;
        assert_eq!(Datagram::parse(&csrc), Datagram::Other);
    }

    #[test]
    fn rtcp_and_foreign_datagrams() {
        for packet_type in 200..=207 {
            assert_eq!(Datagram::parse(&[0x80, packet_type, 0, 1, 0, 0, 0, 0]), Datagram::Rtcp);
        }
        assert_eq!(Datagram::parse(&[0x80, 199, 0, 1, 0, 0, 0, 0]), Datagram::Other);
        assert_eq!(Datagram::parse(&[0x47; 1316]), Datagram::Other);
        assert_eq!(Datagram::parse(&[]), Datagram::Other);
    }
}
