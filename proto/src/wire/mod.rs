//! Wire codecs: pure, each with a round trip test and a fuzz target.

pub mod datagram;
pub mod feedback;
pub mod flow;
pub mod history;
pub mod message;
pub mod receipt;
pub mod repair;
pub mod varint;

/// Takes a big-endian number from the front of `bytes`; `None`, taking nothing, if they end too early.
pub(crate) fn take_u16(bytes: &mut &[u8]) -> Option<u16> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u16::from_be_bytes(*taken))
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*taken))
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*taken))
}
